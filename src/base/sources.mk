# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LTLIBRARIES += libbase.la
# Cancellation unwinds through sleeps.
libbase_la_CFLAGS = $(AM_CFLAGS) -fexceptions
libbase_la_SOURCES = \
	src/base/arena.c \
	src/base/arena.h \
	src/base/cgroup.c \
	src/base/cgroup.h \
	src/base/clock.c \
	src/base/clock.h \
	src/base/foreign.h \
	src/base/event.c src/base/event.h \
	src/base/event.def \
	src/base/guard.c \
	src/base/guard.h \
	src/base/hold.c \
	src/base/hold.h \
	src/base/lock.c \
	src/base/lock.h \
	src/base/log.c \
	src/base/log.h \
	src/base/log_int.h \
	src/base/logfile.c \
	src/base/mem.c \
	src/base/mem.h \
	src/base/page.c \
	src/base/page.h \
	src/base/page_map.c \
	src/base/page_sweep.c \
	src/base/pcapng.c \
	src/base/pcapng.h \
	src/base/pollmany.c \
	src/base/pollmany.h \
	src/base/probe.h \
	src/base/proc.c \
	src/base/proc.h \
	src/base/reason.c \
	src/base/reason.def \
	src/base/reason.h \
	src/base/seccomp.c \
	src/base/seccomp.h \
	src/base/scratch.c \
	src/base/scratch.h \
	src/base/settle.h \
	src/base/sigdefer.c \
	src/base/sigdefer.h \
	src/base/sigdefer_int.h \
	src/base/sigdefer_sleep.c \
	src/base/siphash.c \
	src/base/siphash.h \
	src/base/stamp.c \
	src/base/stamp.h \
	src/base/sys.h \
	src/base/sums.c \
	src/base/sums.h \
	src/base/table.h \
	src/base/text.c \
	src/base/text.h \
	src/base/told.c \
	src/base/told.h \
	src/base/ucopy.c \
	src/base/ucopy.h \
	src/base/uid.c \
	src/base/uid.h \
	src/base/vdso.c \
	src/base/vdso.h
