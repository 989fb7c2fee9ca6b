#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# iperf3: one stream, four streams, reversed, both ways.

load helpers

setup() {
	need iperf3 jq
}

teardown() {
	stop_all
}

# run ARGUMENT...: one test against a server that serves once.
run_iperf() {
	PORT=$(free_port)
	server iperf3 iperf3 -s -1 -B "$HOST" -p "$PORT"
	wait_port "$PORT"
	client iperf3 -c "$HOST" -p "$PORT" -J "$@" >"$TMP/json"
	wait_end iperf3 20
	[ "$(jq -r .error "$TMP/json")" = null ]
	# amounts: both sides of the report agree about the order of things,
	# also where a second is little
	[ "$(jq .end.sum_sent.bytes "$TMP/json")" -ge 100000 ]
	[ "$(jq .end.sum_received.bytes "$TMP/json")" -ge 100000 ]
}

scenario() {
	mode "$1"
	run_iperf -n 200M
	[ "$(jq .end.sum_received.bytes "$TMP/json")" -ge 200000000 ]
	run_iperf -n 100M -P 4
	[ "$(jq '.end.streams | length' "$TMP/json")" -eq 4 ]
	run_iperf -n 100M -R
	run_iperf -t 1 --bidir
	[ "$(jq .end.sum_sent_bidir_reverse.bytes "$TMP/json")" -ge 100000 ]
	run_iperf -t 1 -l 1000 -N
	proof 400000000 iperf3
}

@test "iperf3: plain" {
	scenario plain
}

@test "iperf3: both ends preloaded" {
	scenario lifted
}

@test "iperf3: lifted from the first message" {
	scenario now
}

@test "iperf3: no rule concerns it" {
	scenario norule
}

@test "iperf3: only the server preloaded" {
	scenario half
}

@test "iperf3: only the client preloaded" {
	scenario half2
}
