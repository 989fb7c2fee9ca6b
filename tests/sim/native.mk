# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
check_PROGRAMS += tests/sim/test_native
tests_sim_test_native_SOURCES = \
	tests/sim/kernel_peer.c tests/sim/kernel_peer.h \
	tests/sim/kernel_send.c \
	tests/sim/native_judge.c \
	tests/sim/native_setup.c \
	tests/sim/native_world.c tests/sim/native_world.h \
	tests/sim/test_native.c
tests_sim_test_native_LDADD = libsdpproto.a
