#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Options that shape a stream: how fast, how much, and when. Each case holds
# itself against the kernel's TCP.

load helpers

teardown() {
	stop_all
}

@test "flow: plain" {
	mode plain
	cases flow -p fork
}

@test "flow: lifted" {
	mode lifted
	cases flow -p exec
	proof 10000 flow
	cases flow -p thread
}

@test "flow: at once" {
	mode now
	cases flow -p fork
	cases flow -p fork -r -6 -w 0
	proof 10000 flow
}

@test "flow: home" {
	mode now
	cases flow -p fork -H pass
	cases flow -p fork -H fork
	proof 10000 flow
}

@test "flow: alone" {
	mode now
	cases flow -p plain
	cases flow -p plain -r
}

# What is counted is what the names say.
@test "flow: a stall is a spill, a return that is asked for is none" {
	mode now
	client "$SDP_PROGS/flow" -p exec stall
	[ "$(stat_sum flow stalls)" -ge 1 ]
	client "$SDP_PROGS/options" -p exec -H pass table
	[ "$(stat_sum options fallbacks)" -ge 1 ]
	[ "$(stat_sum options stalls)" -eq 0 ]
}

@test "flow: each wake-up is counted at both ends" {
	local rung woken
	mode now
	client "$SDP_PROGS/files" -p exec -w 0 wakes
	rung=$(stat_sum files wakeups_tx)
	woken=$(stat_sum files wakeups_rx)
	[ "$woken" -ge 20 ] || fail "$woken of $rung"
	[ "$woken" -le "$rung" ] || fail "$woken of $rung"
}
