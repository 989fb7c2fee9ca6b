# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libsocketlife.a
$(libsocketlife_a_OBJECTS): AM_CFLAGS += $(SDP_GUARD_CFLAGS)
libsocketlife_a_SOURCES = \
	src/socket/life/close.c \
	src/socket/life/exit.c \
	src/socket/life/fdyield.c \
	src/socket/life/life.h \
	src/socket/life/rdma_end.c \
	src/socket/life/reload.c \
	src/socket/life/service.c \
	src/socket/life/sock.c \
	src/socket/life/told.c \
	src/socket/life/told_ask.c
