#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Python: http.server under curl and http.client, and its socket module.

load helpers
load web

setup() {
	need "$PY" curl openssl jq
}

teardown() {
	stop_all
}

http() {
	mode "$1"
	www
	PORT=$(free_port)
	server python "$PY" "$BATS_TEST_DIRNAME/py/server.py" "$PORT" \
		"$TMP/www"
	wait_port "$PORT"
	fetch "http://$HOST:$PORT"
	client curl -sS --fail --data-binary "@$TMP/www/big" \
		"http://$HOST:$PORT/" >"$TMP/sum"
	[ "$(cat "$TMP/sum")" = \
		"$(sha256sum <"$TMP/www/big" | cut -d ' ' -f 1)" ]
	client "$PY" "$BATS_TEST_DIRNAME/py/client.py" "$PORT" "$TMP/www" \
		>"$TMP/out"
	[ "$(cat "$TMP/out")" = "all right" ]
	stop python
	silent python
	proof 8000000 python3 curl
}

sockets() {
	mode "$1"
	PORT=$(free_port)
	server listen "$PY" "$BATS_TEST_DIRNAME/py/sockets.py" listen "$PORT"
	wait_port "$PORT"
	client "$PY" "$BATS_TEST_DIRNAME/py/sockets.py" connect "$PORT" \
		>"$TMP/out"
	wait_end listen 20
	cmp "$TMP/out" "$TMP/listen.out"
	[ "$(grep -c '^ok' "$TMP/out")" -eq 9 ]
	proof 1000000 python3
}

# A whole file by one call, which looks for its moment under way.
one_call() {
	mode "$2"
	random_file "$TMP/file" 100000000
	server python "$PY" "$BATS_TEST_DIRNAME/py/one_call.py" server "$1" \
		"$TMP/file"
	until_true 10 test -s "$TMP/python.out"
	client "$PY" "$BATS_TEST_DIRNAME/py/one_call.py" client \
		"$(cat "$TMP/python.out")" | cmp - "$TMP/file"
	wait_end python 20
	proof 20000000 python3
}

@test "python http.server: plain" {
	http plain
}

@test "python http.server: both ends preloaded" {
	http lifted
}

@test "python http.server: lifted from the first message" {
	http now
}

@test "python http.server: no rule concerns it" {
	http norule
}

@test "python http.server: only the server preloaded" {
	http half
}

@test "python http.server: only the clients preloaded" {
	http half2
}

@test "python sockets: plain" {
	sockets plain
}

@test "python sockets: both ends preloaded" {
	sockets lifted
}

@test "python sockets: lifted from the first message" {
	sockets now
}

@test "python sockets: no rule concerns them" {
	sockets norule
}

@test "python sockets: only one end preloaded" {
	sockets half
}

@test "python: readers late by thousands of small writes are lifted" {
	mode lifted
	client "$PY" "$BATS_TEST_DIRNAME/py/late.py"
	[ -n "${SDP_BATS_PLAIN-}" ] ||
		jq -es 'map(.lifted) | add == 4' "$STATS"
}

@test "python: hundreds of turns with what lies in the kernel" {
	mode lifted
	client "$PY" "$BATS_TEST_DIRNAME/py/crossed.py"
	[ -n "${SDP_BATS_PLAIN-}" ] ||
		jq -es 'map(.lifted) | add == 4' "$STATS"
	proof 1000000 python3
}

# Where an urgent byte was sent before the two ends had met, both stay on TCP.
@test "python: urgent data in line, as every socket of Qt has it" {
	mode plain
	client "$PY" "$BATS_TEST_DIRNAME/py/inline.py"
	mode lifted
	client "$PY" "$BATS_TEST_DIRNAME/py/inline.py"
	[ -n "${SDP_BATS_PLAIN-}" ] ||
		jq -es 'map(.lifted) | add == 4' "$STATS"
	proof 100000 python3
	mode now
	client "$PY" "$BATS_TEST_DIRNAME/py/inline.py"
	proof 100000 python3
}

@test "python: a child is killed in a receive, and its parent goes on" {
	local how
	for how in home exec close; do
		mode plain
		client "$PY" "$BATS_TEST_DIRNAME/py/killed_in.py" "$how"
		mode lifted
		client "$PY" "$BATS_TEST_DIRNAME/py/killed_in.py" "$how"
	done
}

@test "python: an urgent byte while a receive sleeps for all" {
	mode plain
	client "$PY" "$BATS_TEST_DIRNAME/py/marked.py"
	mode lifted
	client "$PY" "$BATS_TEST_DIRNAME/py/marked.py"
	proof 50000 python3
	mode now
	client "$PY" "$BATS_TEST_DIRNAME/py/marked.py"
	proof 50000 python3
}

@test "python: an urgent byte while the other end is looked for" {
	mode plain
	[ "$(client "$PY" "$BATS_TEST_DIRNAME/py/early.py")" = "0 0" ]
	mode now
	[ -n "${SDP_BATS_PLAIN-}" ] ||
		[ "$(client "$PY" "$BATS_TEST_DIRNAME/py/early.py")" = "1 0" ]
}

@test "python: half-closed before it is lifted" {
	mode lifted
	with LIBSDP_STALL_MS=60000
	client "$PY" "$BATS_TEST_DIRNAME/py/halved.py"
	proof 30000000 python3
	mode now
	with LIBSDP_STALL_MS=60000
	client "$PY" "$BATS_TEST_DIRNAME/py/halved.py"
	proof 30000000 python3
}

@test "python: a listener closed under a sleeping accept" {
	mode lifted
	client "$PY" "$BATS_TEST_DIRNAME/py/unheard.py"
	proof 3000000 python3
	mode now
	client "$PY" "$BATS_TEST_DIRNAME/py/unheard.py"
	proof 4000000 python3
}

@test "python: a file by one send" {
	one_call send lifted
}

@test "python: a file by one sendfile" {
	one_call sendfile lifted
}

@test "python: a file by one sendfile, only the server preloaded" {
	one_call sendfile half
}

@test "python: a child reads on where its parent and the other end were killed" {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "sdpstat asks the library"
	mode now
	with LIBSDP_FALLBACK_TIMEOUT_MS=20000
	client "$PY" "$BATS_TEST_DIRNAME/py/under.py" orphaned
	# a killed process says nothing
	jq -es 'map(.bytes_sdp_rx) | add == 1' "$STATS"
}

@test "python: sockets that go or end under a thread that uses them" {
	local case cases=(state forked looking polled waited left kept
		renumbered yielding crowded)
	# sdpstat asks the library
	[ -n "${SDP_BATS_PLAIN-}" ] || cases+=(falling_back)
	for case in "${cases[@]}"; do
		mode now
		# for a peer that stands still: longer than the case takes
		with LIBSDP_FALLBACK_TIMEOUT_MS=20000 LIBSDP_LOG=8
		LIBSDP_SPIN_US=20000 client "$PY" \
			"$BATS_TEST_DIRNAME/py/under.py" "$case" 2>"$TMP/err" ||
			fail "$case: $(cat "$TMP/err")"
		refuse grep "more than" "$TMP/err"
		proof 1000 python3
	done
}
