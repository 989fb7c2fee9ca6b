#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# sdpconf reload: processes read their rules again, for new connections and, when
# told so, for those that they have; what is wrong changes nothing, and is said.

# shellcheck disable=SC2030,SC2031 # every test has processes of its own
load helpers

setup() {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	need sdpconf sdpstat jq
	PORT=$(free_port)
	FILE=$TMP/rules
	GROUP=
	FORKS=() # so many children accept
	UNIT=libsdp-reload-$$.service
	mode now
}

teardown() {
	exec 7>&- 8>&- 9>&-
	stop_all
	[ -z "$GROUP" ] || rmdir "$GROUP"
}

# rules LINE...: what the file says from now on.
rules() {
	printf '%s\n' "$@" >"$FILE.new"
	mv "$FILE.new" "$FILE"
}

# begin LINE...: a server under these rules. It has another directory by the time
# that it reads them again, and its clients have none.
begin() {
	rules "$@"
	(cd "$TMP" && printf '%s\n' "$@" >rules)
	SERVER_ENV+=(LIBSDP_CONFIG_FILE=rules)
	cd "$TMP" || return
	server srv "$PY" "$BATS_TEST_DIRNAME/py/reload.py" serve "$PORT" \
		"${FORKS[@]}"
	wait_port "$PORT"
}

# talker NAME FD: a connection that moves bytes until FD, its input, is closed.
talker() {
	mkfifo "$TMP/$1.in"
	eval "exec $2<>'$TMP/$1.in'"
	background "$1" "$PY" "$BATS_TEST_DIRNAME/py/reload.py" talk "$PORT" \
		<"$TMP/$1.in" 7>&- 8>&- 9>&-
}

# talked NAME: it has ended, and every byte came back as it was sent.
talked() {
	wait_end "$1"
	grep '^ok [1-9]' "$TMP/$1.out"
}

# client_row NAME QUERY: about its one connection. (timeout is its parent.)
client_row() {
	local pid
	pid=$(children "${PID[$1]}")
	sdpstat --json --pid "${pid% }" >"$TMP/row" || return 1
	jq -es "[.[0][0].list[] | select(.state == \"open\")] | length == 1 and
		(.[0] | $2)" "$TMP/row"
}

on_shm() {
	client_row "$1" '.path.tx == "shm" and .path.rx == "shm"'
}

on_tcp() {
	client_row "$1" '.path.tx == "tcp" and .path.rx == "tcp" and
		.reason == "peer-declined"'
}

# reload OPTION...: of the server; what it says as JSON is in $TMP/said.
reload() {
	sdpconf reload --json "$@" "${PID[srv]}" >"$TMP/said" || {
		cat "$TMP/said" >&2
		return 1
	}
}

said() {
	jq -es ".[0] | length == 1 and (.[0] | $1)" "$TMP/said" || {
		cat "$TMP/said" >&2
		return 1
	}
}

tcp_rule() {
	echo "use tcp server * *:$PORT"
}

both_rule() {
	echo "use both server * *:$PORT"
}

@test "reload: new connections, from tcp to SDP and back" {
	begin "$(tcp_rule)"
	talker first 7
	until_true 10 on_tcp first
	rules "$(both_rule)" "use both client * *:*"
	# it sleeps in accept(): the word is there when it comes out
	reload --timeout 0
	said '.result == "next-call"'
	talker second 8
	until_true 10 on_shm second
	reload
	said '.result == "done" and .rules == 2 and .to_tcp == 0'
	rules "$(tcp_rule)"
	reload
	said '.result == "done" and .rules == 1'
	talker third 9
	until_true 10 on_tcp third
	# the others stay what they are
	on_tcp first
	on_shm second
	exec 7>&- 8>&- 9>&-
	talked first
	talked second
	talked third
}

@test "reload: a program that no rule concerned" {
	begin "use tcp server * *:*" "use tcp client * *:*"
	rules "# none"
	reload --timeout 0
	talker first 7
	until_true 10 on_shm first
	exec 7>&-
	talked first
}

