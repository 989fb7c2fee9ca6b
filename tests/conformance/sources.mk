# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The same calls by the names of libc and by bare system calls, in one process.
check_PROGRAMS += tests/conformance/errors
tests_conformance_errors_SOURCES = \
	tests/conformance/errors.c \
	tests/conformance/errors.h \
	tests/conformance/kinds.c \
	tests/conformance/rows.def \
	tests/conformance/states.c
tests_conformance_errors_CPPFLAGS = -I$(top_srcdir)/src \
	-I$(top_srcdir)/tests/conformance -D_GNU_SOURCE
# A stranger to the library, as those of tests/progs.
tests_conformance_errors_CFLAGS = -std=gnu11 -O2
tests_conformance_errors_LDADD = -ldl -lpthread
