# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Acceptance programs: built by make check, run by tests/bats, plain and
# preloaded. None of them links with the library.

PROGS_CPPFLAGS = -I$(top_srcdir)/tests/progs -D_GNU_SOURCE
# No sanitizer in here: these are the strangers that the library meets.
PROGS_CFLAGS = -std=gnu11 -O2

# What they share.
check_LIBRARIES += tests/progs/libprog.a
tests_progs_libprog_a_SOURCES = \
	tests/progs/link.c \
	tests/progs/node.c \
	tests/progs/prog.c \
	tests/progs/prog.h \
	tests/progs/step.c \
	tests/progs/step.h
tests_progs_libprog_a_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_libprog_a_CFLAGS = $(PROGS_CFLAGS)
PROGS_LDADD = tests/progs/libprog.a -lpthread

check_PROGRAMS += \
	tests/progs/cage \
	tests/progs/calls \
	tests/progs/closes \
	tests/progs/corners \
	tests/progs/ended \
	tests/progs/epolls \
	tests/progs/faults \
	tests/progs/files \
	tests/progs/flags \
	tests/progs/flow \
	tests/progs/forks \
	tests/progs/halfclose \
	tests/progs/halts \
	tests/progs/handlers \
	tests/progs/idlers \
	tests/progs/interrupts \
	tests/progs/judged \
	tests/progs/killed \
	tests/progs/leaks \
	tests/progs/leavers \
	tests/progs/life \
	tests/progs/meet \
	tests/progs/native \
	tests/progs/nonblock \
	tests/progs/notify \
	tests/progs/numbers \
	tests/progs/options \
	tests/progs/parts \
	tests/progs/pass \
	tests/progs/pipes \
	tests/progs/plainecho \
	tests/progs/polls \
	tests/progs/procs \
	tests/progs/sandbox \
	tests/progs/sets \
	tests/progs/shared \
	tests/progs/shuts \
	tests/progs/signals \
	tests/progs/stacks \
	tests/progs/standins \
	tests/progs/steps \
	tests/progs/stopped \
	tests/progs/stream \
	tests/progs/tells \
	tests/progs/uring \
	tests/progs/wants \
	tests/progs/zcends \
	tests/progs/zcmaps \
	tests/progs/zcopy \
	tests/progs/zcsink

tests_progs_calls_SOURCES = tests/progs/calls.c
tests_progs_calls_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_calls_CFLAGS = $(PROGS_CFLAGS)
tests_progs_calls_LDADD = $(PROGS_LDADD)

tests_progs_closes_SOURCES = tests/progs/closes.c
tests_progs_closes_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_closes_CFLAGS = $(PROGS_CFLAGS)
tests_progs_closes_LDADD = $(PROGS_LDADD)

tests_progs_corners_SOURCES = tests/progs/corners.c
tests_progs_corners_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_corners_CFLAGS = $(PROGS_CFLAGS)
tests_progs_corners_LDADD = $(PROGS_LDADD)

tests_progs_ended_SOURCES = tests/progs/ended.c
tests_progs_ended_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_ended_CFLAGS = $(PROGS_CFLAGS)
tests_progs_ended_LDADD = $(PROGS_LDADD)

tests_progs_epolls_SOURCES = tests/progs/epolls.c
tests_progs_epolls_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_epolls_CFLAGS = $(PROGS_CFLAGS)
tests_progs_epolls_LDADD = $(PROGS_LDADD)

tests_progs_faults_SOURCES = tests/progs/faults.c
tests_progs_faults_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_faults_CFLAGS = $(PROGS_CFLAGS)
tests_progs_faults_LDADD = $(PROGS_LDADD)

tests_progs_files_SOURCES = tests/progs/files.c
tests_progs_files_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_files_CFLAGS = $(PROGS_CFLAGS)
tests_progs_files_LDADD = $(PROGS_LDADD)

tests_progs_flags_SOURCES = tests/progs/flags.c
tests_progs_flags_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_flags_CFLAGS = $(PROGS_CFLAGS)
tests_progs_flags_LDADD = $(PROGS_LDADD)

tests_progs_flow_SOURCES = tests/progs/flow.c
tests_progs_flow_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_flow_CFLAGS = $(PROGS_CFLAGS)
tests_progs_flow_LDADD = $(PROGS_LDADD)

tests_progs_forks_SOURCES = tests/progs/forks.c
tests_progs_forks_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_forks_CFLAGS = $(PROGS_CFLAGS)
tests_progs_forks_LDADD = $(PROGS_LDADD) -lutil

