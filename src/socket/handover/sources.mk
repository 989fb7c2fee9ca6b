# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libsockethandover.a
libsockethandover_a_SOURCES = \
	src/socket/handover/fallback.c \
	src/socket/handover/handover.h \
	src/socket/handover/keep.c \
	src/socket/handover/lift.c \
	src/socket/handover/mark.c \
	src/socket/handover/pin.c \
	src/socket/handover/rdma_back.c \
	src/socket/handover/rdma_failover.c \
	src/socket/handover/rdma_over.c \
	src/socket/handover/standin.c \
	src/socket/handover/switch.c \
	src/socket/handover/user.c
