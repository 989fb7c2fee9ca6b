#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck disable=SC2034 # what is for hosts.bash and helpers.bash
#
# Between hosts: a stream that runs one way and never rests is lifted all the
# same, ahead of its reader.

load helpers
load hosts

setup() {
	need nginx curl iperf3
	hosts_setup
}

# mostly NAME FIELD BYTES: so many went by SDP. On a busy machine a reader that
# is kept from running sends the rest by way of the kernel.
mostly() {
	local sdp
	sdp=$(sum "$1" "$2")
	[ "$sdp" -gt "$3" ] || fail "$1: $2 $sdp"
}

nginx_on_b() {
	mkdir -p "$TMP/www"
	random_file "$TMP/www/big" 200000000
	cat >"$TMP/nginx.conf" <<CONF
worker_processes 2;
daemon off;
pid $TMP/nginx.pid;
error_log $TMP/error.log info;
events { worker_connections 256; }
http {
	access_log off;
	sendfile $1;
	client_body_temp_path $TMP/body;
	proxy_temp_path $TMP/proxy;
	fastcgi_temp_path $TMP/fastcgi;
	uwsgi_temp_path $TMP/uwsgi;
	scgi_temp_path $TMP/scgi;
	server { listen 10.99.0.2:8080; root $TMP/www; }
}
user root;
CONF
	on_start "$B" nginx nginx -p "$TMP" -c "$TMP/nginx.conf"
	ready 8080
}

download() {
	nginx_on_b "$1"
	on "$A" curl curl -sS --fail http://10.99.0.2:8080/big |
		cmp - "$TMP/www/big"
	stop nginx QUIT
	[ "$(sum curl lifted)" -eq 1 ]
	mostly curl bytes_sdp_rx 50000000
	mostly nginx bytes_sdp_tx 50000000
}

@test "bulk: nginx to curl, written" {
	download off
}

@test "bulk: nginx to curl, by sendfile" {
	download on
}

iperf() {
	on_start "$B" server iperf3 -s -1 -p 5301
	ready 5301
	on "$A" client timeout 60 iperf3 -c 10.99.0.2 -p 5301 -n 400M "$@" \
		>"$TMP/iperf"
	wait_end server
}

@test "bulk: iperf3, the client sends" {
	iperf
	mostly client bytes_sdp_tx 100000000
	mostly server bytes_sdp_rx 100000000
}

@test "bulk: iperf3, the server sends" {
	iperf -R
	mostly server bytes_sdp_tx 100000000
	mostly client bytes_sdp_rx 100000000
}

@test "bulk: iperf3, both at once" {
	iperf --bidir
	mostly client bytes_sdp_tx 100000000
	mostly client bytes_sdp_rx 100000000
}

@test "bulk: both write first, and read then" {
	local py=$BATS_TEST_DIRNAME/py/both_write.py
	on_start "$B" server "$PY" "$py" server 5302 60 400000
	ready 5302
	on "$A" client timeout 60 "$PY" "$py" client 5302 60 400000
	wait_end server
	[ "$(sum client lifted)" -eq 1 ]
	[ "$(sum server lifted)" -eq 1 ]
	mostly client bytes_sdp_tx 10000
}
