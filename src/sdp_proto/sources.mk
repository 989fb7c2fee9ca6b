# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libsdpproto.a
libsdpproto_a_SOURCES = \
	src/sdp_proto/close.c \
	src/sdp_proto/conn.h \
	src/sdp_proto/hello.c \
	src/sdp_proto/mode.c \
	src/sdp_proto/resize.c \
	src/sdp_proto/rx.c \
	src/sdp_proto/sinkavail.c \
	src/sdp_proto/srcavail.c \
	src/sdp_proto/state.c \
	src/sdp_proto/state.h \
	src/sdp_proto/timer.c \
	src/sdp_proto/tx.c \
	src/sdp_proto/urgent.c \
	src/sdp_proto/wire.c \
	src/sdp_proto/wire.h \
	src/sdp_proto/zcopy.c \
	src/sdp_proto/zcopy.h
