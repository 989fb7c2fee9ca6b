# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Fuzz targets for libFuzzer; not built unless asked for, by name, with clang:
#   make CC=clang CFLAGS='-g -O1 -fsanitize=fuzzer-no-link,address,undefined' \
#	tests/fuzz/fuzz_config
#   tests/fuzz/fuzz_config -max_total_time=60 -dict=... tests/fuzz/corpus/config
EXTRA_PROGRAMS += tests/fuzz/fuzz_config
tests_fuzz_fuzz_config_SOURCES = tests/fuzz/fuzz_config.c
tests_fuzz_fuzz_config_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_config_LDADD = libconfig.la libbase.la
EXTRA_DIST += tests/fuzz/corpus
