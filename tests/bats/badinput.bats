#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Rule files that are none, logs that cannot be, limits, strangers on the
# rendezvous name, processes that stop or die: the program goes on, stdout is
# its own.

load helpers

setup() {
	need "$PY"
}

teardown() {
	stop_all
}

# talks NAME=VALUE...: a lifted conversation, all right, and stdout is exact.
talks() {
	local out
	out=$(client env "$@" "$SDP_PROGS/stream" -p exec turns small \
		2>"$TMP/talk.err") || {
		cat "$TMP/talk.err" >&2
		return 1
	}
	[ "$out" = "$(printf 'ok small\nok turns')" ] || fail "stdout: $out"
}

@test "rules: missing, empty name, directory, device, unreadable" {
	mode now
	mkdir "$TMP/dir"
	echo "use tcp client * *:*" >"$TMP/secret"
	chmod 0 "$TMP/secret"
	for f in "$TMP/missing" "" "$TMP/dir" /dev/null /dev/zero /dev/tty \
		"$TMP/secret" /proc/self/mem "$TMP/$(printf 'x%.0s' {1..300})"; do
		talks "LIBSDP_CONFIG_FILE=$f"
	done
	mkfifo "$TMP/fifo"
	talks "LIBSDP_CONFIG_FILE=$TMP/fifo"
}

@test "rules: malformed lines cost only themselves" {
	mode now
	cat >"$TMP/rules" <<'END'
use
use tcp
use tcp server
use tcp server stream
use wild server * *:*
use tcp nobody * *:*
use tcp server * 300.1.2.3:*
use tcp server * 1.2.3.4/99:*
use tcp server * *:70000
use tcp server * *:9-1
log
log destination
log min-level 99
set spin_us many
set no_such_setting 1
match whatever
use both server * *:*
use both client * *:*
END
	talks "LIBSDP_CONFIG_FILE=$TMP/rules"
	proof 1000 stream
	# a good rule behind bad ones holds
	sed -i 's/use both client/use tcp client/' "$TMP/rules"
	rm -f "$STATS"
	talks "LIBSDP_CONFIG_FILE=$TMP/rules"
	[ "$MODE" = plain ] || assert_not_lifted
}

@test "rules: binary, endless line, 100 MB" {
	mode now
	head -c 300000 /dev/urandom >"$TMP/rules"
	talks "LIBSDP_CONFIG_FILE=$TMP/rules"
	head -c 3000000 /dev/zero | tr '\0' x >"$TMP/rules"
	talks "LIBSDP_CONFIG_FILE=$TMP/rules"
	head -c 3000000 /dev/zero >"$TMP/rules"
	talks "LIBSDP_CONFIG_FILE=$TMP/rules"
	yes '# a comment that says nothing at all, again and again' |
		head -c 100000000 >"$TMP/rules"
	talks "LIBSDP_CONFIG_FILE=$TMP/rules"
	printf 'use both server * *:*\r\nuse both client * *:*\r\n' \
		>"$TMP/rules"
	talks "LIBSDP_CONFIG_FILE=$TMP/rules"
}

@test "environment: nonsense in every variable" {
	mode now
	talks LIBSDP_LIFT_AFTER_MESSAGES=many LIBSDP_SPIN_US=-1 \
		LIBSDP_PATH=nowhere LIBSDP_RING_MAX=99999999999999999999 \
		LIBSDP_USE=perhaps LIBSDP_LOG=loud LIBSDP_NO_SUCH_THING=1
	talks "LIBSDP_STATS_FILE=/nonexistent/dir/file"
	talks "LIBSDP_STATS_FILE=/"
	talks "LIBSDP_STATS_FILE="
	talks LIBSDP_RING_MAX=65536 LIBSDP_SPIN_US=0
}

@test "log: unwritable, a directory, full, a link, and every level" {
	mode now
	talks "LIBSDP_LOG=1:file /nonexistent/x/log"
	talks "LIBSDP_LOG=1:file "
	talks "LIBSDP_LOG=1:file /dev/full/"
	log=$TMP/libsdp-link-$$
	mkdir -p "$(dirname "$(log_file "$log")")" 2>/dev/null || :
	ln -s "$TMP/target" "$(log_file "$log")"
	talks "LIBSDP_LOG=1:file $log"
	[ ! -e "$TMP/target" ] # logs never follow links
	rm -f "$(log_file "$log")"
	log=$TMP/libsdp-bats-$$
	talks "LIBSDP_LOG=1:file $log"
	[ "$MODE" = plain ] || [ -s "$(log_file "$log")" ]
	rm -f "$(log_file "$log")"
	talks "LIBSDP_LOG=1:stderr"
	talks "LIBSDP_LOG=9:syslog"
}

