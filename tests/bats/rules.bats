#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Rules at work: redis-server at $PORT and redis-benchmark are lifted, or not,
# as the rule file says. With SDP_BATS_PLAIN only the programs are tested.

# shellcheck disable=SC2030,SC2031 # every test has its own port
load helpers

setup() {
	need redis-server redis-benchmark
	PORT=$(free_port)
	RULES=$TMP/rules
}

teardown() {
	stop_all
}

# run_rules BIND HOST: rules come from stdin; @PORT@ is the server's port.
run_rules() {
	sed "s/@PORT@/$PORT/g" >"$RULES"
	mode lifted
	with "LIBSDP_CONFIG_FILE=$RULES"
	serve "${1:-127.0.0.1}" "${2:-127.0.0.1}"
}

serve() {
	server redis redis-server --port "$PORT" --bind "$1" --save '' \
		--protected-mode no --dir "$TMP"
	wait_port "$PORT"
	client redis-benchmark -h "$2" -p "$PORT" -t get,set -n 1500 -c 3 \
		--csv >"$TMP/out" 2>"$TMP/err"
	[ "$(grep -c '^"[GS]ET' "$TMP/out")" -eq 2 ]
	stop redis
}

is_sdp() {
	[ "$MODE" = plain ] ||
		{ assert_lifted redis-server 1000 &&
			assert_lifted redis-benchmark 1000; }
}

is_tcp() {
	assert_not_lifted
}

@test "no rule in the file: lifted" {
	run_rules <<<"# nothing but words"
	is_sdp
}

@test "rules, and none matches: both" {
	run_rules <<'END'
use tcp server nobody *:*
use tcp client nobody *:*
END
	is_sdp
}

@test "tcp for the server alone keeps both on TCP" {
	run_rules <<'END'
use tcp server redis-server *:*
use both client * *:*
END
	is_tcp
}

@test "tcp for the client alone keeps both on TCP" {
	run_rules <<'END'
use both server * *:*
use tcp client redis-bench* *:*
END
	is_tcp
}

@test "the first match wins" {
	run_rules <<'END'
use both server redis-* *:*
use tcp server * *:*
use both client *bench* *:*
use tcp client * *:*
END
	is_sdp
}

@test "a port, matching" {
	run_rules <<'END'
use tcp connect * *:@PORT@
END
	is_tcp
}

@test "a port, not matching" {
	run_rules <<'END'
use tcp connect * *:1-1000
use tcp listen * *:40000-65535
END
	is_sdp
}

@test "a range of ports" {
	run_rules <<'END'
use tcp listen * *:12000-30000
END
	is_tcp
}

@test "a network, matching the client's target" {
	run_rules <<'END'
use tcp client * 127.0.0.0/8:*
END
	is_tcp
}

@test "a network, not matching" {
	run_rules <<'END'
use tcp client * 192.0.2.0/24:*
use tcp server * 192.0.2.0/24:*
use tcp client * ::1:*
END
	is_sdp
}

@test "IPv6: lifted by default" {
	[ -e /proc/net/if_inet6 ] || skip "no IPv6"
	run_rules ::1 ::1 <<<""
	is_sdp
}

@test "IPv6: a prefix matches" {
	[ -e /proc/net/if_inet6 ] || skip "no IPv6"
	run_rules ::1 ::1 <<'END'
use tcp client * ::/64:*
END
	is_tcp
}

@test "words of old: listen and connect, comments, no last newline" {
	printf '%s\n%s' "use both listen * *:* # server" \
		"use tcp connect * *:*" >"$TMP/text"
	run_rules <"$TMP/text"
	is_tcp
}

@test "sdp: lifted before the first byte" {
	run_rules <<'END'
use sdp server redis-server *:*
use sdp client redis-benchmark *:*
END
	is_sdp
	[ "$MODE" = plain ] || [ "$(stat_sum redis-server bytes_tcp_tx)" -eq 0 ]
	[ "$MODE" = plain ] || [ "$(stat_sum redis-server bytes_tcp_rx)" -eq 0 ]
}

@test "sdp: a peer without the library is refused by a clear error" {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	mode half2
	with LIBSDP_USE=sdp LIBSDP_SDP_TIMEOUT_MS=300 LIBSDP_LOG=9:stderr
	server redis redis-server --port "$PORT" --bind 127.0.0.1 --save '' \
		--dir "$TMP"
	wait_port "$PORT"
	client redis-cli -h 127.0.0.1 -p "$PORT" ping >"$TMP/out" \
		2>"$TMP/err" || :
	refuse grep PONG "$TMP/out"
	grep -q libsdp "$TMP/err"
	stop redis
	is_tcp
}

@test "SIMPLE_LIBSDP and ALWAYS_USE_SDP: everything is SDP" {
	for word in SIMPLE_LIBSDP ALWAYS_USE_SDP; do
		mode lifted
		with "$word=" "LIBSDP_CONFIG_FILE=$TMP/none"
		PORT=$(free_port)
		serve 127.0.0.1 127.0.0.1
		is_sdp
	done
}

@test "LIBSDP_USE=tcp" {
	mode lifted
	with LIBSDP_USE=tcp
	serve 127.0.0.1 127.0.0.1
	is_tcp
}

@test "LIBSDP_DISABLE=1" {
	mode lifted
	with LIBSDP_DISABLE=1
	serve 127.0.0.1 127.0.0.1
	[ ! -e "$STATS" ]
}

@test "thresholds: far away, nothing is lifted" {
	mode lifted
	with LIBSDP_LIFT_AFTER_MESSAGES=1000000000 \
		LIBSDP_LIFT_AFTER_BYTES=1000000000000
	serve 127.0.0.1 127.0.0.1
	is_tcp
}

@test "settings in the file, the environment before them" {
	run_rules <<'END'
set lift_after_messages 1000000000
set lift_after_bytes 1000000000000
END
	is_tcp
	rm -f "$STATS"
	with LIBSDP_LIFT_AFTER_MESSAGES=10
	serve 127.0.0.1 127.0.0.1
	is_sdp
}

@test "a reason is given for every socket that stays on TCP" {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	need jq
	run_rules <<'END'
use tcp server * *:*
use tcp client * *:*
END
	jq -s -e 'any(.[]; .program == "redis-benchmark" and
		.reasons.rule > 0)' "$STATS"
	mode half
	serve 127.0.0.1 127.0.0.1
	jq -s -e 'any(.[]; .program == "redis-server" and
		.reasons["peer-declined"] > 0)' "$STATS"
}

