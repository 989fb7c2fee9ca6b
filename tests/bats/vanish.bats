#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck disable=SC2034 # what is for hosts.bash
#
# Between hosts: the other one is gone without a word, and the program is told
# as TCP would tell it: by the kernel's keep-alive on the anchor.

load helpers
load hosts

PY_VANISH=$BATS_TEST_DIRNAME/py/vanish.py

teardown() {
	ip -n "$B" route del blackhole 10.99.0.1 2>/dev/null || :
	stop_all
}

# vanished: nothing comes from B any more, and the queue pair does not break.
vanished() {
	ip -n "$B" route add blackhole 10.99.0.1
}

# lifted_at PORT KEEPS HOW [OF]: a client, over SDP, and its server; OF ends their
# names, and that of FILE.
lifted_at() {
	on_start "$B" "server${4-}" "$PY" "$PY_VANISH" server "$1"
	ready "$1"
	on_start "$A" "client${4-}" timeout 200 "$PY" "$PY_VANISH" client \
		10.99.0.2 "$1" "$3" "$2" "$TMP/enough${4-}" \
		>"$TMP/client${4-}.out"
	until_true 40 over "$1" 2
	touch "$TMP/enough${4-}"
}

# probed HOST PORT WHEN: the kernel's keep-alive comes then, as ss has it.
probed() {
	ip netns exec "$1" ss -Htno state established \
		"( sport = :$2 or dport = :$2 )" |
		grep -qE "timer:\(keepalive,($3),0\)"
}

# acked PORT: the anchor has nothing under way. Behind bytes that are the kernel
# tries again for a quarter of an hour, and does without keep-alive.
acked() {
	ip netns exec "$A" ss -Htn state established "( dport = :$1 )" |
		awk '{ bytes += $2 } END { exit !NR || bytes }'
}

SOON="[0-9.]+(ms|sec)|1min"

@test "vanish: a waiting thread hears of it by keep-alive, as over TCP" {
	local how port=7920 hows=(recv poll level edge)
	for how in "${hows[@]}"; do
		lifted_at $((++port)) 1,1,2 "$how" ".$how"
	done
	for how in "${hows[@]}"; do
		until_true 20 test -f "$TMP/enough.$how.quiet"
		until_true 20 acked $((port--))
	done
	vanished
	for how in "${hows[@]}"; do
		wait_end "client.$how" ||
			fail "$how: $(tail -n 20 "$TMP/client.$how.log")"
		grep -qx "ETIMEDOUT b''" "$TMP/client.$how.out" ||
			fail "$how: $(cat "$TMP/client.$how.out")"
	done
	ip -n "$B" route del blackhole 10.99.0.1
	for how in "${hows[@]}"; do
		# it may have been told, too
		kill "${PID[server.$how]}" 2>/dev/null || :
		wait_end "server.$how" || :
	done
}

@test "vanish: a silent anchor is probed; the program sees what it has set" {
	lifted_at 7930 none set
	until_true 20 probed "$A" 7930 "$SOON"
	until_true 20 probed "$B" 7930 "$SOON"
	touch "$TMP/enough.0"
	until_true 20 probed "$A" 7930 "1[56]min[0-9]*(sec)?"
	touch "$TMP/enough.1" "$TMP/enough.2"
	until_true 20 probed "$A" 7930 "$SOON"
	touch "$TMP/enough.3" "$TMP/enough.4"
	until_true 20 probed "$A" 7930 "$SOON"
	ip netns exec "$A" sdpstat --fallback "$(pgrep -P "${PID[client]}")"
	until_true 20 not_probed "$A" 7930
	until_true 20 not_probed "$B" 7930
	touch "$TMP/enough.home"
	wait_end client
	wait_end server
}

@test "vanish: what waits in the anchor's error queue is no death" {
	lifted_at 7931 none told
	sleep 5 # longer than a peer that has ended takes to say so
	touch "$TMP/enough.home"
	wait_end client
	wait_end server
	refuse grep "to be lifted again" "$TMP/client.log"
}

not_probed() {
	! probed "$1" "$2" "[^,]*"
}
