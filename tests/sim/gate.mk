# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += tests/sim/test_gate
tests_sim_test_gate_SOURCES = tests/sim/test_gate.c
tests_sim_test_gate_LDADD = $(CMOCKA_LIBS)
