#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# node: an http server and client on kept connections.

load helpers

setup() {
	need node
}

teardown() {
	stop_all
}

scenario() {
	mode "$1"
	PORT=$(free_port)
	server node node "$BATS_TEST_DIRNAME/js/server.js" "$PORT"
	wait_port "$PORT"
	client node "$BATS_TEST_DIRNAME/js/client.js" "$PORT" >"$TMP/out"
	[ "$(cat "$TMP/out")" = "all right" ]
	stop node
	silent node
	[ ! -s "$TMP/node.err" ]
	proof 1000000 node
}

@test "node: plain" {
	scenario plain
}

@test "node: both ends preloaded" {
	scenario lifted
}

@test "node: lifted from the first message" {
	scenario now
}

@test "node: no rule concerns it" {
	scenario norule
}

@test "node: only the server preloaded" {
	scenario half
}

@test "node: only the client preloaded" {
	scenario half2
}
