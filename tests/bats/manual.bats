#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The examples of the manual pages, taken from the pages: each command is run,
# with stand-ins for what a machine has (ports, processes, files, units), and
# writes what the page shows, where it shows something.

load helpers

MAN=$BATS_TEST_DIRNAME/../../doc/man

setup() {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library and the tools"
	unset LD_PRELOAD LIBSDP_DISABLE
	export LIBSDP_CONFIG_FILE=$RULES/both.conf
	mode now
	cd "$TMP" || return
}

teardown() {
	stop_all
}

# examples PAGE: its section, as it is read.
examples() {
	sed -n '/^\.Sh EXAMPLES/,/^\.Sh [^E]/p' "$MAN/$1" |
		sed -e 's/^\.Dl //' -e 's/\\-/-/g' -e 's/\\&//g' -e 's/\\e/\\/g'
}

# blocks PAGE: its literal text without commands, in files block.1, block.2, ...
blocks() {
	examples "$1" | awk '/^\.Bd/ { n++; on = 1; next } /^\.Ed/ { on = 0 }
		on { print >"block." n }'
}

# Of the commands run so far: as the page has it, and where its output is.
declare -gA WROTE=()

# Pairs: what the page says, and what is meant here. All have to be used.
STAND_INS=()

# try PAGE: runs its examples one after the other. Behind each that is for the
# background, `begun COMMAND` waits for what the next ones need.
try() {
	local line command='' shown='' i
	USED=()
	while IFS= read -r line; do
		case $line in
		'$ '* | '# '*)
			one "$command" "$shown"
			command=$line
			shown=''
			;;
		.*)
			one "$command" "$shown"
			command=''
			;;
		*) [ -z "$command" ] || shown+=$line$'\n' ;;
		esac
	done < <(examples "$1")
	[ "${#WROTE[@]}" -gt 0 ]
	for ((i = 0; i < ${#STAND_INS[@]}; i += 2)); do
		[ -n "${USED[i]-}" ] || fail "${STAND_INS[i]}: not in the page"
	done
}

stand_in() {
	local text=$1 i
	for ((i = 0; i < ${#STAND_INS[@]}; i += 2)); do
		[[ $text != *"${STAND_INS[i]}"* ]] || USED[i]=1
		text=${text//"${STAND_INS[i]}"/"${STAND_INS[i + 1]}"}
	done
	STOOD_IN=$text
}

# one PROMPT-AND-COMMAND SHOWN
one() {
	local command=${1:2} n=${#WROTE[@]} status=0
	[ -n "$1" ] || return 0
	stand_in "$command"
	# what root does to the machine is not done to this one
	[ "${1:0:1}" = '$' ] || [ "$STOOD_IN" != "$command" ] ||
		fail "$command: needs a stand-in"
	WROTE[$command]=$TMP/example.$n
	if [[ $command == *' &' ]]; then
		server "example.$n" bash -c "exec ${STOOD_IN% &}"
		begun "$command"
		return
	fi
	timeout -k 5 "$(seconds "$command")" bash -o pipefail -c "$STOOD_IN" \
		>"$TMP/example.$n.out" 2>"$TMP/example.$n.err" </dev/null ||
		status=$?
	[[ $command != *' -w '* || $status -ne 124 ]] || status=0
	[ "$status" -eq 0 ] || {
		cat "$TMP/example.$n.out" "$TMP/example.$n.err" >&2
		fail "$command: status $status"
	}
	[ -z "$2" ] || {
		stand_in "$2"
		diff <(printf %s "$STOOD_IN") "$TMP/example.$n.out"
	}
}

# One that shows rates goes on for ever.
seconds() {
	case $1 in
	*' -w '*) echo 5 ;;
	*) echo "$LIMIT" ;;
	esac
}

# wrote PATTERN [err]: what the example that fits wrote.
wrote() {
	local command
	for command in "${!WROTE[@]}"; do
		# shellcheck disable=SC2053 # it is a pattern
		[[ $command != $1 ]] || {
			cat "${WROTE[$command]}.${2-out}"
			return
		}
	done
	fail "no example is $1"
}

# pair NAME PORT: a process with both ends of a lifted connection.
pair() {
	mkfifo "$TMP/$1.commands"
	# shellcheck disable=SC2034 # open until the test ends
	exec {KEPT}<>"$TMP/$1.commands"
	INPUT=$TMP/$1.commands server "$1" "$PY" \
		"$BATS_TEST_DIRNAME/py/lifted.py" "$2"
	until_true 10 grep -q ready "$TMP/$1.out"
}

web() {
	random_file "$TMP/file" 8000000
	server web "$PY" -m http.server "$1"
	wait_port "$1"
}

on_sdp() {
	[ "$(sdpstat -H "port=$1" path=sdp | wc -l)" -gt 0 ]
}

@test "manual: libsdp(7)" {
	need redis-server redis-benchmark curl sdprun
	local port web
	port=$(free_port)
	web=$(free_port)
	web "$web"
	begun() {
		case $1 in
		*redis-server*) wait_port "$port" ;;
		*) until_true 20 on_sdp "$port" ;;
		esac
	}
	STAND_INS=(7000 "$port" localhost:8080 "localhost:$web")
	try libsdp.7
	wrote sdpstat | grep -E "redis-server .*:$port .* shm "
	wrote '*curl*' err | awk '$2 == "curl" && $3 == 1' | grep .
	same file copy
}

@test "manual: libsdp.conf(5)" {
	need sdpconf
	local f
	blocks libsdp.conf.5
	[ -s block.1 ]
	for f in block.*; do
		sdpconf check "$f"
		sdpconf lint "$f"
	done
	sdpconf explain 192.0.2.7:80 block.1 | grep '^=> tcp'
	sdpconf explain 192.0.2.8:53 block.1 | grep '^=> tcp'
	sdpconf explain 192.0.2.8:80 block.1 | grep '^=> both'
	sdpconf explain --server 192.0.2.8:80 block.1 | grep '^=> both'
	sdpconf explain --server --program nginx 0.0.0.0:8080 block.2 |
		grep '^=> both'
	sdpconf explain --server --program nginx 0.0.0.0:80 block.2 |
		grep '^=> tcp'
	sdpconf explain --program nginx 192.0.2.8:8080 block.2 | grep '^=> tcp'
}

@test "manual: sdpconf(1)" {
	need sdpconf
	printf '%s\n' '# rules' 'use tcp server sshd *:22' \
		'use tcp client * *:53' 'use tcp client ssh *:*' >rules
	export LIBSDP_CONFIG_FILE=rules
	printf 'connect 192.0.2.7 8080\n' >sdp.conf
	pair told "$(free_port)"
	STAND_INS=(/etc/libsdp.conf rules
		"--apply redis-server" "--apply ${PID[told]}")
	try sdpconf.1
	sdpconf check libsdp.conf
	grep '192.0.2.7:8080' libsdp.conf
	wrote '*reload*' | grep -E "^ *${PID[told]} .* rules"
}

@test "manual: sdprun(1)" {
	need sdprun iperf3 curl redis-server
	local iperf web root=$TMP/root
	iperf=$(free_port)
	server iperf iperf3 -s -p "$iperf"
	wait_port "$iperf"
	web=$(free_port)
	web "$web"
	mkdir -p "$root/usr/lib/systemd/system" "$root/usr/bin"
	cp /bin/true "$root/usr/bin/redis-server"
	printf '[Service]\nExecStart=/usr/bin/redis-server\n' \
		>"$root/usr/lib/systemd/system/redis-server.service"
	STAND_INS=("iperf3 -c localhost" "iperf3 -c localhost -p $iperf -t 1"
		http://localhost/ "http://localhost:$web/"
		"--enable " "--root $root --enable "
		"--disable " "--root $root --disable ")
	try sdprun.1
	wrote '*iperf3*' err | awk '$2 == "iperf3" && $4 == 1' | grep .
	wrote '*curl*' err | grep 'libsdp CONNECT: fd'
	wrote '*--check*' | grep -E '^program +ok'
	wrote '*--enable*' | grep 'redis-server.service: will run with libsdp'
	[ -z "$(find "$root" -name '50-libsdp.conf')" ]
}

@test "manual: sdpstat(1)" {
	need sdpstat "$PY"
	local port other fd
	port=$(free_port)
	other=$(free_port)
	pair lifted "$port"
	pair fallen "$other"
	until_true 10 on_sdp "$port"
	sdpstat --fallback "${PID[fallen]}"
	fd=$(sdpstat -H "dport=$port" | awk '{ print $3 }')
	STAND_INS=(redis-server python3 6379 "$port" "-w 2" "-w 0.5"
		4711/12 "${PID[lifted]}/$fd" 4711 "${PID[lifted]}"
		/var/lib/node_exporter "$TMP")
	try sdpstat.1
	wrote '*path=tcp*' | awk -v pid="${PID[fallen]}" '$1 == pid' | grep requested
	refuse grep -qw "^ *${PID[lifted]}" <(wrote '*path=tcp*')
	wrote '*-w 2*' | grep "sockets, 2 on SDP"
	wrote '*-g *' | grep 'messages sent, bytes'
	wrote '*--stats*' | grep -E '^fallbacks\.requested +[1-9]'
	wrote '*--why*' | grep SDP
	wrote '*--log*' | grep lifted
	grep '^libsdp_sockets [1-9]' "$TMP/libsdp.prom"
}
