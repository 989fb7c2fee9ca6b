#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# shellcheck disable=SC2034 # what is for hosts.bash and helpers.bash
#
# Between hosts: which devices count, peers that do not answer, and requests of
# those who have no connection.

load helpers
load hosts

MANY=$BATS_TEST_DIRNAME/py/many_echo.py

# dialogue CONNECTIONS COUNT: on port 7901.
dialogue() {
	on_start "$B" server "$PY" "$MANY" prefork 7901 1
	ready 7901
	on "$A" client timeout 60 "$PY" "$MANY" client 10.99.0.2 7901 "$@"
	stop server
}

@test "devices: a real one is used where the path says so" {
	SOFT=no
	ON=(FAKE_HARD=1 LIBSDP_PATH=both)
	dialogue 1 2000 2 1
	[ "$(sum client lifted)" -eq 1 ]
	[ "$(sum client bytes_sdp_tx)" -gt 100000 ]
}

@test "devices: a real one is not used by default" {
	SOFT=no
	ON=(FAKE_HARD=1)
	dialogue 1 500
	[ "$(sum client lifted)" -eq 0 ]
	grep -q '"setting":1' "$TMP/client.stats"
}

@test "devices: path shm keeps what leaves the host on TCP" {
	ON=(LIBSDP_PATH=shm)
	dialogue 1 500
	[ "$(sum client lifted)" -eq 0 ]
	grep -q '"remote":1' "$TMP/client.stats"
}

@test "devices: for Soft-RoCE not even the module is loaded" {
	SOFT=no
	ON=(FAKE_HARD=1 RXE=1)
	rm "$TMP/lib/libsdp-verbs.so"
	dialogue 1 500
	[ "$(sum client lifted)" -eq 0 ]
	grep -q '"soft-device":1' "$TMP/client.stats"
}

@test "devices: a rule that insists is refused at once" {
	on_start "$B" server "$PY" "$MANY" prefork 7901 1
	ready 7901
	ON=(LIBSDP_USE=sdp LIBSDP_SDP_TIMEOUT_MS=60000)
	refuse on "$A" client timeout 30 "$PY" "$MANY" client 10.99.0.2 7901 1 1
	stop server
	grep -q "ConnectionRefusedError" "$TMP/client.log"
	grep -q '"unproved":1' "$TMP/client.stats"
}

@test "devices: without the module" {
	rm "$TMP/lib/libsdp-verbs.so"
	dialogue 1 3000
	[ "$(sum client lifted)" -eq 0 ]
	grep -q '"no-verbs":1' "$TMP/client.stats"
}

@test "devices: sdpstat shows which, and the memory registered" {
	on_start "$B" server "$PY" "$MANY" prefork 7904 1
	ready 7904
	# it goes on asking until all was seen
	on_start "$A" client timeout 100 "$PY" "$MANY" client 10.99.0.2 7904 2 \
		1000 1 90
	until_true 30 shown
	until_true 30 shown_line
	stop client
	stop server
}

shown() {
	sdpstat --json >"$TMP/sdpstat"
	"$PY" - "$TMP/sdpstat" <<END_PY
import json, sys
procs = json.load(open(sys.argv[1]))
rows = [(p, s) for p in procs for s in p["list"] if "device" in s
        and 7904 in (s["local"]["port"], s["peer"]["port"])]
assert len(rows) == 4
for p, s in rows:
    assert s["path"] == {"tx": "verbs", "rx": "verbs"}
    assert s["device"] == "fake0/1" and 0 < s["registered"] <= 65536
    assert p["registered"] == 2 * s["registered"]
END_PY
}

shown_line() {
	sdpstat | grep -q "verbs .* fake0/1 "
}

@test "strangers: a burst to a peer without the library pays once" {
	ip netns exec "$B" "$PY" "$MANY" prefork 7902 1 3>&- &
	PID["plain"]=$!
	ready 7902
	on "$A" client timeout 110 "$PY" "$MANY" client 10.99.0.2 7902 20 200 \
		1 12
	[ "$(sum client lifted)" -eq 0 ]
	grep -q '"peer-plain":20' "$TMP/client.stats"
	# tries of one connection, not of twenty
	[ "$(grep -c "RDMA try" "$TMP/client.log")" -le 30 ]
}

@test "strangers: requests of those who have no connection" {
	on_start "$B" server "$PY" "$MANY" prefork 7903 1
	ready 7903
	# a candidate whose peer does not dial: it listens
	ip netns exec "$A" "$PY" "$MANY" client 10.99.0.2 7903 1 200 1 6 3>&- &
	PID["plain"]=$!
	until_true 5 b_listens $((7903 ^ 0x4000))
	local port
	port=$(ip netns exec "$B" ss -Htn state established "sport = :7903" |
		awk '{ n = split($4, a, ":"); print a[n] }')
	ip netns exec "$A" "$PY" "$BATS_TEST_DIRNAME/py/stranger.py" \
		10.99.0.2 7903 "$port" 200
	# and who has one is heard as before
	on "$A" client timeout 60 "$PY" "$MANY" client 10.99.0.2 7903 3 1500
	wait_end plain
	stop server
	[ "$(sum client lifted)" -eq 3 ]
	[ "$(sum server lifted)" -eq 3 ]
}
