#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The programs of the main job between two hosts: servers on node 1, clients on
# node 2 (SDP_HOST, SDP_CLIENT_ON, SDP_SHARED), both under the library, their
# contents checked, and the clients' own counters as proof that bytes went over
# RDMA: they have no other way than that and TCP. Each stream lasts long enough
# to be lifted: that takes a second or two where all is emulated.

# shellcheck disable=SC2030,SC2031 # each test has a port of its own
load lib
load streams
# shellcheck source=tests/bats/web.bash
load ../bats/web

setup() {
	need redis-server redis-cli redis-benchmark nginx curl wrk iperf3 jq \
		socat nc node memcached haproxy sockperf qperf openssl
	until_true 30 busybox ping -c 1 -W 1 "$VM_ADDR4_2"
	setting
}

setting() {
	between lifted
	# where all is slow a reader may be away for long
	with LIBSDP_STALL_MS=2000
}

teardown() {
	stop_all
	vm_restore
}

# longer BYTES PROGRAM COMMAND...: COMMAND, then SECONDS, and again for longer
# until that program has moved so many bytes over RDMA: how soon a stream is
# lifted is time.
longer() {
	local bytes=$1 program=$2 seconds
	shift 2
	for seconds in 5 15 45; do
		"$@" "$seconds"
		if assert_lifted "$program" "$bytes"; then
			return 0
		fi
	done
	return 1
}

# slowly MBIT: the link carries no more than that, so a stream lasts.
slowly() {
	netem 1 rate "$1mbit" limit 20000
	netem 2 rate "$1mbit" limit 20000
}

