#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Language runtimes: test suites that come with packages, as they are, and one
# echo dialogue in each language, through that language's own kind of socket.

load helpers

teardown() {
	stop_all
}

tornado() {
	"$PY" -c 'import tornado.test' ||
		lack "no python3-tornado"
	mode "$1"
	cd "$TMP" || return
	export ASYNC_TEST_TIMEOUT=40
	client "$PY" -m tornado.test.runtests tornado.test.iostream_test \
		>"$TMP/out" 2>&1 || {
		tail -n 60 "$TMP/out" >&2
		return 1
	}
	proof 50000 python3
}

# dialogue PROGRAM COMMAND...: 200 lines there and back, plain, then lifted.
dialogue() {
	talk "plain lifted now" "$@"
}

# The same where streams of stdio.h hold the socket: stays on TCP, says so.
dialogue_stdio() {
	talk "plain norule" "$@"
	mode now
	talk_once "${@:2}"
	assert_not_lifted
	[ "$(grep "\"program\":\"$1\"" "$STATS" | grep -c '"stdio":1')" -eq 1 ]
}

talk_once() {
	PORT=$(free_port)
	server lines "$PY" "$BATS_TEST_DIRNAME/py/lines.py" "$PORT"
	wait_port "$PORT"
	[ "$(client "$@" "$PORT")" = 200 ]
	stop lines
	silent lines
}

# talk MODES PROGRAM COMMAND...
talk() {
	local m modes=$1 program=$2
	need "$program"
	shift 2
	for m in $modes; do
		mode "$m"
		talk_once "$@"
		proof 1000 "$program" python3
	done
}

@test "tornado's tests: plain" {
	tornado plain
}

@test "tornado's tests: lifted from the first message" {
	tornado now
}

@test "dialogue: bash, whose sockets are streams of stdio" {
	dialogue_stdio bash bash "$BATS_TEST_DIRNAME/lines/client.bash"
}

@test "dialogue: gawk, whose sockets are streams of stdio" {
	dialogue_stdio gawk gawk -f "$BATS_TEST_DIRNAME/lines/client.awk"
}

@test "dialogue: perl" {
	dialogue perl perl "$BATS_TEST_DIRNAME/lines/client.pl"
}

@test "dialogue: tcl" {
	dialogue tclsh tclsh "$BATS_TEST_DIRNAME/lines/client.tcl"
}

@test "dialogue: ruby" {
	dialogue ruby ruby "$BATS_TEST_DIRNAME/lines/client.rb"
}

@test "dialogue: php" {
	dialogue php php "$BATS_TEST_DIRNAME/lines/client.php"
}

@test "dialogue: java" {
	need javac
	dialogue java java "$BATS_TEST_DIRNAME/lines/Client.java"
}

# What a test has built is found by its name.
built_here() {
	PATH=$TMP:$PATH
}

# The sanitizer's own library refuses to be any but the first, unless told that
# it need not be; and it must still find what it is there for.
sanitized_fault() {
	mode "$1"
	PORT=$(free_port)
	server lines "$PY" "$BATS_TEST_DIRNAME/py/lines.py" "$PORT"
	wait_port "$PORT"
	refuse client sanitized "$PORT" fault >"$TMP/out" 2>"$TMP/err"
	grep -q heap-buffer-overflow "$TMP/err"
	stop lines
}

@test "dialogue: C, built with the address sanitizer" {
	need gcc
	gcc -g -O1 -fsanitize=address -o "$TMP/sanitized" \
		"$BATS_TEST_DIRNAME/c/lines.c" ||
		lack "gcc has no address sanitizer"
	built_here
	dialogue sanitized sanitized
	sanitized_fault plain
	sanitized_fault now
}

# A stream that a ring of liburing is asked about falls back, from there on.
@test "dialogue: C, which waits by liburing" {
	need gcc
	gcc -O1 -o "$TMP/ringed" "$BATS_TEST_DIRNAME/c/ringed.c" -luring ||
		lack "no liburing"
	"$SDP_PROGS/uring" -t || skip "this kernel gives out no io_uring"
	built_here
	talk "plain norule" ringed ringed
	mode now
	talk_once ringed
	[ "$(stat_sum ringed lifted)" -eq 1 ]
	[ "$(grep '"program":"ringed"' "$STATS" | grep -c '"bypassed":1')" -eq 1 ]
}

