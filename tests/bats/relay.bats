#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# socat and netcat: big files through relays, half-closed ends.

load helpers

setup() {
	need socat nc openssl
	MIB=1048576
}

teardown() {
	stop_all
}

# The sum of a file travels back over the connection that carried the file,
# after its sender has half-closed; a relay stands between.
socat_relay() {
	local size=$1 back=$2 front
	PORT=$(free_port)
	server sink socat "TCP-LISTEN:$PORT,bind=$HOST,reuseaddr" \
		"EXEC:sha256sum"
	wait_port "$PORT"
	front=$(free_port)
	server relay socat -t 60 \
		"TCP-LISTEN:$front,bind=$HOST,reuseaddr" \
		"TCP:$HOST:$PORT"
	wait_port "$front"
	random_file "$TMP/file" "$size"
	client socat -t 60 STDIO "TCP:$HOST:$front" \
		<"$TMP/file" >"$TMP/sum"
	wait_end relay "$back"
	wait_end sink "$back"
	[ "$(cut -d ' ' -f 1 "$TMP/sum")" = \
		"$(sha256sum <"$TMP/file" | cut -d ' ' -f 1)" ]
}

# netcat both ways: each end sends a file and half-closes when it is out.
nc_both() {
	PORT=$(free_port)
	random_file "$TMP/up" "$1"
	random_file "$TMP/down" $(($1 / 2))
	INPUT=$TMP/down server nc nc -l -N "$HOST" "$PORT"
	wait_port "$PORT"
	client nc -N "$HOST" "$PORT" <"$TMP/up" >"$TMP/down.got"
	wait_end nc 20
	same "$TMP/up" "$TMP/nc.out"
	same "$TMP/down" "$TMP/down.got"
}

scenario() {
	mode "$1"
	socat_relay $(($2 * MIB)) 30
	nc_both $((64 * MIB))
	# of four times as much: a reader that is kept from running, on a busy
	# machine, sends the stream by way of the kernel for a while
	proof $(($2 * MIB / 2)) socat
	proof $((32 * MIB)) nc
}

@test "relay: plain, 64 MiB" {
	scenario plain 64
}

@test "relay: everybody preloaded, 256 MiB" {
	scenario lifted 256
}

@test "relay: lifted from the first message, 64 MiB" {
	scenario now 64
}

@test "relay: no rule concerns it" {
	scenario norule 64
}

@test "relay: only the listening ends preloaded" {
	mode half
	socat_relay $((64 * MIB)) 30
	nc_both $((16 * MIB))
}

@test "relay: only the sending ends preloaded" {
	scenario half2 64
}

@test "relay: a forking socat with an executed filter on the socket" {
	# tr is executed with the connection itself as 0 and 1
	mode lifted
	PORT=$(free_port)
	server fork socat \
		"TCP-LISTEN:$PORT,bind=$HOST,reuseaddr,fork" \
		"EXEC:tr [\:lower\:] [\:upper\:],nofork"
	wait_port "$PORT"
	openssl enc -base64 -in /etc/passwd >"$TMP/text"
	for _ in {1..10}; do cat "$TMP/text"; done >"$TMP/in"
	tr '[:lower:]' '[:upper:]' <"$TMP/in" >"$TMP/want"
	for _ in 1 2 3; do
		client socat -t 20 STDIO "TCP:$HOST:$PORT" \
			<"$TMP/in" >"$TMP/out"
		same "$TMP/want" "$TMP/out"
	done
	stop fork
}
