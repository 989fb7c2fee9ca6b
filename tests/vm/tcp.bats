#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Two hosts with the library and no way over RDMA between them: everything
# stays on TCP, unharmed, and every socket says why. Each way of having no way
# is one test; the programs' scenarios are run with LIBSDP_PATH=shm besides.

# Each node keeps its own statistics here.
unset SDP_SHARED
load lib

setup() {
	need socat openssl
}

teardown() {
	stop_all
	vm_restore
}

# echoed ADDRESS: three megabytes to an echo on node 1 and back, at once.
echoed() {
	PORT=$(free_port)
	server echo socat -t 30 "TCP-LISTEN:$PORT,bind=$1" EXEC:cat
	wait_port "$PORT"
	random_file "$TMP/in" 3000000
	vm-on 2 env "${CLIENT_ENV[@]}" timeout -k 5 60 socat -t 30 STDIO \
		"TCP:$1:$PORT" <"$TMP/in" >"$TMP/back"
	wait_end echo
	same "$TMP/in" "$TMP/back"
}

# reasons FILE NAME[|NAME]: how often it was the last reason of a socket.
reasons() {
	sed -nE "s/.*\"($2)\":([0-9]+).*/\2/p" "$1" | awk '{ n += $1 }
		END { print n + 0 }'
}

# unlifted REASON [OF-THE-SERVER]: both ends' statistics, each on its own node.
unlifted() {
	vm-on 2 cat "$STATS" >"$TMP/stats2" </dev/null
	cat "$STATS" "$TMP/stats2"
	[ "$(reasons "$STATS" "${2-$1}")" -eq 1 ]
	[ "$(reasons "$TMP/stats2" "$1")" -eq 1 ]
	assert_not_lifted
	STATS=$TMP/stats2 assert_not_lifted
}

# both MODE: and the place of node 2's statistics.
both() {
	mode "$1"
	on 2 mkdir -p "$TMP"
}

@test "tcp: no library, to know that the case itself is right" {
	both plain
	echoed "$VM_ADDR4_1"
}

@test "tcp: the setting allows shared memory only" {
	both now
	with LIBSDP_PATH=shm
	echoed "$VM_ADDR4_1"
	unlifted remote
}

@test "tcp: the setting allows shared memory only, IPv6" {
	both now
	with LIBSDP_PATH=shm
	PORT=$(free_port)
	server echo socat -t 30 "TCP6-LISTEN:$PORT,bind=[$VM_ADDR6_1]" EXEC:cat
	wait_port "$PORT"
	random_file "$TMP/in" 3000000
	vm-on 2 env "${CLIENT_ENV[@]}" timeout -k 5 60 socat -t 30 STDIO \
		"TCP6:[$VM_ADDR6_1]:$PORT" <"$TMP/in" >"$TMP/back"
	wait_end echo
	same "$TMP/in" "$TMP/back"
	unlifted remote
}

@test "tcp: the network has no RDMA device" {
	both now
	with LIBSDP_ALLOW_SOFT_RDMA=yes # or that is the reason
	echoed "$VM_PLAIN4_1"
	# a listener waits for a while longer
	unlifted remote "remote|waiting"
}

@test "tcp: neither host has an RDMA device" {
	rdma_del 1
	rdma_del 2
	both now
	echoed "$VM_ADDR4_1"
	unlifted remote
}
