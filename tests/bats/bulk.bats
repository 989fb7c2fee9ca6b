#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck disable=SC2034 # what is for hosts.bash and helpers.bash
#
# Between hosts: a stream that runs one way and never rests is lifted all the
# same, ahead of its reader.

load helpers
load hosts

setup() {
	need nginx curl iperf3 jq
	hosts_setup
}

# flown NAME FIELD BYTES: of a process that runs, so many until now.
flown() {
	[ "$(sdpstat --json --pid "${PID[$1]}" | jq ".[0].$2")" -ge "$3" ]
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

# How much goes by TCP until the two ends have met is the machine's business:
# the reader does not hurry before. There is always more than it has taken, and
# behind the lift comes more than the kernel holds (tcp_rmem, tcp_wmem).
download() {
	# a writer that waits for that reader is not to go on over TCP
	ON=(LIBSDP_STALL_MS=60000)
	nginx_on_b "$1"
	mkfifo "$TMP/pipe"
	"$PY" "$BATS_TEST_DIRNAME/py/gate.py" "$TMP/lifted" <"$TMP/pipe" \
		>"$TMP/got" 3>&- &
	PID["reader"]=$!
	on_start "$A" curl curl -sS --fail http://10.99.0.2:8080/big \
		>"$TMP/pipe"
	until_true 30 shown writes 8080
	touch "$TMP/lifted"
	wait_end curl
	wait_end reader
	cmp "$TMP/got" "$TMP/www/big"
	stop nginx QUIT
	[ "$(sum curl lifted)" -eq 1 ]
	[ "$(sum curl bytes_sdp_rx)" -ge 50000000 ]
	[ "$(sum nginx bytes_sdp_tx)" -eq "$(sum curl bytes_sdp_rx)" ]
}

@test "bulk: nginx to curl, written" {
	download off
}

@test "bulk: nginx to curl, by sendfile" {
	download on
}

# iperf TX RX ARGUMENT...: on and on, until so many bytes that the client sends
# and receives have gone by SDP.
iperf() {
	local tx=$1 rx=$2
	shift 2
	on_start "$B" server iperf3 -s -1 -p 5301
	ready 5301
	on_start "$A" client iperf3 -c 10.99.0.2 -p 5301 -t 3000 "$@" \
		>"$TMP/iperf"
	until_true 30 flown client bytes_sdp_tx "$tx"
	until_true 30 flown server bytes_sdp_rx "$tx"
	until_true 30 flown client bytes_sdp_rx "$rx"
	until_true 30 flown server bytes_sdp_tx "$rx"
	stop client INT
	until_true 30 gone "${PID[server]}"
}

@test "bulk: iperf3, the client sends" {
	iperf 100000000 0
}

@test "bulk: iperf3, the server sends" {
	iperf 0 100000000 -R
}

@test "bulk: iperf3, both at once" {
	iperf 100000000 100000000 --bidir
}

@test "bulk: both write first, and read then" {
	local py=$BATS_TEST_DIRNAME/py/both_write.py
	on_start "$B" server "$PY" "$py" server 5302 400000
	ready 5302
	on_start "$A" client "$PY" "$py" client 5302 400000 "$TMP/enough"
	until_true 30 flown client bytes_sdp_tx 400000
	until_true 30 flown server bytes_sdp_tx 400000
	touch "$TMP/enough"
	wait_end client
	wait_end server
	[ "$(sum client lifted)" -eq 1 ]
	[ "$(sum server lifted)" -eq 1 ]
}
