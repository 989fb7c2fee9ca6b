# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
noinst_LIBRARIES += libpreloadepoll.a
libpreloadepoll_a_SOURCES = \
	src/preload/epoll/epbits.c \
	src/preload/epoll/epedge.h \
	src/preload/epoll/epoll.c src/preload/epoll/epoll.h \
	src/preload/epoll/epoll_look.c \
	src/preload/epoll/epoll_mix.c \
	src/preload/epoll/epoll_order.c \
	src/preload/epoll/epoll_spin.c \
	src/preload/epoll/epoll_wait.c \
	src/preload/epoll/epready.h \
	src/preload/epoll/epset.c src/preload/epoll/epset.h \
	src/preload/epoll/epset_kern.c \
	src/preload/epoll/epset_lock.c