# The server's two connections; what was put back on TCP has to be read first.
all_back() {
	sdpstat --json --pid "${PID[srv]}" >"$TMP/rows"
	jq -es '[.[0][0].list[] | select(.state == "open")] | length == 2 and
		all(.path.tx == "tcp" and .path.rx == "tcp" and
		.rule == "tcp" and .reason == "rule-changed")' "$TMP/rows"
}

@test "reload: connections that exist, both ways, while bytes move" {
	begin "$(both_rule)"
	talker first 7
	talker second 8
	until_true 10 on_shm first
	until_true 10 on_shm second
	for _ in 1 2 3; do
		rules "$(tcp_rule)"
		reload --apply
		said '.result == "done" and .to_tcp == 2 and .stay == 0'
		until_true 10 all_back
		# once more, there is nothing left to do
		reload --apply
		said '.to_tcp == 0 and .again == 0'
		rules "$(both_rule)"
		reload --apply
		said '.result == "done" and .again == 2'
		until_true 10 on_shm first
		until_true 10 on_shm second
	done
	exec 7>&- 8>&-
	talked first
	talked second
	sdpstat --stats --pid "${PID[srv]}" |
		grep -E '^fallbacks\.rule-changed +6$'
}

@test "reload: the other end's rules" {
	local pid
	begin "$(both_rule)"
	talker first 7
	echo "use both client * *:*" >"$TMP/client"
	CLIENT_ENV+=("LIBSDP_CONFIG_FILE=$TMP/client")
	talker second 8
	until_true 10 on_shm first
	until_true 10 on_shm second
	echo "use tcp client * 127.0.0.1:$PORT" >"$TMP/client"
	pid=$(children "${PID[second]}")
	run sdpconf reload --apply "${pid% }"
	[ "$status" -eq 0 ]
	[[ $output == *"${pid% } "*" 1 rules, 1 to TCP"* ]]
	until_true 10 client_row second '.path.tx == "tcp" and
		.path.rx == "tcp" and .reason == "rule-changed"'
	on_shm first
	echo >"$TMP/client"
	run sdpconf reload --apply "${pid% }"
	[[ $output == *" 0 rules, 1 may be lifted again"* ]]
	until_true 10 on_shm second
	exec 7>&- 8>&-
	talked first
	talked second
}

@test "reload: a mistake in the file, and no file" {
	begin "use sdp client * *:9" "$(both_rule)"
	talker first 7
	until_true 10 on_shm first
	rules "# new" "use tcp server * *:*" "usr tcp client * *:*"
	run sdpconf reload --apply "${PID[srv]}"
	[ "$status" -eq 1 ]
	[[ $output == *"the old rules hold: $TMP/rules:3:1: \`usr\`: expected "* ]]
	grep -F "RELOAD: the old rules hold: $TMP/rules:3:1: " "$TMP/srv.err"
	sdpstat --log "${PID[srv]}" | grep -E '^[0-9:.]+ +3 +0 refused'
	rm "$FILE"
	run sdpconf reload "${PID[srv]}"
	[ "$status" -eq 1 ]
	[[ $output == *"$TMP/rules: no such file (2)"* ]]
	talker second 8
	until_true 10 on_shm second
	on_shm first
	exec 7>&- 8>&-
	talked first
	talked second
}

@test "reload: settings that may change, and those that may not" {
	mode lifted
	begin "set lift_after_messages 1000000" "set lift_after_bytes 100000000000"
	CLIENT_ENV+=(LIBSDP_LIFT_AFTER_MESSAGES=8)
	rules "set lift_after_messages 1" "set path shm" "log min-level 7"
	reload --timeout 0
	talker first 7
	until_true 10 on_shm first
	reload
	said '.message == "0 rules; path: only from the next start on"'
	grep RELOAD "$TMP/srv.err"
	exec 7>&-
	talked first
}

@test "reload: a process that is stopped reads them when it goes on" {
	begin "$(both_rule)"
	talker first 7
	until_true 10 on_shm first
	kill -STOP "${PID[srv]}"
	rules "$(tcp_rule)"
	run sdpconf reload --timeout 0.2 --apply "${PID[srv]}"
	kill -CONT "${PID[srv]}"
	[ "$status" -eq 0 ]
	[[ $output == *"will read them at its next call"* ]]
	until_true 10 client_row first '.path.rx == "tcp"'
	exec 7>&-
	talked first
}

