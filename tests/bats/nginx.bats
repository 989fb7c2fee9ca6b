#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# nginx with two workers, under curl and wrk.

load helpers
load web

setup() {
	need nginx curl wrk openssl
}

teardown() {
	stop_all
}

# Reload while a slow transfer is under way: it must come to its end.
reload() {
	background slow curl -sS --fail --limit-rate 6M \
		"http://$HOST:$PORT/big" -o "$TMP/slow"
	until_true 5 test -s "$TMP/slow"
	local before
	before=$(children "${PID[nginx]}")
	kill -HUP "${PID[nginx]}"
	until_true 5 changed "$before"
	# a worker that still accepts would close the connection after its first reply
	local pid
	for pid in $before; do
		until_true 5 retiring "$pid"
	done
	fetch "http://$HOST:$PORT"
	wait_end slow 20
	same "$TMP/www/big" "$TMP/slow"
}

retiring() {
	gone "$1" || grep -q 'shutting down' "/proc/$1/cmdline"
}

changed() {
	[ "$(children "${PID[nginx]}")" != "$1" ]
}

scenario() {
	mode "$1"
	www
	start_nginx "$2"
	fetch "http://$HOST:$PORT"
	wrk_some 2000 8 "http://$HOST:$PORT/page"
	wrk_some 1 3 "http://$HOST:$PORT/big"
	reload
	stop_nginx
	silent nginx
	proof 8000000 nginx curl
	proof 1000000 wrk
}

@test "nginx: plain, sendfile" {
	scenario plain on
}

@test "nginx: plain, no sendfile" {
	scenario plain off
}

@test "nginx: both ends preloaded, sendfile" {
	scenario lifted on
}

@test "nginx: both ends preloaded, no sendfile" {
	scenario lifted off
}

@test "nginx: lifted from the first message, sendfile" {
	scenario now on
}

@test "nginx: lifted from the first message, no sendfile" {
	scenario now off
}

@test "nginx: no rule concerns it" {
	scenario norule on
}

@test "nginx: only the server preloaded" {
	scenario half on
}

@test "nginx: only the clients preloaded" {
	scenario half2 on
}
