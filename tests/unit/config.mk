# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += tests/unit/test_config tests/unit/test_lists \
	tests/unit/test_load tests/unit/test_reload
tests_unit_test_config_SOURCES = tests/unit/test_config.c
tests_unit_test_config_LDADD = libconfig.a libbase.a $(CMOCKA_LIBS)
tests_unit_test_load_SOURCES = tests/unit/test_load.c
tests_unit_test_load_LDADD = libconfig.a libbase.a $(CMOCKA_LIBS)
tests_unit_test_lists_SOURCES = tests/unit/test_lists.c
tests_unit_test_lists_LDADD = libconfig.a libbase.a $(CMOCKA_LIBS)
tests_unit_test_reload_SOURCES = tests/unit/test_reload.c
tests_unit_test_reload_LDADD = libconfig.a libbase.a $(CMOCKA_LIBS) -lpthread
