# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libsocketcore.a
libsocketcore_a_SOURCES = \
	src/socket/core/bridged.h \
	src/socket/core/budget.c src/socket/core/budget.h \
	src/socket/core/capture.c src/socket/core/capture.h \
	src/socket/core/core.h \
	src/socket/core/diag.c \
	src/socket/core/fdhide.c \
	src/socket/core/fdshare.c src/socket/core/fdshare.h \
	src/socket/core/frame.c src/socket/core/frame.h \
	src/socket/core/holder.c src/socket/core/holder.h \
	src/socket/core/ident.c \
	src/socket/core/iov.c src/socket/core/iov.h \
	src/socket/core/link.h \
	src/socket/core/nowhere.c \
	src/socket/core/option.def \
	src/socket/core/option.h \
	src/socket/core/option_list.c \
	src/socket/core/order.c src/socket/core/order.h \
	src/socket/core/pair.h \
	src/socket/core/process.c \
	src/socket/core/rdma_state.h \
	src/socket/core/reap.c \
	src/socket/core/registry.c src/socket/core/registry.h \
	src/socket/core/reports.h \
	src/socket/core/row.c \
	src/socket/core/service.h \
	src/socket/core/sleeper.c \
	src/socket/core/state.h \
	src/socket/core/store.c
