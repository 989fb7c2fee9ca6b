#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Different users, containers and limits: the two ends of a connection are
# started apart, each wherever a test wants it. Lifted where the two can prove
# to each other what they are; else TCP, with a reason of libsdp(7), and every
# byte right in any case.
#
# The client's port is the higher one: it offers, the server answers and makes
# the segment.
# shellcheck disable=SC2030,SC2031 # every test has variables of its own
# shellcheck disable=SC2086 # what starts an end is split into its words

load helpers

NOBODY="setpriv --reuid 65534 --regid 65534 --clear-groups"
DAEMON="setpriv --reuid 1 --regid 1 --clear-groups"

setup() {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	need setpriv unshare nsenter ip jq
	need_library
	# where every user may read the library and write the statistics
	ROOM=$(mktemp -d /tmp/libsdp-users.XXXXXX)
	chmod 1777 "$ROOM"
	cp "$LIBSDP" "$SDP_PROGS/cage" "$SDP_PROGS/meet" "$ROOM"
	CAGE=$ROOM/cage
	MEET=$ROOM/meet
	PORT=$(free_port)
	ADDRESS=127.0.0.1
	LIB="-e LD_PRELOAD=$ROOM/libsdp.so -e LIBSDP_CONFIG_FILE=/nothing
		-e LIBSDP_LIFT_AFTER_MESSAGES=4"
	# of the cage's filters the library is told that they do not kill
	LIB+=" -e LIBSDP_SECCOMP=trust"
	NEAR=$LIB
	FAR=$LIB
}

teardown() {
	stop_all
	[ -z "${ROOM-}" ] || rm -rf "$ROOM"
}

# In the network namespace of that process.
listens() {
	local hex
	printf -v hex ':%04X' "$PORT"
	awk -v p="$hex" '$4 == "0A" && substr($2, length($2) - 4) == p { f = 1 }
		END { exit !f }' "/proc/${PID[$1]}/net/tcp"
}

# serve NAME HOW CAGE-OPTIONS: an end that listens, started by the words HOW.
serve() {
	$2 "$CAGE" $NEAR $3 -e "LIBSDP_STATS_FILE=$ROOM/$1" \
		"$MEET" ${FORBID-} serve "$ADDRESS" "$PORT" \
		>"$TMP/$1.out" 2>"$TMP/$1.err" 3>&- &
	PID[$1]=$!
	until_true 10 listens "$1"
}

talk() {
	timeout -k 5 "$LIMIT" $2 "$CAGE" $FAR $3 -e "LIBSDP_STATS_FILE=$ROOM/$1" \
		"$MEET" ${FORBID-} talk "$ADDRESS" "$PORT" 300 ${FROM-} \
		>"$TMP/$1.out" 3>&-
	[ "$(cat "$TMP/$1.out")" = ok ]
}

# meet [HOW-NEAR [HOW-FAR [CAGE-NEAR [CAGE-FAR]]]]
meet() {
	rm -f "$ROOM/server" "$ROOM/client"
	serve server "${1-}" "${3-}"
	talk client "${2-}" "${4-}" || {
		cat "$TMP/server.err" >&2
		return 1
	}
	wait_end server 10
	silent server
}

field() {
	jq "select(.program == \"meet\") | $2" "$ROOM/$1"
}

is_lifted() {
	local end
	for end in "${@-server client}"; do
		[ "$(field "$end" .bytes_sdp_tx)" -gt 10000 ] || {
			cat "$ROOM/$end" >&2
			return 1
		}
	done
}

# is_tcp REASON: and that is what the one end or the other says.
is_tcp() {
	local end
	for end in server client; do
		[ "$(field "$end" .lifted)" -eq 0 ] || {
			cat "$ROOM/$end" >&2
			return 1
		}
	done
	cat "$ROOM/server" "$ROOM/client" | jq -s -e --arg why "$1" \
		'any(.[]; .reasons[$why] > 0)' >&2 || {
		cat "$ROOM/server" "$ROOM/client" >&2
		return 1
	}
}

