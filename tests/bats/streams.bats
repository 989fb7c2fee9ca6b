#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The program `stream` of tests/progs in ways of its own: much data, and the
# lift at a chosen place.

load helpers

@test "stream: a hundred times the data, both directions, many threads" {
	mode lifted
	client "$SDP_PROGS/stream" -p exec -n 8 out in duplex threads
	proof 50000000 stream
}

@test "stream: lifted in the middle of what is not read yet" {
	mode lifted
	with LIBSDP_LIFT_AFTER_MESSAGES=20
	local c
	for c in whole cut crash; do
		client "$SDP_PROGS/stream" -p exec "$c"
		client "$SDP_PROGS/stream" -p thread "$c"
	done
	proof 1000 stream
}

# Each turn is a message either way, and both count to 64.
@test "stream: a dialogue is lifted at the first turn behind the threshold" {
	local bytes
	mode lifted
	client "$PY" "$BATS_TEST_DIRNAME/py/turns.py" "$(free_port)" 200
	until_true 5 stat_lines python3
	bytes=$(stat_sum python3 bytes_tcp_tx)
	[ "$bytes" -ge 64 ]
	[ "$bytes" -le 68 ] || fail "$bytes messages on TCP"
}
