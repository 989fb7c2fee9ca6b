# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# A stand-in for libsdp-verbs.so without devices; tests/bats/hosts.bats puts it
# beside a copy of the library. Never installed.
check_LTLIBRARIES += tests/fake/libfakeverbs.la
tests_fake_libfakeverbs_la_SOURCES = \
	tests/fake/cm.c \
	tests/fake/ear.c \
	tests/fake/end.c \
	tests/fake/fake.h \
	tests/fake/mem.c \
	tests/fake/recv.c
tests_fake_libfakeverbs_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version \
	-rpath /nowhere -Wl,libbase.a
EXTRA_tests_fake_libfakeverbs_la_DEPENDENCIES = libbase.a
tests_fake_libfakeverbs_la_LIBADD = -lpthread

# The far end of its pretended queue pairs that a kernel's SDP socket has.
check_PROGRAMS += tests/fake/kernpeer
tests_fake_kernpeer_SOURCES = \
	tests/fake/fake.h \
	tests/fake/kernpeer.c \
	tests/sim/kernel_peer.c tests/sim/kernel_peer.h \
	tests/sim/kernel_send.c
tests_fake_kernpeer_LDADD = libbase.a -lpthread
tests_fake_kernpeer_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/sim

check_PROGRAMS += tests/unit/test_pretend
tests_unit_test_pretend_SOURCES = tests/unit/test_pretend.c \
	$(tests_fake_libfakeverbs_la_SOURCES)
tests_unit_test_pretend_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/fake
tests_unit_test_pretend_LDADD = libbase.a $(CMOCKA_LIBS) -lpthread
