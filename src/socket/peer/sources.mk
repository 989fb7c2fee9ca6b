# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libsocketpeer.a
$(libsocketpeer_a_OBJECTS): AM_CFLAGS += $(SDP_GUARD_CFLAGS)
libsocketpeer_a_SOURCES = \
	src/socket/peer/pair.c \
	src/socket/peer/peer.h \
	src/socket/peer/rdma.c \
	src/socket/peer/rdma_answer.c \
	src/socket/peer/rdma_mod.c \
	src/socket/peer/rdma_open.c \
	src/socket/peer/rdma_proof.c \
	src/socket/peer/rdma_redirect.c \
	src/socket/peer/rdma_turn.c src/socket/peer/rdma_turn.h
