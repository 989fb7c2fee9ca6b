# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += tests/sim/test_anchor
# anchor_atom.c brings src/handover_proto/anchor.c with it, a step before each atomic.
tests_sim_test_anchor_CPPFLAGS = $(AM_CPPFLAGS)
tests_sim_test_anchor_SOURCES = \
	tests/sim/anchor_atom.c \
	tests/sim/anchor_home.c tests/sim/anchor_home.h \
	tests/sim/anchor_keep.c \
	tests/sim/anchor_kernel.c \
	tests/sim/anchor_lib.c \
	tests/sim/anchor_move.c \
	tests/sim/anchor_prog.c \
	tests/sim/anchor_sched.c \
	tests/sim/anchor_world.h \
	tests/sim/scale.h \
	tests/sim/test_anchor.c
tests_sim_test_anchor_LDADD = $(CMOCKA_LIBS)
