# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Helpers of the bats files: modes, servers, readiness, proof.
#
# A scenario is a function that runs real programs through `server` and
# `client`; what those mean is the mode's business:
#   plain    without the library
#   lifted   both ends preloaded
#   now      both ends preloaded, lifted from the first message on
#   norule   both ends preloaded, a rule file that leaves everything on TCP
#   half     servers preloaded, clients not
#   half2    clients preloaded, servers not
# LIBSDP names the library; SDP_PROGS the directory of the test programs. With
# SDP_BATS_PLAIN set every mode is plain: the suites test themselves.
#
# The same scenarios run between two hosts (tests/vm):
#   SDP_HOST      address of the servers, here (127.0.0.1)
#   SDP_CLIENT_ON node whose clients these are, by vm-on (here)
#   SDP_SHARED    directory that both see, instead of bats' own
#   SDP_EXPECT    tcp: nothing may be lifted, whatever the mode

LIBSDP=${LIBSDP:-$BATS_TEST_DIRNAME/../../_build/.libs/libsdp.so}
SDP_PROGS=${SDP_PROGS:-$BATS_TEST_DIRNAME/../../_build/tests/progs}
PATH=$PATH:/usr/sbin
export SDP_HOST=${SDP_HOST:-127.0.0.1}
# shellcheck disable=SC2034 # the tests use it
HOST=$SDP_HOST
RULES=$(dirname "${BASH_SOURCE[0]}")/rules
CLIENT=()
[ -z "${SDP_CLIENT_ON-}" ] || CLIENT=(vm-on "$SDP_CLIENT_ON")
# Limits end what hangs. What merely takes its time, on a busy machine, stays far
# below them; where all is slow they are given anew (tests/vm).
LIMIT=${LIMIT:-150}
PATIENCE=${SDP_PATIENCE:-4}
# So many cases at a time (cases); one, where a machine is all emulated.
LANES=${LANES:-4}
[ -z "${SDP_CLIENT_ON-}${SDP_SHARED-}" ] || LANES=1
TMP=${BATS_TEST_TMPDIR-}
if [ -n "${SDP_SHARED-}" ] && [ -n "$TMP" ]; then
	TMP=$SDP_SHARED/${BATS_TEST_FILENAME##*/}.$BATS_TEST_NUMBER
	mkdir -p "$TMP"
fi
STATS=$TMP/stats
MODE=plain
PY=/usr/bin/python3
declare -gA PID=()

# --- modes ---------------------------------------------------------------

# mode NAME: what server and client mean from here on; what was counted before
# proves nothing about that.
mode() {
	rm -f "$STATS"
	[ -z "${SDP_BATS_PLAIN-}" ] || set -- plain
	MODE=$1
	SERVER_ENV=()
	CLIENT_ENV=()
	local lib=("LD_PRELOAD=$LIBSDP" "LIBSDP_STATS_FILE=$STATS"
		"LIBSDP_CONFIG_FILE=$RULES/both.conf")
	[ "$1" = plain ] || need_library
	case $1 in
	plain) ;;
	lifted)
		SERVER_ENV=("${lib[@]}")
		CLIENT_ENV=("${lib[@]}")
		;;
	now)
		lib+=(LIBSDP_LIFT_AFTER_MESSAGES=0 LIBSDP_LIFT_AFTER_BYTES=0)
		SERVER_ENV=("${lib[@]}")
		CLIENT_ENV=("${lib[@]}")
		;;
	norule)
		lib[2]="LIBSDP_CONFIG_FILE=$RULES/none.conf"
		SERVER_ENV=("${lib[@]}")
		CLIENT_ENV=("${lib[@]}")
		;;
	half) SERVER_ENV=("${lib[@]}") ;;
	half2) CLIENT_ENV=("${lib[@]}") ;;
	*) fail "no such mode: $1" ;;
	esac
}

need_library() {
	[ -f "$LIBSDP" ] || fail "no library at $LIBSDP"
}

# lack WHAT: this machine does not have what a test needs. It is left out, but
# not where everything was installed for it (scripts/test): there it fails.
lack() {
	[ -z "${SDP_ALL_INSTALLED-}" ] || fail "$*" || return
	skip "$*"
}

need() {
	local p
	for p in "$@"; do
		command -v "$p" >/dev/null || lack "$p is not installed"
	done
}

fail() {
	echo "$*" >&2
	return 1
}

# refuse COMMAND...: it must fail. (A line that begins with ! proves nothing.)
refuse() {
	if "$@"; then
		fail "should have failed: $*"
	fi
}

# with NAME=VALUE...: more environment for both ends, also in plain mode.
with() {
	SERVER_ENV+=("$@")
	CLIENT_ENV+=("$@")
}

# client COMMAND...: in the foreground, under the mode's client environment,
# with a time limit: a hang is a failure.
client() {
	"${CLIENT[@]}" env "${CLIENT_ENV[@]}" timeout -k 5 "$LIMIT" "$@"
}

