# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += tests/unit/test_bridge
tests_unit_test_bridge_SOURCES = tests/unit/test_bridge.c
tests_unit_test_bridge_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)

check_PROGRAMS += tests/unit/test_gate
tests_unit_test_gate_SOURCES = tests/unit/test_gate.c
tests_unit_test_gate_LDADD = libsocket.a libhandover.a \
	libsdpproto.a libfabric.a libconfig.a libbase.a $(CMOCKA_LIBS)
