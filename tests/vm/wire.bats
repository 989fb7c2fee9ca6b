#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# What lifted connections look like on the wire. The captures are read by
# reading.bats, from $VM_OUT. Each node keeps its own statistics.

unset SDP_SHARED
export SDP_CLIENT_ON=2
load lib

DUPLEX=$BATS_TEST_DIRNAME/../bats/py/duplex.py

setup() {
	need tcpdump redis-server redis-benchmark
	mode lifted
	with LIBSDP_ALLOW_SOFT_RDMA=yes
	on 2 mkdir -p "$TMP"
	until_true 30 busybox ping -c 1 -W 1 "$VM_ADDR4_2"
	until_true 30 busybox ping6 -c 1 -W 1 "$VM_ADDR6_2"
}

teardown() {
	stop_all
	vm_restore
}

# both_ways SERVER: its connection has been lifted in both directions.
both_ways() {
	sdpstat --pid "${PID[$1]}" | grep -q ' rdma '
}

# talks SERVER CLIENT...: the client talks until $TMP/enough is there on its
# node; both directions have been lifted when it returns.
talks() {
	local server=$1
	shift
	background talk "$@" </dev/null
	until_true 30 both_ways "$server" || fail "$(tail -n 5 "$TMP"/*.err)"
}

# enough SERVER: both ends have, and are content.
enough() {
	on 2 touch "$TMP/enough"
	wait_end talk 40 || fail "$(tail -n 5 "$TMP"/*.err)"
	wait_end "$1" || fail "$(tail -n 5 "$TMP"/*.err)"
}

# begun N: so many rounds.
begun() {
	[ "$(grep -c begun "$TMP/talk.out")" -ge "$1" ]
}

# duplex ADDRESS PORT: at least one round begins after it was lifted.
duplex() {
	server duplex "$PY" "$DUPLEX" server "$1" "$2"
	wait_port "$2"
	talks duplex "$PY" "$DUPLEX" client "$1" "$2" 1 until "$TMP/enough"
	until_true 30 begun $(($(grep -c begun "$TMP/talk.out") + 1))
	enough duplex
	[ "$(tail -n 1 "$TMP/talk.out")" = ok ]
	[ "$(tail -n 1 "$TMP/duplex.out")" = ok ]
}

@test "wire: each message of a dialogue, and tshark says the same" {
	capture one
	duplex "$VM_ADDR4_1" "$(free_port)"
	capture_end one
	assert_lifted python3 10000
	kept one 1
}

@test "wire: IPv6, and the server's end is the one that dials" {
	capture six
	duplex "$VM_ADDR6_1" 62001
	capture_end six
	assert_lifted python3 10000
	kept six 1
}

@test "wire: twenty connections and pipelines" {
	local count
	PORT=$(free_port)
	capture many
	server redis redis-server --port "$PORT" --bind "$VM_ADDR4_1" \
		--save '' --appendonly no --protected-mode no --dir "$TMP"
	wait_port "$PORT"
	client redis-benchmark -h "$VM_ADDR4_1" -p "$PORT" -t set,get \
		-n 12000 -c 20 -P 4 -d 700 --csv >"$TMP/bench"
	[ "$(grep -c '^"[GS]ET' "$TMP/bench")" -eq 2 ]
	stop redis
	capture_end many
	assert_lifted redis-server 100000
	count=$(stat_sum redis-server lifted)
	[ "$count" -ge 20 ]
	kept many "$count"
}

@test "wire: large sends are read by the other end's device" {
	local echo=$BATS_TEST_DIRNAME/../bats/py/digest_echo.py port
	port=$(free_port)
	with LIBSDP_ZCOPY=always LIBSDP_ZCOPY_THRESHOLD=16384 \
		LIBSDP_ZCOPY_WAIT_MS=1000
	capture lent
	server echo "$PY" "$echo" server "$port"
	wait_port "$port"
	talks echo "$PY" "$echo" client "$VM_ADDR4_1" "$port" 100 \
		large 12 until "$TMP/enough"
	enough echo
	capture_end lent
	assert_lifted python3 1000000
	kept lent 1
}

@test "wire: large sends are written into a receiver that waits" {
	local py=$BATS_TEST_DIRNAME/../bats/py/sinks.py port
	port=$(free_port)
	with LIBSDP_ZCOPY=always LIBSDP_ZCOPY_THRESHOLD=16384 \
		LIBSDP_ZCOPY_WAIT_MS=1000 LIBSDP_ZCOPY_WRITE=always
	capture sinks
	server offers "$PY" "$py" server "$port"
	wait_port "$port"
	talks offers "$PY" "$py" client "$VM_ADDR4_1" "$port" \
		"$TMP/enough" 12
	enough offers
	capture_end sinks
	kept sinks 1
}

# Where too much is lost at once the queue pair breaks; the stream goes on over
# TCP and is lifted anew. So there may be more connections than one: those that
# the server's end says.
@test "wire: packets are lost and come in disorder" {
	with LIBSDP_LOG=1:stderr
	netem 1 loss 1% delay 1ms 1ms reorder 10%
	netem 2 loss 1%
	capture lossy
	duplex "$VM_ADDR4_1" "$(free_port)"
	[ "$(dropped 1)" -gt 0 ]
	[ "$(dropped 2)" -gt 0 ]
	netem_off 1
	netem_off 2
	capture_end lossy
	assert_lifted python3 10000
	kept lossy "$(grep -c 'paired over RDMA' "$TMP/duplex.err")"
}