tests_progs_halfclose_SOURCES = tests/progs/halfclose.c
tests_progs_halfclose_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_halfclose_CFLAGS = $(PROGS_CFLAGS)
tests_progs_halfclose_LDADD = $(PROGS_LDADD)
tests_progs_halts_SOURCES = tests/progs/halts.c
tests_progs_halts_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_halts_CFLAGS = $(PROGS_CFLAGS)
tests_progs_halts_LDADD = $(PROGS_LDADD)

tests_progs_handlers_SOURCES = tests/progs/handlers.c
tests_progs_handlers_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_handlers_CFLAGS = $(PROGS_CFLAGS)
tests_progs_handlers_LDADD = $(PROGS_LDADD)

tests_progs_idlers_SOURCES = tests/progs/idlers.c
tests_progs_idlers_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_idlers_CFLAGS = $(PROGS_CFLAGS)
tests_progs_idlers_LDADD = $(PROGS_LDADD)

tests_progs_leaks_SOURCES = tests/progs/leaks.c
tests_progs_leaks_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_leaks_CFLAGS = $(PROGS_CFLAGS)
tests_progs_leaks_LDADD = $(PROGS_LDADD)

tests_progs_leavers_SOURCES = tests/progs/leavers.c
tests_progs_leavers_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_leavers_CFLAGS = $(PROGS_CFLAGS)
tests_progs_leavers_LDADD = $(PROGS_LDADD)

tests_progs_life_SOURCES = tests/progs/life.c
tests_progs_life_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_life_CFLAGS = $(PROGS_CFLAGS)
tests_progs_life_LDADD = $(PROGS_LDADD)

tests_progs_meet_SOURCES = tests/progs/meet.c
tests_progs_meet_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_meet_CFLAGS = $(PROGS_CFLAGS)
tests_progs_meet_LDADD = $(PROGS_LDADD)

tests_progs_native_SOURCES = tests/progs/native.c
tests_progs_native_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_native_CFLAGS = $(PROGS_CFLAGS)
tests_progs_native_LDADD = $(PROGS_LDADD)

tests_progs_nonblock_SOURCES = tests/progs/nonblock.c
tests_progs_nonblock_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_nonblock_CFLAGS = $(PROGS_CFLAGS)
tests_progs_nonblock_LDADD = $(PROGS_LDADD)

tests_progs_notify_SOURCES = tests/progs/notify.c
tests_progs_notify_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_notify_CFLAGS = $(PROGS_CFLAGS)
tests_progs_notify_LDADD = $(PROGS_LDADD)
tests_progs_numbers_SOURCES = tests/progs/numbers.c
tests_progs_numbers_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_numbers_CFLAGS = $(PROGS_CFLAGS)
tests_progs_numbers_LDADD = $(PROGS_LDADD)

tests_progs_options_SOURCES = tests/progs/options.c
tests_progs_options_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_options_CFLAGS = $(PROGS_CFLAGS)
tests_progs_options_LDADD = $(PROGS_LDADD)

tests_progs_pass_SOURCES = tests/progs/pass.c
tests_progs_pass_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_pass_CFLAGS = $(PROGS_CFLAGS)
tests_progs_pass_LDADD = $(PROGS_LDADD)

tests_progs_polls_SOURCES = tests/progs/polls.c
tests_progs_polls_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_polls_CFLAGS = $(PROGS_CFLAGS)
tests_progs_polls_LDADD = $(PROGS_LDADD)

tests_progs_procs_SOURCES = tests/progs/procs.c
tests_progs_procs_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_procs_CFLAGS = $(PROGS_CFLAGS)
tests_progs_procs_LDADD = $(PROGS_LDADD)

tests_progs_sandbox_SOURCES = tests/progs/sandbox.c
tests_progs_sandbox_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_sandbox_CFLAGS = $(PROGS_CFLAGS)
tests_progs_sandbox_LDADD = $(PROGS_LDADD)

tests_progs_sets_SOURCES = tests/progs/sets.c
tests_progs_sets_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_sets_CFLAGS = $(PROGS_CFLAGS)
tests_progs_sets_LDADD = $(PROGS_LDADD)

tests_progs_pipes_SOURCES = tests/progs/pipes.c
tests_progs_pipes_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_pipes_CFLAGS = $(PROGS_CFLAGS)
tests_progs_pipes_LDADD = $(PROGS_LDADD)
tests_progs_parts_SOURCES = tests/progs/parts.c
tests_progs_parts_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_parts_CFLAGS = $(PROGS_CFLAGS)
tests_progs_parts_LDADD = $(PROGS_LDADD)

tests_progs_shared_SOURCES = tests/progs/shared.c
tests_progs_shared_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_shared_CFLAGS = $(PROGS_CFLAGS)
tests_progs_shared_LDADD = $(PROGS_LDADD)

