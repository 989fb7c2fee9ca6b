#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck disable=SC2034 # what is for hosts.bash and helpers.bash
#
# Between hosts, where several processes serve one port: a request comes to the
# one that has the RDMA port, and the connection is another's.

load helpers
load hosts

MANY=$BATS_TEST_DIRNAME/py/many_echo.py

# lifted PORT CONNECTIONS HOW: each of them goes over SDP, both ways; the client
# goes on until it was seen. How long the ends take is not for the test to say.
lifted() {
	on_start "$A" client timeout 300 "$PY" "$MANY" "$3" 10.99.0.2 "$1" \
		"$2" 100 until "$TMP/enough"
	until_true 40 over "$1" $((2 * $2)) 1000
	touch "$TMP/enough"
	wait_end client
	stop server
	until_true 5 came server lifted "$2"
	[ "$(sum client lifted)" -eq "$2" ]
	[ "$(sum server lifted)" -eq "$2" ]
	[ "$(sum client bytes_sdp_tx)" -eq "$(sum server bytes_sdp_rx)" ]
	[ "$(sum server bytes_sdp_tx)" -eq "$(sum client bytes_sdp_rx)" ]
}

# many CONNECTIONS SERVER PORT...: and the proof that each was lifted.
many() {
	local connections=$1
	shift
	on_start "$B" server "$PY" "$MANY" "$@"
	ready "$2"
	lifted "$2" "$connections" client
}

@test "redirect: workers that share a listener each lift what they accepted" {
	many 12 prefork 7801 3 4
	[ "$(processes server lifted)" -eq 3 ]
	grep -q "sent on to RDMA port" "$TMP/client.log"
}

@test "redirect: a server that forks for each connection" {
	many 6 forking 7802
	[ "$(processes server lifted)" -eq 6 ]
	grep -q "sent on to RDMA port" "$TMP/client.log"
}

@test "redirect: nginx with two workers" {
	need nginx wrk
	mkdir -p "$TMP/www"
	random_file "$TMP/www/page" 1024
	cat >"$TMP/nginx.conf" <<CONF
worker_processes 2;
daemon off;
user root;
pid $TMP/nginx.pid;
error_log $TMP/error.log info;
events { worker_connections 256; }
http {
	access_log off;
	keepalive_requests 1000000;
	client_body_temp_path $TMP/body;
	proxy_temp_path $TMP/proxy;
	fastcgi_temp_path $TMP/fastcgi;
	uwsgi_temp_path $TMP/uwsgi;
	scgi_temp_path $TMP/scgi;
	server { listen 10.99.0.2:7804 reuseport; root $TMP/www; }
}
CONF
	on_start "$B" server nginx -p "$TMP" -c "$TMP/nginx.conf"
	ready 7804
	# in some seconds where the machine is idle, in more where it is not
	local seconds
	for seconds in 4 16 64; do
		rm -f "$TMP/client.stats"
		on "$A" client wrk -t 2 -c 16 -d "${seconds}s" --timeout 100s \
			http://10.99.0.2:7804/page >"$TMP/wrk"
		refuse grep -E 'Non-2xx|Socket errors' "$TMP/wrk"
		[ "$(sum client lifted)" -lt 14 ] || break
	done
	stop server QUIT
	[ "$(sum client lifted)" -ge 14 ]
	[ "$(sum server lifted)" -ge 14 ]
	[ "$(processes server lifted)" -eq 2 ]
	grep -q "sent on to RDMA port" "$TMP/client.log"
}

@test "redirect: socat, a child for each connection" {
	need socat
	on_start "$B" server socat TCP-LISTEN:7805,fork,reuseaddr EXEC:cat
	ready 7805
	lifted 7805 4 echo
	[ "$(processes server lifted)" -eq 4 ]
}
