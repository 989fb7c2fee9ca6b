# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# fabtest: two ends over the RDMA fabric, run in virtual machines (tests/vm).
# Built by `make check` where the module is.
if HAVE_VERBS
check_PROGRAMS += tests/vm/progs/fabtest
tests_vm_progs_fabtest_SOURCES = \
	tests/vm/progs/fab_data.c \
	tests/vm/progs/fab_life.c \
	tests/vm/progs/fab_meet.c \
	tests/vm/progs/fab_odd.c \
	tests/vm/progs/fab_raw.c \
	tests/vm/progs/fabtest.c \
	tests/vm/progs/fabtest.h \
	tests/vm/progs/rig.c \
	tests/vm/progs/rig.h
tests_vm_progs_fabtest_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/vm/progs
tests_vm_progs_fabtest_LDADD = libsdpproto.a libbase.a $(VERBS_LIBS) -ldl -lpthread
endif
