# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += \
	tests/unit/test_home \
	tests/unit/test_scan \
	tests/unit/test_unit_filter
tests_unit_test_home_SOURCES = \
	tests/unit/test_home.c \
	src/tools/fallback.c \
	src/tools/fallback.h
tests_unit_test_home_LDADD = libbase.a $(CMOCKA_LIBS) -lpthread
tests_unit_test_scan_SOURCES = \
	tests/unit/test_scan.c \
	src/tools/ended.c \
	src/tools/ended.h \
	src/tools/kernel.c \
	src/tools/kernel.h \
	src/tools/scan.c \
	src/tools/scan.h \
	src/tools/stray.c \
	src/tools/stray.h
tests_unit_test_scan_LDADD = libbase.a $(CMOCKA_LIBS)
tests_unit_test_unit_filter_SOURCES = \
	tests/unit/test_unit_filter.c \
	src/tools/probe.c \
	src/tools/probe.h \
	src/tools/unit_filter.c \
	src/tools/unit_filter.h
tests_unit_test_unit_filter_LDADD = libbase.a $(CMOCKA_LIBS) -lpthread
