#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# sdprun --capture: SDP messages as packets in a file, as tshark dissects them.
# shellcheck disable=SC2030,SC2031,SC2034 # every test has variables of its own

load helpers
load hosts

SAID=$BATS_TEST_DIRNAME/py/said.py

setup() {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	need tshark sdprun
	need_library
	unset LIBSDP_CONFIG_FILE LIBSDP_USE LD_PRELOAD
	PORT=$(free_port)
	CAP=$TMP/a.pcapng
	# between hosts a Hello that comes too soon is refused, and sent again
	REFUSED=
	export LIBSDP_STATS_FILE=$STATS LIBSDP_LIFT_AFTER_MESSAGES=0 \
		LIBSDP_LIFT_AFTER_BYTES=0
}

teardown() {
	stop_all
}

# captured [FILE [PREFIX]]: what is in it goes to $TMP/has; tshark has no
# complaint.
captured() {
	"$PY" "$BATS_TEST_DIRNAME/py/captured.py" "${1:-$CAP}" "${@:2}" \
		>"$TMP/has" || return
	cat "$TMP/has"
}

# has NAME: how many messages of that kind.
has() {
	awk -v name="$1" '$1 == name { n = $2 } END { print n + 0 }' "$TMP/has"
}

# once: as many messages as were sent, with as many bytes. Each was counted by
# its sender alone; Hello and HelloAck are no such messages.
once() {
	[ "$(awk '$1 != "direction" { n += $2 } END { print n }' "$TMP/has")" \
		-eq $(($(stat_sum '*' msgs_tx) + $(has Hello) + 1)) ]
	all_bytes
}

# all_bytes: the same of an end that records for both. What was not taken in the
# end, as an update of credits, it has not seen.
all_bytes() {
	[ "$(has Hello)" -eq 1 ] || {
		[ -n "$REFUSED" ] && [ "$(has Hello)" -gt 1 ]
	}
	[ "$(has HelloAck)" -eq 1 ]
	[ "$(awk '$1 == "direction" { n += $3 } END { print n }' "$TMP/has")" \
		-eq "$(stat_sum '*' bytes_sdp_tx)" ]
}

# ends_with FILE END: the last bytes of it.
ends_with() {
	[ -s "$2" ]
	tail -c "$(stat -c %s "$2")" "$1" | cmp - "$2"
}

pair() {
	timeout "$LIMIT" "$@" "$PY" "$SAID" both "${SDP_AT-127.0.0.1}" "$PORT" \
		"$TMP/said"
}

@test "capture: each message of both ends once, and every byte of it" {
	export LIBSDP_CAPTURE_BYTES=65000
	pair sdprun --both --capture "$CAP"
	[ "$(stat -c %a "$CAP")" = 600 ]
	captured "$CAP" "$TMP/stream"
	[ "$(has Hello)" -eq 1 ]
	[ "$(has HelloAck)" -eq 1 ]
	[ "$(has Data)" -gt 100 ]
	[ "$(has DisConn)" -eq 2 ]
	once
	# the end with the lower port, here the server's, says Hello: it gets
	# what goes to the first queue pair
	ends_with "$TMP/said.client" "$TMP/stream.0"
	ends_with "$TMP/said.server" "$TMP/stream.1"
}

@test "capture: addresses and ports are those of the connection" {
	local ip
	for ip in ip ipv6; do
		SDP_AT=127.0.0.1
		[ $ip = ip ] || SDP_AT=::1
		pair sdprun --both -c "$CAP"
		tshark -2 -n -r "$CAP" -T fields -e $ip.src -e $ip.dst \
			-e infiniband_sdp.hh.localport \
			-e infiniband.cm.req.serviceid >"$TMP/names"
		[ "$(cut -f 1,2 "$TMP/names" | sort -u)" = "$SDP_AT	$SDP_AT" ]
		[ "$(cut -f 3 "$TMP/names" | grep .)" = "$PORT" ]
		[ $((0x10000)) -lt "$(($(cut -f 4 "$TMP/names" | grep .)))" ]
		captured
		once
		rm "$STATS"
		PORT=$(free_port)
	done
}

