#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The programs of tests/progs, case by case, with main on node 1 and the peer
# on node 2, lifted from the first message on where SDP_EXPECT lets it; main
# connects and accepts, over IPv4 and IPv6.

load lib

teardown() {
	stop_all
	vm_restore
}

# How many turns a lift takes is time.
far() {
	local turns
	mode now
	for turns in 100 1000 3000; do
		cases "$1" -p node -w $turns
		if proof 10000 "$1"; then
			break
		fi
	done
	cases "$1" -p node -r -6 -w 0
	proof 10000 "$1"
}

@test "between: the cases themselves are right" {
	mode plain
	cases halfclose -p node
}

@test "between: stream" {
	far stream
}

@test "between: calls" {
	far calls
}

@test "between: flags" {
	far flags
}

@test "between: nonblock" {
	far nonblock
}

@test "between: polls" {
	far polls
}

@test "between: epolls" {
	far epolls
}

# Of all sizes around the threshold, with pauses, each byte looked at; and
# receives that end too early.
@test "between: large sends and receives that are spared the copy" {
	mode now
	with LIBSDP_ZCOPY=always LIBSDP_ZCOPY_THRESHOLD=16384 \
		LIBSDP_ZCOPY_WAIT_MS=100 LIBSDP_ZCOPY_WRITE=always
	CASES="block late torture" cases zcsink -p node -w 200
	with LIBSDP_ZCOPY_WRITE=auto
	CASES="in out" cases zcopy -p node -r -6 -w 200
	proof 10000000 zcsink
	spared=$(stat_sum '*' zcopy_tx),$(stat_sum '*' zcopy_rx)
	[ "${spared%,*}" -gt 100000 ] && [ "${spared#*,}" -gt 100000 ] ||
		fail "spared the copy: $spared of" \
			"$(stat_sum '*' bytes_sdp_tx),$(stat_sum '*' bytes_sdp_rx)"
}

@test "between: halfclose" {
	far halfclose
}

@test "between: life" {
	far life
}

@test "between: procs" {
	far procs
}

@test "between: pass" {
	far pass
}

@test "between: signals" {
	far signals
}

@test "between: options" {
	far options
}
