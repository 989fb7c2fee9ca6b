#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck disable=SC2034,SC2154 # what is for hosts.bash and helpers.bash
#
# Between hosts: what a program is shown of bytes that it does not take, while
# its peer goes over to SDP in front of its eyes.

load helpers
load hosts

# looks WORD: with looks.py, when the server, which dials, has lifted.
looks() {
	local py=$BATS_TEST_DIRNAME/py/looks.py
	ON=(LIBSDP_LIFT_AFTER_MESSAGES=0 LIBSDP_LIFT_AFTER_BYTES=0)
	on_start "$B" server timeout 200 "$PY" "$py" server 7911 "$1" \
		"$TMP/lifted"
	ready 7911
	on_start "$A" client timeout 200 "$PY" "$py" client 10.99.0.2 7911 \
		"$1" "$TMP/lifted"
	until_true 30 grep -q "LIFT.*transmits" "$TMP/server.log"
	touch "$TMP/lifted"
	wait_end client || fail "$(tail -n 5 "$TMP/client.log")"
	wait_end server
	[ "$(sum server lifted)" -eq 1 ]
}

@test "looks: as many bytes as were sent are at hand" {
	looks count
}

@test "looks: a program that looks again and again sees them all" {
	looks grow
}

@test "looks: a program that looks for all at once sees them all" {
	looks all
}

@test "looks: a look before the bytes are taken, behind a stall" {
	looks take
}

@test "looks: the end is there before what was sent is taken" {
	looks end
}

@test "looks: a look for all waits for it while the peer is sought" {
	local py=$BATS_TEST_DIRNAME/py/looks.py
	ON=(LIBSDP_LIFT_AFTER_MESSAGES=0 LIBSDP_LIFT_AFTER_BYTES=0)
	# no peer there is to be found
	ip netns exec "$B" timeout 200 "$PY" "$py" server 7912 late none 3>&- &
	PID[server]=$!
	ready 7912
	on "$A" client timeout 200 "$PY" "$py" client 10.99.0.2 7912 late none
	wait_end server
}