lifts() {
	meet "$@"
	is_lifted server client
}

# --- users -----------------------------------------------------------------

@test "root and nobody, nobody and root" {
	lifts "" "$NOBODY"
	lifts "$NOBODY" ""
}

@test "one user and another" {
	lifts "$NOBODY" "$DAEMON"
	lifts "$DAEMON" "$DAEMON"
}

@test "a program that forbids itself threads after its start" {
	FORBID=forbid
	lifts "$NOBODY" "$NOBODY"
}

@test "a listener that was inherited over exec: its connections are lifted" {
	cat >"$ROOM/hand.py" <<'END'
import os, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
listener.settimeout(None)
os.dup2(listener.fileno(), 0)
os.execvp(sys.argv[2], sys.argv[2:])
END
	cat >"$ROOM/served.py" <<'END'
import socket
listener = socket.socket(fileno=0)
for _ in range(2):
    conn, _ = listener.accept()
    while data := conn.recv(5000):
        conn.sendall(data)
    conn.close()
END
	"$PY" "$ROOM/hand.py" "$PORT" "$CAGE" $NEAR \
		-e "LIBSDP_STATS_FILE=$ROOM/server" "$PY" "$ROOM/served.py" \
		>"$TMP/server.out" 3>&- &
	PID["server"]=$!
	until_true 10 listens server
	talk client "" ""
	is_lifted client
	talk client "" ""
	wait_end server 10
	[ "$(jq .lifted "$ROOM/server")" -eq 2 ]
}

# --- containers ------------------------------------------------------------

# Other processes, mounts and /dev/shm, the same network.
container() {
	cat >"$ROOM/container" <<'END'
#!/bin/sh
exec unshare --mount --pid --ipc --fork --kill-child sh -c '
	mount -t tmpfs tmpfs /dev/shm && mount -t proc proc /proc &&
		exec "$@"' sh "$@"
END
	chmod 755 "$ROOM/container"
}

# A root directory with nothing in it but the program, its libraries and a
# place for the statistics: no /proc, no /dev.
jail() {
	local f
	mkdir -p "$ROOM/jail$ROOM"
	while read -r f; do
		mkdir -p "$ROOM/jail${f%/*}"
		cp -L "$f" "$ROOM/jail$f"
	done < <(ldd "$MEET" "$LIBSDP" | grep -oE '/[^ :]+\.so[.0-9]*' |
		sort -u)
	cat >"$ROOM/jail.sh" <<END
#!/bin/sh
exec unshare --mount sh -c 'mount --bind $ROOM $ROOM/jail$ROOM && exec "\$@"' \\
	sh chroot "\$@"
END
	chmod 755 "$ROOM/jail.sh"
	JAIL="$ROOM/jail.sh"
}

@test "containers that share the network" {
	container
	lifts "$ROOM/container" ""
	lifts "" "$ROOM/container"
	lifts "$ROOM/container" "$ROOM/container"
	lifts "$ROOM/container $NOBODY" "$ROOM/container $DAEMON"
}

@test "sdpstat of root sees into a container" {
	container
	serve server "$ROOM/container" ""
	until_true 5 sh -c "sdpstat | grep -q ':$PORT .* listen'"
	talk client "" ""
	wait_end server 10
}

