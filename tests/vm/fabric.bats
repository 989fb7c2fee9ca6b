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

setup() {
	# Finding each other by ARP is not what is tested here.
	until_true 30 busybox ping -c 1 -W 1 "$VM_ADDR4_2"
	until_true 30 busybox ping6 -c 1 -W 1 "$VM_ADDR6_2"
}

teardown() {
	stop_all
	vm_restore
}

# case_of CASE [ADDRESS]: what both ends run, and where: a port of its own.
case_of() {
	local sum
	sum=$(cksum <<<"$1$BATS_TEST_NUMBER")
	FAB=("$FABTEST" "$MODULE" "$1")
	AT=("${2:-$VM_ADDR4_1}" $((20000 + ${sum%% *} % 10000)))
}

# begin CASE [ADDRESS]: the server, on node 1, listens.
begin() {
	case_of "$@"
	server "$1" "${FAB[@]}" server "${AT[@]}"
	until_true 30 grep -q ready "$TMP/$1.out" ||
		fail "$(cat "$TMP/$1.err")"
}

# client_on NODE: the other end, in the foreground.
client_on() {
	LIMIT=${LIMIT:-100} on "$1" "${FAB[@]}" client "${AT[@]}"
}

# client_start NODE: in the background, named cl; what comes by `cl_say` is its
# input.
client_start() {
	mkfifo "$TMP/in"
	INPUT=$TMP/in start_on "$1" cl "${FAB[@]}" client "${AT[@]}"
	exec 4>"$TMP/in"
}

cl_say() {
	echo "$1" >&4
	exec 4>&-
}

cl_end() {
	wait_end cl 60 || fail "$(cat "$TMP/cl.err")"
}

# duo CASE [ADDRESS]: both ends, on two nodes; both must be content.
duo() {
	begin "$@"
	client_on 2 || fail "server: $(cat "$TMP/$1.err")"
	wait_end "$1" 30 || fail "server: $(cat "$TMP/$1.err")"
}

# solo CASE [ADDRESS]: both on one node.
solo() {
	begin "$@"
	client_on 1 || fail "server: $(cat "$TMP/$1.err")"
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

@test "fabric: nothing listens, no route, no device that may be used" {
	case_of nobody
	client_on 2
}

@test "fabric: a port in use" {
	solo inuse
	duo inuse
}

@test "fabric: a flood of requests" {
	mkfifo "$TMP/tell"
	exec 5<>"$TMP/tell"
	INPUT=$TMP/tell begin flood
	client_start 2
	until_true 60 grep -q quiet "$TMP/cl.out"
	echo all >&5
	cl_end
	exec 5>&-
	wait_end flood 30 || fail "server: $(cat "$TMP/flood.err")"
}

@test "fabric: a peer that answers no more: our own time limits" {
	begin slow
	# It stops once the client has its byte, and its kernel says nothing.
	client_start 2
	cl_end
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
	client_start 2
	until_true 60 grep -q quiet "$TMP/cl.out"
	link_down 1
	cl_say x
	cl_end
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
	case_of memlock
	on 2 bash -c 'ulimit -l 16; exec "$@"' - "${FAB[@]}" client \
		"${AT[@]}" 2>"$TMP/err"
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

@test "fabric: a client that speaks raw verbs, means harm, and all that must fail" {
	duo hostile
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
	begin removed
	client_start 2
	until_true 60 grep -q quiet "$TMP/cl.out"
	LIMIT=30 on 2 rdma link delete "$VM_RDMA"
	cl_say x
	cl_end
}
