# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += \
	tests/fuzz/fuzz_conn \
	tests/fuzz/fuzz_handover \
	tests/fuzz/fuzz_wire
tests_fuzz_fuzz_conn_SOURCES = tests/fuzz/fuzz_conn.c $(fuzz_sources)
tests_fuzz_fuzz_conn_LDADD = libsdpproto.a
tests_fuzz_fuzz_handover_SOURCES = tests/fuzz/fuzz_handover.c $(fuzz_sources)
tests_fuzz_fuzz_handover_LDADD = libhandover.a libsdpproto.a libbase.a
tests_fuzz_fuzz_wire_SOURCES = tests/fuzz/fuzz_wire.c $(fuzz_sources)
tests_fuzz_fuzz_wire_LDADD = libsdpproto.a