tests_progs_shuts_SOURCES = tests/progs/shuts.c
tests_progs_shuts_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_shuts_CFLAGS = $(PROGS_CFLAGS)
tests_progs_shuts_LDADD = $(PROGS_LDADD)

tests_progs_signals_SOURCES = tests/progs/signals.c
tests_progs_signals_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_signals_CFLAGS = $(PROGS_CFLAGS)
tests_progs_signals_LDADD = $(PROGS_LDADD)

tests_progs_tells_SOURCES = tests/progs/tells.c
tests_progs_tells_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_tells_CFLAGS = $(PROGS_CFLAGS)
tests_progs_tells_LDADD = $(PROGS_LDADD)

tests_progs_stacks_SOURCES = tests/progs/stacks.c
tests_progs_stacks_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_stacks_CFLAGS = $(PROGS_CFLAGS)
# The dynamic linker saves all registers on the stack when it binds late.
tests_progs_stacks_LDFLAGS = -Wl,-z,now
tests_progs_stacks_LDADD = $(PROGS_LDADD)

tests_progs_interrupts_SOURCES = tests/progs/interrupts.c
tests_progs_interrupts_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_interrupts_CFLAGS = $(PROGS_CFLAGS)
tests_progs_interrupts_LDADD = $(PROGS_LDADD)

tests_progs_steps_SOURCES = tests/progs/steps.c
tests_progs_steps_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_steps_CFLAGS = $(PROGS_CFLAGS)
tests_progs_steps_LDADD = $(PROGS_LDADD)

tests_progs_judged_SOURCES = tests/progs/judged.c
tests_progs_judged_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_judged_CFLAGS = $(PROGS_CFLAGS)
tests_progs_judged_LDADD = $(PROGS_LDADD)
tests_progs_killed_SOURCES = tests/progs/killed.c
tests_progs_killed_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_killed_CFLAGS = $(PROGS_CFLAGS)
tests_progs_killed_LDADD = $(PROGS_LDADD)
tests_progs_standins_SOURCES = tests/progs/standins.c
tests_progs_standins_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_standins_CFLAGS = $(PROGS_CFLAGS)
tests_progs_standins_LDADD = $(PROGS_LDADD)

tests_progs_stopped_SOURCES = tests/progs/stopped.c
tests_progs_stopped_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_stopped_CFLAGS = $(PROGS_CFLAGS)
tests_progs_stopped_LDADD = $(PROGS_LDADD)
tests_progs_stream_SOURCES = tests/progs/stream.c
tests_progs_stream_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_stream_CFLAGS = $(PROGS_CFLAGS)
tests_progs_stream_LDADD = $(PROGS_LDADD)

# Static, so that no preload can follow into them.
tests_progs_cage_SOURCES = tests/progs/cage.c
tests_progs_cage_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_cage_CFLAGS = $(PROGS_CFLAGS)
tests_progs_cage_LDFLAGS = -all-static

tests_progs_plainecho_SOURCES = tests/progs/plainecho.c
tests_progs_plainecho_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_plainecho_CFLAGS = $(PROGS_CFLAGS)
tests_progs_plainecho_LDFLAGS = -all-static

tests_progs_uring_SOURCES = tests/progs/uring.c
tests_progs_uring_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_uring_CFLAGS = $(PROGS_CFLAGS)
tests_progs_uring_LDADD = $(PROGS_LDADD)

tests_progs_zcends_SOURCES = tests/progs/zcends.c tests/progs/zcopy.h
tests_progs_zcends_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_zcends_CFLAGS = $(PROGS_CFLAGS)
tests_progs_zcends_LDADD = $(PROGS_LDADD)

tests_progs_zcmaps_SOURCES = tests/progs/zcmaps.c tests/progs/zcopy.h
tests_progs_zcmaps_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_zcmaps_CFLAGS = $(PROGS_CFLAGS)
tests_progs_zcmaps_LDADD = $(PROGS_LDADD)

tests_progs_zcopy_SOURCES = tests/progs/zcopy.c tests/progs/zcopy.h
tests_progs_zcopy_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_zcopy_CFLAGS = $(PROGS_CFLAGS)
tests_progs_zcopy_LDADD = $(PROGS_LDADD)

tests_progs_zcsink_SOURCES = tests/progs/zcsink.c tests/progs/zcopy.h
tests_progs_zcsink_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_zcsink_CFLAGS = $(PROGS_CFLAGS)
tests_progs_zcsink_LDADD = $(PROGS_LDADD)

tests_progs_wants_SOURCES = tests/progs/wants.c
tests_progs_wants_CPPFLAGS = $(PROGS_CPPFLAGS)
tests_progs_wants_CFLAGS = $(PROGS_CFLAGS)
tests_progs_wants_LDADD = $(PROGS_LDADD)