@test "log on stderr that is closed, or is the program's socket" {
	mode now
	talks LIBSDP_LOG=1:stderr 2>&-
	client env LIBSDP_LOG=1:stderr "$SDP_PROGS/procs" -p exec inetd \
		>"$TMP/out" 2>/dev/null
	[ "$(cat "$TMP/out")" = "ok inetd" ]
}

@test "few descriptors" {
	mode now
	for n in 24 16 12 10; do
		bash -c "ulimit -n $n && exec \"\$@\"" - \
			env "${CLIENT_ENV[@]}" timeout 200 \
			"$SDP_PROGS/stream" -p fork turns small >"$TMP/out"
		[ "$(cat "$TMP/out")" = "$(printf 'ok small\nok turns')" ]
	done
}

@test "no room for files, little memory, no new processes" {
	mode now
	bash -c "ulimit -f 0 && exec \"\$@\"" - env "${CLIENT_ENV[@]}" \
		timeout 200 "$SDP_PROGS/stream" -p fork turns | cat >"$TMP/out"
	[ "$(cat "$TMP/out")" = "ok turns" ]
	bash -c "ulimit -l 0 && exec \"\$@\"" - env "${CLIENT_ENV[@]}" \
		timeout 200 "$SDP_PROGS/stream" -p fork turns out >"$TMP/out"
	[ "$(cat "$TMP/out")" = "$(printf 'ok out\nok turns')" ]
	bash -c "ulimit -v 400000 && exec \"\$@\"" - env "${CLIENT_ENV[@]}" \
		timeout 200 "$SDP_PROGS/stream" -p fork turns >"$TMP/out"
	[ "$(cat "$TMP/out")" = "ok turns" ]
}

# --- strangers -------------------------------------------------------------

@test "a squatter on every rendezvous name" {
	mode now
	# talks to itself on a port pair it knows, after taking both names
	cat >"$TMP/squat.py" <<'END'
import os, socket, struct
SO_NETNS_COOKIE = 71
listener = socket.create_server(("127.0.0.1", 0))
a = socket.create_connection(listener.getsockname())
b, _ = listener.accept()
cookie = struct.unpack("Q", a.getsockopt(socket.SOL_SOCKET,
                                         SO_NETNS_COOKIE, 8))[0]
squatters = []
for x, y in ((a, b), (b, a)):
    for text in ("%x", "%016x"):
        s = socket.socket(socket.AF_UNIX)
        name = "\0libsdp/1/" + text % cookie + "/%s:%d/%s:%d" % (
            x.getsockname() + y.getsockname())
        try:
            s.bind(name)
        except OSError:
            continue
        s.listen(5)
        s.setblocking(False)
        squatters.append(s)
guests = []
for i in range(2000):
    a.sendall(b"hello")
    assert b.recv(5, socket.MSG_WAITALL) == b"hello"
    b.sendall(b"x" * 300)
    assert a.recv(300, socket.MSG_WAITALL) == b"x" * 300
    for s in squatters:
        try:
            guest, _ = s.accept()
            guest.send(os.urandom(64))
            guests.append(guest)
        except BlockingIOError:
            pass
print("all right")
END
	[ "$(client "$PY" "$TMP/squat.py")" = "all right" ]
}

@test "a stranger connects to whatever the library listens on" {
	mode now
	cat >"$TMP/knock.py" <<'END'
import os, socket, sys, threading
stop = False


def knock():
    count = 0
    while not stop:
        for line in open("/proc/net/unix"):
            name = line.split()[7:]
            if not name or not name[0].startswith("@libsdp"):
                continue
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(0.1)
            try:
                s.connect("\0" + name[0][1:])
                s.send(os.urandom(64) if count % 2 else b"\0" * 64)
            except OSError:
                pass
            s.close()
            count += 1


thread = threading.Thread(target=knock)
thread.start()
listener = socket.create_server(("127.0.0.1", 0))
for i in range(60):
    a = socket.create_connection(listener.getsockname())
    b, _ = listener.accept()
    for k in range(40):
        a.sendall(b"hello%d" % k)
        assert b.recv(100) == b"hello%d" % k
        b.sendall(b"x" * 300)
        assert a.recv(300, socket.MSG_WAITALL) == b"x" * 300
    a.close()
    assert b.recv(1) == b""
    b.close()
stop = True
thread.join()
print("all right")
END
	[ "$(client "$PY" "$TMP/knock.py")" = "all right" ]
}

# --- processes that stop and die ------------------------------------------

