#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Daemons, each for something that only its kind of program does.

load helpers

teardown() {
	stop_all
}

# qemu sets SO_ZEROCOPY on each connection, to see whether it could.
disk() {
	mode "$1"
	need qemu-nbd qemu-img openssl
	random_file "$TMP/disk" 100663296
	PORT=$(free_port)
	server nbd qemu-nbd -t -f raw -b 127.0.0.1 -p "$PORT" "$TMP/disk"
	wait_port "$PORT"
	client qemu-img convert -f raw -O raw "nbd://127.0.0.1:$PORT" \
		"$TMP/copy"
	same "$TMP/disk" "$TMP/copy"
	client qemu-img bench -c 2000 -d 8 -s 4k -w --pattern=7 -f raw \
		"nbd://127.0.0.1:$PORT" >"$TMP/bench"
	head -c 8192000 /dev/zero | tr '\0' '\7' | cmp -n 8192000 - "$TMP/disk"
	stop nbd
	silent nbd
	proof 20000000 qemu-img qemu-nbd
}

@test "a disk over the network: plain" {
	disk plain
}

@test "a disk over the network: lifted" {
	disk lifted
}

# Of some 5500 turns of 4 bytes, at most the first 500 may go by TCP.
forks() {
	mode "$1"
	client "$PY" "$BATS_TEST_DIRNAME/py/forks.py" "$2" >"$TMP/out"
	[ "$(cat "$TMP/out")" = "done" ]
	[ "$MODE" = plain ] || stat_lines python3 2
	proof 40000 python3
}

@test "a server that forks: plain" {
	forks plain first
	forks plain execs
	forks plain fails
	forks plain ends
}

@test "a child that executes another program holds nothing" {
	forks lifted first
}

@test "40 children that execute other programs hold nothing" {
	forks lifted execs
}

@test "a child that fails to execute another program holds on" {
	forks lifted fails
}

@test "40 children that ended hold nothing" {
	forks lifted ends
}

# The process that had the connection ends with it open; the outer one lives on.
early_fork() {
	mode "$1"
	client "$PY" "$BATS_TEST_DIRNAME/py/early_fork.py" >"$TMP/out"
	[ "$(cat "$TMP/out")" = "done" ]
	proof 10000 python3
}

@test "a server that forks before its first socket: plain" {
	early_fork plain
}

@test "a server that forks before its first socket: lifted" {
	early_fork lifted
}

# nginx and its like: a receive that brought less than asked for was the last
# one; the end comes by itself.
edges() {
	mode "$1"
	client "$PY" "$BATS_TEST_DIRNAME/py/edges.py" >"$TMP/out"
	[ "$(cat "$TMP/out")" = "done" ]
	proof 1000000 python3
}

@test "uploads to a reader of edges: plain" {
	edges plain
}

@test "uploads to a reader of edges: lifted" {
	edges lifted
}

@test "uploads to a reader of edges: lifted from the first message" {
	edges now
}

child_says() {
	local py=$BATS_TEST_DIRNAME/py/child_says.py
	mode "$1"
	PORT=$(free_port)
	server says "$PY" "$py" server "$PORT"
	wait_port "$PORT"
	client timeout 60 "$PY" "$py" client 127.0.0.1 "$PORT" 2000
	wait "${PID[says]}"
	unset "PID[says]"
	silent says
	proof 100000 python3
}

@test "a program that a vfork() child executes writes to the socket: plain" {
	child_says plain
}

@test "a program that a vfork() child executes writes to the socket: lifted" {
	child_says lifted
}