# As root of a user namespace of its own, with a /dev/shm that is its own.
@test "sdpstat of root believes no page that another user forges" {
	serve server "" ""
	cat >"$ROOM/forge.sh" <<'END'
mount -t tmpfs none /dev/shm || exit
exec "$1" - "$2" <<'PY'
import glob, os, sys, time
victim = int(sys.argv[1])
def start(pid):
    stat = open("/proc/%d/stat" % pid).read()
    return int(stat[stat.rindex(")"):].split()[20])
page = open(os.environ["PAGE"], "rb").read()
own, begun = (int(n) for n in os.environ["PAGE"].split(".")[-2:])
name = page[page.index(b"meet"):][:64]
for old, new in ((own.to_bytes(4, "little"), victim.to_bytes(4, "little")),
                 (begun.to_bytes(8, "little"), start(victim).to_bytes(8, "little")),
                 (name, b"FORGED".ljust(64, b"\0"))):
    page = page.replace(old, new, 1)
with open("/dev/shm/libsdp.%d.%d" % (victim, start(victim)), "wb") as f:
    f.write(page)
os.chmod(f.name, 0o600)
print("forged", flush=True)
time.sleep(60)
PY
END
	local page
	page=$(echo /dev/shm/libsdp."${PID[server]}".*)
	cp "$page" "$ROOM/${page##*/}"
	chmod 644 "$ROOM/${page##*/}"
	PAGE="$ROOM/${page##*/}" $NOBODY unshare -U -r -m sh "$ROOM/forge.sh" \
		"$PY" $$ >"$TMP/forger.out" 3>&- &
	PID["forger"]=$!
	until_true 10 grep -q forged "$TMP/forger.out"
	sdpstat >"$TMP/shown"
	refuse grep FORGED "$TMP/shown"
	grep -q ":$PORT" "$TMP/shown"
}

@test "a bare chroot: no /proc, no /dev/shm" {
	jail
	lifts "$JAIL $ROOM/jail" ""
	lifts "" "$JAIL $ROOM/jail"
	lifts "$JAIL --userspec=1:1 $ROOM/jail" ""
	# without /proc nobody may as well be a user without a name
	meet "$JAIL --userspec=1:1 $ROOM/jail" "$NOBODY"
	is_tcp owner-mismatch
}

@test "user namespaces: users that can be named are lifted" {
	lifts "unshare --user --map-root-user" ""
	lifts "" "unshare --user --map-root-user"
	# inside, the other user is one of those without a name
	meet "unshare --user --map-root-user" "$NOBODY"
	is_tcp owner-mismatch
	meet "$NOBODY" "unshare --user --map-root-user"
	is_tcp owner-mismatch
	meet "unshare --user" ""
	is_tcp owner-mismatch
	meet "unshare --user" "unshare --user"
	is_tcp owner-mismatch
}

# --- network namespaces ----------------------------------------------------

# host NAME: a network namespace, as long as its process lives.
host() {
	unshare --net sleep 600 3>&- &
	PID[$1]=$!
	until_true 5 other_net "${PID[$1]}"
	IN[$1]="nsenter --net=/proc/${PID[$1]}/ns/net"
	${IN[$1]} ip link set lo up
}

other_net() {
	[ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ] &&
		[ "$(cat "/proc/$1/comm")" = sleep ]
}

@test "two network namespaces, joined by a cable: TCP" {
	declare -A IN
	host a
	host b
	${IN[a]} ip link add ab type veth peer name ba netns "${PID[b]}"
	${IN[a]} ip address add 192.0.2.1/24 dev ab
	${IN[b]} ip address add 192.0.2.2/24 dev ba
	${IN[a]} ip link set ab up
	${IN[b]} ip link set ba up
	ADDRESS=192.0.2.1
	meet "${IN[a]}" "${IN[b]}"
	is_tcp remote
	meet "${IN[a]}" "${IN[a]}"
	is_lifted server client
}

@test "the same addresses and ports in two network namespaces" {
	declare -A IN
	host a
	host b
	FROM=40000
	serve one "${IN[a]}" ""
	serve two "${IN[b]}" ""
	talk three "${IN[a]}" "" &
	talk four "${IN[b]}" ""
	wait $!
	wait_end one 10
	wait_end two 10
	is_lifted one two three four
}

