# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
bin_PROGRAMS += sdpconf sdprun sdpstat
sdpconf_CFLAGS = $(AM_CFLAGS) $(SDP_TOOL_CFLAGS)
sdpconf_LDFLAGS = $(AM_LDFLAGS) $(SDP_TOOL_LDFLAGS)
sdpconf_SOURCES = \
	src/tools/convert.c \
	src/tools/convert.h \
	src/tools/ended.c \
	src/tools/ended.h \
	src/tools/kernel.c \
	src/tools/kernel.h \
	src/tools/lint.c \
	src/tools/lint.h \
	src/tools/members.c \
	src/tools/members.h \
	src/tools/off.c \
	src/tools/off.h \
	src/tools/out.c \
	src/tools/out.h \
	src/tools/program.c \
	src/tools/program.h \
	src/tools/reload.c \
	src/tools/reload.h \
	src/tools/root.c \
	src/tools/root.h \
	src/tools/scan.c \
	src/tools/scan.h \
	src/tools/sdpconf.c \
	src/tools/stray.c \
	src/tools/stray.h \
	src/tools/suggest.c \
	src/tools/suggest.h \
	src/tools/unit_file.c \
	src/tools/unit_file.h
sdpconf_LDADD = libconfig.a libbase.a
sdprun_CFLAGS = $(AM_CFLAGS) $(SDP_TOOL_CFLAGS)
sdprun_LDFLAGS = $(AM_LDFLAGS) $(SDP_TOOL_LDFLAGS)
sdprun_SOURCES = \
	src/tools/check.c \
	src/tools/check.h \
	src/tools/launch.c \
	src/tools/launch.h \
	src/tools/library.c \
	src/tools/library.h \
	src/tools/out.c \
	src/tools/out.h \
	src/tools/probe.c \
	src/tools/probe.h \
	src/tools/program.c \
	src/tools/program.h \
	src/tools/root.c \
	src/tools/root.h \
	src/tools/sdprun.c \
	src/tools/unit.c \
	src/tools/unit.h \
	src/tools/unit_file.c \
	src/tools/unit_file.h \
	src/tools/unit_filter.c \
	src/tools/unit_filter.h
sdprun_LDADD = libconfig.a libbase.a -lpthread
sdpstat_CFLAGS = $(AM_CFLAGS) $(SDP_TOOL_CFLAGS)
sdpstat_LDFLAGS = $(AM_LDFLAGS) $(SDP_TOOL_LDFLAGS)
sdpstat_SOURCES = \
	src/tools/counters.c \
	src/tools/counters.h \
	src/tools/ended.c \
	src/tools/ended.h \
	src/tools/filter.c \
	src/tools/filter.h \
	src/tools/fallback.c \
	src/tools/fallback.h \
	src/tools/histogram.c \
	src/tools/histogram.h \
	src/tools/json.c \
	src/tools/json.h \
	src/tools/kernel.c \
	src/tools/kernel.h \
	src/tools/names.c \
	src/tools/names.h \
	src/tools/out.c \
	src/tools/out.h \
	src/tools/prometheus.c \
	src/tools/prometheus.h \
	src/tools/scan.c \
	src/tools/scan.h \
	src/tools/sdpstat.c \
	src/tools/story.c \
	src/tools/story.h \
	src/tools/stray.c \
	src/tools/stray.h \
	src/tools/watch.c \
	src/tools/watch.h
sdpstat_LDADD = libbase.a
