#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck disable=SC2034 # what is for hosts.bash and helpers.bash
# shellcheck disable=SC2030,SC2031 # a test may have a directory of its own
#
# Between hosts: which devices count, peers that do not answer, and requests of
# those that have no connection.

load helpers
load hosts

MANY=$BATS_TEST_DIRNAME/py/many_echo.py

teardown() {
	stop_all
	[ -z "${ROOM-}" ] || rm -rf "$ROOM"
}

# lifted PORT CONNECTIONS SERVER PORT...: each goes over SDP, both ways; the
# client goes on until it was seen. TO is the server's address.
lifted() {
	local port=$1 count=$2
	shift 2
	on_start "$B" server "$PY" "$MANY" "$@"
	ready "$port"
	on_start "$A" client timeout 300 "$PY" "$MANY" client \
		"${TO-10.99.0.2}" "$port" "$count" 100 until "$TMP/enough"
	until_true 120 over "$port" $((2 * count)) 1000
	touch "$TMP/enough"
	wait_end client
	stop server
	[ "$(sum client lifted)" -eq "$count" ]
	[ "$(sum server lifted)" -eq "$count" ]
}

one_lifted() {
	lifted 7901 1 prefork 7901 1
}

# stay END N REASON: so many sockets with port 7907 at that end (peer: of the
# client) are on TCP for that reason.
stay() {
	shown stays 7907 "$@"
}

# kept END N REASON [END N REASON]: what comes of N connections to port 7907.
kept() {
	rm -f "$TMP/enough"
	on_start "$B" server "$PY" "$MANY" prefork 7907 1
	ready 7907
	on_start "$A" client timeout 200 "$PY" "$MANY" client 10.99.0.2 7907 \
		"$2" 100 until "$TMP/enough"
	until_true 120 stay "$1" "$2" "$3"
	[ "$#" -eq 3 ] || until_true 40 stay "$4" "$5" "$6"
	touch "$TMP/enough"
	wait_end client
	stop server
	[ "$(sum client lifted)" -eq 0 ]
}

@test "devices: a real one is used where the path says so" {
	SOFT=no
	ON=(FAKE_HARD=1 LIBSDP_PATH=both)
	one_lifted
}

@test "devices: a real one is used by default" {
	SOFT=no
	ON=(FAKE_HARD=1)
	export DESC="MT4123 ConnectX6"
	one_lifted
}

@test "devices: path shm keeps what leaves the host on TCP" {
	for SOFT in yes no; do
		ON=(LIBSDP_PATH=shm FAKE_HARD=1)
		kept peer 1 remote
		grep -q '"remote":1' "$TMP/client.stats"
		rm "$TMP/client.stats"
	done
}

# shape OF LIBRARY: what a client of ten connections has at its end.
shape() {
	on "$A" "$1" env LD_PRELOAD="$2" strace -f -o "$TMP/$1.trace" \
		-e trace=open,openat,clone,clone3 \
		"$PY" "$BATS_TEST_DIRNAME/py/shape.py" 10.99.0.2 7907 10 200 \
		>"$TMP/$1.shape"
}

