# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libsocketstream.a
libsocketstream_a_SOURCES = \
	src/socket/stream/ioctl.c \
	src/socket/stream/move.c \
	src/socket/stream/notice.c src/socket/stream/notice.h \
	src/socket/stream/option.c \
	src/socket/stream/path.c \
	src/socket/stream/peek.c src/socket/stream/peek.h \
	src/socket/stream/recv.c \
	src/socket/stream/rest.c src/socket/stream/rest.h \
	src/socket/stream/send.c \
	src/socket/stream/sendfile.c src/socket/stream/sendfile.h \
	src/socket/stream/shutdown.c \
	src/socket/stream/stream.h \
	src/socket/stream/torn.c src/socket/stream/torn.h \
	src/socket/stream/want.h