pair() {
	PORT=$(free_port)
	cat >"$TMP/sink.py" <<'END'
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    sock, _ = listener.accept()
    total = 0
    try:
        for _ in range(100):
            sock.sendall(sock.recv(1))
        while data := sock.recv(65536):
            total += len(data)
        print("end", total > 0, flush=True)
    except ConnectionError as error:
        print(type(error).__name__, flush=True)
    sock.close()
END
	cat >"$TMP/source.py" <<'END'
import socket, sys
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for _ in range(100):
    sock.sendall(b"x")
    assert sock.recv(1) == b"x"
sock.sendall(b"y" * 65536)
print("warm", flush=True)
try:
    while True:
        sock.sendall(b"y" * 65536)
except ConnectionError as error:
    print(type(error).__name__, flush=True)
END
	server sink "$PY" "$TMP/sink.py" "$PORT"
	wait_port "$PORT"
}

start_source() {
	rm -f "$TMP/$1.out" # the one before was warm, too
	background "$1" "$PY" "$TMP/source.py" "$PORT"
	until_true 10 grep -q warm "$TMP/$1.out"
}

@test "the sender is killed, aborted, stopped: the receiver goes on" {
	mode now
	pair
	local n=0 kid sig
	for sig in KILL ABRT SEGV TERM; do
		start_source s
		kid=$(children "${PID[s]}")
		kill -STOP "$kid"
		tick
		kill -CONT "$kid"
		kill "-$sig" "$kid"
		n=$((n + 1))
		until_true 10 sh -c "[ \$(grep -c end '$TMP/sink.out') -eq $n ]"
		wait_end s 10 || :
	done
	[ "$(grep -c 'end True' "$TMP/sink.out")" -eq 4 ]
}

@test "the receiver is killed, aborted, stopped: the sender is told" {
	mode now
	local sig
	for sig in KILL ABRT TERM; do
		pair
		start_source s
		kill -STOP "${PID[sink]}"
		tick
		tick
		kill -CONT "${PID[sink]}"
		kill "-$sig" "${PID[sink]}"
		wait_end s 10
		grep -qE 'ConnectionResetError|BrokenPipeError' "$TMP/s.out"
		wait_end sink 5 || :
	done
}

@test "a stopped receiver does not stop the sender's process" {
	mode now
	pair
	background s "$PY" - "$PORT" <<'END'
import socket, sys, time
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for _ in range(100):
    sock.sendall(b"x")
    assert sock.recv(1) == b"x"
print("warm", flush=True)
sys.stdin.readline()
sock.setblocking(False)
total = 0
try:
    while True:
        total += sock.send(b"y" * 65536)
except BlockingIOError:
    pass
begin = time.monotonic()
sock.settimeout(0.3)
try:
    while True:
        total += sock.send(b"y" * 65536)
except TimeoutError:
    pass
assert time.monotonic() - begin < 100
print("took", total >= 1000000, flush=True)
END
	until_true 10 grep -q warm "$TMP/s.out"
	kill -STOP "${PID[sink]}"
	wait_end s 40
	grep -q 'took True' "$TMP/s.out"
	kill -CONT "${PID[sink]}"
	until_true 10 grep -q 'end True' "$TMP/sink.out"
}

@test "many connections, some of them killed: nothing leaks in the server" {
	mode now
	PORT=$(free_port)
	cat >"$TMP/srv.py" <<'END'
import os, selectors, socket, sys
sel = selectors.DefaultSelector()
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=64)
sel.register(listener, selectors.EVENT_READ)
before, served = None, 0
while True:
    for key, _ in sel.select():
        if key.fileobj is listener:
            sock, _ = listener.accept()
            sel.register(sock, selectors.EVENT_READ)
            continue
        sock = key.fileobj
        try:
            data = sock.recv(65536)
            if data == b"count":
                print(len(os.listdir("/proc/self/fd")), flush=True)
            if data:
                sock.sendall(data)
                continue
        except OSError:
            pass
        sel.unregister(sock)
        sock.close()
END
	cat >"$TMP/cli.py" <<'END'
import os, signal, socket, sys
port, how = int(sys.argv[1]), sys.argv[2]
socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
for i in range(30):
    for s in socks:
        s.sendall(b"x" * (i + 1))
        assert s.recv(i + 1, socket.MSG_WAITALL) == b"x" * (i + 1)
if how == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
END
	cat >"$TMP/count.py" <<'END'
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(b"count")
assert s.recv(5, socket.MSG_WAITALL) == b"count"
END
	server srv "$PY" "$TMP/srv.py" "$PORT"
	wait_port "$PORT"
	env timeout 200 "$PY" "$TMP/count.py" "$PORT"
	for _ in {1..10}; do
		client "$PY" "$TMP/cli.py" "$PORT" quit
		client "$PY" "$TMP/cli.py" "$PORT" kill || [ "$?" -eq 137 ]
	done
	# a few that belong to the process are let pass here, not one each
	settled() {
		env timeout 200 "$PY" "$TMP/count.py" "$PORT"
		[ "$(tail -n 1 "$TMP/srv.out")" -le \
			$(($(head -n 1 "$TMP/srv.out") + 4)) ]
	}
	until_true 5 settled
	stop srv
}