@test "capture: no more of a message than was asked for, and its length" {
	LIBSDP_CAPTURE_BYTES=10 pair sdprun --both --capture "$CAP"
	captured
	once
	# Ethernet, IPv4, UDP, BTH, BSDH, and 8 bytes between whole words, ICRC
	[ "$(tshark -n -r "$CAP" -Y 'infiniband_sdp.bsdh.len > 30000' \
		-T fields -e frame.cap_len | sort -u)" -eq 82 ]
	[ "$(awk '$1 == "direction" && $4 > 3000' "$TMP/has" | wc -l)" -eq 0 ]
}

@test "capture: messages of zero copy" {
	LIBSDP_ZCOPY=always LIBSDP_ZCOPY_THRESHOLD=16384 \
		LIBSDP_ZCOPY_WAIT_MS=1000 timeout "$LIMIT" \
		sdprun --both --capture "$CAP" "$PY" "$SAID" both 127.0.0.1 \
		"$PORT" "$TMP/said" 3000000
	captured
	[ "$(has SrcAvail)" -gt 0 ]
	[ "$(has SrcAvail)" -le $(($(has RdmaRdCompl) + $(has SendSm))) ]
}

@test "capture: of a peer that does not, what it sends is recorded, too" {
	LIBSDP_CAPTURE_FILE=$TMP/other timeout "$LIMIT" sdprun --both \
		"$PY" "$SAID" server 127.0.0.1 "$PORT" &
	sdprun --both --capture "$CAP" \
		"$PY" "$SAID" client 127.0.0.1 "$PORT"
	wait $!
	captured
	all_bytes
	# and the other one has its own
	captured "$TMP/other"
	all_bytes
	rm "$STATS"
	PORT=$(free_port)
	timeout "$LIMIT" sdprun --both "$PY" "$SAID" server 127.0.0.1 "$PORT" &
	sdprun --both --capture "$CAP" \
		"$PY" "$SAID" client 127.0.0.1 "$PORT"
	wait $!
	captured
	all_bytes
}

# both_hosts FILE FILE: where the server's, and the client's messages go.
both_hosts() {
	local over
	ON=(LIBSDP_CAPTURE_FILE="$1" LIBSDP_LIFT_AFTER_MESSAGES=0)
	on_start "$B" server "$PY" "$SAID" server 10.99.0.2 "$PORT" \
		"$TMP/said" 300000
	ready "$PORT"
	(
		until_true 30 over "$PORT" 2
		touch "$TMP/over"
	) 3>&- &
	over=$!
	ON=(LIBSDP_CAPTURE_FILE="$2" LIBSDP_LIFT_AFTER_MESSAGES=0)
	on "$A" client "$PY" "$SAID" client 10.99.0.2 "$PORT" "$TMP/said" \
		300000 0 "$TMP/over"
	wait "$over"
	rm "$TMP/over"
	wait_end server
	cat "$TMP/server.stats" "$TMP/client.stats" >"$STATS"
}

