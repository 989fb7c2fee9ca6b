#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# sdpstat --fallback: sockets come home when they are told to, by users that may
# tell, and the stream goes on. And the reasons that go with it.

# shellcheck disable=SC2030,SC2031 # every test has processes of its own
load helpers

setup() {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	need redis-server redis-cli sdpstat jq setpriv
	PORT=$(free_port)
}

teardown() {
	exec 9>&- 8>&-
	stop_all
}

# Two lifted connections to a redis, kept open by the descriptors 8 and 9.
begin() {
	mode now
	with LIBSDP_FALLBACK_TIMEOUT_MS=20000 "$@"
	server redis redis-server --port "$PORT" --bind 127.0.0.1 --save '' \
		--dir "$TMP"
	wait_port "$PORT"
	mkfifo "$TMP/in8" "$TMP/in9"
	exec 8<>"$TMP/in8" 9<>"$TMP/in9"
	background cli8 redis-cli -h 127.0.0.1 -p "$PORT" <"$TMP/in8" 8>&- 9>&-
	background cli9 redis-cli -h 127.0.0.1 -p "$PORT" <"$TMP/in9" 8>&- 9>&-
	ping 20
}

# ping TIMES: on both connections, and every answer comes.
ping() {
	PINGS=$((${PINGS-0} + $1))
	local i
	for ((i = 0; i < $1; i++)); do
		echo "PING" >&8
		echo "PING" >&9
	done
	until_true 10 pongs "$TMP/cli8.out"
	until_true 10 pongs "$TMP/cli9.out"
}

pongs() {
	[ "$(grep -c PONG "$1")" -eq "$PINGS" ]
}

# rows QUERY: about the server's connections.
rows() {
	sdpstat --json --pid "${PID[redis]}" >"$TMP/json"
	jq -e "[.[0].list[] | select(.state == \"open\")] | $1" "$TMP/json" ||
		{
			cat "$TMP/json" >&2
			return 1
		}
}

all_lifted() {
	rows 'length == 2 and all(.path.tx == "shm" and .path.rx == "shm")'
}

# The ends find each other by what they say.
lift_all() {
	ping 5 && all_lifted
}

@test "a whole process comes home, and stays there" {
	begin
	until_true 5 lift_all
	sdpstat --fallback "${PID[redis]}"
	rows 'all(.path.tx == "tcp" and .path.rx == "tcp" and
		.reason == "requested" and .fallbacks == 1)'
	ping 100
	rows 'all(.path.tx == "tcp" and .path.rx == "tcp")'
	# asked again, there is nothing left to do
	sdpstat --fallback "${PID[redis]}"
	ping 5
}

@test "one socket comes home, the other does not" {
	begin
	until_true 5 lift_all
	fd=$(rows '.[0].fd')
	sdpstat --fallback "${PID[redis]}/$fd"
	rows "all(if .fd == $fd then .path.tx == \"tcp\" and .reason == \"requested\"
		else .path.tx == \"shm\" end)"
	ping 100
	rows "all(if .fd == $fd then .path.tx == \"tcp\"
		else .path.tx == \"shm\" end)"
}

@test "only root and the owner may tell" {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	begin
	until_true 5 lift_all
	chmod 711 "$SDP_BUILD" 2>/dev/null || :
	# another user does not even see it
	run setpriv --reuid 65534 --regid 65534 --clear-groups \
		"$(command -v sdpstat)" --fallback "${PID[redis]}"
	[ "$status" -ne 0 ]
	# and if it knew the name, it would not be obeyed
	cat >"$TMP/tell.py" <<'END'
import os, re, socket, struct, sys
os.setgid(65534)
os.setuid(65534)
names = set(re.findall(r"@(libsdp/svc/[0-9a-f]+)", open("/proc/net/unix").read()))
assert names
for name in names:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    s.bind("")
    s.settimeout(0.5)
    try:
        s.sendto(struct.pack("=QQ", 0x656d6f6870647375, 0), "\0" + name)
        s.recv(100)
        print("answered")
    except (TimeoutError, ConnectionRefusedError):
        print("silent")
END
	"$PY" "$TMP/tell.py" >"$TMP/told"
	grep -q silent "$TMP/told"
	refuse grep answered "$TMP/told"
	all_lifted
	ping 5
}

@test "the owner, not being root, may tell" {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	cat >"$TMP/both.py" <<'END'
import os, socket, subprocess, sys
listener = socket.create_server(("127.0.0.1", 0))
a = socket.create_connection(listener.getsockname())
b, _ = listener.accept()
def talk():
    for i in range(50):
        a.sendall(b"x%d" % i)
        assert b.recv(100) == b"x%d" % i
        b.sendall(b"y%d" % i)
        assert a.recv(100) == b"y%d" % i
talk()
sys.stdin.readline()
talk()
print("ok")
END
	room=$(mktemp -d /tmp/libsdp-told.XXXXXX)
	cp "$LIBSDP" "$SDP_BUILD/sdpstat" "$TMP/both.py" "$room"
	[ ! -e "$SDP_BUILD/.libs/sdpstat" ] ||
		cp "$SDP_BUILD/.libs/sdpstat" "$room"
	chmod -R a+rX "$room"
	LIBSDP=$room/libsdp.so
	mode now
	with "LIBSDP_STATS_FILE=" LIBSDP_CONFIG_FILE=/nothing
	mkfifo "$TMP/in"
	exec 9<>"$TMP/in"
	env "${CLIENT_ENV[@]}" setpriv --reuid 1 --regid 1 --clear-groups \
		"$PY" "$room/both.py" <"$TMP/in" >"$TMP/both.out" 3>&- 9>&- &
	PID["both"]=$!
	until_true 5 sh -c "sdpstat --pid ${PID["both"]} | grep -q ' shm '"
	setpriv --reuid 1 --regid 1 --clear-groups "$room/sdpstat" \
		--fallback "${PID["both"]}"
	sdpstat --pid "${PID["both"]}" >"$TMP/rows"
	rm -rf "$room"
	[ "$(grep -c ' requested ' "$TMP/rows")" -eq 2 ]
	echo >&9
	wait_end both
	[ "$(cat "$TMP/both.out")" = ok ]
}

# What scripts of an earlier release say and read: options, settings, keys.
@test "former names are understood" {
	begin LIBSDP_SERVICE_THREAD=yes LIBSDP_PATH=auto
	until_true 5 lift_all
	sdpstat --home "${PID[redis]}"
	rows 'all(.path.tx == "tcp" and .homecomings == 1)'
	jq -e '.[0] | .homecomings == .fallbacks and .spills == .stalls' \
		<(sdpstat --json --pid "${PID[redis]}")
	ping 5
}

@test "what cannot be told" {
	run sdpstat --fallback 0
	[ "$status" -eq 64 ]
	run sdpstat --fallback 1/x
	[ "$status" -eq 64 ]
	run sdpstat --fallback 999999999
	[ "$status" -eq 1 ]
	begin LIBSDP_BACKGROUND_THREAD=no
	until_true 5 lift_all
	run sdpstat --fallback "${PID[redis]}"
	[ "$status" -eq 2 ]
	[[ $output == *"cannot be asked"* ]]
	run sdpstat --fallback "${PID[redis]}/0"
	[ "$status" -eq 1 ]
	ping 5
}

@test "a setting keeps sockets on TCP: the reason says so" {
	begin LIBSDP_PATH=verbs
	rows 'all(.path.tx == "tcp" and .reason == "setting")'
}
