#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# sdpconf, sdprun and sdpstat as a user meets them.
# shellcheck disable=SC2016  # variables of the programs that are run

bats_require_minimum_version 1.5.0

setup() {
	unset LIBSDP_CONFIG_FILE LIBSDP_STATS_FILE LIBSDP_LOG LIBSDP_USE \
		SIMPLE_LIBSDP ALWAYS_USE_SDP LD_PRELOAD
	cd "$BATS_TEST_TMPDIR" || return 1
	rules=$BATS_TEST_TMPDIR/rules
}

json() {
	python3 -c 'import json, sys; d = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"
}

has() {
	[[ $output == *"$1"* ]] || {
		printf 'no "%s" in:\n%s\n' "$1" "$output" >&2
		return 1
	}
}

@test "sdpconf check: a good file, a bad file, no file" {
	printf 'use sdp server * *:80\nuse tcp client *:*' >"$rules"
	run sdpconf check "$rules"
	[ "$status" -eq 0 ]
	has "fine: 1 server and 1 client rules"

	printf 'use sdp client * *:*\n\nuse sdp client * *:8o\nset a 1\n' \
		>"$rules"
	run sdpconf check "$rules"
	[ "$status" -eq 1 ]
	has "rules:3:21: error: \`o\`: expected the end of the line"
	has "rules:4:5: error: \`a\`: expected the name of a setting"
	has "2 bad lines"

	run sdpconf check "$rules.missing"
	[ "$status" -eq 1 ]
	run sdpconf check "$BATS_TEST_TMPDIR"
	[ "$status" -eq 1 ]
}

@test "sdpconf check: kernel-sdp is for clients only" {
	printf 'use kernel-sdp connect * 192.0.2.0/24:5001\n' >"$rules"
	run sdpconf check "$rules"
	[ "$status" -eq 0 ]
	run sdpconf explain 192.0.2.1:5001 "$rules"
	has "=> kernel-sdp, by line 1"

	printf 'use kernel-sdp server * *:5001\n' >"$rules"
	run sdpconf check "$rules"
	[ "$status" -eq 1 ]
	has "rules:1:16: error: \`server\`: expected client or connect (behind kernel-sdp"
}

@test "sdpconf check: warnings are no errors" {
	echo 'use sdp client * 0.0.0.0:80' >"$rules"
	run sdpconf check "$rules"
	[ "$status" -eq 0 ]
	has "warning"
}

@test "sdpconf explain: the rule, and those before it" {
	printf '%s\n' 'use tcp client * 192.0.2.0/24:*' \
		'use sdp server * *:*' 'use sdp client ssh *:22' >"$rules"
	run sdpconf explain --program /usr/bin/ssh '[2001:db8::1]:22' "$rules"
	[ "$status" -eq 0 ]
	has "ssh connects to [2001:db8::1]:22"
	has "no, another address"
	has "=> sdp, by line 3"
	run sdpconf explain 192.0.2.9:22 "$rules"
	has "=> tcp, by line 1"
	run sdpconf explain 198.51.100.1:22 "$rules"
	has "no, another program"
	has "=> both, because no rule fits"
	run sdpconf --server explain ::ffff:192.0.2.1:1 "$rules"
	has "listens on 192.0.2.1:1"
	has "=> sdp, by line 2"
	LIBSDP_CONFIG_FILE=$rules run sdpconf explain 192.0.2.9:22
	has "=> tcp, by line 1"
	run sdpconf explain 192.0.2.9 "$rules"
	[ "$status" -eq 64 ]
	LIBSDP_CONFIG_FILE=$rules.missing run sdpconf explain 192.0.2.9:22
	[ "$status" -eq 1 ]
}