@test "capture: between hosts, each message once, in one file or in two" {
	hosts_setup
	REFUSED=may
	both_hosts "$CAP" "$CAP"
	captured
	[ "$(has Words)" -gt 0 ]
	once
	rm -f "$TMP"/*.stats
	both_hosts "$TMP/b" "$TMP/c"
	captured "$TMP/b"
	all_bytes
	captured "$TMP/c"
	all_bytes
}

# told STATUS WORDS FILE: so it fails, and the program is not run.
told() {
	run sdprun --capture "$3" touch "$TMP/ran"
	[ "$status" -eq "$1" ]
	[ "$output" = "sdprun: --capture: $3: $2" ]
	[ ! -e "$TMP/ran" ]
}

@test "capture: a file that cannot be one" {
	local own="not a regular file of this user's own" long
	told 2 "No such file or directory" "$TMP/none/a"
	told 2 "$own" "$TMP"
	mkfifo "$TMP/fifo"
	told 2 "$own" "$TMP/fifo"
	told 2 "$own" /dev/null
	ln -s "$CAP" "$TMP/link"
	told 2 "a symbolic link" "$TMP/link"
	[ ! -e "$CAP" ]
	echo precious >"$TMP/file"
	told 2 "it has something else in it" "$TMP/file"
	[ "$(cat "$TMP/file")" = precious ]
	long=$(printf 'x%.0s' {1..255})
	told 2 "the path is too long" "$TMP/$long"
	run sdprun --capture "$CAP" --check true
	[ "$status" -eq 64 ]
	run sdprun --capture "$CAP" --enable x
	[ "$status" -eq 64 ]
	[ ! -e "$CAP" ]
	# a capture is overwritten, and relative names are of this directory
	cd "$TMP"
	pair sdprun --both --capture a.pcapng
	rm "$STATS"
	PORT=$(free_port)
	pair sdprun --both --capture a.pcapng
	captured
	once
}

# Without sdprun: the program runs all the same.
@test "capture: a setting that cannot be followed costs a line" {
	echo precious >"$TMP/file"
	LIBSDP_CAPTURE_FILE=$TMP/file pair sdprun --both 2>"$TMP/err"
	[ "$(cat "$TMP/file")" = precious ]
	grep -c "capture_file $TMP/file: it has something else in it" "$TMP/err" |
		grep -qx 1
	[ "$(wc -l <"$TMP/err")" -eq 1 ]
	LIBSDP_CAPTURE_FILE=a.pcapng pair sdprun --both 2>"$TMP/err"
	grep -q "expected none, or an absolute path" "$TMP/err"
}

# full FILE LINES: whole messages are in it, and each process said so once.
full() {
	[ "$(grep -c "capture_file $1: .*: messages are not captured" "$TMP/err")" -eq 2 ]
	[ "$(wc -l <"$TMP/err")" -eq 2 ]
	captured "$1"
	[ "$(has Data)" -gt 10 ]
	[ "$(stat_sum '*' bytes_sdp_tx)" -gt 200000 ]
}

@test "capture: files may not grow: no signal, no harm" {
	LIBSDP_CAPTURE_BYTES=65000 timeout "$LIMIT" sdprun --both \
		--capture "$CAP" "$PY" "$SAID" both 127.0.0.1 "$PORT" "" \
		300000 100000 2>"$TMP/err"
	[ "$(stat -c %s "$CAP")" -gt 60000 ]
	[ "$(stat -c %s "$CAP")" -le 100000 ]
	full "$CAP"
}

@test "capture: a full disk" {
	mkdir "$TMP/disk"
	unshare -m true 2>/dev/null || skip "no mount namespaces here (needs root)"
	# shellcheck disable=SC2016 # of that shell
	unshare -m sh -c 'mount -t tmpfs -o size=16k none "$1" || exit
		cap=$1/a.pcapng to=$2
		shift 2
		LIBSDP_CAPTURE_BYTES=65000 sdprun --both --capture "$cap" "$@" ||
			exit
		cp "$cap" "$to"' sh "$TMP/disk" "$CAP" \
		timeout "$LIMIT" "$PY" "$SAID" both 127.0.0.1 "$PORT" \
		2>"$TMP/err"
	sed -i "s,$TMP/disk/,$TMP/," "$TMP/err"
	full "$CAP"
}

# Programs that close what they did not open, or put something in its place.
@test "capture: its descriptor is not the program's" {
	mode now
	with LIBSDP_CAPTURE_FILE="$CAP"
	cases closes
	[ "$(stat -c %s "$CAP")" -gt 1000 ]
	captured
}
