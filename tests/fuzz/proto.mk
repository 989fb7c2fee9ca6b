# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += tests/fuzz/fuzz_conn
tests_fuzz_fuzz_conn_SOURCES = tests/fuzz/fuzz_conn.c
tests_fuzz_fuzz_conn_LDADD = libsdpproto.la
