#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# haproxy with two threads and splicing, in front of nginx, under curl and wrk.

load helpers
load web

setup() {
	need haproxy nginx curl wrk openssl
}

teardown() {
	stop_all
}

start_haproxy() {
	FRONT=$(free_port)
	cat >"$TMP/haproxy.cfg" <<END
global
	nbthread 2
	maxconn 200
defaults
	mode $1
	timeout connect 100s
	timeout client 100s
	timeout server 100s
	option splice-request
	option splice-response
listen front
	bind $HOST:$FRONT
	server nginx $HOST:$PORT
END
	server haproxy haproxy -db -f "$TMP/haproxy.cfg"
	wait_port "$FRONT"
}

scenario() {
	mode "$1"
	www
	start_nginx on
	start_haproxy "$2"
	fetch "http://$HOST:$FRONT"
	wrk_some 2000 6 "http://$HOST:$FRONT/page"
	stop haproxy USR1 15
	stop_nginx
	silent haproxy nginx
	proof 8000000 haproxy nginx curl
	proof 1000000 wrk
}

@test "haproxy: plain, http" {
	scenario plain http
}

@test "haproxy: plain, tcp" {
	scenario plain tcp
}

@test "haproxy: everybody preloaded, http" {
	scenario lifted http
}

@test "haproxy: everybody preloaded, tcp" {
	scenario lifted tcp
}

@test "haproxy: lifted from the first message" {
	scenario now http
}

@test "haproxy: no rule concerns it" {
	scenario norule http
}

@test "haproxy: only the servers preloaded" {
	mode half
	www
	start_nginx on
	start_haproxy http
	fetch "http://$HOST:$FRONT"
	# haproxy and nginx are both servers here, and met
	[ "$MODE" = plain ] || MODE=lifted
	stop haproxy USR1 15
	stop_nginx
	silent haproxy nginx
}