@test "reload: without a background thread" {
	SERVER_ENV+=(LIBSDP_BACKGROUND_THREAD=no)
	begin "$(both_rule)"
	talker first 7
	until_true 10 on_shm first
	rules "$(tcp_rule)"
	reload --apply --timeout 0
	said '.result == "next-call"'
	talker second 8
	until_true 10 on_tcp second
	reload --apply --timeout 0
	talker third 9
	until_true 10 on_tcp third
	# nothing could wait for its peer
	on_shm first
	exec 7>&- 8>&- 9>&-
	talked first
	talked second
	talked third
}

# tell_workers: each of them, which has no page, finds a note.
tell_workers() {
	local worker
	for worker in $(children "${PID[srv]}"); do
		run sdpconf reload --timeout 0 "$worker"
		[ "$status" -eq 0 ]
		[[ $output == *"will read them at its next call for a socket"* ]]
		note_of "$worker"
	done
}

note_of() {
	compgen -G "/dev/shm/libsdp.$1.*.ask"
}

@test "reload: workers that have not accepted anything yet, to SDP" {
	local worker workers
	FORKS=(2)
	begin "$(tcp_rule)"
	rules "$(both_rule)"
	tell_workers
	# whichever of them it is that accepts
	talker first 7
	talker second 8
	until_true 10 on_shm first
	until_true 10 on_shm second
	exec 7>&- 8>&-
	talked first
	talked second
	workers=$(children "${PID[srv]}")
	for worker in $workers; do
		kill -KILL "$worker"
	done
	stop srv KILL
	# what was asked of a process that has ended goes, as its page does
	client sdpstat >/dev/null
	for worker in $workers; do
		refuse note_of "$worker"
	done
}

@test "reload: workers that have not accepted anything yet, to tcp" {
	FORKS=(2)
	begin "$(both_rule)"
	rules "$(tcp_rule)"
	tell_workers
	talker first 7
	until_true 10 on_tcp first
	exec 7>&-
	talked first
}

@test "reload: a note of another user's" {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	local worker
	FORKS=(2)
	begin "$(tcp_rule)"
	rules "$(both_rule)"
	tell_workers
	for worker in $(children "${PID[srv]}"); do
		chown 65534 "$(note_of "$worker")"
	done
	talker first 7
	until_true 10 on_tcp first
	exec 7>&-
	talked first
	for worker in $(children "${PID[srv]}"); do
		rm -f "/dev/shm/libsdp.$worker".*.ask
	done
}

@test "reload: what cannot be asked" {
	local none root=$TMP/root
	run sdpconf reload 0
	[ "$status" -eq 64 ]
	run sdpconf reload 99999999999
	[ "$status" -eq 64 ]
	run sdpconf reload no/unit
	[ "$status" -eq 64 ]
	run sdpconf reload --timeout x 1
	[ "$status" -eq 64 ]
	none=$(($(cat /proc/sys/kernel/pid_max) + 1))
	run sdpconf reload "$none"
	[ "$status" -eq 1 ]
	[[ $output == *"$none: no such process"* ]]
	run env -u LD_PRELOAD sdpconf reload $$
	[ "$status" -eq 1 ]
	[[ $output == *"$$: runs without libsdp"* ]]
	mkdir -p "$root/etc/systemd/system"
	run sdpconf --root "$root" reload "$UNIT"
	[ "$status" -eq 1 ]
	[[ $output == *"$UNIT: no such unit"* ]]
	printf '[Service]\nType=oneshot\n' >"$root/etc/systemd/system/$UNIT"
	run sdpconf --root "$root" reload "${UNIT%.service}"
	[ "$status" -eq 1 ]
	[[ $output == *"$UNIT: it has no ExecStart="* ]]
	printf '[Service]\nExecStart=/bin/true\n' \
		>"$root/etc/systemd/system/$UNIT"
	run sdpconf --root "$root" reload "$UNIT"
	[ "$status" -eq 1 ]
	[[ $output == *"$UNIT: does not run"* ]]
}

