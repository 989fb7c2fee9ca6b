#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Between hosts, programs that ask for the address family 27: qperf.

load helpers
load hosts

setup() {
	need qperf
	hosts_setup
}

# measure TEST: what it counts is not nought, and both ends used SDP.
measure() {
	on_start "$B" server qperf --listen_port 7821
	ready 7821
	on "$A" client timeout 60 qperf --listen_port 7821 10.99.0.2 -t 3 "$1" \
		>"$TMP/out"
	grep -A 1 "^$1:" "$TMP/out" | grep -qE '= +[1-9][0-9.,]* '
	stop server
	[ "$(sum client lifted)" -ge 1 ]
	until_true 5 came server lifted 1
	[ "$(sum client bytes_sdp_tx)" -gt 100 ]
	refuse grep -q 'failed for SDP' "$TMP/client.log"
}

@test "native: sdp_lat between hosts" {
	measure sdp_lat
}

@test "native: sdp_bw between hosts" {
	measure sdp_bw
}
