#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# redis-server under redis-cli and redis-benchmark.

load helpers

setup() {
	need redis-server redis-cli redis-benchmark openssl
}

teardown() {
	stop_all
}

cli() {
	client redis-cli -h "$HOST" -p "$PORT" "$@"
}

start_redis() {
	PORT=$(free_port)
	server redis redis-server --port "$PORT" --bind "$HOST" --save '' \
		--appendonly no --protected-mode no --daemonize no \
		--dir "$TMP" "$@"
	wait_port "$PORT"
}

stop_redis() {
	stop redis
	grep -q 'Redis is now ready to exit, bye bye' "$TMP/redis.out"
}

# A value of a megabyte there and back, then small ones in a pipe.
values() {
	random_file "$TMP/big" 1000000
	[ "$(cli ping)" = PONG ]
	[ "$(cli -x set big <"$TMP/big")" = OK ]
	cli --raw get big >"$TMP/big.back"
	truncate -s -1 "$TMP/big.back" # the newline of redis-cli
	same "$TMP/big" "$TMP/big.back"
	for i in {1..5000}; do
		echo "SET key:$i value-$i"
	done >"$TMP/commands"
	cli --pipe <"$TMP/commands" >"$TMP/pipe.out"
	grep -q 'errors: 0, replies: 5000' "$TMP/pipe.out"
	[ "$(cli dbsize)" = 5001 ]
	[ "$(cli get key:4711)" = value-4711 ]
	# one connection, many turns
	for i in {1..500}; do
		echo "GET key:$i"
	done | cli >"$TMP/gets"
	for i in {1..500}; do
		echo "value-$i"
	done | cmp - "$TMP/gets"
}

bench() {
	client redis-benchmark -h "$HOST" -p "$PORT" --csv "$@" \
		>"$TMP/bench" 2>"$TMP/bench.err"
	[ "$(grep -c '^"[GS]ET' "$TMP/bench")" -eq 2 ]
	refuse grep -qi error "$TMP/bench" "$TMP/bench.err"
}

pubsub() {
	background sub redis-cli -h "$HOST" -p "$PORT" subscribe news
	until_true 5 grep -q subscribe "$TMP/sub.out"
	for i in {1..300}; do
		echo "PUBLISH news item-$i"
	done | cli >"$TMP/pub"
	[ "$(grep -c '^1$' "$TMP/pub")" -eq 300 ]
	until_true 5 grep -q '^item-300$' "$TMP/sub.out"
	[ "$(grep -c '^item-' "$TMP/sub.out")" -eq 300 ]
	grep '^item-' "$TMP/sub.out" | cmp - <(printf 'item-%d\n' {1..300})
}

scenario() {
	mode "$1"
	start_redis
	values
	bench -t get,set -n 5000 -c 1
	bench -t get,set -n 5000 -c 20
	bench -t get,set -n 20000 -c 20 -P 16
	bench -t get,set -n 2000 -c 10 -d 20000
	pubsub
	stop sub
	stop_redis
	proof 500000 redis-server redis-benchmark
	proof 10000 redis-cli
}

@test "redis: plain" {
	scenario plain
}

@test "redis: both ends preloaded" {
	scenario lifted
}

@test "redis: lifted from the first message" {
	scenario now
}

@test "redis: no rule concerns it" {
	scenario norule
}

@test "redis: only the server preloaded" {
	scenario half
}

@test "redis: only the clients preloaded" {
	scenario half2
}

@test "redis: several I/O threads" {
	mode lifted
	start_redis --io-threads 2 --io-threads-do-reads yes
	bench -t get,set -n 5000 -c 20 -P 8
	bench -t get,set -n 2000 -c 20 -d 10000
	stop_redis
	proof 500000 redis-server redis-benchmark
}

@test "redis: a saving child does not disturb lifted clients" {
	mode now
	start_redis
	for i in {1..2000}; do
		echo "SET key:$i value-$i"
	done | cli >"$TMP/sets"
	{
		for i in {1..200}; do echo "GET key:$i"; done
		echo BGSAVE
		for i in {201..1500}; do echo "GET key:$i"; done
	} | cli >"$TMP/gets"
	grep -v Background "$TMP/gets" | cmp - <(printf 'value-%d\n' {1..1500})
	until_true 10 test -s "$TMP/dump.rdb"
	stop_redis
	proof 1000 redis-server redis-cli
}

@test "redis: blocking pop, time-outs and killed clients" {
	mode lifted
	start_redis
	for i in {1..200}; do
		echo "GET nothing"
	done >"$TMP/warm"
	{
		cat "$TMP/warm"
		echo "BLPOP nobody 1"
		echo "BLPOP queue 20"
		echo "PING"
	} >"$TMP/commands"
	background pop redis-cli -h "$HOST" -p "$PORT" <"$TMP/commands"
	until_true 10 sh -c "redis-cli -h $HOST -p $PORT info clients |
		grep -q blocked_clients:1"
	[ "$(cli lpush queue item)" = 1 ]
	wait_end pop 10
	grep -q '^item$' "$TMP/pop.out"
	grep -q '^PONG$' "$TMP/pop.out"
	# a client that is killed must leave the server's table
	background sub redis-cli -h "$HOST" -p "$PORT" subscribe x
	until_true 5 grep -q subscribe "$TMP/sub.out"
	kill -KILL "$(children "${PID[sub]}")"
	until_true 5 sh -c "[ \"\$(redis-cli -h $HOST -p $PORT pubsub numsub x |
		tail -n 1)\" = 0 ]"
	stop_redis
	proof 1000 redis-server redis-cli
}
