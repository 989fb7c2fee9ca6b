# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += tests/unit/test_budget
tests_unit_test_budget_SOURCES = tests/unit/test_budget.c tests/unit/shm_util.h
tests_unit_test_budget_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS) -lpthread