@test "the same addresses and ports, but only one end of each preloaded" {
	declare -A IN
	host a
	host b
	FROM=40000
	serve server "${IN[a]}" ""
	NEAR='' serve plain "${IN[b]}" ""
	FAR='' talk other "${IN[a]}" "" &
	talk client "${IN[b]}" ""
	wait $!
	wait_end server 10
	wait_end plain 10
	is_tcp peer-declined
	[ "$(field server '.reasons["peer-declined"]')" -eq 1 ]
	[ "$(field client '.reasons["peer-declined"]')" -eq 1 ]
}

# --- system call filters ---------------------------------------------------

@test "filter: no memfd" {
	meet "" "" "-f memfd_create" ""
	is_tcp no-memfd
	lifts "" "" "" "-f memfd_create"
}

@test "filter: no unix sockets" {
	meet "" "" "-f unix" ""
	is_tcp no-unix
	meet "" "" "" "-f unix"
	is_tcp no-unix
}

@test "filter: no diagnosis" {
	meet "" "" "-f netlink" ""
	is_tcp no-diag
	meet "" "" "" "-f netlink"
	is_tcp no-diag
	meet "" "" "-f netlink" "-f netlink"
	is_tcp no-diag
	LIB+=" -e LIBSDP_SAME_USER_WITHOUT_DIAG=yes"
	NEAR=$LIB
	FAR=$LIB
	meet "$NOBODY" "$DAEMON" "-f netlink" "-f netlink"
	is_tcp owner-mismatch
}

@test "filter: descriptors cannot be passed" {
	meet "" "" "-f sendmsg" ""
	is_tcp peer-declined
	meet "" "" "" "-f sendmsg"
	is_tcp peer-declined
	meet "" "" "-f recvmsg" "-f recvmsg"
	is_tcp no-diag
}

@test "filter: no threads" {
	meet "" "" "-f clone -f clone3" ""
	is_tcp no-thread
	meet "" "" "" "-f clone -f clone3"
	is_tcp no-thread
	meet "" "" "-f epoll_create1" ""
	is_tcp no-thread
	LIB+=" -e LIBSDP_BACKGROUND_THREAD=no"
	NEAR=$LIB
	FAR=$LIB
	lifts "" "" "-f clone -f clone3" "-f clone -f clone3"
}

@test "filter: no random numbers" {
	meet "" "" "-f getrandom" ""
	is_tcp sandbox
}

@test "filter: what is not needed" {
	lifts "" "" "-f ptrace -f process_vm_readv -f kill" \
		"-f ptrace -f process_vm_readv -f kill"
}

# --- resource limits -------------------------------------------------------

@test "limit: locked memory" {
	lifts "$NOBODY" "$DAEMON" "-r memlock=0" "-r memlock=0"
}

@test "limit: size of files" {
	meet "" "" "-r fsize=100000" ""
	is_tcp file-limit
	lifts "" "" "" "-r fsize=100000"
}

@test "limit: number of descriptors" {
	lifts "" "" "-r nofile=20" "-r nofile=20"
	# six for the program: three, listener, connection, library's file
	meet "" "" "-r nofile=6" ""
	is_tcp no-fd
	meet "" "" "" "-r nofile=5"
	is_tcp no-fd
}

# runs_out END: with ever less memory, what it maps by itself included, there
# comes a point where it still runs, and its connection stays on TCP for that.
runs_out() {
	local as
	for ((as = 7000000; as > 4500000; as -= 200000)); do
		case $1 in
		server) meet "" "" "-r as=$as" "" ;;
		client) meet "" "" "" "-r as=$as" ;;
		esac
		! is_tcp no-space 2>/dev/null || return 0
	done
	fail "no limit of memory keeps the $1 on TCP"
}

@test "limit: memory" {
	lifts "" "" "-r as=100000000" "-r as=100000000"
	# with less there are smaller rings, and none in the end
	lifts "" "" "-r as=16000000" "-r as=16000000"
	runs_out server
	runs_out client
}

@test "limit: processes of the user" {
	meet "$NOBODY" "" "-r nproc=0" ""
	is_tcp no-thread
}
