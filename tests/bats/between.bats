#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Between hosts: the programs of tests/progs, case by case, with main on one
# host and the peer on the other (hosts.bash), looked for from the first
# message on. What passes on plain TCP passes here.

load helpers
load hosts

setup_file() {
	far_up
}

setup() {
	far_setup
	# a fallback that is late is one that does not end: no luck by the
	# default's two seconds on a busy machine
	# shellcheck disable=SC2034 # of hosts.bash
	ON=("${NODES[@]}" LIBSDP_FALLBACK_TIMEOUT_MS=20000)
}

# between PROGRAM OPTION...: its cases; or those of CASES.
between() {
	local prog=$1 c bad=0 rc
	shift
	for c in ${CASES:-$("$SDP_PROGS/$prog" -l)}; do
		rc=0
		: >"$TMP/case.log"
		on "$A" case timeout -k 5 "$LIMIT" "$SDP_PROGS/$prog" -p node "$@" \
			"$c" >"$TMP/out" || rc=$?
		if [ "$rc" -eq 0 ] && [ "$(cat "$TMP/out")" = "ok $c" ]; then
			continue
		fi
		echo "$prog $* $c: status $rc" >&2
		grep -v "MATCH\|LISTEN\|CONNECT" "$TMP/case.log" | tail -n 20 >&2
		bad=1
	done
	return $bad
}

# far PROGRAM BYTES: main connects, and accepts; so much went over SDP. How long
# the ends take to find each other is the machine's business: they say more to
# each other before the case begins until it was soon enough.
far() {
	local rounds
	for rounds in 200 1000 5000 20000; do
		between "$1" -w "$rounds" || return 1
		between "$1" -w "$rounds" -r -6 || return 1
		[ "$(sum case bytes_sdp_tx)" -lt "$2" ] || return 0
	done
	fail "only $(sum case bytes_sdp_tx) bytes went over SDP"
}

# orderly PROGRAM CASE: lifted both ways, and nothing is said of a break.
orderly() {
	local rounds
	for rounds in 200 1000 5000 20000; do
		CASES=$2 between "$1" -w "$rounds" || return 1
		grep "connection broke\|rdma-lost" "$TMP/case.log" && return 1
		[ "$(grep -c LIFT "$TMP/case.log")" -lt 2 ] || return 0
	done
	fail "$1 $2 was not lifted"
}

@test "between: bytes that were not read go along with an exec, a fork" {
	CASES="unread static again stripped" far procs 30000
}

@test "between: bytes that were not read go along with the descriptor" {
	far pass 1000
	far leavers 10000
	# the process that gave it away closes it: what is unread is the other's
	orderly pass away
}

@test "between: home in the middle of everything" {
	local how
	for how in pass exec fork; do
		CASES="in out duplex" between stream -w 200 -H $how
	done
}

@test "between: a call ended before the lift, and home" {
	local how
	for how in none pass exec fork; do
		CASES="early unwound fiber" between ended -w 200 -H $how
	done
}

@test "between: what has not arrived, and the end of both directions" {
	CASES="outq refused" far corners 5000
	CASES="level" far epolls 10000
}

@test "between: no room, and room again" {
	orderly nonblock full
}

@test "between: both ends end at the same time" {
	CASES="both crossed" far halfclose 5000
}

@test "between: home when both ends have ended" {
	CASES="ended ending" far halfclose 30000
}

@test "between: what was closed is let go of" {
	CASES="serve" far procs 35000
}

@test "between: a process that is killed" {
	CASES="unread-kill blocked-kill soerror-kill" far halfclose 30000
}

# The one that gets them is on B, and is carried there by its peer (step.h).
elsewhere() {
	ON+=(STEP_HOST=10.99.0.1 "STEP_ON=nsenter --net=/run/netns/$B")
}

@test "between: a signal at places all over the calls" {
	elsewhere
	CASES="much-send whole-recv recv-jump epoll-recv" between interrupts
	[ "$(processes case bytes_rdma_rx)" -ge 3 ]
}

@test "between: a process that is killed at places all over its calls" {
	elsewhere
	CASES="send-much-starts recv-forks close system" between steps
	[ "$(processes case bytes_rdma_rx)" -ge 2 ]
}

@test "between: an end in order is no break" {
	orderly stream duplex
	orderly halfclose wr
	orderly procs unread
}

# Whatever ends a receive: its buffer is its own again, and the count is exact.
@test "between: large receives that wait, and end in every way" {
	ON+=(LIBSDP_ZCOPY=always LIBSDP_ZCOPY_THRESHOLD=4096
		LIBSDP_ZCOPY_WRITE=always)
	CASES="block late alarm jump restart" far zcsink 5000000
	CASES="cancel restless stopped torture" between zcsink -w 1000
	[ "$(sum case zcopy_tx)" -gt 1000000 ]
}

# Asleep on the completions of a queue pair, where no receive of the kernel's
# says what becomes of a signal.
@test "between: signals, time limits and cancellation while a receive sleeps" {
	CASES="eintr restart rcvtimeo within storm cancel uncancel" \
		far signals 20000
}

@test "between: closed, shut down, forked under a receive that sleeps" {
	CASES="close kin marker" far life 1000
}

@test "between: receives that a handler jumps out of, before the lift" {
	CASES="deep" between signals -w 5 -r -6
}

@test "between: memory that is not there, or not any more" {
	far faults 100000
	# of what is lent the part in front of a hole may go
	LIBSDP_ZCOPY=always LIBSDP_ZCOPY_THRESHOLD=1 \
		CASES="flicker dies" far faults 100000
}
