# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The one file and not the room's library: that would answer every close() of
# the test program, libc names being what it exports.
check_PROGRAMS += tests/unit/test_fdtable
tests_unit_test_fdtable_SOURCES = \
	tests/unit/test_fdtable.c \
	src/preload/fd/fdtable.c
tests_unit_test_fdtable_CPPFLAGS = $(AM_CPPFLAGS)
tests_unit_test_fdtable_LDADD = libbase.a $(CMOCKA_LIBS) -lpthread
