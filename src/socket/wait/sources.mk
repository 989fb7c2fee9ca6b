# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libsocketwait.a
libsocketwait_a_SOURCES = \
	src/socket/wait/asleep.c \
	src/socket/wait/leave.c \
	src/socket/wait/load.h \
	src/socket/wait/ready.c \
	src/socket/wait/sigblock.c src/socket/wait/sigblock.h \
	src/socket/wait/sleep.c src/socket/wait/sleep.h \
	src/socket/wait/spin.c \
	src/socket/wait/wait.c src/socket/wait/wait.h \
	src/socket/wait/zc_wait.c
