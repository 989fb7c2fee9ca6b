#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The RDMA fabric by itself: libsdp-verbs.so under two processes of fabtest
# (tests/vm/progs), mostly one on each node, with the SDP machine on top. The
# numbers of facts are those of fabtest's comments.
# shellcheck disable=SC2016 # words for the shell over there

bats_require_minimum_version 1.5.0
load lib

MODULE=$SDP_BUILD/.libs/libsdp-verbs.so
FABTEST=$SDP_BUILD/tests/vm/progs/fabtest

teardown() {
	stop_all
	vm_restore
}

# fab NODE CASE ROLE [ADDRESS]: one end; the port is of the case.
port_of() {
	local sum
	sum=$(cksum <<<"$1$BATS_TEST_NUMBER")
	echo $((20000 + ${sum%% *} % 10000))
}

# begin CASE [ADDRESS]: the server, on node 1, listens.
begin() {
	FAB=("$FABTEST" "$MODULE" "$1")
	AT=("${2:-$VM_ADDR4_1}" "$(port_of "$1")")
	server "$1" "${FAB[@]}" server "${AT[@]}"
	until_true 30 grep -q ready "$TMP/$1.out" ||
		fail "$(cat "$TMP/$1.err")"
}

# client_on NODE: the other end, in the foreground.
client_on() {
	LIMIT=${LIMIT:-100} on "$1" "${FAB[@]}" client "${AT[@]}"
}

# duo CASE [ADDRESS]: both ends, on two nodes; both must be content.
duo() {
	begin "$@"
	client_on 2
	wait_end "$1" 30 || fail "server: $(cat "$TMP/$1.err")"
}

# solo CASE [ADDRESS]: both on one node.
solo() {
	begin "$@"
	client_on 1
	wait_end "$1" 30 || fail "server: $(cat "$TMP/$1.err")"
}

@test "fabric: sizes around every boundary, IPv4 and IPv6" {
	duo echo
	duo echo "$VM_ADDR6_1"
	solo echo
}

@test "fabric: link-local addresses, with their scope" {
	local ll scope
	ll=$(ip -6 -o addr show dev "$VM_LINK" scope link |
		sed -nE 's,.* inet6 ([^/]*)/.*,\1,p')
	scope=$(cat "/sys/class/net/$VM_LINK/ifindex")
	duo echo "$ll%$scope"
}

@test "fabric: a v4-mapped address is the IPv4 address" {
	duo mapped
}

@test "fabric: every length across the inline boundary" {
	duo inlines
}

@test "fabric: streams one way and both ways, memory grows under load" {
	duo stream
	duo duplex
	solo duplex
}

@test "fabric: packets are lost, come late and in disorder" {
	netem 1 loss 1% delay 1ms 1ms reorder 10%
	duo echo
	[ "$(dropped 1)" -gt 0 ]
}

@test "fabric: a bad HelloAck is refused before RTU" {
	duo badack
}

@test "fabric: a refusal with its reason" {
	duo refused
}

@test "fabric: nobody listens, no route, no device that may be used" {
	FAB=("$FABTEST" "$MODULE" nobody)
	AT=("$VM_ADDR4_1" 19999)
	client_on 2
}

@test "fabric: a port in use" {
	solo inuse
	duo inuse
}

@test "fabric: a flood of requests" {
	duo flood
}

@test "fabric: a peer that answers no more: our own time limits" {
	begin slow
	# It stops once the client has its byte, and its kernel says nothing.
	start_on 2 cl "${FAB[@]}" client "${AT[@]}"
	wait_end cl 60 || fail "$(cat "$TMP/cl.err")"
	kill -KILL "${PID[slow]}"
}

@test "fabric: the peer is killed" {
	begin killed
	client_on 2
	wait_end killed 30 || [ $? -eq 137 ]
	begin killed "$VM_ADDR6_1"
	client_on 1
	wait_end killed 30 || [ $? -eq 137 ]
}

@test "fabric: the peer falls silent: a send finds out" {
	begin silent
	mkfifo "$TMP/in"
	INPUT=$TMP/in start_on 2 cl "${FAB[@]}" client "${AT[@]}"
	exec 4>"$TMP/in"
	until_true 60 grep -q quiet "$TMP/cl.out"
	link_down 1
	echo x >&4
	exec 4>&-
	wait_end cl 60 || fail "$(cat "$TMP/cl.err")"
	# Soft-RoCE that sends a CM message over a link that is down is mute for
	# ever after: the server may end only now.
	link_up 1
	until_true 10 rdma_active 1
}

@test "fabric: a fork: the child opens its own, the parent's dies with it" {
	duo fork
	solo fork
}

@test "fabric: other credentials: what is opened anew works" {
	duo setuid
}

@test "fabric: too little locked memory is named in the log" {
	FAB=(bash -c 'ulimit -l 16; exec "$@"' - "$FABTEST" "$MODULE" memlock)
	AT=("$VM_ADDR4_1" 19998)
	client_on 2 2>"$TMP/err"
	grep -q 'limit of locked memory is 16384' "$TMP/err"
}

@test "fabric: a thread that spins on pending()" {
	duo pending
}

@test "fabric: two hundred connections" {
	duo many
}

@test "fabric: any length of message; what is not held" {
	duo lengths
}

@test "fabric: a peer without credits waits for receives, not long" {
	duo norecv
}

@test "fabric: a message that is too long ends its connection" {
	duo toolong
}

@test "fabric: receives grow in number and size, and shrink" {
	duo resize
	duo larger
}

@test "fabric: RDMA read and write, and keys that are gone" {
	duo rdma
	solo rdma
}

@test "fabric: one processor is enough" {
	on 1 bash -c 'echo 0 >/sys/devices/system/cpu/cpu1/online'
	solo echo
	on 1 bash -c 'echo 1 >/sys/devices/system/cpu/cpu1/online'
}

@test "fabric: the device is taken away" {
	mkfifo "$TMP/in"
	FAB=("$FABTEST" "$MODULE" removed)
	AT=("$VM_ADDR4_1" 19997)
	server removed "${FAB[@]}" server "${AT[@]}" # input is empty
	until_true 30 grep -q ready "$TMP/removed.out"
	INPUT=$TMP/in start_on 2 cl "${FAB[@]}" client "${AT[@]}"
	exec 4>"$TMP/in"
	until_true 60 grep -q quiet "$TMP/cl.out"
	LIMIT=30 on 2 rdma link delete "$VM_RDMA"
	echo x >&4
	exec 4>&-
	wait_end cl 60 || fail "$(cat "$TMP/cl.err")"
}