# nothing REASON LOOKS: it is as without the library, and the kernel was asked
# so often for its devices, by ten connections.
nothing() {
	rm -f "$TMP"/plain.* "$TMP"/client.*
	ON=(FAKE_HARD=1 LIBSDP_LOG=8:stderr)
	shape plain ""
	shape client "$TMP/lib/libsdp.so"
	grep -q "\"$1\":10" "$TMP/client.stats"
	diff "$TMP/plain.shape" "$TMP/client.shape"
	refuse grep -E 'clone3?\(|libsdp-verbs|librdmacm|libibverbs' "$TMP/client.trace"
	[ "$(grep -c '"/sys/class/infiniband' "$TMP/client.trace")" -eq "$2" ]
	[ ! -s "$TMP/client.log" ] || fail "$(cat "$TMP/client.log")"
}

@test "devices: where there is none nothing is loaded, opened, started, said" {
	need strace
	SOFT=no
	DEVICES=
	on_start "$B" server "$PY" "$MANY" prefork 7907 1
	ready 7907
	nothing remote 1
	DEVICES=fake0
	export RXE=1
	nothing soft-device 2
	unset RXE
	export DESC="Software iWARP stack"
	nothing soft-device 3
	stop server
}

@test "devices: a name that none has: one line, a reason, TCP" {
	ON=("LIBSDP_RDMA_DEVICES=mlx9_0,mlx9_1")
	kept peer 3 setting
	grep -q '"setting":3' "$TMP/client.stats"
	[ "$(grep -c 'no RDMA: rdma_devices says mlx9_0,mlx9_1, here is fake0' \
		"$TMP/client.log")" -eq 1 ]
}

@test "devices: the one that is named" {
	ON=("LIBSDP_RDMA_DEVICES=mlx9_0,fake0")
	one_lifted
}

@test "devices: for Soft-RoCE not even the module is loaded" {
	SOFT=no
	ON=(FAKE_HARD=1 RXE=1)
	rm "$TMP/lib/libsdp-verbs.so"
	kept peer 1 soft-device
	grep -q '"soft-device":1' "$TMP/client.stats"
}

@test "devices: a rule that insists is refused at once" {
	on_start "$B" server "$PY" "$MANY" prefork 7901 1
	ready 7901
	ON=(LIBSDP_USE=sdp LIBSDP_SDP_TIMEOUT_MS=60000)
	refuse on "$A" client timeout 60 "$PY" "$MANY" client 10.99.0.2 7901 1 1
	stop server
	grep -q "ConnectionRefusedError" "$TMP/client.log"
	grep -q '"unverified":1' "$TMP/client.stats"
}

# insist A-TRUSTS B-TRUSTS MS-OF-A: a rule sdp at both ends; 0: the client was
# content.
insist() {
	local ok=0
	# on a busy machine a writer would go on over TCP for a while
	export LIBSDP_STALL_MS=60000
	ON=(LIBSDP_USE=sdp LIBSDP_TRUSTED="$2" LIBSDP_SDP_TIMEOUT_MS=60000)
	on_start "$B" server "$PY" "$MANY" prefork 7901 1
	ready 7901
	ON=(LIBSDP_USE=sdp LIBSDP_TRUSTED="$1" LIBSDP_SDP_TIMEOUT_MS="$3")
	on "$A" client timeout 200 "$PY" "$MANY" client 10.99.0.2 7901 3 50 ||
		ok=1
	stop server
	return "$ok"
}

@test "trusted: a rule that insists: SDP from the first byte on, both ways" {
	insist 10.99.0.0/24 192.0.2.1,10.99.0.1 60000
	[ "$(sum client lifted)" -eq 3 ]
	[ "$(sum server lifted)" -eq 3 ]
	[ "$(sum client bytes_sdp_tx)" -gt 10000 ]
	[ "$(sum client bytes_tcp_tx)" -eq 0 ]
	[ "$(sum client bytes_tcp_rx)" -eq 0 ]
	[ "$(sum server bytes_tcp_tx)" -eq 0 ]
	[ "$(sum server bytes_tcp_rx)" -eq 0 ]
}

# no connection of that port stands on A any more
a_closed() {
	! ip netns exec "$A" ss -Htn state established "dport = :$1" | grep -q .
}

@test "trusted: an end that has said all and closed is heard, however late" {
	local late=$BATS_TEST_DIRNAME/py/late_read.py
	ON=(LIBSDP_USE=sdp LIBSDP_TRUSTED=10.99.0.0/24
		LIBSDP_SDP_TIMEOUT_MS=60000)
	on_start "$B" server timeout 90 "$PY" "$late" server 7906 1000 "$TMP/read"
	ready 7906
	on_start "$A" client timeout 90 "$PY" "$late" client 10.99.0.2 7906 \
		1000 "$TMP/end"
	until_true 60 test -f "$TMP/end.closed"
	until_true 60 a_closed 7906
	touch "$TMP/end"
	wait "${PID[client]}"
	touch "$TMP/read"
	wait "${PID[server]}"
	[ "$(sum client bytes_sdp_tx)" -eq 1000 ]
	[ "$(sum server bytes_sdp_rx)" -eq 1000 ]
}

@test "trusted: one end alone is not enough" {
	refuse insist 10.99.0.0/24 none 1000
	grep -q "ConnectionRefusedError" "$TMP/client.log"
	grep -q "failed for SDP fd .* rule sdp, but" "$TMP/client.log"
	[ "$(sum client bytes_tcp_tx)" -eq 0 ]
	[ "$(sum client bytes_sdp_tx)" -eq 0 ]
}

@test "devices: without the module" {
	rm "$TMP/lib/libsdp-verbs.so"
	kept peer 1 no-verbs
	grep -q '"no-verbs":1' "$TMP/client.stats"
}

@test "devices: without a library that the module needs" {
	[ -f "$SDP_BUILD/.libs/libsdp-verbs.so" ] || skip "built without verbs"
	sed 's/libibverbs\.so\.1/libibverbs.so.9/g' \
		"$SDP_BUILD/.libs/libsdp-verbs.so" >"$TMP/lib/libsdp-verbs.so"
	kept peer 3 no-verbs
	grep -q '"no-verbs":3' "$TMP/client.stats"
	[ "$(grep -c 'no RDMA: libibverbs.so.9' "$TMP/client.log")" -eq 1 ]
}

@test "devices: a module that is none of ours: one line, a reason, TCP" {
	sed -i 's/libsdp_verbs/libsdp_other/g' "$TMP/lib/libsdp-verbs.so"
	kept peer 3 no-verbs
	grep -q '"no-verbs":3' "$TMP/client.stats"
	[ "$(grep -c 'libsdp-verbs.so is of another version' \
		"$TMP/client.log")" -eq 1 ]
}

@test "devices: a v4-mapped address is the IPv4 address" {
	TO=::ffff:10.99.0.2
	one_lifted
}

@test "devices: not to be opened, no path, no memory: a reason, TCP" {
	local what why
	while read -r what why; do
		ON=("FAKE_FAIL=$what")
		kept peer 3 "$why"
	done <<-END
		open:6 no-access
		dial:6 no-access
		dial:101 no-path
		dial:12 no-memory
	END
	# a server may have been asked before it knew what it was asked for,
	# and have said so
	for what in 12=no-memory 101=no-path; do
		ON=("FAKE_FAIL=prepare:${what%=*}")
		kept local 3 "${what#*=}" peer 3 "peer-declined|unverified"
	done
	# it is said once how things are
	[ "$(grep -c 'no RDMA: the files of the RDMA device' \
		"$TMP/client.log")" -eq 1 ]
}

# Nor is the module loaded, in a container that sees them in /sys alone.
@test "devices: no device file, nothing is loaded" {
	FILES="uverbs7 other0 uverbs977 fake0"
	rm "$TMP/lib/libsdp-verbs.so"
	kept peer 3 no-access
	grep -q "no RDMA: there is no device file of fake0" "$TMP/client.log"
	FILES="uverbs977 other0"
	kept peer 3 no-verbs
}

# plain NAMESPACE [PORT]: a server on port 7907 without the library; PID[plainPORT].
plain() {
	ip netns exec "$1" "$PY" "$MANY" prefork "${2-7907}" 1 3>&- &
	PID["plain${2-}"]=$!
	until_true 10 eval \
		"ip netns exec $1 ss -Hltn sport = :${2-7907} | grep -q ."
}

@test "devices: what stays on the host is not asked of them" {
	local to
	plain "$A"
	for to in 10.99.0.1 127.0.0.1; do
		rm -f "$TMP/enough"
		on_start "$A" client timeout 200 "$PY" "$MANY" client "$to" \
			7907 2 300 until "$TMP/enough"
		until_true 120 stay peer 2 peer-declined
		touch "$TMP/enough"
		wait_end client
	done
	refuse grep "RDMA try" "$TMP/client.log"
	stop plain
}

@test "strangers: an unsound HelloAck is refused, no RTU, once" {
	plain "$B"
	ip netns exec "$B" "$PY" "$BATS_TEST_DIRNAME/py/badack.py" 7907 \
		>"$TMP/badack" 3>&- &
	PID["badack"]=$!
	until_true 10 grep -q ready "$TMP/badack"
	on_start "$A" client timeout 200 "$PY" "$MANY" client 10.99.0.2 7907 3 \
		100 until "$TMP/enough"
	until_true 120 stay peer 3 bad-hello
	touch "$TMP/enough"
	wait_end client
	stop badack
	stop plain
	[ "$(grep -c refused "$TMP/badack")" -eq 1 ]
	refuse grep accepted "$TMP/badack"
	[ "$(grep -c "an unsound HelloAck" "$TMP/client.log")" -eq 1 ]
}

# anew NAME PORT RETRY_S: a client of a port whose server lacks the library. When a
# file `first` is in its directory it leaves that, and comes back two seconds
# behind `second`.
anew() {
	mkdir "$TMP/$1"
	ON=(LIBSDP_RDMA_RETRY_S="$3")
	plain "$B" "$2"
	on_start "$A" "$1" timeout 200 "$PY" "$BATS_TEST_DIRNAME/py/anew.py" \
		10.99.0.2 "$2" "$TMP/$1"
}

@test "strangers: a host that does not answer is remembered for a while" {
	local port tries
	anew long 7907 3600
	anew short 7908 1
	for port in 7907 7908; do
		until_true 60 shown stays $port peer 1 peer-declined
	done
	tries=$(grep -c "RDMA try" "$TMP/long.log")
	touch "$TMP/long/first" "$TMP/short/first"
	for port in 7907 7908; do
		until_true 120 shown stays $port peer 0 peer-declined
		stop plain$port
		# now a server has it
		on_start "$B" server$port "$PY" "$MANY" prefork $port 1
		ready $port
	done
	touch "$TMP/long/second" "$TMP/short/second"
	until_true 60 shown stays 7907 peer 1 peer-declined
	until_true 60 shown stays 7908 peer 1 none
	[ "$(grep -c "RDMA try" "$TMP/long.log")" -eq "$tries" ]
	touch "$TMP/long/enough" "$TMP/short/enough"
	wait_end long
	wait_end short
	stop server7907
	stop server7908
}

# The second one is shared with a child of the server's, so it is not found.
@test "strangers: where others were met one in vain is no reason" {
	local shared=$BATS_TEST_DIRNAME/py/one_shared.py
	ON=(LIBSDP_RDMA_RETRY_S=3600)
	on_start "$B" server "$PY" "$shared" server 7907
	ready 7907
	on_start "$A" client timeout 300 "$PY" "$shared" client 10.99.0.2 \
		7907 "$TMP/first" "$TMP/second" "$TMP/third"
	until_true 60 stay peer 1 none
	touch "$TMP/first"
	until_true 60 eval "stay peer 1 unverified || stay peer 1 peer-declined"
	touch "$TMP/second"
	until_true 60 stay peer 1 none
	touch "$TMP/third"
	wait_end client
	stop server
	[ "$(sum client lifted)" -ge 2 ]
}

@test "devices: sdpstat shows which, and the memory registered" {
	on_start "$B" server "$PY" "$MANY" prefork 7904 1
	ready 7904
	# it goes on asking until all was seen
	on_start "$A" client timeout 300 "$PY" "$MANY" client 10.99.0.2 7904 2 \
		100 until "$TMP/never"
	until_true 30 shown device 7904 4 fake0/1
	stop client
	stop server
}

@test "strangers: a burst to a peer without the library pays once" {
	plain "$B"
	on_start "$A" client timeout 300 "$PY" "$MANY" client 10.99.0.2 7907 \
		20 100 until "$TMP/enough"
	until_true 120 stay peer 20 peer-declined
	touch "$TMP/enough"
	wait_end client
	stop plain
	[ "$(sum client lifted)" -eq 0 ]
	grep -q '"peer-declined":20' "$TMP/client.stats"
	# tries of one connection, not of twenty
	[ "$(grep -c "RDMA try" "$TMP/client.log")" -le 30 ]
}

# None of them lives for as many tries as tell that nothing answers.
@test "strangers: short connections count together" {
	local short=$BATS_TEST_DIRNAME/py/short_lives.py
	plain "$B"
	on_start "$A" client timeout 300 "$PY" "$short" 10.99.0.2 7907 0.6 \
		"$TMP/enough"
	until_true 60 stay peer 1 peer-declined
	touch "$TMP/enough"
	wait_end client
	stop plain
	[ "$(grep -c "RDMA try" "$TMP/client.log")" -le 30 ]
}

# Each connection waits for those in front of it, for longer than one alone is
# looked for at least.
@test "strangers: a burst to a peer that is slow is met, all of it" {
	# on a busy machine writers would go on over TCP for a while
	ON=(LIBSDP_STALL_MS=60000 FAKE_SLOW=500)
	on_start "$B" server "$PY" "$MANY" prefork 7901 1
	ready 7901
	ON=(LIBSDP_STALL_MS=60000)
	on_start "$A" client timeout 300 "$PY" "$MANY" client 10.99.0.2 7901 \
		40 20 until "$TMP/enough"
	until_true 60 over 7901 80 1000
	touch "$TMP/enough"
	wait_end client
	stop server
	[ "$(sum client lifted)" -eq 40 ]
	[ "$(sum server lifted)" -eq 40 ]
}

# None of them gives up while the first one, that tries for all, is held up.
@test "strangers: a burst waits for its first" {
	touch "$TMP/hold"
	ON=(LIBSDP_STALL_MS=60000)
	on_start "$B" server "$PY" "$MANY" prefork 7901 1
	ready 7901
	ON+=("FAKE_HOLD=$TMP/hold")
	on_start "$A" client timeout 300 "$PY" "$MANY" client 10.99.0.2 7901 \
		20 20 until "$TMP/enough"
	until_true 120 test -e "$TMP/hold.waits"
	sleep 12
	rm "$TMP/hold"
	until_true 60 over 7901 40 1000
	touch "$TMP/enough"
	wait_end client
	stop server
	[ "$(sum client lifted)" -eq 20 ]
	[ "$(sum server lifted)" -eq 20 ]
}

# A server of such a port got it from root, and has no right to another.
@test "ports: below 1024, and the server is not root" {
	local TMP
	# where every user may read the library and write the statistics
	ROOM=$(mktemp -d /tmp/libsdp-ports.XXXXXX)
	TMP=$ROOM
	chmod 1777 "$ROOM"
	hosts_library
	lifted 81 6 dropped 81 3
}

@test "memory: more under load, 64 KiB at most in silence, and more again" {
	local digest=$BATS_TEST_DIRNAME/py/digest_echo.py
	# on a busy machine a writer would soon go on over TCP, for a while
	ON=(LIBSDP_STALL_MS=60000)
	on_start "$B" server "$PY" "$digest" server 7905
	ready 7905
	on_start "$A" client timeout 200 "$PY" "$digest" client 10.99.0.2 7905 \
		500 rest "$TMP"
	until_true 120 shown registered 7905 2 65537 10000000
	# both ends have large ones, and say so
	until_true 120 grep -q 'receives of 69632 bytes' "$TMP/client.log"
	until_true 120 grep -q 'receives of 69632 bytes' "$TMP/server.log"
	touch "$TMP/rest"
	until_true 120 shown registered 7905 2 1 65536
	grep -q 'receives of 8192 bytes' "$TMP/client.log"
	grep -q 'receives of 8192 bytes' "$TMP/server.log"
	touch "$TMP/on"
	wait_end client
	wait_end server
	[ "$(sum client lifted)" -eq 1 ]
	[ "$(sum client fallbacks)" -eq 0 ]
}

@test "credentials: what was opened with others is opened anew" {
	local drop=$BATS_TEST_DIRNAME/py/drop.py
	on_start "$B" server "$PY" "$drop" server 7906
	ready 7906
	on_start "$A" client timeout 200 "$PY" "$drop" client 10.99.0.2 7906 \
		"$TMP"
	until_true 30 over 7906 2
	touch "$TMP/drop"
	until_true 30 grep -q "other credentials" "$TMP/server.log"
	# lifted again, and a new one
	until_true 60 over 7906 2
	touch "$TMP/second"
	until_true 60 over 7906 4
	touch "$TMP/enough"
	wait_end client
	wait_end server
	[ "$(grep -c "other credentials" "$TMP/server.log")" -eq 1 ]
}

@test "strangers: requests of those that have no connection" {
	on_start "$B" server "$PY" "$MANY" prefork 7903 1
	ready 7903
	# a candidate whose peer does not dial: it listens
	ip netns exec "$A" "$PY" "$MANY" client 10.99.0.2 7903 1 100 until \
		"$TMP/asked" 3>&- &
	PID["plain"]=$!
	until_true 30 b_listens $((7903 ^ 0x4000))
	local port
	port=$(ip netns exec "$B" ss -Htn state established "sport = :7903" |
		awk '{ n = split($4, a, ":"); print a[n] }')
	ip netns exec "$A" "$PY" "$BATS_TEST_DIRNAME/py/stranger.py" \
		10.99.0.2 7903 "$port" 200
	# and an end that has one is heard as before
	on_start "$A" client timeout 300 "$PY" "$MANY" client 10.99.0.2 7903 3 \
		100 until "$TMP/enough"
	until_true 120 over 7903 6 1000
	touch "$TMP/asked" "$TMP/enough"
	wait_end client
	wait_end plain
	stop server
	[ "$(sum client lifted)" -eq 3 ]
	[ "$(sum server lifted)" -eq 3 ]
}
