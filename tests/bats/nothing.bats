#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Being there costs nothing: programs that no rule concerns behave as without
# the library. Same output, same exit codes, no thread, no descriptor, no file.

load helpers

setup() {
	LIB=("LD_PRELOAD=$LIBSDP" "LIBSDP_STATS_FILE=$STATS")
	if [ -n "${SDP_BATS_PLAIN-}" ]; then
		LIB=()
	else
		need_library
	fi
}

teardown() {
	stop_all
}

# alike COMMAND...: the same stdout, stderr and status with and without.
alike() {
	local a=0 b=0
	env timeout 200 "$@" >"$TMP/a.out" 2>"$TMP/a.err" </dev/null || a=$?
	env "${LIB[@]}" timeout 200 "$@" >"$TMP/b.out" 2>"$TMP/b.err" \
		</dev/null || b=$?
	[ "$a" -eq "$b" ] || fail "$*: status $b instead of $a"
	cmp "$TMP/a.out" "$TMP/b.out"
	# curl tells how long it tried
	sed -i 's/ after [0-9]* ms: / after some ms: /' "$TMP"/[ab].err
	cmp "$TMP/a.err" "$TMP/b.err"
}

@test "ordinary programs" {
	alike true
	alike false
	alike echo hello
	alike ls -l /usr/share
	alike cat /etc/services
	alike sh -c 'exit 7'
	alike sh -c 'kill -9 $$'
	alike sh -c 'kill -SEGV $$'
	alike bash -c 'seq 100000 | sort -r | md5sum; exit 3'
	alike bash -c 'cat < /dev/tcp/127.0.0.1/1'
	alike grep -r root /etc/passwd
	alike "$PY" -c 'print("hi"); raise SystemExit(4)'
	alike "$PY" -c 'import subprocess; print(subprocess.run(["id"]))'
	# shellcheck disable=SC2016 # perl's, not the shell's
	alike perl -e 'print join(",", map { $_ * 2 } 1..1000); exit 5'
	alike env -i /bin/echo nothing
	alike find /usr/lib/os-release -newer /nonexistent
	alike tar -cf - /etc/hostname
	alike dd if=/dev/zero bs=1000 count=1000 status=none
	alike id
	alike openssl dgst -sha256 /etc/passwd
}

@test "programs that use unix and datagram sockets" {
	alike "$PY" - <<'END'
import socket
a, b = socket.socketpair()
a.sendall(b"x" * 1000)
print(len(b.recv(2000)))
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(("127.0.0.1", 0))
u.sendto(b"hello", u.getsockname())
print(u.recv(100))
END
	alike getent hosts localhost
	alike curl -sS http://127.0.0.1:1/
}

# The rules are read when the library starts; nothing else is opened.
@test "what the preload adds to true: no socket, no thread, no file" {
	need strace
	strace -f -o "$TMP/a" true
	strace -f -E "LD_PRELOAD=${LIB[0]#LD_PRELOAD=}" -o "$TMP/b" true
	refuse grep -E 'socket\(|clone3?\(|memfd|shm' "$TMP/b"
	[ "$(grep -c 'openat(.*O_WRONLY\|O_RDWR\|O_CREAT' "$TMP/b")" -eq \
		"$(grep -c 'openat(.*O_WRONLY\|O_RDWR\|O_CREAT' "$TMP/a")" ]
	[ ! -e "$STATS" ]
}

# shape PID: number of threads, numbers of descriptors, shared memory mapped.
shape() {
	find "/proc/$1/task" -mindepth 1 -maxdepth 1 | wc -l
	find "/proc/$1/fd" -mindepth 1 -printf '%f\n' | sort -n | tr '\n' ' '
	echo
	grep -cE 'memfd|/dev/shm' "/proc/$1/maps" || :
	awk '/^(SigCgt|SigIgn|SigBlk)/' "/proc/$1/status"
}

