#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# memcached with two threads, under a small client of its text protocol.

load helpers

setup() {
	need memcached "$PY"
}

teardown() {
	stop_all
}

scenario() {
	mode "$1"
	PORT=$(free_port)
	local user=()
	[ "$(id -u)" -ne 0 ] || user=(-u root)
	server memcached memcached "${user[@]}" -l "$HOST" -p "$PORT" -t 2 \
		-U 0 -m 64
	wait_port "$PORT"
	client "$PY" "$BATS_TEST_DIRNAME/py/memcache.py" "$PORT" >"$TMP/out"
	[ "$(cat "$TMP/out")" = "all right" ]
	stop memcached
	silent memcached
	proof 1000000 memcached python3
}

@test "memcached: plain" {
	scenario plain
}

@test "memcached: both ends preloaded" {
	scenario lifted
}

@test "memcached: lifted from the first message" {
	scenario now
}

@test "memcached: no rule concerns it" {
	scenario norule
}

@test "memcached: only the server preloaded" {
	scenario half
}

@test "memcached: only the client preloaded" {
	scenario half2
}
