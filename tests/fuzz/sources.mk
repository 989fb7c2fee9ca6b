# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# In `make check` it runs its corpus and changes of it. With an engine:
#   make CC=clang CPPFLAGS=-DLIBFUZZER LDFLAGS=-fsanitize=fuzzer \
#	CFLAGS='-g -O1 -fsanitize=fuzzer-no-link,address,undefined' \
#	tests/fuzz/fuzz_config
#   tests/fuzz/fuzz_config -max_total_time=60 CORPUS-DIR tests/fuzz/corpus/config
check_PROGRAMS += tests/fuzz/fuzz_config
tests_fuzz_fuzz_config_SOURCES = tests/fuzz/fuzz_config.c
tests_fuzz_fuzz_config_LDADD = libconfig.la libbase.la
EXTRA_DIST += tests/fuzz/corpus
