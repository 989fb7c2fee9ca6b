#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Memory that is not there, or goes while it is used, in the ways of progs.bats.

load helpers
load ways

teardown() {
	stop_all
}

@test "faults: plain" {
	plain faults
}

@test "faults: lifted" {
	lifted faults
}

@test "faults: at once" {
	at_once faults
}

@test "faults: no line of statistics, so the defaults of signals are as they were" {
	mode now
	with LIBSDP_STATS_FILE=
	cases faults -p thread
}

@test "faults: memory that is lent goes" {
	mode now
	with LIBSDP_ZCOPY=always LIBSDP_ZCOPY_THRESHOLD=1
	CASES="flicker dies" cases faults -p fork
	proof 10000 faults
}

@test "faults: alone" {
	alone faults
}

@test "faults: no rule" {
	no_rule faults
}
