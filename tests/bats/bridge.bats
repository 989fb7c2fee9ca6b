#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Rules that say native: programs talk to the SDP sockets of a kernel. There is
# none of those any more; tests/fake/kernpeer pretends to be one, at the other
# end of a pretended queue pair. No TCP port is open where the programs go.

load helpers
load hosts

setup() {
	hosts_setup
	py=$BATS_TEST_DIRNAME/py/bridge.py
	printf 'use native connect * 10.99.0.2:*\n' >"$TMP/rules"
	printf 'use native connect * 10.99.9.2:*\n' >>"$TMP/rules"
	export ENDS=$TMP/ends OWN=10.99.0.1
	ON=(LIBSDP_CONFIG_FILE="$TMP/rules" LIBSDP_PATH=shm)
	: >"$TMP/peers"
	: >"$TMP/ends"
}

# start NAME COMMAND...: in the background, PID[NAME].
start() {
	local name=$1
	shift
	setpriv --pdeathsig TERM "$@" >/dev/null 3>&- &
	# shellcheck disable=SC2034 # of helpers.bash
	PID["$name"]=$!
}

# peer OPTIONS...: a kernel whose service 700 is the server behind TCP 7001.
peer() {
	start server ip netns exec "$B" /usr/bin/python3 "$py" serve 7001
	ready 7001
	start kernel ip netns exec "$B" "$SDP_BUILD/tests/fake/kernpeer" \
		-o "$TMP/peers" "$@" 700 7001
	ready $((700 ^ 0x2000))
}

# ask WHAT...: a program on the other host asks it for that.
ask() {
	on "$A" client timeout "$LIMIT" /usr/bin/python3 "$py" \
		ask 10.99.0.2 700 "$@" || {
		tail -n 30 "$TMP/client.log" >&2
		return 1
	}
}

# peers N: so many connections have ended, and the kernel had no complaint.
peers() {
	until_true 60 peers_ended "$1"
	cat "$TMP/peers"
	refuse grep -v 'fault none' "$TMP/peers"
}

peers_ended() {
	[ "$(wc -l <"$TMP/peers")" -ge "$1" ]
}

@test "bridge: a dialogue with OFED's kernel, names as dialled" {
	peer -f ofed -j
	ask names talk
	peers 2
	grep -q '"kernel-sdp":' "$TMP/client.stats"
}

@test "bridge: bulk, half-close and back pressure, OFED with SrcAvail and ChRcvBuf" {
	peer -f ofed -z 60000 -a 65536
	ask half pressed both_ways
	peers 3
}

@test "bridge: bulk, half-close and back pressure, FreeBSD with gaps in MSeq" {
	peer -f freebsd -g 20
	ask talk half pressed both_ways
	peers 4
}

@test "bridge: urgent bytes, both ways" {
	peer -f ofed
	ask urgent
	peers 2
	grep -q 'urgent 1' "$TMP/peers"
}

@test "bridge: resets, both ways" {
	peer -f ofed
	ask reset
	peers 2
	until_true 60 grep -q reset "$TMP/ends"
}

@test "bridge: what a program wrote before it ended arrives" {
	peer -f freebsd
	ask unread
	peers 1
	until_true 60 grep -qE '^[0-9a-f]{64}$' "$TMP/ends"
}

@test "bridge: children, and programs without the library, go on with it" {
	peer -f ofed
	ask family passed
	peers 2
}

@test "bridge: connect that does not wait" {
	peer -f ofed
	ask pending
	peers 1
}

@test "bridge: connect with too much room for a name, again, and under signals" {
	peer -f ofed
	ask roomy families again signals
	peers 10
}

@test "bridge: nothing listens, or the first SDP does" {
	WANT=ECONNREFUSED ask refused
	peer -f gen1
	WANT=ECONNREFUSED ask refused
	peers 3
}

@test "bridge: an answer of the first SDP is refused" {
	peer -f gen1 -x
	WANT=ECONNREFUSED ask refused
}

@test "bridge: no route" {
	ip -n "$A" route add unreachable 10.99.9.0/24
	WANT=EHOSTUNREACH on "$A" client timeout 60 /usr/bin/python3 "$py" \
		ask 10.99.9.2 700 refused
	ip -n "$A" route del unreachable 10.99.9.0/24
}

@test "bridge: a peer that does not answer" {
	peer -m
	ask silent
}

@test "bridge: without a device refused, with one line and no TCP" {
	start server ip netns exec "$B" /usr/bin/python3 "$py" serve 7001
	ready 7001
	WANT=EHOSTUNREACH ip netns exec "$A" env "${ON[@]}" \
		LIBSDP_LOG=7:stderr LD_PRELOAD="$TMP/lib/libsdp.so" \
		sh -c 'mount -t tmpfs none /sys/class && exec "$@"' sh \
		timeout 60 /usr/bin/python3 "$py" ask 10.99.0.2 700 refused \
		2>"$TMP/log"
	[ "$(grep -c 'rule kernel-sdp, but there is no RDMA device' "$TMP/log")" -eq 1 ]
}

@test "bridge: it is had by the word alone" {
	peer -f ofed
	for rule in both sdp; do
		echo "use $rule connect * 10.99.0.2:*" >"$TMP/rules"
		WANT=ECONNREFUSED ask refused
	done
	[ ! -s "$TMP/peers" ]
}

@test "bridge: curl, unmodified, from a web server behind each kernel" {
	need curl
	head -c 3000000 /dev/urandom >"$TMP/file"
	start web ip netns exec "$B" /usr/bin/python3 -m http.server \
		--bind 127.0.0.1 --directory "$TMP" 7001
	ready 7001
	for family in ofed freebsd; do
		start $family ip netns exec "$B" \
			"$SDP_BUILD/tests/fake/kernpeer" -f $family \
			-o "$TMP/peers" 80 7001
		ready $((80 ^ 0x2000))
		on "$A" client curl -sS --max-time 60 -o "$TMP/got" \
			http://10.99.0.2/file
		cmp "$TMP/file" "$TMP/got"
		stop $family
	done
	peers 2
}

@test "bridge: nc, unmodified, closes its half" {
	need nc
	peer -f freebsd
	head -c 200000 /dev/urandom >"$TMP/file"
	{
		echo digest
		cat "$TMP/file"
	} | on "$A" client timeout 60 nc -N 10.99.0.2 700 >"$TMP/got"
	[ "$(cat "$TMP/got")" = "$(sha256sum <"$TMP/file" | cut -d' ' -f1)" ]
	peers 1
}

# gate: process and descriptor of the socket that asks, in a minute, whether the
# program's is there, which was closed.
gate() {
	ip netns exec "$A" ss -Htnpo state close-wait |
		sed -nE 's/.*pid=([0-9]+),fd=([0-9]+).*timer:\(keepalive,(5[0-9]sec|1min),.*/\1 \2/p'
}

gate_asks() {
	[ -n "$(gate)" ]
}

# The minute is the kernel's matter: here it asks each second, until the program's
# socket is forgotten and it hears so.
@test "bridge: a peer that never closes is left in the end" {
	local pid fd
	peer -f ofed
	ask forgotten 3>&- &
	# shellcheck disable=SC2034 # of helpers.bash
	PID["ask"]=$!
	until_true 30 gate_asks
	read -r pid fd < <(gate)
	"$PY" "$BATS_TEST_DIRNAME/py/idle.py" "$pid" "$fd" 1
	wait_end ask
	peers 1
}
