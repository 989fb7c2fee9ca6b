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
	env timeout 20 "$@" >"$TMP/a.out" 2>"$TMP/a.err" </dev/null || a=$?
	env "${LIB[@]}" timeout 20 "$@" >"$TMP/b.out" 2>"$TMP/b.err" \
		</dev/null || b=$?
	[ "$a" -eq "$b" ] || fail "$*: status $b instead of $a"
	cmp "$TMP/a.out" "$TMP/b.out"
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
	alike openssl dgst -sha256 /etc/services
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
	[ "$MODE" = plain ] || diff "$TMP/plain.shape" "$TMP/norule.shape"
	# a peer without the library: the same
	mode half
	shape_of redis "$PORT" redis-server --port "$PORT" --bind 127.0.0.1 \
		--save '' --dir "$TMP"
	[ "$MODE" = plain ] || diff <(head -n 2 "$TMP/plain.shape") \
		<(head -n 2 "$TMP/half.shape")
}

# Pages of processes that are gone; those of the living are their business.
orphans() {
	local f pid
	for f in /dev/shm/libsdp.*; do
		pid=${f#/dev/shm/libsdp.}
		[ ! -e "$f" ] || [ -d "/proc/${pid%%.*}" ] || echo "$f"
	done
}

@test "nothing is left in /dev/shm" {
	mode now
	orphans >"$TMP/before"
	client "$SDP_PROGS/stream" -p exec turns
	client "$SDP_PROGS/stream" -p fork turns
	none_more() {
		orphans >"$TMP/after"
		[ -z "$(comm -13 "$TMP/before" "$TMP/after")" ]
	}
	until_true 3 none_more
}

@test "connections that end: no descriptor stays behind" {
	need curl "$PY"
	mode now
	PORT=$(free_port)
	cat >"$TMP/loop.py" <<'END'
import os, socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
before = sorted(os.listdir("/proc/self/fd"))
for i in range(500):
    a = socket.create_connection(listener.getsockname())
    b, _ = listener.accept()
    for k in range(5):
        a.sendall(b"abc" * (k + 1))
        assert b.recv(100) == b"abc" * (k + 1)
        b.sendall(b"x")
        assert a.recv(1) == b"x"
    (a if i % 2 else b).close()
    assert (b if i % 2 else a).recv(1) == b""
    (b if i % 2 else a).close()
# the service thread takes its descriptors along a moment after the last one
end = time.monotonic() + 3
while True:
    after = sorted(os.listdir("/proc/self/fd"))
    if before == after or time.monotonic() > end:
        break
    time.sleep(0.02)
print(before == after or (before, after))
END
	client "$PY" "$TMP/loop.py" "$PORT" >"$TMP/out"
	cat "$TMP/out" >&2
	[ "$(cat "$TMP/out")" = True ]
	proof 1000 python3
}

@test "an empty, a missing and a wrong LD_PRELOAD neighbour" {
	alike env "LD_PRELOAD=${LIB[0]#LD_PRELOAD=} " echo hello
	run env "LD_PRELOAD=$LIBSDP:$LIBSDP" echo twice
	[ "$status" -eq 0 ]
	[ -n "${SDP_BATS_PLAIN-}" ] || [ "$output" = twice ]
}
