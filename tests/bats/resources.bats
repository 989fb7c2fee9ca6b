#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Programs that want for themselves what the library would like to use.

load helpers

setup() {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	need jq
}

teardown() {
	[ -z "${GROUP-}" ] || leave_group
	stop_all
}

wants() {
	client bash -c 'ulimit -n 10000; exec "$@"' wants "$SDP_PROGS/wants" "$@" \
		>"$TMP/out"
	[ "$(cat "$TMP/out")" = ok ]
}

reasons() {
	jq -s --arg why "$1" 'map(.reasons[$why] // 0) | add' "$STATS"
}

@test "all mappings that there may be" {
	[ "$(cat /proc/sys/vm/max_map_count)" -le 300000 ] ||
		skip "it would take too long"
	mode plain
	wants maps 300 250
	mode now
	wants maps 300 250
	# the other end of each may have as many as it likes
	[ "$(reasons no-maps)" -ge 250 ]
	# from 15/16 on nothing is taken any more
	mode now
	wants maps 300 8000
	[ "$(stat_sum wants lifted)" -gt 0 ]
}

@test "memory that is locked" {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	mode now
	# before the first byte: they do not live long
	printf 'use sdp %s * *:*\n' server client >"$TMP/sdp.conf"
	with "LIBSDP_CONFIG_FILE=$TMP/sdp.conf"
	wants locked 50
	[ "$(stat_sum wants lifted)" -eq 100 ]
}

# Behind a spill the reader's stream has to be put back by its writer.
@test "no address space while the reader falls back" {
	mode now
	wants space 1 40960
	wants space 1 1024
	wants space 1 64
	wants space 1 0
	[ "$(stat_sum wants stalls)" -gt 0 ]
}

@test "no address space, and the writer ends" {
	mode now
	wants space 1 -1
	[ "$(stat_sum wants stalls)" -gt 0 ]
}

# group BYTES: GROUP, a control group with so much memory, of either version.
group() {
	local top=/sys/fs/cgroup name=libsdp-test.$$
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	if [ -d "$top/memory" ]; then
		GROUP=$top/memory/$name
		LIMIT_FILE=memory.limit_in_bytes
	else
		GROUP=$top/$name
		LIMIT_FILE=memory.max
	fi
	if mkdir "$GROUP" 2>/dev/null &&
		echo "$1" 2>/dev/null >"$GROUP/$LIMIT_FILE"; then
		return
	fi
	rmdir "$GROUP" 2>/dev/null || :
	GROUP=
	skip "no control groups of memory here"
}

empty_group() {
	rmdir "$GROUP" 2>/dev/null
}

leave_group() {
	until_true 10 empty_group
	GROUP=
}

in_group() {
	bash -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' group \
		"$GROUP" env "${CLIENT_ENV[@]}" timeout -k 5 "$LIMIT" \
		"$SDP_PROGS/wants" "$@" >"$TMP/out"
	[ "$(cat "$TMP/out")" = ok ]
}

# With full rings each of these 120 would have 2 MiB in memory.
@test "a control group's memory" {
	group $((150 << 20))
	mode plain
	in_group queue 120 2
	mode now
	in_group queue 120 3
	[ "$(stat_sum wants lifted)" -gt 0 ]
	leave_group
}

# The share of so little memory is that of some sixty.
@test "a control group with little memory" {
	group $((16 << 20))
	mode now
	in_group queue 200 2
	[ "$(stat_sum wants lifted)" -gt 10 ]
	[ "$(stat_sum wants lifted)" -lt 100 ]
	leave_group
}
