#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Between hosts, where several processes serve one port: a request comes to the
# one that has the RDMA port, and the connection is another's.

load helpers
load hosts

setup_file() {
	hosts_up
}

teardown_file() {
	hosts_down
}

setup() {
	hosts_library
	MANY=$BATS_TEST_DIRNAME/py/many_echo.py
	# shellcheck disable=SC2034 # for on
	ON=()
}

teardown() {
	stop_all
}

# many CONNECTIONS COUNT SERVER...: and the proof that each was lifted.
many() {
	local connections=$1 count=$2
	shift 2
	on_start "$B" server "$PY" "$MANY" "$@"
	ready "$2"
	on "$A" client timeout 60 "$PY" "$MANY" client 10.99.0.2 "$2" \
		"$connections" "$count"
	stop server
	until_true 5 came server lifted "$connections"
	[ "$(sum client lifted)" -eq "$connections" ]
	[ "$(sum server lifted)" -eq "$connections" ]
	[ "$(sum client bytes_sdp_tx)" -eq "$(sum server bytes_sdp_rx)" ]
	[ "$(sum server bytes_sdp_tx)" -eq "$(sum client bytes_sdp_rx)" ]
}

@test "redirect: workers that share a listener each lift what they accepted" {
	many 12 1500 prefork 7801 3
	[ "$(processes server lifted)" -ge 2 ]
	grep -q "sent on to RDMA port" "$TMP/client.log"
}

@test "redirect: a server that forks for each connection" {
	many 6 1500 forking 7802
	[ "$(processes server lifted)" -eq 6 ]
	grep -q "sent on to RDMA port" "$TMP/client.log"
}
