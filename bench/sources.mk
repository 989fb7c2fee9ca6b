# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Probes of bench/run: built with everything else, never installed, no tests.

BENCH_COMMON = bench/probe.c bench/probe.h
# No sanitizer and none of the library's flags: strangers, as users have them.
BENCH_CFLAGS = -std=gnu11 -O2
BENCH_LDADD = -lpthread

noinst_PROGRAMS += \
	bench/between \
	bench/copy \
	bench/crr \
	bench/fan \
	bench/idle \
	bench/line \
	bench/load \
	bench/pingpong \
	bench/pipe \
	bench/stream

bench_between_SOURCES = bench/between.c
bench_between_CFLAGS = $(BENCH_CFLAGS)

bench_copy_SOURCES = bench/copy.c $(BENCH_COMMON)
bench_copy_CFLAGS = $(BENCH_CFLAGS)
bench_copy_LDADD = $(BENCH_LDADD)

bench_crr_SOURCES = bench/crr.c $(BENCH_COMMON)
bench_crr_CFLAGS = $(BENCH_CFLAGS)
bench_crr_LDADD = $(BENCH_LDADD)

bench_fan_SOURCES = bench/fan.c $(BENCH_COMMON)
bench_fan_CFLAGS = $(BENCH_CFLAGS)
bench_fan_LDADD = $(BENCH_LDADD)

bench_idle_SOURCES = bench/idle.c $(BENCH_COMMON)
bench_idle_CFLAGS = $(BENCH_CFLAGS)
bench_idle_LDADD = $(BENCH_LDADD)

bench_line_SOURCES = bench/line.c $(BENCH_COMMON)
bench_line_CFLAGS = $(BENCH_CFLAGS)
bench_line_LDADD = $(BENCH_LDADD)

bench_load_SOURCES = bench/load.c
bench_load_CFLAGS = $(BENCH_CFLAGS)
bench_load_LDADD = $(BENCH_LDADD)

bench_pingpong_SOURCES = bench/pingpong.c $(BENCH_COMMON)
bench_pingpong_CFLAGS = $(BENCH_CFLAGS)
bench_pingpong_LDADD = $(BENCH_LDADD)

bench_pipe_SOURCES = bench/pipe.c $(BENCH_COMMON)
bench_pipe_CFLAGS = $(BENCH_CFLAGS)
bench_pipe_LDADD = $(BENCH_LDADD)

bench_stream_SOURCES = bench/stream.c $(BENCH_COMMON)
bench_stream_CFLAGS = $(BENCH_CFLAGS)
bench_stream_LDADD = $(BENCH_LDADD)

EXTRA_DIST += \
	bench/apps.py \
	bench/groups.py \
	bench/harness.py \
	bench/micro.py \
	bench/programs.py \
	bench/report \
	bench/run \
	bench/servers/Echo.java \
	bench/servers/echo.js \
	bench/servers/echo.py \
	bench/table.py \
	bench/vm