# server NAME COMMAND...: in the background; output to $TMP/NAME.out and .err,
# input from the file $INPUT if that is set.
server() {
	local name=$1
	shift
	env "${SERVER_ENV[@]}" "$@" >"$TMP/$name.out" 2>"$TMP/$name.err" \
		<"${INPUT:-/dev/null}" 3>&- &
	PID[$name]=$!
}

# background NAME COMMAND...: a client in the background; stdin is kept.
background() {
	local name=$1
	shift
	"${CLIENT[@]}" env "${CLIENT_ENV[@]}" \
		timeout -k 5 "$LIMIT" "$@" \
		<&0 >"$TMP/$name.out" 2>"$TMP/$name.err" 3>&- &
	PID[$name]=$!
}

# lifted_pair: PID[pair], a process with a lifted connection to PORT, both ends of
# it; descriptor 9 is its input (py/lifted.py).
lifted_pair() {
	rm -f "$TMP/commands"
	mkfifo "$TMP/commands"
	exec 9<>"$TMP/commands"
	INPUT=$TMP/commands server pair "$PY" \
		"$BATS_TEST_DIRNAME/py/lifted.py" "$PORT" 9>&-
	until_true 10 grep -q ready "$TMP/pair.out"
	until_true 10 pair_on_sdp
}

pair_on_sdp() {
	[ "$(sdpstat -H -p "${PID[pair]}" path=sdp | wc -l)" -eq 2 ]
}

