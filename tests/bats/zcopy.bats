#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Transfers without a copy. `zcopy always` insists wherever that is possible,
# from 2 KiB on: then every large send lends its memory, and what it meets on
# the way (a reader that does not come, a fallback, a signal, death) meets a
# source. The programs check every byte; the counters prove the way.

load helpers

# They are busy all the time, and a reader shall come soon.
# shellcheck disable=SC2034 # of helpers.bash
LANES=1

teardown() {
	stop_all
}

# with SETTING...: for all programs from here on.
with() {
	SERVER_ENV+=("$@")
	CLIENT_ENV+=("$@")
}

# insist MODE [THRESHOLD]: the mode, and zero copy wherever it can be.
insist() {
	mode "$1"
	with LIBSDP_ZCOPY=always "LIBSDP_ZCOPY_THRESHOLD=${2:-2048}"
}

# lent BYTES PROGRAM: at least so many were taken from another's memory.
lent() {
	[ "$MODE" != plain ] || return 0
	local tx rx
	tx=$(stat_sum "$2" zcopy_tx)
	rx=$(stat_sum "$2" zcopy_rx)
	if [ "$tx" -lt "$1" ] || [ "$rx" -lt "$1" ]; then
		echo "$2: lent $tx, read $rx, less than $1" >&2
		show_stats
		return 1
	fi
}

@test "zcopy: plain" {
	mode plain
	cases zcopy -p fork
	cases zcends -p fork
	cases zcsink -p fork
}

@test "zcopy: by copy" {
	mode now
	with LIBSDP_ZCOPY=no
	cases zcopy -p fork
	cases zcends -p fork
	cases zcsink -p fork
	[ "$(stat_sum zcopy zcopy_tx)" -eq 0 ]
	[ "$(stat_sum zcsink zcopy_tx)" -eq 0 ]
}

@test "zcopy: where it is faster" {
	mode lifted
	with LIBSDP_ZCOPY=auto
	cases zcopy -p exec
	cases zcends -p exec
	cases zcsink -p exec
}

# counted NAME SETTING [CAGE...]: a reader, caged, of a thousand large sends.
counted() {
	local port name=$1 how=$2 cage=("$SDP_PROGS/cage"
		-k process_vm_readv -k process_vm_writev)
	shift 2
	port=$(free_port)
	server "$name" "${cage[@]}" "$PY" -c '
import socket, sys
sock = socket.create_server(("", int(sys.argv[1]))).accept()[0]
count = 0
while data := sock.recv(1 << 20):
    count += len(data)
sock.sendall(count.to_bytes(4, "big"))' "$port"
	wait_port "$port"
	client env LIBSDP_ZCOPY="$how" "$@" "$PY" -c '
import socket, sys
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
for i in range(1000):
    sock.sendall(bytes(1 << 17))
sock.shutdown(socket.SHUT_WR)
assert int.from_bytes(sock.recv(4), "big") == 1000 << 17' "$HOST" "$port"
	wait_end "$name"
}

# A filter may kill a process that tries; nor is it tried where the other end lends.
@test "zcopy: where it is faster, not under a filter of system calls" {
	mode now
	with LIBSDP_ZCOPY=auto LIBSDP_STALL_MS=60000 LIBSDP_SECCOMP=trust
	counted writer auto "$SDP_PROGS/cage" -k process_vm_readv
	counted reader always
	proof 200000000 python3
}

@test "zcopy: receives that wait, the peer another program" {
	insist lifted 32768
	cases zcsink -p exec
}

@test "zcopy: receives that wait, the peer a thread, reversed" {
	insist now 32768
	cases zcsink -p thread -r -6
}

@test "zcopy: receives that wait, descriptors passed" {
	insist now 32768
	cases zcsink -p fork -H pass
}

@test "zcopy: receives that wait, programs executed" {
	insist now 32768
	cases zcsink -p exec -H exec
}

@test "zcopy: receives that wait, children forked, no spinning" {
	insist now 32768
	with LIBSDP_SPIN_US=0 LIBSDP_ZCOPY_WAIT_MS=1
	cases zcsink -p fork -H fork
}

@test "zcopy: a source is an edge" {
	insist now
	# its bytes are copied only if no reader came for them, in all that time
	with LIBSDP_ZCOPY_WAIT_MS=1000
	client "$SDP_PROGS/zcopy" -p exec edges
	# of 6,000,000; not what was sent before they had met
	lent 4000000 zcopy
}