@test "a connection that is reset, or not received from any more, says so" {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	need jq python3
	mode now
	client python3 - <<-'END'
		import socket, struct
		l = socket.create_server(("127.0.0.1", 0))
		for i in range(20):
		    a = socket.create_connection(l.getsockname())
		    b = l.accept()[0]
		    if i % 2:
		        a.shutdown(socket.SHUT_RD)
		        for k in range(20):
		            a.sendall(b"x" * 1000)
		    else:
		        a.sendall(b"x" * 100)
		        a.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
		                     struct.pack("ii", 1, 0))
		        a.close()
		        b.recv(50)
		        b.recv(50)
		        try:
		            b.send(b"x")
		        except OSError:
		            pass
		    a.close()
		    b.close()
	END
	jq -s -e 'any(.[]; .reasons["shut-receive"] == 10 and
		(.reasons | has("no-diag") | not))' "$STATS"
}

@test "sdpstat shows live connections, their path and their rule" {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	need sdpstat jq
	mode now
	server redis redis-server --port "$PORT" --bind 127.0.0.1 --save '' \
		--dir "$TMP"
	wait_port "$PORT"
	mkfifo "$TMP/commands"
	exec 9<>"$TMP/commands"
	background cli redis-cli -h 127.0.0.1 -p "$PORT" \
		<"$TMP/commands" 9>&-
	for _ in {1..300}; do echo PING; done >&9
	until_true 5 grep -c PONG "$TMP/cli.out"
	until_true 5 sh -c "sdpstat --json | jq -e . >/dev/null"
	until_true 5 sh -c "sdpstat | grep ':$PORT' | grep -q shm"
	exec 9>&-
	wait_end cli
	stop redis
	sdpstat >"$TMP/sdpstat"
	refuse grep ":$PORT" "$TMP/sdpstat"
}

@test "sdpconf and the library agree about a decision" {
	need sdpconf
	cat >"$RULES" <<END
use tcp server redis-server *:$PORT
use both client * *:*
END
	sdpconf check "$RULES"
	echo "use nonsense" >>"$RULES"
	refuse sdpconf check "$RULES"
}

@test "explain knows a program by its file's name as well" {
	need sdpconf
	ln -s "$(command -v sleep)" "$TMP/nap"
	echo "use tcp client sleep *:*" >"$RULES"
	[[ $(sdpconf --program "$TMP/nap" explain 127.0.0.1:80 "$RULES") == \
		*"=> tcp, by line 1" ]]
	[[ $(sdpconf --program nap explain 127.0.0.1:80 "$RULES") == *"=> both"* ]]
	[[ $(PATH=$TMP:$PATH sdpconf --program nap explain 127.0.0.1:80 "$RULES") == \
		*"=> tcp, by line 1" ]]
}

@test "two words of a rule without a blank between them are taken, with a warning" {
	need sdpconf
	local line
	for line in 'use tcp clients *:80' 'use tcp listening *:80' \
		'usetcp server * *:80' 'use tcpserver * *:80' \
		'use both servernginx *:80'; do
		echo "$line" >"$RULES"
		run sdpconf check "$RULES"
		[ "$status" -eq 0 ] || fail "$output"
		[[ $output == *"expected a blank behind the word"* ]] ||
			fail "$line: $output"
	done
	echo 'use tcp client s *:80#' >"$RULES"
	run sdpconf check "$RULES"
	[[ $output != *blank* ]] || fail "$output"
}
