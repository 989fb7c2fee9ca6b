#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# qperf: tcp_bw and tcp_lat, and through family 27 sdp_bw and sdp_lat.

load helpers

setup() {
	need qperf
}

teardown() {
	stop_all
}

qserver() {
	PORT=$(free_port)
	server qperf qperf --listen_port "$PORT"
	wait_port "$PORT"
}

# measure TEST...: each prints its name and a figure that is not nought.
measure() {
	local t
	client qperf --listen_port "$PORT" "$HOST" -t 1 "$@" >"$TMP/out"
	for t in "$@"; do
		grep -A 1 "^$t:" "$TMP/out" | grep -qE '= +[1-9][0-9.,]* '
	done
}

scenario() {
	mode "$1"
	qserver
	measure tcp_bw tcp_lat
	stop qperf
	proof 100000 qperf
}

@test "qperf: plain" {
	scenario plain
}

@test "qperf: without the library there is no sdp_bw" {
	mode plain
	qserver
	run client qperf --listen_port "$PORT" "$HOST" -t 1 sdp_bw
	[ "$status" -ne 0 ]
}

@test "qperf: both ends preloaded" {
	scenario lifted
}

@test "qperf: lifted from the first message" {
	scenario now
}

@test "qperf: no rule concerns it" {
	scenario norule
}

@test "qperf: only the server preloaded" {
	scenario half
}

@test "qperf: sdp_bw and sdp_lat through family 27" {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	mode lifted
	qserver
	measure sdp_bw sdp_lat
	stop qperf
	proof 100000 qperf
}