# A server that has served, and still serves: same threads and descriptors.
shape_of() {
	local name=$1 port=$2
	shift 2
	server "$name" "$@"
	wait_port "$port"
	for _ in 1 2 3; do
		"$PY" - "$port" <<'END'
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for _ in range(100):
    s.sendall(b"*1\r\n$4\r\nPING\r\n")
    assert s.recv(100)
# the server has closed its end, too
s.shutdown(socket.SHUT_WR)
assert s.recv(100) == b""
END
	done
	until_true 5 quiet "${PID[$name]}"
	shape "${PID[$name]}" >"$TMP/$MODE.shape"
	stop "$name"
}

quiet() {
	local a b
	a=$(ls "/proc/$1/fd") && tick && b=$(ls "/proc/$1/fd") && [ "$a" = "$b" ]
}

@test "a server that stays on TCP has no thread and no descriptor more" {
	need redis-server
	PORT=$(free_port)
	mode plain
	shape_of redis "$PORT" redis-server --port "$PORT" --bind 127.0.0.1 \
		--save '' --dir "$TMP"
	mode norule
	shape_of redis "$PORT" redis-server --port "$PORT" --bind 127.0.0.1 \
		--save '' --dir "$TMP"
	# but a page, since it listens: by that it can be told of other rules
	[ "$MODE" = plain ] || diff <(head -n 2 "$TMP/plain.shape") \
		<(head -n 2 "$TMP/norule.shape")
	# a peer without the library: the same
	mode half
	shape_of redis "$PORT" redis-server --port "$PORT" --bind 127.0.0.1 \
		--save '' --dir "$TMP"
	[ "$MODE" = plain ] || diff <(head -n 2 "$TMP/plain.shape") \
		<(head -n 2 "$TMP/half.shape")
}

# All pages, sorted; one of before is never ours, whatever process it belonged to.
pages() {
	find /dev/shm -name 'libsdp.*' | sort
}

# Pages of processes that are gone; those of the living are their business.
orphans() {
	local f pid
	for f in /dev/shm/libsdp.[0-9]*; do
		pid=${f#/dev/shm/libsdp.}
		[ ! -e "$f" ] || [ -d "/proc/${pid%%.*}" ] || echo "$f"
	done | sort
}

@test "nothing is left in /dev/shm" {
	mode now
	pages >"$TMP/before"
	client "$SDP_PROGS/stream" -p exec turns
	client "$SDP_PROGS/stream" -p fork turns
	none_more() {
		orphans >"$TMP/after"
		[ -z "$(comm -13 "$TMP/before" "$TMP/after")" ]
	}
	until_true 3 none_more
}

# The fates are in tests/progs/leaks.c, which looks at descriptors, threads,
# mappings and memory of both ends; what lies in /dev/shm is looked at here.
leak_loop() {
	mode now
	with "$@"
	pages >"$TMP/before"
	LIMIT=500 client "$SDP_PROGS/leaks" -p exec -w 0 -n "$SCALE" many
	client "$SDP_PROGS/leaks" some
	client "$SDP_PROGS/stream" -p fork turns # sweeps behind the killed
	orphans >"$TMP/after"
	[ -z "$(comm -13 "$TMP/before" "$TMP/after")" ]
	# half of these short lives usually; fewer on a busy machine
	[ "$MODE" = plain ] || [ "$(stat_sum leaks lifted)" -gt \
		$((30 * SCALE)) ] || fail "few were lifted"
}

@test "10,000 connections of every fate: nothing is left behind" {
	SCALE=50 leak_loop LIBSDP_LIFT_AFTER_MESSAGES=2 \
		LIBSDP_LIFT_AFTER_BYTES=100000000
}

@test "2,000 connections that are to be lifted at once: nothing is left" {
	SCALE=10 leak_loop
}

@test "1,000 connections to a peer without the library: nothing is left" {
	mode now
	client "$SDP_PROGS/leaks" -p plain -w 0 -n 5 many
	client "$SDP_PROGS/leaks" -p plain -w 0 -n 5 -r many
}

@test "an empty, a missing and a wrong LD_PRELOAD neighbour" {
	alike env "LD_PRELOAD=${LIB[0]#LD_PRELOAD=} " echo hello
	run env "LD_PRELOAD=$LIBSDP:$LIBSDP" echo twice
	[ "$status" -eq 0 ]
	[ -n "${SDP_BATS_PLAIN-}" ] || [ "$output" = twice ]
}