# cases PROGRAM OPTION...: every case for itself, so that one does not hide
# the next; or those of CASES. Most of them sleep most of their time, so they
# are dealt out to LANES, which run side by side.
cases() {
	local prog=$1 i pid bad=0 all lanes=()
	shift
	[ -x "$SDP_PROGS/$prog" ] || fail "$SDP_PROGS/$prog is missing"
	# shellcheck disable=SC2206 # they are words
	all=(${CASES:-$("$SDP_PROGS/$prog" -l)})
	for ((i = 0; i < LANES && i < ${#all[@]}; i++)); do
		lane "$i" "$prog" "$@" 3>&- &
		lanes+=("$!")
	done
	for pid in "${lanes[@]}"; do
		wait "$pid" || bad=1
	done
	return $bad
}

# lane FIRST PROGRAM OPTION...: of the cases in `all` it and each LANES further.
lane() {
	local i bad=0
	for ((i = $1; i < ${#all[@]}; i += LANES)); do
		one_case "${all[i]}" "${@:2}" || bad=1
	done
	return $bad
}

# one_case CASE PROGRAM OPTION...
one_case() {
	local c=$1 prog=$2 rc=0 out
	shift 2
	out=$TMP/$prog.$c
	LIMIT=$((20 * PATIENCE)) client "$SDP_PROGS/$prog" "$@" "$c" \
		>"$out.out" 2>"$out.err" || rc=$?
	[ "$rc" -ne 0 ] || [ "$(cat "$out.out")" != "ok $c" ] || return 0
	echo "$prog $* $c: status $rc" >&2
	head -c 1000 "$out.err" >&2
	return 1
}

# --- waiting without sleeping blindly ------------------------------------

tick() {
	read -r -t 0.02 <> <(:) || :
}

# until_true SECONDS COMMAND...: polls until the command succeeds, for PATIENCE
# times as long as it takes at most where nothing else runs.
until_true() {
	local end=$((SECONDS + $1 * PATIENCE + 1))
	shift
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$end" ] || {
			echo "never came true: $*" >&2
			return 1
		}
		tick
	done
}

# listening PORT: the kernel says so; no server is disturbed by asking. (Not by
# /proc/net/tcp, which may have many thousand lines about what has ended.)
listening() {
	[ -n "$(ss -Htln "sport = :$1")" ]
}

wait_port() {
	until_true "${2:-10}" listening "$1" || {
		tail -n 5 "$TMP"/*.err >&2 2>/dev/null
		return 1
	}
}

# A port that is not in use and not from the range of clients.
free_port() {
	local p
	while :; do
		p=$((12000 + RANDOM % 18000))
		unused "$p" && break
	done
	echo "$p"
}

unused() {
	[ -z "$(ss -Htan "sport = :$1 or dport = :$1")" ]
}

# Two of them, one after the other.
free_ports() {
	local p
	while :; do
		p=$(free_port)
		unused $((p + 1)) && break
	done
	echo "$p"
}

gone() {
	local st
	st=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" \
		2>/dev/null) || return 0
	[ -z "$st" ] || [ "$st" = Z ]
}

# wait_end NAME [SECONDS]: the process ends by itself; its status is ours.
wait_end() {
	local pid=${PID[$1]}
	until_true "${2:-30}" gone "$pid" || return 1
	unset "PID[$1]"
	wait "$pid"
}

# unburdened PID: no descriptor of the library's (they lie in the upper quarter)
# and no segment, in the process or its children.
unburdened() {
	local pid top
	for pid in "$1" $(children "$1"); do
		top=$(awk '/^Max open files/ { print $4 }' "/proc/$pid/limits")
		[ "$top" -le 8192 ] || top=8192
		find "/proc/$pid/fd" -mindepth 1 -printf '%f\n' |
			awk -v top=$((top * 3 / 4)) '$1 >= top { bad = 1 }
				END { exit bad }' || return 1
		refuse grep -q memfd:libsdp "/proc/$pid/maps" || return 1
	done
}

# stop NAME [SIGNAL] [SECONDS]: asks it to end, and insists that it does.
# Where nothing may be lifted it has nothing of the library's by then.
stop() {
	local pid=${PID[$1]}
	case $MODE in
	norule | half)
		until_true 10 unburdened "$pid" || {
			ls -l "/proc/$pid/fd" >&2
			fail "$1 holds what is the library's"
		} || return
		;;
	esac
	kill "-${2:-TERM}" "$pid" || return 1
	until_true "${3:-10}" gone "$pid" || return 1
	unset "PID[$1]"
	wait "$pid" || :
}

children() {
	cat "/proc/$1/task"/*/children 2>/dev/null
}

# Called by each file's teardown: nothing stays behind.
stop_all() {
	local pid kid all=()
	for pid in "${PID[@]}"; do
		all+=("$pid")
		for kid in $(children "$pid"); do
			all+=("$kid")
		done
	done
	[ "${#all[@]}" -gt 0 ] || return 0
	kill -TERM "${all[@]}" 2>/dev/null
	local i=0
	for pid in "${all[@]}"; do
		while ! gone "$pid" && [ "$i" -lt 100 ]; do
			tick
			i=$((i + 1))
		done
		gone "$pid" || kill -KILL "$pid" 2>/dev/null
	done
	PID=()
	return 0
}

# --- proof ---------------------------------------------------------------

# stat_sum PROGRAM FIELD: sum over the lines of that program in the file.
stat_sum() {
	"$PY" - "$STATS" "$1" "$2" <<'END'
import json, os, sys
path, program, field = sys.argv[1:]
total = 0
if os.path.exists(path):
    for line in open(path):
        row = json.loads(line)
        if program in ("*", row["program"]):
            total += row[field]
print(total)
END
}

stat_lines() {
	local n=0
	[ ! -f "$STATS" ] || n=$(grep -c "\"program\": *\"$1\"" "$STATS") || :
	[ "$n" -ge "${2:-1}" ]
}

show_stats() {
	echo "stats:" >&2
	tail -n 6 "$STATS" >&2 2>/dev/null || echo "(none)" >&2
}

# log_file NAME: where `file NAME` really is (5.3 of the old library's custom).
log_file() {
	if [ "$(id -u)" -eq 0 ]; then
		echo "/var/log/${1##*/}"
	else
		echo "$1.$(id -u)/log"
	fi
}

# assert_lifted PROGRAM [BYTES]: that program has ended, and at least BYTES
# went over SDP in one direction or the other.
assert_lifted() {
	until_true 5 stat_lines "$1" || {
		show_stats
		return 1
	}
	local tx rx
	tx=$(stat_sum "$1" bytes_sdp_tx)
	rx=$(stat_sum "$1" bytes_sdp_rx)
	if [ $((tx + rx)) -lt "${2:-1}" ]; then
		echo "$1: sdp tx $tx rx $rx" >&2
		show_stats
		return 1
	fi
}

assert_not_lifted() {
	local f
	for f in lifted bytes_sdp_tx bytes_sdp_rx; do
		[ "$(stat_sum "*" "$f")" -eq 0 ] || {
			show_stats
			return 1
		}
	done
}

# proof BYTES PROGRAM...: what the mode promises about those programs.
proof() {
	local bytes=$1 p
	shift
	case ${SDP_EXPECT:-liftable}.$MODE in
	liftable.lifted | liftable.now)
		for p in "$@"; do
			assert_lifted "$p" "$bytes" || return 1
		done
		;;
	*.plain) [ ! -e "$STATS" ] ;;
	*) assert_not_lifted ;;
	esac
}

# same FILE FILE: byte for byte, told by checksum.
same() {
	local a b
	a=$(sha256sum <"$1") && b=$(sha256sum <"$2") || return 1
	[ "$a" = "$b" ] || fail "$1 ($(stat -c %s "$1")) and" \
		"$2 ($(stat -c %s "$2")) differ"
}

# silent NAME...: a server wrote nothing to stdout.
silent() {
	local n
	for n in "$@"; do
		[ ! -s "$TMP/$n.out" ] || {
			head -c 2000 "$TMP/$n.out" >&2
			return 1
		}
	done
}

# random_file PATH BYTES: the same bytes for the same size, fast.
random_file() {
	openssl enc -aes-128-ctr -pass "pass:$2" -nosalt -md sha256 \
		</dev/zero 2>/dev/null | head -c "$2" >"$1"
}
