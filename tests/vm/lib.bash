# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Helpers of the tests that run inside the virtual machines, on node 1,
# with ../bats/helpers. What is changed on a node is changed back by
# vm_restore, which every teardown calls.
# shellcheck disable=SC2016 # words for the shell over there
# shellcheck disable=SC2034,SC2004 # PID is of helpers.bash

load ../bats/helpers

# on N COMMAND...: vm-on with empty input and a time limit: a hang is a failure.
on() {
	local node=$1
	shift
	vm-on "$node" timeout -k 5 "${LIMIT:-60}" "$@" </dev/null
}

# start_on N NAME COMMAND...: in the background on node N; ends with `stop`,
# `wait_end` or stop_all like a server of helpers.bash. Input from $INPUT,
# output in $TMP/NAME.out and .err on node 1, process id in /run/NAME.pid on
# node N (for signal_on).
start_on() {
	local node=$1 name=$2
	shift 2
	vm-on "$node" bash -c 'echo $$ >"$0"; exec "$@"' "/run/$name.pid" "$@" \
		>"$TMP/$name.out" 2>"$TMP/$name.err" <"${INPUT:-/dev/null}" \
		3>&- &
	PID[$name]=$!
}

# signal_on N NAME SIGNAL: any signal, also those that vm-on cannot pass on.
signal_on() {
	vm-on "$1" bash -c "kill -$3 \$(cat /run/$2.pid)" </dev/null
}

# listening_on N PORT, wait_port_on N PORT [SECONDS]
listening_on() {
	vm-on "$1" bash -c "$(declare -f listening); listening $2" </dev/null
}

wait_port_on() {
	until_true "${3:-10}" listening_on "$1" "$2"
}

# --- the link ----------------------------------------------------------------

# netem N ARGUMENT...: what node N sends suffers so from now on, e.g.
# `netem 1 loss 2% delay 3ms reorder 25%`.
netem() {
	local node=$1
	shift
	vm-on "$node" bash -c 'modprobe sch_netem &&
		tc qdisc replace dev "$VM_LINK" root netem "$@"' netem "$@" \
		</dev/null
}

netem_off() {
	vm-on "$1" bash -c 'tc qdisc del dev "$VM_LINK" root 2>/dev/null || :' \
		</dev/null
}

# dropped N: packets that the queue of node N has thrown away.
dropped() {
	vm-on "$1" tc -s qdisc show dev "$VM_LINK" </dev/null |
		sed -nE 's/.*dropped ([0-9]+),.*/\1/p' | head -n 1
}

link_down() {
	vm-on "$1" ip link set "$VM_LINK" down </dev/null
}

link_up() {
	vm-on "$1" ip link set "$VM_LINK" up </dev/null
}

rdma_del() {
	vm-on "$1" rdma link delete "$VM_RDMA" </dev/null
}

rdma_add() {
	vm-on "$1" rdma link add "$VM_RDMA" type rxe netdev "$VM_LINK" \
		</dev/null
}

has_rdma() {
	vm-on "$1" test -d "/sys/class/infiniband/$VM_RDMA" </dev/null
}

# rdma_active N: the device is there and its port can be used.
rdma_active() {
	vm-on "$1" grep -q ACTIVE \
		"/sys/class/infiniband/$VM_RDMA/ports/1/state" </dev/null
}

# vm_restore: every node as it was after booting.
vm_restore() {
	local n pids=() bad=0
	for ((n = 1; n <= VM_NODES; n++)); do
		on $n bash -c 'tc qdisc del dev "$VM_LINK" root 2>/dev/null
			ip link set "$VM_LINK" up
			cd /sys/class/infiniband
			[ -d "$VM_RDMA" ] || rdma link add "$VM_RDMA" \
				type rxe netdev "$VM_LINK"
			until grep -q ACTIVE "$VM_RDMA/ports/1/state"; do
				read -r -t 0.02 <> <(:)
			done' 3>&- &
		pids+=($!)
	done
	for n in "${pids[@]}"; do
		wait "$n" || bad=1
	done
	return $bad
}

# --- packets -------------------------------------------------------------------

# capture NAME: from now on what crosses the link, RoCE v2 and marks, goes to
# $TMP/NAME.pcap. (A node's own RDMA traffic never reaches the card.) What a
# test sends fits into the ring as a whole, so nothing is lost however long
# tcpdump does not run. Not in immediate mode: there each packet takes 64 KiB
# of the ring, and a ring of 32 MiB is full with 512 of them.
capture() {
	tcpdump -i "$VM_LINK" -U -B 131072 -s 0 -w "$TMP/$1.pcap" \
		'udp port 4791 or udp port 9' </dev/null >/dev/null \
		2>"$TMP/$1.tcpdump" 3>&- &
	PID[$1]=$!
	until_true 10 grep -q 'listening on' "$TMP/$1.tcpdump" ||
		fail "tcpdump: $(cat "$TMP/$1.tcpdump")"
}

# marked NAME: a mark of ours has come to the file; as long as not, one is sent.
marked() {
	echo "mark of $1" >"/dev/udp/$VM_ADDR4_2/9"
	tail -c 4096 "$TMP/$1.pcap" | grep -qa "mark of $1"
}

# capture_end NAME: marks of our own are the last packets, so nothing that came
# before them is missing. tcpdump has them after a second at most, where it runs.
capture_end() {
	until_true 20 marked "$1" || fail "tcpdump: $(cat "$TMP/$1.tcpdump")"
	stop "$1" INT
	grep -q '^0 packets dropped by kernel' "$TMP/$1.tcpdump" ||
		fail "tcpdump: $(cat "$TMP/$1.tcpdump")"
}

# kept NAME [CONNECTIONS]: a capture that has ended, for reading.bats.
kept() {
	cp "$TMP/$1.pcap" "$VM_OUT/"
	[ -z "${2-}" ] || echo "$2" >"$VM_OUT/$1.connections"
}

# dissect NAME ARGUMENT...: tshark on a capture. Another dissector would take
# the payload of every connection for itself.
dissect() {
	local name=$1
	shift
	tshark --disable-protocol rpcordma -n -r "$TMP/$name.pcap" "$@" \
		2>"$TMP/$name.tshark"
}

# sound NAME: tshark finds nothing malformed.
sound() {
	local bad
	bad=$(dissect "$1" -Y '_ws.malformed or _ws.expert.severity == error')
	[ -z "$bad" ] || fail "malformed: $bad"
}
