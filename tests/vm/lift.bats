#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Streams lifted over RDMA between two hosts: servers on node 1, clients on
# node 2 (SDP_HOST, SDP_CLIENT_ON, SDP_SHARED), and what may happen to them.

# shellcheck disable=SC2030,SC2031 # each test has a port of its own
load lib
load streams

setup() {
	need redis-server redis-benchmark qperf openssl
	until_true 30 busybox ping -c 1 -W 1 "$VM_ADDR4_2"
}

teardown() {
	stop_all
	vm_restore
}

redis_serve() {
	PORT=$(free_port)
	server redis redis-server --port "$PORT" --bind "$HOST" --save '' \
		--appendonly no --protected-mode no --dir "$TMP"
	wait_port "$PORT"
}

# redis_load ARGUMENT...: benchmark without an error.
redis_load() {
	client redis-benchmark -h "$HOST" -p "$PORT" -t set,get --csv "$@" \
		>"$TMP/bench" 2>"$TMP/bench.err"
	[ "$(grep -c '^"[GS]ET' "$TMP/bench")" -eq 2 ]
	refuse grep -qi error "$TMP/bench" "$TMP/bench.err"
}

@test "lift: the case itself, without the library" {
	between plain
	duplex_serve
	duplex 4
	duplex_end
}

@test "lift: both ways at once, every byte in its place" {
	between lifted
	# where all is slow a reader may be away for longer than 20 ms
	with LIBSDP_STALL_MS=2000
	duplex_serve
	duplex 32
	duplex_end
	proof $((32 << 19)) python3
}

@test "lift: the server's end dials" {
	between lifted
	duplex_serve 62003
	duplex 4 2
	duplex_end
	proof 100000 python3
}

@test "lift: qperf tcp_lat" {
	local seconds
	between lifted
	PORT=$(free_port)
	server qperf qperf --listen_port "$PORT"
	wait_port "$PORT"
	# how long the two ends take to meet is the machine's business
	for seconds in 2 10 50; do
		client qperf --listen_port "$PORT" "$HOST" -t $seconds tcp_lat \
			>"$TMP/out"
		grep -A 1 '^tcp_lat:' "$TMP/out" | grep -qE '= +[1-9][0-9.,]* '
		[ "$(stat_sum qperf bytes_sdp_tx)" -lt 100 ] || break
	done
	stop qperf
	proof 100 qperf
}

@test "lift: qperf sdp_bw and sdp_lat, of the old address family" {
	between lifted
	PORT=$(free_port)
	server qperf qperf --listen_port "$PORT"
	wait_port "$PORT"
	client qperf --listen_port "$PORT" "$HOST" -t 10 sdp_bw sdp_lat \
		>"$TMP/out"
	[ "$(grep -cE '(bw|latency) += +[1-9]' "$TMP/out")" -eq 2 ]
	stop qperf
	proof 1000 qperf
}

@test "lift: redis, one client and many" {
	between lifted
	redis_serve
	redis_load -n 1000 -c 1
	redis_load -n 4000 -c 20
	stop redis
	proof 100000 redis-server redis-benchmark
}

# lifts PROGRAM N: so many of its connections were lifted so far.
lifts() {
	sdpstat --json | "$PY" -c '
import json, sys
assert sum(p["lifted"] for p in json.load(sys.stdin)
           if p["program"] == sys.argv[1]) >= int(sys.argv[2])' "$@"
}

# It goes on until all are lifted: how long the last one's turn takes to come is
# for the machine to say.
@test "lift: two hundred connections at once" {
	between lifted
	with LIBSDP_LIFT_AFTER_MESSAGES=4
	redis_serve
	start_on 2 bench env "${CLIENT_ENV[@]}" redis-benchmark -h "$HOST" \
		-p "$PORT" -t set --csv -n 100000000 -c 200
	until_true 40 lifts redis-server 200
	stop bench
	stop redis
	until_true 5 stat_lines redis-server
	[ "$(stat_sum redis-server lifted)" -ge 200 ]
	proof 10000 redis-server
}

# many CONNECTIONS COUNT SERVER...: several processes serve the port.
many() {
	local connections=$1 count=$2
	shift 2
	between lifted
	with LIBSDP_LIFT_AFTER_MESSAGES=4
	PORT=$(free_port)
	server many "$PY" "$MANY" "$1" "$PORT" "${@:2}"
	wait_port "$PORT"
	client "$PY" "$MANY" client "$HOST" "$PORT" "$connections" "$count"
	stop many
	until_true 5 stat_lines python3 2
	[ "$(stat_sum python3 lifted)" -ge $((2 * connections - 2)) ]
}

@test "lift: workers that share a listener" {
	many 6 150 prefork 2
}

@test "lift: a server that forks for each connection" {
	many 4 150 forking
}

# Each fork brings it back to TCP, and is counted if it was lifted.
@test "lift: a client that forks now and then is lifted again" {
	between lifted
	PORT=$(free_port)
	server talk "$PY" "$TALK" server "$PORT"
	wait_port "$PORT"
	client "$PY" "$TALK" client "$HOST" "$PORT" 300 forks 6 3
	wait_end talk
	[ "$(stat_sum python3 fallbacks)" -ge 4 ]
	proof 100000 python3
}

@test "lift: the peer has no library" {
	local m
	for m in half half2; do
		between "$m"
		duplex_serve
		duplex 4
		duplex_end
		assert_not_lifted
	done
}

@test "lift: the peer has no RDMA device" {
	rdma_del 1
	between lifted
	duplex_serve
	duplex 4
	duplex_end
	assert_not_lifted
}

@test "lift: the client has no RDMA device" {
	rdma_del 2
	between lifted
	duplex_serve
	duplex 4
	duplex_end
	assert_not_lifted
}

@test "lift: packets are lost and come in disorder" {
	netem 1 loss 1% delay 1ms 1ms reorder 10%
	netem 2 loss 1%
	between lifted
	duplex_serve
	duplex 2 2
	duplex_end
	proof 100000 python3
	[ "$(dropped 1)" -gt 0 ]
}

# killed NODE-OF-THE-KILLED: the other end is told, soon.
killed() {
	between lifted
	duplex_serve
	start_on 2 cl env "${CLIENT_ENV[@]}" "$PY" "$DUPLEX" client "$HOST" \
		"$PORT" 4000
	until_true 60 grep -q begun "$TMP/cl.out"
	tick
}

@test "lift: the server is killed in mid-stream" {
	killed
	kill -KILL "${PID[duplex]}"
	wait_end cl 10 && fail "the client took it for a good end"
	tail -n 1 "$TMP/cl.err" | grep -qE 'early|Reset|reset|Broken'
}

@test "lift: the client is killed in mid-stream" {
	killed
	signal_on 2 cl KILL
	wait_end duplex 10 && fail "the server took it for a good end"
	tail -n 1 "$TMP/duplex.err" | grep -qE 'early|Reset|reset|Broken'
}

@test "lift: a spin on an emulated processor does not pause" {
	LD_PRELOAD=$SDP_BUILD/.libs/libsdp.so LIBSDP_LOG=1:stderr env true \
		2>"$TMP/log"
	if grep -q 'QEMU TCG' /proc/cpuinfo; then
		grep -q 'spins do not pause' "$TMP/log"
	else
		refuse grep -q 'spins do not pause' "$TMP/log"
	fi
}
