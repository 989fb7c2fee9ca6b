#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Numbers and sets that one thread uses while another closes or replaces them, and
# what else ends a call though nothing came, and what does not need the peer.

load helpers
load ways

teardown() {
	stop_all
}

@test "closes: plain" {
	mode plain
	cases closes
}

@test "closes: no rule" {
	mode norule
	cases closes
}

@test "closes: lifted" {
	mode lifted
	cases closes -n 2
	[ "$(stat_sum closes lifted)" -gt 100 ]
}

@test "closes: at once" {
	mode now
	cases closes -n 2
	[ "$(stat_sum closes lifted)" -gt 100 ]
}

@test "shuts: plain" {
	plain shuts
}

@test "shuts: lifted" {
	lifted shuts
}

@test "shuts: at once" {
	at_once shuts
}

@test "shuts: alone" {
	alone shuts
}

@test "shuts: no rule" {
	no_rule shuts
}

@test "halts: plain" {
	mode plain
	cases halts
}

@test "halts: no rule" {
	mode norule
	cases halts
}

@test "halts: lifted" {
	mode lifted
	cases halts
	[ "$(stat_sum halts lifted)" -gt 5 ]
}

@test "halts: at once" {
	mode now
	cases halts
}

@test "stopped: plain" {
	mode plain
	cases stopped
}

@test "stopped: at once" {
	mode now
	cases stopped
	[ "$(stat_sum stopped lifted)" -ge 1800 ]
	[ "$(stat_sum stopped fallbacks)" -ge 700 ]
}

@test "shared: plain" {
	mode plain
	cases shared
}

@test "shared: lifted" {
	mode lifted
	cases shared
	[ "$(stat_sum shared lifted)" -ge 16 ]
}

@test "shared: at once" {
	mode now
	cases shared
	[ "$(stat_sum shared lifted)" -ge 16 ]
}

@test "killed: plain" {
	mode plain
	cases killed
}

@test "killed: lifted" {
	mode lifted
	cases killed
	[ "$(stat_sum killed lifted)" -ge 90 ]
}

@test "killed: at once" {
	mode now
	cases killed
	[ "$(stat_sum killed lifted)" -ge 90 ]
}

@test "halts: a thread that jumped out of a sleep is not woken any more" {
	mode lifted
	CASES=jumps cases halts
	[ "$(stat_sum halts lifted)" -eq 2 ]
	[ "$(stat_sum halts wakeups_tx)" -lt 500 ]
}