@test "sdpconf explain: no rules" {
	run sdpconf explain 192.0.2.9:22 /dev/null
	[ "$output" = "/dev/null: any program connects to 192.0.2.9:22
=> both, because no rule fits" ]
	run sdpconf check
	has ": No such file or directory"
	run sdpconf explain 192.0.2.9:22
	[ "$status" -eq 0 ]
	has "no /"
	has "=> both"
	[ "$(sdpconf explain --json 192.0.2.9:22 | json 'd["file"]')" = None ]
}

@test "the tools tell their version" {
	for tool in sdpconf sdprun sdpstat; do
		run "$tool" --version
		[ "$status" -eq 0 ]
		[[ $output =~ ^$tool\ \(libsdp\)\ [0-9] ]]
	done
}

@test "sdpconf: JSON can be read" {
	echo 'use tcp client "x *:*' >"$rules"
	run sdpconf --json explain --program '"x' 192.0.2.9:22 "$rules"
	[ "$(json 'd["use"], d["line"], d["tried"][0]["miss"]' <<<"$output")" \
		= "('tcp', 1, None)" ]
	[ "$(sdpconf settings --json |
		json '[s["default"] for s in d if s["name"] == "path"]')" \
		= "['auto']" ]
	run sdpconf settings
	has lift_after_messages
}

@test "sdpconf: wrong words" {
	run sdpconf
	[ "$status" -eq 64 ]
	run sdpconf frobnicate
	[ "$status" -eq 64 ]
	run sdpconf settings too
	[ "$status" -eq 64 ]
	run sdpconf settings too many words
	[ "$status" -eq 64 ]
	run sdpconf explain
	[ "$status" -eq 64 ]
}

@test "sdprun: environment, status and arguments of the program" {
	run sdprun --tcp --log 7 sh -c 'echo "$LIBSDP_USE $LIBSDP_LOG $1"; exit 3' \
		sh --sdp
	[ "$status" -eq 3 ]
	[[ "$output" == "tcp 7 --sdp" ]]
	SIMPLE_LIBSDP=1 run sdprun --both printenv SIMPLE_LIBSDP
	[ "$status" -eq 1 ]
	touch "$rules"
	run sdprun --rules rules printenv LIBSDP_CONFIG_FILE
	[ "$output" = "$(realpath "$rules")" ]
	LD_PRELOAD=libm.so.6 run sdprun printenv LD_PRELOAD
	[[ $output == */libsdp.so:libm.so.6 ]]
	LD_PRELOAD=$output run sdprun printenv LD_PRELOAD
	[[ $output == */libsdp.so:libm.so.6 ]]
}

@test "sdprun: what cannot be run" {
	run sdprun
	[ "$status" -eq 64 ]
	run sdprun --log loud true
	[ "$status" -eq 64 ]
	run sdprun --log=12 true
	[ "$status" -eq 64 ]
	run sdprun --rules "$rules" true
	[ "$status" -eq 2 ]
	run -127 sdprun "$BATS_TEST_TMPDIR/nothing"
	[ "$status" -eq 127 ]
	run sdprun "$BATS_TEST_TMPDIR"
	[ "$status" -eq 126 ]
	run -127 sdprun --stats "$BATS_TEST_TMPDIR/nothing"
	[ "$status" -eq 127 ]
}

@test "sdprun --stats: signals both ways, nothing on standard output" {
	export TMPDIR=$BATS_TEST_TMPDIR/tmp
	mkdir "$TMPDIR"
	sdprun --stats sh -c 'trap "exit 5" TERM; : >ready; sleep 20 & wait' \
		>out 2>err &
	pid=$!
	for ((i = 0; i < 400; i++)); do
		[ ! -e ready ] || break
		sleep 0.05
	done
	kill -TERM "$pid"
	status=0
	wait "$pid" || status=$?
	[ "$status" -eq 5 ]
	[ ! -s out ]
	run sdprun --stats sh -c 'kill -9 $$'
	[ "$status" -eq 137 ]
	[ -z "$(ls -A "$TMPDIR")" ]
}

@test "sdprun --stats: for a parent that ignores SIGCHLD" {
	ignoring=(timeout -s KILL 60 env --ignore-signal=CHLD)
	run "${ignoring[@]}" sdprun --stats sh -c 'exit 3'
	[ "$status" -eq 3 ]
	run "${ignoring[@]}" sdprun --stats \
		sed -n 's/SigIgn:.//p' /proc/self/status
	has 0000000000010000
}

@test "sdprun --stats: a table of what the processes wrote" {
	sdprun --stats sh -c 'cat >>"$LIBSDP_STATS_FILE"' 2>err <<-'END'
	{"pid":12,"program":"web","sockets":3,"bytes_sdp_tx":123456789,"reasons":{"rule":4,"oob":1}}
	END
	run cat err
	has "SdpTx"
	[[ $output =~ \ 12\ web\ .*118M.*rule:4\ oob:1 ]]
}

@test "sdprun --stats: names of programs as they are" {
	cp "$(type -P true)" 'naïve "a\b"'
	run sdprun --stats ./'naïve "a\b"'
	has ' naïve "a\b"       0 '
	LIBSDP_STATS_FILE=stats sdprun ./'naïve "a\b"'
	[ "$(json 'd["program"]' <stats)" = 'naïve "a\b"' ]
	cp "$(type -P true)" $'\e[1m\xff\xc2\x9b'
	run sdprun --stats ./$'\e[1m\xff\xc2\x9b'
	has ' ?[1m???       0 '
}

@test "sdpstat: nothing there" {
	run sdpstat --pid 1999999999
	[ "$status" -eq 64 ]
	run sdpstat --pid 999999999
	[ "$status" -eq 1 ]
	run sdpstat --pid 999999999 --json
	[ "$(json d <<<"$output")" = "[]" ]
	run sdpstat extra
	[ "$status" -eq 64 ]
}

@test "sdpstat: unsound files do no harm" {
	file=/dev/shm/libsdp.999999998.1
	head -c 2000000 /dev/urandom >"$file"
	run sdpstat --json
	rm -f "$file"
	[ "$status" -eq 0 ]
	json 'len(d)' <<<"$output"
}

@test "sdpstat: sockets that the library lets alone are shown, too" {
	printf 'use tcp server * *:*\nuse tcp client * *:*\n' >"$rules"
	cat >alone.py <<-'END'
	import socket, sys
	with socket.create_server(("127.0.0.1", 0)) as listener, \
	        socket.create_connection(listener.getsockname()) as c, \
	        listener.accept()[0] as a:
	    print(a.getsockname()[1], a.getpeername()[1], flush=True)
	    sys.stdin.read()
	END
	mkfifo in
	env LD_PRELOAD="$LIBSDP" LIBSDP_CONFIG_FILE="$rules" \
		/usr/bin/python3 alone.py <in >out 3>&- &
	pid=$!
	exec 4>in
	for ((i = 0; i < 500; i++)); do
		[ ! -s out ] || break
		sleep 0.02
	done
	read -r port peer <out
	run sdpstat --json --pid "$pid"
	exec 4>&-
	wait "$pid"
	[ "$status" -eq 0 ]
	[ "$(json '[(s["state"], s["reason"], s["path"]["tx"],
		s["local"]["port"]) for s in d[0]["list"]]' <<<"$output")" = \
		"[('listen', 'unmanaged', 'tcp', $port), ('open', 'unmanaged', 'tcp', $peer), ('open', 'unmanaged', 'tcp', $port)]" ]
}

@test "the log names the line of the rule, or that there is none" {
	printf 'use tcp client * *:1\n' >"$rules"
	cat >two.py <<-'END'
	import socket
	for port in 1, 2:
	    with socket.socket() as s:
	        s.connect_ex(("127.0.0.1", port))
	END
	LD_PRELOAD=$LIBSDP LIBSDP_CONFIG_FILE=$rules LIBSDP_LOG=1:stderr \
		run /usr/bin/python3 two.py
	has ': tcp (line 1)'
	has ': both (no rule of the file)'
	[[ $output != *"line 0"* ]]
}
