# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# In `make check` each target runs its corpus, changes of it and what it draws;
# with an engine: scripts/check-fuzz.
check_PROGRAMS += \
	tests/fuzz/fuzz_config \
	tests/fuzz/fuzz_page \
	tests/fuzz/fuzz_pair \
	tests/fuzz/fuzz_shm
fuzz_sources = tests/fuzz/fuzz.h tests/fuzz/replay.c
tests_fuzz_fuzz_config_SOURCES = tests/fuzz/fuzz_config.c $(fuzz_sources)
tests_fuzz_fuzz_config_LDADD = libconfig.a libbase.a
# ended.c and story.c are in the target; a page of few rows is read sooner.
tests_fuzz_fuzz_page_SOURCES = tests/fuzz/fuzz_page.c $(fuzz_sources) \
	src/base/page.c \
	src/base/page_map.c \
	src/base/page_sweep.c \
	src/base/sums.c \
	src/tools/filter.c \
	src/tools/histogram.c \
	src/tools/json.c \
	src/tools/names.c \
	src/tools/out.c \
	src/tools/prometheus.c \
	src/tools/kernel.c \
	src/tools/scan.c \
	src/tools/stray.c
tests_fuzz_fuzz_page_CPPFLAGS = $(AM_CPPFLAGS) -DPAGE_ROWS=128
tests_fuzz_fuzz_page_LDADD = libbase.a
tests_fuzz_fuzz_pair_SOURCES = tests/fuzz/fuzz_pair.c $(fuzz_sources)
tests_fuzz_fuzz_pair_LDADD = libsocket.a libhandover.a libsdpproto.a \
	libfabric.a libconfig.a libbase.a -lpthread
tests_fuzz_fuzz_shm_SOURCES = tests/fuzz/fuzz_shm.c $(fuzz_sources)
tests_fuzz_fuzz_shm_LDADD = libfabric.a libbase.a -lpthread
EXTRA_DIST += tests/fuzz/corpus