@test "reload: a program in which the library does nothing" {
	SERVER_ENV+=(LIBSDP_DISABLE=1)
	begin "$(both_rule)"
	run sdpconf reload "${PID[srv]}"
	[ "$status" -eq 1 ]
	[[ $output == *" LIBSDP_DISABLE is set there" ]]
	stop srv
	mode now
	PORT=$(free_port)
	SERVER_ENV+=(LIBSDP_DISABLE=0)
	begin "$(both_rule)"
	reload --timeout 0
	said '.result == "next-call"'
}

@test "reload: without a file of rules" {
	with SIMPLE_LIBSDP=1
	begin
	talker first 7
	until_true 10 on_shm first
	run sdpconf reload "${PID[srv]}"
	[ "$status" -eq 1 ]
	[[ $output == *"the old rules hold: the environment says SIMPLE_LIBSDP"* ]]
	exec 7>&-
	talked first
}

# in_group: the server is in the control group of UNIT, as systemd has it.
in_group() {
	local top=/sys/fs/cgroup
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	[ ! -d "$top/systemd" ] || top=$top/systemd
	mkdir "$top/$UNIT" 2>/dev/null || skip "no control groups here"
	GROUP=$top/$UNIT
	echo "${PID[srv]}" >"$GROUP/cgroup.procs"
}

@test "reload: the processes of a unit" {
	begin "$(tcp_rule)"
	in_group
	rules "$(both_rule)"
	run sdpconf reload --timeout 0 "${UNIT%.service}"
	echo "${PID[srv]}" >"${GROUP%/*}/cgroup.procs"
	[ "$status" -eq 0 ]
	[ "$(grep -c python <<<"$output")" -eq 1 ]
	[[ $output == *"${PID[srv]} "* ]]
	talker first 7
	until_true 10 on_shm first
	exec 7>&-
	talked first
}

@test "reload: another user's process" {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	need setpriv
	local room
	begin "$(tcp_rule)"
	rules "$(both_rule)"
	room=$(mktemp -d /tmp/libsdp-reload.XXXXXX)
	cp "$(tool sdpconf)" "$room"
	chmod a+rx "$room"
	run setpriv --reuid 65534 --regid 65534 --clear-groups \
		"$room/sdpconf" reload "${PID[srv]}"
	rm -r "$room"
	[ "$status" -eq 1 ]
	[[ $output == *"${PID[srv]}: is another user's process"* ]]
	# nothing was asked for
	talker first 7
	until_true 10 on_tcp first
	exec 7>&-
	talked first
}

# tool NAME: the program itself, where that is a script of the build's.
tool() {
	if [ -e "$SDP_BUILD/.libs/$1" ]; then
		echo "$SDP_BUILD/.libs/$1"
	else
		command -v "$1"
	fi
}

@test "reload: all processes of a user" {
	[ "$(id -u)" -eq 0 ] || skip "needs root"
	need setpriv
	local room user=(setpriv --reuid 31337 --regid 31337 --clear-groups)
	rules "$(tcp_rule)"
	room=$(mktemp -d /tmp/libsdp-reload.XXXXXX)
	cp "$(tool sdpconf)" "$LIBSDP" "$BATS_TEST_DIRNAME/py/reload.py" "$room"
	cp "$FILE" "$room/rules"
	chmod -R a+rX "$room"
	SERVER_ENV=("${SERVER_ENV[@]/$LIBSDP/$room/libsdp.so}"
		"LIBSDP_CONFIG_FILE=$room/rules" LIBSDP_STATS_FILE=)
	run "${user[@]}" "$room/sdpconf" reload
	[ "$status" -eq 0 ]
	[[ $output == *"no process of yours"* ]]
	server srv "${user[@]}" "$PY" "$room/reload.py" serve "$PORT"
	wait_port "$PORT"
	both_rule >"$room/rules"
	run "${user[@]}" "$room/sdpconf" reload --timeout 0
	[ "$status" -eq 0 ]
	[ "$(wc -l <<<"$output")" -eq 2 ]
	[[ $output == *"${PID[srv]} "* ]]
	stop srv
	rm -r "$room"
}
