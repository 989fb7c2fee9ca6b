# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LTLIBRARIES += libsocketprogress.la
# Cancellation unwinds through these.
libsocketprogress_la_CFLAGS = $(AM_CFLAGS) -fexceptions
libsocketprogress_la_SOURCES = \
	src/socket/progress/progress.h \
	src/socket/progress/rdma_serve.c \
	src/socket/progress/rdma_step.c
