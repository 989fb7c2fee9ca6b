# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libsocketprogress.a
libsocketprogress_a_SOURCES = \
	src/socket/progress/progress.h \
	src/socket/progress/rdma_serve.c \
	src/socket/progress/rdma_step.c
