# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Two hosts on one machine: network namespaces joined by a veth, and in place
# of libsdp-verbs.so the pretended devices of tests/fake. Host A is 10.99.0.1
# and has the clients, B is 10.99.0.2.

setup_file() {
	hosts_up
}

hosts_up() {
	export A="sdpA$$" B="sdpB$$"
	# of a run that was killed, long ago
	teardown_file
	ip netns add "$A" 2>/dev/null || return 0
	ip netns add "$B"
	ip link add veth0 netns "$A" type veth peer name veth0 netns "$B"
	ip -n "$A" addr add 10.99.0.1/24 dev veth0
	ip -n "$B" addr add 10.99.0.2/24 dev veth0
	ip -n "$A" link set veth0 up
	ip -n "$B" link set veth0 up
	ip -n "$A" link set lo up
	ip -n "$B" link set lo up
}

# far_up: beside what is lifted, a network on which the ends of a case tell each
# other their steps.
far_up() {
	hosts_up
	ip -n "$A" addr add 10.98.0.1/24 dev veth0 2>/dev/null || return 0
	ip -n "$B" addr add 10.98.0.2/24 dev veth0
	ip -n "$A" addr add fd00::1/64 dev veth0 nodad
	ip -n "$B" addr add fd00::2/64 dev veth0 nodad
}

# far_setup: the programs of tests/progs with -p node, main on A and the peer on
# B, as in tests/vm. NODES is what main has in its environment.
far_setup() {
	hosts_library
	cat >"$TMP/rules" <<-END
		use tcp server * 10.98.0.0/24:*
		use tcp client * 10.98.0.0/24:*
		use both server * *:*
		use both client * *:*
	END
	# vm-on NODE COMMAND...
	cat >"$TMP/lib/vm-on" <<-END
		#!/bin/sh
		shift
		exec nsenter --net=/run/netns/$B env VM_NODE=2 "\$@"
	END
	chmod +x "$TMP/lib/vm-on"
	# shellcheck disable=SC2034 # of the files
	NODES=(VM_NODE=1 VM_ADDR4_1=10.99.0.1 VM_ADDR4_2=10.99.0.2
		VM_ADDR6_1=fd00::1 VM_ADDR6_2=fd00::2
		VM_PLAIN4_1=10.98.0.1 VM_PLAIN4_2=10.98.0.2
		PATH="$TMP/lib:$PATH" LIBSDP_CONFIG_FILE="$TMP/rules"
		LIBSDP_LIFT_AFTER_MESSAGES=0 LIBSDP_LIFT_AFTER_BYTES=0)
}

teardown_file() {
	ip netns del "$A" 2>/dev/null || :
	ip netns del "$B" 2>/dev/null || :
}

# The library with the pretended module beside it.
hosts_library() {
	ip netns pids "$A" >/dev/null 2>&1 ||
		skip "no network namespaces here (needs root)"
	[ -f "$SDP_BUILD/tests/fake/.libs/libfakeverbs.so" ] ||
		fail "tests/fake is not built (make check)"
	mkdir -p "$TMP/lib"
	cp "$LIBSDP" "$TMP/lib/libsdp.so"
	cp "$SDP_BUILD/tests/fake/.libs/libfakeverbs.so" \
		"$TMP/lib/libsdp-verbs.so"
}

# A file that needs more before each test has a setup() of its own.
setup() {
	hosts_setup
}

hosts_setup() {
	hosts_library
	ON=()
}

teardown() {
	stop_all
}

# on HOST NAME COMMAND...: preloaded, on a host with a device; what it counted
# goes to NAME.stats, its log to NAME.log. ON is more environment; DEVICES, RXE
# and DESC: which devices there are, and what the kernel says of them; FILES: pairs
# of a device file and whose it is, as it says. It does
# not outlive the test, even where that is killed.
on() {
	(on_become "$@")
}

# on_start HOST NAME COMMAND...: the same in the background, PID[NAME].
on_start() {
	on_become "$@" 3>&- &
	# shellcheck disable=SC2034 # of helpers.bash
	PID[$2]=$!
}

on_become() {
	local ns=$1 name=$2
	shift 2
	# shellcheck disable=SC2016
	exec setpriv --pdeathsig TERM \
		ip netns exec "$ns" env LIBSDP_STATS_FILE="$TMP/$name.stats" \
		LIBSDP_LOG="1:stderr" LIBSDP_ALLOW_SOFT_RDMA="${SOFT-yes}" \
		LIBSDP_FALLBACK_TIMEOUT_MS=20000 \
		"${ON[@]}" \
		DEVICES="${DEVICES-fake0}" FILES="${FILES-}" \
		sh -c 'mount -t tmpfs none /sys/class || exit
		for d in $DEVICES; do
			d=/sys/class/infiniband/$d
			mkdir -p "$d"
			[ -z "${RXE-}" ] || : >"$d/parent"
			[ -z "${DESC-}" ] || echo "$DESC" >"$d/node_desc"
		done
		d=/sys/class/infiniband_verbs
		set -- $FILES -- "$@"
		while [ "$1" != -- ]; do
			mkdir -p $d/$1
			echo $2 >$d/$1/ibdev
			shift 2
		done
		shift
		unset DEVICES RXE DESC FILES
		LD_PRELOAD=$0 exec "$@"' "$TMP/lib/libsdp.so" "$@" \
		2>>"$TMP/$name.log"
}

# ready PORT: a server on B listens there.
ready() {
	until_true 10 b_listens "$1"
}

b_listens() {
	ip netns exec "$B" ss -Hltn "sport = :$1" | grep -q .
}

# sum NAME FIELD: over the processes of that side.
sum() {
	grep -o "\"$2\":[0-9]*" "$TMP/$1.stats" |
		awk -F: '{ n += $2 } END { print n + 0 }'
}

# How many processes of that side have it not 0?
processes() {
	grep -o "\"$2\":[0-9]*" "$TMP/$1.stats" |
		awk -F: '$2 { n++ } END { print n + 0 }'
}

# came NAME FIELD N: the processes that have ended sum up to it.
came() {
	[ "$(sum "$1" "$2")" -ge "$3" ]
}

# shown QUESTION...: of the processes on both hosts, as py/shown.py has it.
shown() {
	"$PY" "$BATS_TEST_DIRNAME/py/shown.py" "$@"
}

# over PORT N [BYTES]: so many ends of connections to that port, on both hosts,
# go over SDP both ways, and each has sent so much by it.
over() {
	shown over "$1" "$2" "${3-0}"
}
