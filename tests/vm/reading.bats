#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# What smoke.bats and wire.bats have captured, from $SDP_CAPTURES (in a machine:
# $VM_OUT). On the host, where tshark and python are many times faster than on
# an emulated processor; wire.py reads each packet twice, by itself and
# through tshark.

unset SDP_SHARED
load lib

WIRE=$BATS_TEST_DIRNAME/wire.py
CAPTURES=${SDP_CAPTURES:-${VM_OUT-}}

setup() {
	need tshark
	[ -d "$CAPTURES" ]
}

# taken NAME: the capture, where `dissect` looks for it.
taken() {
	cp "$CAPTURES/$1.pcap" "$TMP/"
}

# right NAME: wire.py has nothing to say against it, nor against the number of
# its connections.
right() {
	taken "$1"
	"$PY" "$WIRE" "$TMP/$1.pcap" --connections \
		"$(cat "$CAPTURES/$1.connections")" >"$TMP/$1.said" ||
		fail "$(tail -n 25 "$TMP/$1.said")"
}

# said NAME PATTERN...: each is in what wire.py told.
said() {
	local name=$1
	shift
	for p in "$@"; do
		grep -qE "$p" "$TMP/$name.said" ||
			fail "no $p: $(cat "$TMP/$name.said")"
	done
}

@test "smoke: what crosses the link is seen and dissected" {
	taken pings
	dissect pings -T fields -e infiniband.bth.opcode >"$TMP/opcodes"
	[ "$(grep -cxE '(0x0*)?4' "$TMP/opcodes")" -ge 6 ] # RC sends
	dissect pings >"$TMP/lines"
	grep -q 'CM: ConnectRequest' "$TMP/lines"
	grep -q 'RC RDMA Read Request' "$TMP/lines"
	sound pings
	# and the test of the test: a packet that is no such thing
	refuse dissect pings -Y nonesuch
}

@test "wire: each message of a dialogue, and tshark says the same" {
	local kind
	right one
	# receives grew, and every message fitted in its own
	said one 'Data [1-9]' 'DisConn 1' 'Words [1-9]' 'ChRcvBufAck [1-9]'
	# and what is wrong is found
	for kind in mseq ack credits len mid hello words; do
		"$PY" "$WIRE" "$TMP/one.pcap" --spoil "$kind" "$TMP/bad.pcap"
		refuse "$PY" "$WIRE" "$TMP/bad.pcap" --connections 1 --alone \
			>"$TMP/bad"
		grep -q '^FAULT' "$TMP/bad"
	done
	refuse "$PY" "$WIRE" "$TMP/one.pcap" --connections 2 --alone >"$TMP/bad"
}

@test "wire: IPv6, and the server's end is the one that dials" {
	right six
}

@test "wire: twenty connections and pipelines" {
	right many
}

@test "wire: large sends are read by the other end's device" {
	right lent
	said lent 'SrcAvail [1-9]' 'RdmaRdCompl [1-9]' \
		'[1-9][0-9]{5,} bytes by [1-9]'
	# and tshark finds the reads
	dissect lent -Y 'infiniband.bth.opcode == 12' >"$TMP/reads"
	[ -s "$TMP/reads" ]
}

@test "wire: large sends are written into a receiver that waits" {
	right sinks
	said sinks 'SinkAvail [1-9]' 'RdmaWrCompl [1-9]' \
		'[1-9][0-9]{5,} by [1-9][0-9]* writes'
	# and tshark finds the writes
	dissect sinks -Y 'infiniband.bth.opcode == 6' >"$TMP/writes"
	[ -s "$TMP/writes" ]
}

@test "wire: packets are lost and come in disorder" {
	right lossy
	said lossy '[1-9][0-9]* packets again'
}