# sets_and_gets SECONDS: or so.
sets_and_gets() {
	client redis-benchmark -h "$HOST" -p "$PORT" -t set,get --csv \
		-n "$((1200 * $1))" -c 20 -P 4 >"$TMP/bench" 2>"$TMP/bench.err"
	[ "$(grep -c '^"[GS]ET' "$TMP/bench")" -eq 2 ]
	refuse grep -qi error "$TMP/bench" "$TMP/bench.err"
}

@test "programs: redis" {
	local i
	PORT=$(free_port)
	server redis redis-server --port "$PORT" --bind "$HOST" --save '' \
		--appendonly no --protected-mode no --dir "$TMP"
	wait_port "$PORT"
	random_file "$TMP/big" 1000000
	client redis-cli -h "$HOST" -p "$PORT" -x set big <"$TMP/big"
	client redis-cli -h "$HOST" -p "$PORT" --raw get big >"$TMP/back"
	truncate -s -1 "$TMP/back" # the newline of redis-cli
	same "$TMP/big" "$TMP/back"
	for i in {1..1500}; do
		echo "SET key:$i value-$i"
		echo "GET key:$i"
	done | client redis-cli -h "$HOST" -p "$PORT" >"$TMP/gets"
	grep -v OK "$TMP/gets" | cmp - <(printf 'value-%d\n' {1..1500})
	longer 10000 redis-benchmark sets_and_gets
	stop redis
	proof 10000 redis-server redis-cli redis-benchmark
}

# pages URL SECONDS: on six connections at once.
pages() {
	client wrk -t 1 -c 6 -d "$2s" --timeout 100s "$1" >"$TMP/wrk"
	refuse grep -E 'Non-2xx|Socket errors' "$TMP/wrk"
}

@test "programs: nginx, curl and wrk" {
	local i
	www
	start_nginx on
	client curl -sS --fail "http://$HOST:$PORT/f[1-40]" \
		-o "$TMP/got#1"
	for i in {1..40}; do
		cmp "$TMP/www/f$i" "$TMP/got$i"
	done
	slowly 60
	client curl -sS --fail "http://$HOST:$PORT/huge" -o "$TMP/huge"
	same "$TMP/www/huge" "$TMP/huge"
	longer 10000 wrk pages "http://$HOST:$PORT/page"
	stop_nginx
	proof 1000000 nginx curl
}

# iperf ARGUMENT... SECONDS: against a server that serves once.
iperf() {
	PORT=$(free_port)
	server iperf3 iperf3 -s -1 -B "$HOST" -p "$PORT"
	wait_port "$PORT"
	client iperf3 -c "$HOST" -p "$PORT" -J "$@" >"$TMP/json"
	wait_end iperf3 20
	[ "$(jq -r .error "$TMP/json")" = null ]
	[ "$(jq .end.sum_received.bytes "$TMP/json")" -ge 1000000 ]
}

# each_way N ARGUMENT...: with statistics of its own.
each_way() {
	# shellcheck disable=SC2034 # modes and proofs use it
	STATS=$TMP/stats.$1
	shift
	setting
	longer 1000000 iperf3 iperf "$@"
}

@test "programs: iperf3, one way, the other, both, and four streams" {
	each_way 1 -t
	each_way 2 -R -t
	each_way 3 --bidir -t
	each_way 4 -P 4 -t
}

@test "programs: socat and netcat" {
	local front
	slowly 100
	random_file "$TMP/file" 48000000
	PORT=$(free_port)
	server sink socat "TCP-LISTEN:$PORT,bind=$HOST" EXEC:sha256sum
	wait_port "$PORT"
	front=$(free_port)
	server relay socat -t 60 "TCP-LISTEN:$front,bind=$HOST" \
		"TCP:$HOST:$PORT"
	wait_port "$front"
	client socat -t 60 STDIO "TCP:$HOST:$front" <"$TMP/file" >"$TMP/sum"
	wait_end relay
	wait_end sink
	[ "$(cut -d ' ' -f 1 "$TMP/sum")" = \
		"$(sha256sum <"$TMP/file" | cut -d ' ' -f 1)" ]
	proof 1000000 socat
	# both ways at once, each end half-closes when its file is out
	random_file "$TMP/down" 24000000
	PORT=$(free_port)
	INPUT=$TMP/down server nc nc -l -N "$HOST" "$PORT"
	wait_port "$PORT"
	client nc -N "$HOST" "$PORT" <"$TMP/file" >"$TMP/got"
	wait_end nc
	same "$TMP/file" "$TMP/nc.out"
	same "$TMP/down" "$TMP/got"
	proof 1000000 nc
}

@test "programs: python, http and its own sockets" {
	www
	PORT=$(free_port)
	server python "$PY" "$PYS/server.py" "$PORT" "$TMP/www"
	wait_port "$PORT"
	client "$PY" "$PYS/client.py" "$PORT" "$TMP/www" >"$TMP/out"
	[ "$(cat "$TMP/out")" = "all right" ]
	stop python
	PORT=$(free_port)
	server listen "$PY" "$PYS/sockets.py" listen "$PORT"
	wait_port "$PORT"
	client "$PY" "$PYS/sockets.py" connect "$PORT" >"$TMP/out"
	wait_end listen
	cmp "$TMP/out" "$TMP/listen.out"
	[ "$(grep -c '^ok' "$TMP/out")" -eq 9 ]
	proof 100000 python3
}

# Between hosts a fork brings the stream back to TCP for good, so without children.
@test "programs: node" {
	PORT=$(free_port)
	server node node "$PYS/../js/server.js" "$PORT"
	wait_port "$PORT" 60
	LIMIT=250 client node "$PYS/../js/client.js" "$PORT" alone \
		>"$TMP/out"
	[ "$(cat "$TMP/out")" = "all right" ]
	stop node
	[ ! -s "$TMP/node.err" ]
	proof 100000 node
}

@test "programs: memcached" {
	PORT=$(free_port)
	server memcached memcached -u root -l "$HOST" -p "$PORT" -t 2 -U 0 \
		-m 64
	wait_port "$PORT"
	client "$PY" "$PYS/memcache.py" "$PORT" >"$TMP/out"
	[ "$(cat "$TMP/out")" = "all right" ]
	stop memcached
	proof 100000 memcached python3
}

# Without splicing: a stream that is spliced in is not lifted between hosts.
@test "programs: haproxy in front of nginx" {
	www
	start_nginx on
	FRONT=$(free_port)
	cat >"$TMP/haproxy.cfg" <<END
global
	nbthread 2
	maxconn 200
defaults
	mode http
	timeout connect 20s
	timeout client 60s
	timeout server 60s
listen front
	bind $HOST:$FRONT
	server nginx $HOST:$PORT
END
	server haproxy haproxy -db -f "$TMP/haproxy.cfg"
	wait_port "$FRONT"
	slowly 60
	client curl -sS --fail "http://$HOST:$FRONT/huge" -o "$TMP/huge"
	same "$TMP/www/huge" "$TMP/huge"
	longer 10000 wrk pages "http://$HOST:$FRONT/page"
	stop haproxy USR1 30
	stop_nginx
	proof 1000000 curl
	proof 10000 haproxy nginx
}

# pong SECONDS, flood SECONDS
pong() {
	client sockperf ping-pong --tcp -i "$HOST" -p "$PORT" -t "$1" -m 64 \
		--mps=20000 >"$TMP/out" 2>"$TMP/err"
	grep -q '# dropped messages = 0; # duplicated messages = 0;' \
		"$TMP/out"
}

flood() {
	client sockperf throughput --tcp -i "$HOST" -p "$PORT" -t "$1" -m 1400 \
		>"$TMP/out" 2>"$TMP/err"
	grep -q 'Summary: Message Rate is' "$TMP/out"
}

@test "programs: sockperf" {
	PORT=$(free_port)
	server sockperf sockperf server --tcp -i "$HOST" -p "$PORT"
	wait_port "$PORT"
	longer 10000 sockperf pong
	longer 1000000 sockperf flood
	stop sockperf INT
}

# measure SECONDS: each prints its name and a figure that is not nought.
measure() {
	local t tests=(tcp_bw tcp_lat sdp_bw sdp_lat)
	client qperf --listen_port "$PORT" "$HOST" -t "$1" "${tests[@]}" \
		>"$TMP/out"
	for t in "${tests[@]}"; do
		grep -A 1 "^$t:" "$TMP/out" | grep -qE '= +[1-9][0-9.,]* '
	done
}

@test "programs: qperf, tcp and sdp" {
	PORT=$(free_port)
	server qperf qperf --listen_port "$PORT"
	wait_port "$PORT"
	longer 10000 qperf measure
	stop qperf
}
