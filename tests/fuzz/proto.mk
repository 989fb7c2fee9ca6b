# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# In `make check` it runs inputs of its own making. With an engine:
#   make CC=clang CPPFLAGS=-DLIBFUZZER LDFLAGS=-fsanitize=fuzzer \
#	CFLAGS='-g -O1 -fsanitize=fuzzer-no-link,address,undefined' \
#	tests/fuzz/fuzz_conn
#   tests/fuzz/fuzz_conn -max_len=2048 -max_total_time=60 CORPUS-DIR
check_PROGRAMS += tests/fuzz/fuzz_conn
tests_fuzz_fuzz_conn_SOURCES = tests/fuzz/fuzz_conn.c
tests_fuzz_fuzz_conn_LDADD = libsdpproto.la
