# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# A stand-in for libsdp-verbs.so without devices; tests/bats/hosts.bats puts it
# beside a copy of the library. Never installed.
check_LTLIBRARIES += tests/fake/libfakeverbs.la
tests_fake_libfakeverbs_la_SOURCES = \
	tests/fake/cm.c \
	tests/fake/end.c \
	tests/fake/fake.h
tests_fake_libfakeverbs_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version \
	-rpath /nowhere
tests_fake_libfakeverbs_la_LIBADD = -lpthread