@test "zcopy: where nothing reads there is one source, and others once one does" {
	insist now
	# the ring holds all that is sent and not read
	with LIBSDP_ZCOPY_WAIT_MS=1000 LIBSDP_STALL_MS=60000
	client "$SDP_PROGS/zcopy" -p exec later
	[ "$(stat_sum zcopy zcopy_cancelled)" -lt 10 ]
	# of 5,000,000
	lent 2000000 zcopy
}

@test "zcopy: a look for all that is lent gets a copy at once" {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	insist now
	with LIBSDP_ZCOPY_WAIT_MS=1000
	client "$SDP_PROGS/zcopy" -p exec peeks
	[ "$(stat_sum zcopy zcopy_cancelled)" -lt 5 ]
	assert_lifted zcopy 1000000
}

@test "zcopy: a file is copied" {
	insist now
	with LIBSDP_ZCOPY_WAIT_MS=1000 LIBSDP_STALL_MS=60000
	client "$SDP_PROGS/zcopy" -p exec file
	# 4 MiB of the file, and one that is not
	[ "$(stat_sum zcopy zcopy_tx)" -le 1048576 ]
	[ "$(stat_sum zcopy bytes_sdp_tx)" -ge 5242880 ]
}

@test "zcopy: always, the peer another program" {
	insist lifted
	cases zcopy -p exec
	cases zcends -p exec
	lent 10000000 zcopy
}

@test "zcopy: always, the peer a thread" {
	insist now
	cases zcopy -p thread
	cases zcends -p thread
	lent 10000000 zcopy
}

@test "zcopy: always, reversed, IPv6" {
	insist now 65536
	cases zcopy -p fork -r -6
	cases zcends -p fork -r -6 -w 0
	lent 10000000 zcopy
}

@test "zcopy: always, descriptors passed" {
	insist now
	cases zcopy -p fork -H pass
	cases zcends -p fork -H pass
	lent 1000000 zcopy
}

@test "zcopy: always, programs executed" {
	insist now
	cases zcopy -p exec -H exec
	cases zcends -p exec -H exec
	lent 1000000 zcopy
}

@test "zcopy: always, children forked" {
	insist now
	cases zcopy -p fork -H fork
	cases zcends -p fork -H fork
	lent 1000000 zcopy
}

@test "zcopy: always, a buffer whose end is missing" {
	insist now
	with LIBSDP_ZCOPY_WAIT_MS=1000
	client "$SDP_PROGS/zcends" -p fork fault
	client "$SDP_PROGS/zcends" -p exec -r fault
}

# Of a send that a handler jumps out of nothing comes but what it was to send.
@test "zcopy: always, a jump out of a send" {
	insist now
	with LIBSDP_ZCOPY_WAIT_MS=1000
	client "$SDP_PROGS/zcends" -p exec jump
	client "$SDP_PROGS/zcends" -p exec -r jump
	with LIBSDP_SPIN_US=0
	client "$SDP_PROGS/zcends" -p exec jump
}

@test "zcopy: every kind of memory" {
	mode plain
	cases zcmaps -p fork
	mode now
	cases zcmaps -p fork
	insist now
	cases zcmaps -p exec
	cases zcmaps -p fork -r
	lent 100000000 zcmaps
}

@test "zcopy: always, streams" {
	insist now
	cases stream -p fork
	cases stream -p exec -H pass
	lent 1000000 stream
}

@test "zcopy: always, signals" {
	insist now
	cases signals -p exec
}

@test "zcopy: always, half-close and ends" {
	insist now
	cases halfclose -p exec
}

@test "zcopy: always, processes" {
	insist now
	cases procs -p fork
}

@test "zcopy: always, every kind of call" {
	insist now 1
	cases calls -p exec
	cases polls -p fork
	# one thread that sends single bytes to itself would wait for itself,
	# hundreds of times, for as long as a busy machine makes it
	insist now 2
	cases nonblock -p fork
	insist now
	cases epolls -p fork
	cases notify -p fork
}

@test "zcopy: always, without spinning, without patience" {
	insist now
	with LIBSDP_SPIN_US=0 LIBSDP_ZCOPY_WAIT_MS=1
	cases zcopy -p exec
	cases zcends -p exec
	lent 1000000 zcopy
}
