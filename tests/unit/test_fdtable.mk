# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += tests/unit/test_fdtable
tests_unit_test_fdtable_SOURCES = tests/unit/test_fdtable.c
tests_unit_test_fdtable_LDADD = libpreload.la libbase.la $(CMOCKA_LIBS) \
	-lpthread