# A stream that is registered with a ring is the kernel's from there on, however
# it was registered; and where the kernel takes entries by itself nothing lifts.
@test "liburing: registered descriptors" {
	need gcc
	gcc -O1 -o "$TMP/registered" "$BATS_TEST_DIRNAME/c/registered.c" \
		-luring || lack "no liburing"
	"$SDP_PROGS/uring" -t || skip "this kernel gives out no io_uring"
	built_here
	local how
	for how in early late update tags entry enter thread; do
		mode plain
		[ "$(client registered $how)" = "ok $how" ]
		mode now
		[ "$(client registered $how)" = "ok $how" ]
		case $how in
		late | update | tags | entry)
			[ "$(stat_sum registered lifted)" -gt 0 ]
			;;
		*) [ "$(stat_sum registered lifted)" -eq 0 ] ;;
		esac
		[ "$(grep -c '"bypassed":' "$STATS")" -eq 1 ]
	done
}

# The probes of the program's memory are no mistakes of the program.
@test "dialogue: C, under a memory checker" {
	need gcc valgrind
	gcc -g -O1 -o "$TMP/checked" "$BATS_TEST_DIRNAME/c/lines.c"
	mode now
	PORT=$(free_port)
	server lines "$PY" "$BATS_TEST_DIRNAME/py/lines.py" "$PORT"
	wait_port "$PORT"
	[ "$(client valgrind -q --error-exitcode=9 --log-file="$TMP/log" \
		"$TMP/checked" "$PORT")" -eq 200 ]
	stop lines
	cat "$TMP/log"
	[ ! -s "$TMP/log" ]
	[ "$(stat_sum python3 lifted)" -gt 0 ]
}

# Built as extensions are: plugged -> libouter.so -> liblines.so, found by the
# search path of the program (`flags` say which kind of that).
plugged() {
	local flags=$1 how=$2
	mkdir -p "$TMP/plug"
	gcc -O1 -shared -fPIC -Dmain=plugged -Wl,-z,relro,-z,"$how" \
		-o "$TMP/plug/liblines.so" "$BATS_TEST_DIRNAME/c/lines.c"
	gcc -shared -o "$TMP/plug/libouter.so" -L"$TMP/plug" -Wl,-z,"$how" \
		-Wl,--no-as-needed -llines -Wl,-rpath,"\$ORIGIN"
	gcc -O1 -o "$TMP/plugged" "$BATS_TEST_DIRNAME/c/plugged.c" \
		-Wl,-rpath,"\$ORIGIN/plug" -Wl,"$flags" -ldl
}

# plugged_talk NAME HOW: all of its lines come back, by SDP where it is on.
plugged_talk() {
	PORT=$(free_port)
	server lines "$PY" "$BATS_TEST_DIRNAME/py/lines.py" "$PORT"
	wait_port "$PORT"
	[ "$(client "$TMP/plugged" "$1" "$2" "$PORT")" -eq 200 ]
	stop lines
}

@test "dialogue: C, in a library opened with RTLD_DEEPBIND" {
	need gcc
	local flags how name
	for flags in --enable-new-dtags --disable-new-dtags; do
		for how in now lazy; do
			plugged $flags $how
			mode plain
			plugged_talk libouter.so $how
			for name in libouter.so "$TMP/plug/libouter.so" \
				"\$ORIGIN/plug/libouter.so"; do
				mode now
				plugged_talk "$name" $how
				[ "$(stat_sum plugged lifted)" -eq 1 ]
			done
		done
	done
	refuse client "$TMP/plugged" libnowhere.so now 1 2>"$TMP/err"
	grep -q 'libnowhere.so: cannot open' "$TMP/err"
}

@test "dialogue: php, by its extension for sockets" {
	need php
	php -m | grep -qx sockets || lack "php has no extension for sockets"
	dialogue php php "$BATS_TEST_DIRNAME/lines/sockets.php"
}
