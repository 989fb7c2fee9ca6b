# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Mixed traffic for a while (tests/soak/run).
check_PROGRAMS += tests/soak/mixed
tests_soak_mixed_SOURCES = \
	tests/soak/account.c \
	tests/soak/end.c \
	tests/soak/hands.c \
	tests/soak/io.c \
	tests/soak/mixed.c \
	tests/soak/mixed.h \
	tests/soak/plan.c \
	tests/soak/sides.c
tests_soak_mixed_CPPFLAGS = -I$(top_srcdir)/tests/soak -D_GNU_SOURCE
# A stranger to the library, as those of tests/progs.
tests_soak_mixed_CFLAGS = -std=gnu11 -O2
tests_soak_mixed_LDADD = -lpthread
EXTRA_DIST += \
	tests/soak/draw.bash \
	tests/soak/mixed.bats \
	tests/soak/run \
	tests/soak/zcopy.bats
