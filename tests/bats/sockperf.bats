#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# sockperf over TCP: ping-pong and throughput, also through epoll.

load helpers

setup() {
	need sockperf
}

teardown() {
	stop_all
}

# perf KIND ARGUMENT...: one measurement; sockperf counts what came back. Its
# default bound of 600,000 turns a second is too low for a lifted connection.
perf() {
	local kind=$1
	shift
	client sockperf "$kind" "$@" >"$TMP/$kind.out" 2>"$TMP/$kind.err"
	refuse grep -iE 'error|invalid|failed' "$TMP/$kind.out" "$TMP/$kind.err"
}

# pong ARGUMENT...: some hundred turns that count, in a second where the machine is
# idle, and in as many as it takes where it is not.
pong() {
	local seconds=1 turns
	while :; do
		perf ping-pong -t "$seconds" --mps=20000 "$@"
		refuse grep -E '(dropped|duplicated) messages = [1-9]' \
			"$TMP/ping-pong.out"
		turns=$(sed -nE "s/.*\[Valid Duration\].*$RECEIVED.*/\1/p" \
			"$TMP/ping-pong.out")
		[ "${turns:-0}" -lt 500 ] || break
		seconds=$((seconds * 4))
		[ "$seconds" -lt 100 ] || fail "$turns turns in all"
	done
	grep -q '# dropped messages = 0; # duplicated messages = 0;' \
		"$TMP/ping-pong.out"
}
RECEIVED='ReceivedMessages=([0-9]+)'

scenario() {
	mode "$1"
	PORT=$(free_port)
	server sockperf sockperf server --tcp -i "$HOST" -p "$PORT"
	wait_port "$PORT"
	pong --tcp -i "$HOST" -p "$PORT" -m 64
	if [ "$MODE" = lifted ] || [ "$MODE" = now ]; then
		perf throughput --tcp -i "$HOST" -p "$PORT" -t 1 -m 1400
		grep -q 'Summary: Message Rate is' "$TMP/throughput.out"
	fi
	stop sockperf INT
	proof 10000 sockperf
}

feed() {
	mode "$1"
	local p1 p2
	p1=$(free_ports)
	p2=$((p1 + 1))
	printf "T:$HOST:%d\n" "$p1" "$p2" >"$TMP/feed"
	server sockperf sockperf server -f "$TMP/feed" -F "$2"
	wait_port "$p1"
	wait_port "$p2"
	pong -f "$TMP/feed" -F "$2"
	stop sockperf INT
	proof 2000 sockperf
}

@test "sockperf: plain" {
	scenario plain
}

@test "sockperf: both ends preloaded" {
	scenario lifted
}

@test "sockperf: lifted from the first message" {
	scenario now
}

@test "sockperf: no rule concerns it" {
	scenario norule
}

@test "sockperf: only the server preloaded" {
	scenario half
}

@test "sockperf: two connections through epoll" {
	feed lifted epoll
}

@test "sockperf: two connections through poll" {
	feed lifted poll
}

@test "sockperf: two connections through select" {
	feed lifted select
}
