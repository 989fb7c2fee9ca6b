# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libsockettransport.a
libsockettransport_a_SOURCES = \
	src/socket/transport/alive.c \
	src/socket/transport/audit.c \
	src/socket/transport/bytebuf.c \
	src/socket/transport/carrier.h \
	src/socket/transport/failover_keep.c \
	src/socket/transport/holdback.c src/socket/transport/holdback.h \
	src/socket/transport/inside.c \
	src/socket/transport/kick.c \
	src/socket/transport/pump.c \
	src/socket/transport/rdma.h \
	src/socket/transport/rdma_ahead.c \
	src/socket/transport/rdma_cqwait.c src/socket/transport/rdma_cqwait.h \
	src/socket/transport/rdma_end.h \
	src/socket/transport/rdma_fate.c \
	src/socket/transport/rdma_link.c \
	src/socket/transport/rdma_marker.c \
	src/socket/transport/rdma_room.h \
	src/socket/transport/rdma_shown.c \
	src/socket/transport/rdma_size.c src/socket/transport/rdma_size.h \
	src/socket/transport/rdma_tell.c \
	src/socket/transport/rdma_woken.c \
	src/socket/transport/ring.c \
	src/socket/transport/tcp.c src/socket/transport/tcp.h \
	src/socket/transport/transport.h \
	src/socket/transport/window.c src/socket/transport/window.h
