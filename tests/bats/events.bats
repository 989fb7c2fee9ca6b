#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The flight recorder: what happened to a connection, while its process lives and
# when it was killed; and the probes of the same names.

load helpers

setup() {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	mode now
	PORT=$(free_port)
	lifted_pair
}

teardown() {
	stop_all
}

# The number of the client's end.
number() {
	sdpstat -H -p "${PID[pair]}" "dport=$PORT" | awk '{ print $3 }'
}

# events FD: the names of that number's, in order.
events() {
	sdpstat --log "${PID[pair]}" |
		awk -v fd="$1" '$2 == fd { print $4 ($5 ? ":" $5 : "") }' |
		tr '\n' ' '
}

@test "events: from the connection to the lift, and back to TCP" {
	local fd
	fd=$(number)
	[[ "$(events "$fd")" == "connected seeking lifted"* ]]
	sdpstat --fallback "${PID[pair]}"
	[[ "$(events "$fd")" == *"stall:requested "*"fallback:requested "* ]]
	sdpstat --log "${PID[pair]}" --json | "$PY" -c '
import json, sys, time
e = json.load(sys.stdin)
assert [x["time"] for x in e] == sorted(x["time"] for x in e)
assert all(abs(time.time() - x["time"]) < 100 for x in e)
assert {x["event"] for x in e} >= {"connected", "lifted", "fallback"}
assert all(x["reason"] for x in e if x["event"] == "fallback")
'
}

@test "events: why, in sentences" {
	local fd
	fd=$(number)
	run sdpstat --why "${PID[pair]}/$fd"
	[ "$status" -eq 0 ]
	[[ $output == "Descriptor $fd of python3 (${PID[pair]}) is a socket from "*"to 127.0.0.1:$PORT"* ]]
	[[ $output == *"Its bytes go by SDP, through shared memory."* ]]
	[[ $output == *"  It is connected."*"  It goes over SDP."*"Sent: "* ]]
	sdpstat --fallback "${PID[pair]}/$fd"
	run sdpstat --why "${PID[pair]}/$fd"
	[[ $output == *"by the kernel's TCP"*"Reason: requested: "*"fell back to TCP"* ]]
	run sdpstat --why "${PID[pair]}/4095"
	[ "$status" -eq 1 ]
	run sdpstat --why "${PID[pair]}"
	[ "$status" -eq 64 ]
	run sdpstat --log x
	[ "$status" -eq 64 ]
	run sdpstat --log 999999999
	[ "$status" -eq 1 ]
}

@test "events: of a process that was killed, one a user" {
	local pid=${PID[pair]} files
	kill -KILL "$pid"
	wait_end pair 10 || :
	run sdpstat --log "$pid"
	[ "$status" -eq 0 ]
	[[ $output == *"$pid (python3) was killed"*connected*lifted* ]]
	# it is off the list: no socket of it is shown, and its file is one for all
	[ "$(sdpstat -H -p "$pid" | wc -l)" -eq 0 ]
	[ -z "$(find /dev/shm -name "libsdp.$pid.*")" ]
	files=(/dev/shm/libsdp.killed."$(id -u)")
	[ "${#files[@]}" -eq 1 ]
	# another takes its place, found by the next process, not by sdpstat
	INPUT=$TMP/commands server other "$PY" \
		"$BATS_TEST_DIRNAME/py/lifted.py" "$(free_port)" 9>&-
	until_true 10 grep -q ready "$TMP/other.out"
	pid=${PID[other]}
	kill -KILL "$pid"
	wait_end other 10 || :
	client "$SDP_PROGS/stream" -p fork turns
	run sdpstat --log "$pid"
	[[ $output == *"was killed"* ]]
	cp "${files[0]}" "$TMP/kept"
	rm -f "${files[0]}"
	# what stands there may be of any kind: a page, but of another user
	if [ "$(id -u)" -eq 0 ]; then
		rm -f "/dev/shm/libsdp.killed.65534"
		cp "$TMP/kept" "/dev/shm/libsdp.killed.65534"
		run sdpstat --log "$pid"
		rm -f "/dev/shm/libsdp.killed.65534"
		[ "$status" -eq 1 ]
	fi
	head -c 100000 /dev/urandom >"${files[0]}"
	run sdpstat --log "$pid"
	[ "$status" -eq 1 ]
	rm -f "${files[0]}"
}

@test "events: the probes are in the library, under their names" {
	need readelf
	readelf -n "$LIBSDP" | awk '/Provider: libsdp/ { getline; print $2 }' |
		sort -u >"$TMP/probes"
	[ -s "$TMP/probes" ] || lack "no <sys/sdt.h>"
	{
		sed -n 's/^EVENT([A-Z]*, \([a-z]*\),.*/\1/p' \
			"$BATS_TEST_DIRNAME/../../src/base/event.def"
		printf '%s\n' message__in message__out sleep wake
	} | sort | diff - "$TMP/probes"
	# each takes an inode first
	[ "$(readelf -n "$LIBSDP" | grep -A3 'Provider: libsdp' |
		grep -c 'Arguments: .* .* ')" -ge 12 ]
}
