# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += tests/unit/test_base tests/unit/test_clock \
	tests/unit/test_guard tests/unit/test_log tests/unit/test_mem \
	tests/unit/test_page tests/unit/test_proc tests/unit/test_scratch \
	tests/unit/test_seccomp \
	tests/unit/test_sigdefer tests/unit/test_siphash \
	tests/unit/test_ucopy
tests_unit_test_base_SOURCES = tests/unit/test_base.c
tests_unit_test_base_LDADD = libbase.a $(CMOCKA_LIBS) -lpthread
tests_unit_test_clock_SOURCES = tests/unit/test_clock.c
tests_unit_test_clock_LDADD = libbase.a $(CMOCKA_LIBS)
tests_unit_test_guard_SOURCES = tests/unit/test_guard.c
tests_unit_test_guard_LDADD = libbase.a $(CMOCKA_LIBS) -lpthread
tests_unit_test_log_SOURCES = tests/unit/test_log.c
tests_unit_test_log_LDADD = libbase.a $(CMOCKA_LIBS)
tests_unit_test_mem_SOURCES = tests/unit/test_mem.c
tests_unit_test_mem_LDADD = libbase.a $(CMOCKA_LIBS)
tests_unit_test_page_SOURCES = tests/unit/test_page.c
tests_unit_test_page_LDADD = libbase.a $(CMOCKA_LIBS)
tests_unit_test_proc_SOURCES = tests/unit/test_proc.c
tests_unit_test_proc_LDADD = libbase.a $(CMOCKA_LIBS) -lpthread
tests_unit_test_siphash_SOURCES = tests/unit/test_siphash.c
tests_unit_test_siphash_LDADD = libbase.a $(CMOCKA_LIBS)
tests_unit_test_seccomp_SOURCES = tests/unit/test_seccomp.c
tests_unit_test_seccomp_LDADD = libbase.a $(CMOCKA_LIBS)
tests_unit_test_scratch_SOURCES = tests/unit/test_scratch.c
tests_unit_test_scratch_LDADD = libbase.a $(CMOCKA_LIBS) -lpthread
tests_unit_test_sigdefer_SOURCES = tests/unit/test_sigdefer.c
tests_unit_test_sigdefer_LDADD = libbase.a $(CMOCKA_LIBS) -lpthread
tests_unit_test_sigdefer_CFLAGS = $(AM_CFLAGS) -fexceptions
tests_unit_test_ucopy_SOURCES = tests/unit/test_ucopy.c
tests_unit_test_ucopy_LDADD = libbase.a $(CMOCKA_LIBS)
