# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libsocketzcopy.a
libsocketzcopy_a_SOURCES = \
	src/socket/zcopy/zc_base.c \
	src/socket/zcopy/zc_rdma.h \
	src/socket/zcopy/zcopy.c src/socket/zcopy/zcopy.h \
	src/socket/zcopy/zcopy_rdma.c \
	src/socket/zcopy/zcopy_way.c \
	src/socket/zcopy/zread_rdma.c \
	src/socket/zcopy/zsink_rdma.c
