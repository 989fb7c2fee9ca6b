# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The files and not the room's library: that would answer the libc calls of
# the test program. ready_util.c plays the socket room.
check_LIBRARIES += tests/unit/libready.a
tests_unit_libready_a_SOURCES = \
	tests/unit/ready_util.c \
	tests/unit/ready_util.h \
	src/preload/fd/asleep.c \
	src/preload/epoll/epbits.c \
	src/preload/epoll/epoll.c \
	src/preload/epoll/epoll_look.c \
	src/preload/epoll/epoll_mix.c \
	src/preload/epoll/epoll_order.c \
	src/preload/epoll/epoll_spin.c \
	src/preload/epoll/epoll_wait.c \
	src/preload/epoll/epset.c \
	src/preload/epoll/epset_kern.c \
	src/preload/epoll/epset_lock.c \
	src/preload/fd/fdtable.c \
	src/preload/doze.c src/preload/poll.c \
	src/preload/pollset.c \
	src/preload/select.c
tests_unit_libready_a_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit
READY_LDADD = tests/unit/libready.a libbase.a $(CMOCKA_LIBS) -lpthread
check_PROGRAMS += \
	tests/unit/test_batch \
	tests/unit/test_epedge \
	tests/unit/test_epoll \
	tests/unit/test_hold \
	tests/unit/test_order \
	tests/unit/test_pollset \
	tests/unit/test_spin
tests_unit_test_batch_SOURCES = tests/unit/test_batch.c
tests_unit_test_batch_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit
tests_unit_test_batch_LDFLAGS = -Wl,--wrap=sigdefer_ppoll
tests_unit_test_batch_LDADD = $(READY_LDADD)
tests_unit_test_epedge_SOURCES = tests/unit/test_epedge.c
tests_unit_test_epedge_LDADD = $(CMOCKA_LIBS)
tests_unit_test_epoll_SOURCES = tests/unit/test_epoll.c
tests_unit_test_epoll_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit
tests_unit_test_epoll_LDFLAGS = -Wl,--wrap=sigdefer_ppoll
tests_unit_test_epoll_LDADD = $(READY_LDADD)
tests_unit_test_order_SOURCES = tests/unit/test_order.c
tests_unit_test_order_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit
tests_unit_test_order_LDFLAGS = -Wl,--wrap=sigdefer_ppoll
tests_unit_test_order_LDADD = $(READY_LDADD)
tests_unit_test_pollset_SOURCES = tests/unit/test_pollset.c
tests_unit_test_pollset_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit
tests_unit_test_pollset_LDFLAGS = -Wl,--wrap=sigdefer_ppoll
tests_unit_test_pollset_LDADD = $(READY_LDADD)
tests_unit_test_spin_SOURCES = tests/unit/test_spin.c
tests_unit_test_spin_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit
tests_unit_test_spin_LDFLAGS = -Wl,--wrap=sigdefer_ppoll
tests_unit_test_spin_LDADD = $(READY_LDADD)
tests_unit_test_hold_SOURCES = tests/unit/test_hold.c src/socket/wait/sigblock.c
tests_unit_test_hold_LDADD = libbase.a $(CMOCKA_LIBS) -lpthread
