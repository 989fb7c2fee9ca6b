# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libpreload.a
libpreload_a_SOURCES = \
	src/preload/calls.def \
	src/preload/creators.c \
	src/preload/data.c \
	src/preload/deepbind.c \
	src/preload/doze.c \
	src/preload/exec.c \
	src/preload/exports.c \
	src/preload/fatal.c \
	src/preload/files.c \
	src/preload/fork.c \
	src/preload/fortify.c \
	src/preload/init.c \
	src/preload/jump.c \
	src/preload/liburing.c \
	src/preload/move.c \
	src/preload/msg.c \
	src/preload/numbers.c \
	src/preload/pidfd.c \
	src/preload/preload.h \
	src/preload/process.c \
	src/preload/range.c \
	src/preload/sandbox.c \
	src/preload/sigaction.c \
	src/preload/sockets.c \
	src/preload/spawn.c \
	src/preload/stdio.c \
	src/preload/syscall.c \
	src/preload/unwind.c \
	src/preload/uring.c \
	src/preload/vfork.c \
	src/preload/yield.c
# Readiness
libpreload_a_SOURCES += \
	src/preload/poll.c \
	src/preload/pollset.c \
	src/preload/pollset.h \
	src/preload/ready.h \
	src/preload/select.c
