#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Between hosts: two network namespaces joined by a veth, and in place of
# libsdp-verbs.so the pretended devices of tests/fake.

load helpers
load hosts

# A server that a failed test leaves behind.
teardown() {
	[ -z "${server-}" ] || kill "$server" 2>/dev/null || :
}

setup() {
	hosts_library
}

# on NAMESPACE NAME COMMAND...: preloaded, on a host with a device.
on() {
	local ns=$1 name=$2
	shift 2
	# shellcheck disable=SC2016
	ip netns exec "$ns" env LIBSDP_STATS_FILE="$TMP/$name.stats" \
		LIBSDP_LOG=7:stderr LIBSDP_SOFT_DEVICES="$SOFT" \
		${BREAK:+"$BREAK"} ${DEAF:+"$DEAF"} \
		sh -c 'mount -t tmpfs none /sys/class &&
		mkdir -p /sys/class/infiniband/fake0 &&
		LD_PRELOAD=$0 exec "$@"' "$TMP/lib/libsdp.so" "$@"
}

# there PORT: somebody listens on the other host.
there() {
	ip netns exec "$B" ss -ltn | grep -q ":$1"
}

# talk COUNT...: as the client of digest_echo.py; BREAK: what befalls it.
talk() {
	local py=$BATS_TEST_DIRNAME/py/digest_echo.py server
	on "$B" server /usr/bin/python3 "$py" server 7777 3>&- &
	server=$!
	until_true 10 there 7777
	on "$A" client /usr/bin/python3 "$py" client 10.99.0.2 7777 "$@"
	wait "$server"
}

# sum NAME FIELD: over the processes of that side.
sum() {
	grep -o "\"$2\":[0-9]*" "$TMP/$1.stats" |
		awk -F: '{ n += $2 } END { print n + 0 }'
}

@test "hosts: a dialogue is lifted over RDMA, every byte right" {
	SOFT=yes
	talk 6000
	[ "$(sum client lifted)" -eq 1 ]
	[ "$(sum server lifted)" -eq 1 ]
	[ "$(sum client bytes_sdp_tx)" -gt 100000 ]
	[ "$(sum client bytes_sdp_tx)" -eq "$(sum server bytes_sdp_rx)" ]
	[ "$(sum server bytes_sdp_tx)" -eq "$(sum client bytes_sdp_rx)" ]
}

@test "hosts: a fork brings the stream home, parent and child go on" {
	SOFT=yes
	talk 6000 fork
	[ "$(sum client lifted)" -eq 1 ]
	[ "$(sum client homecomings)" -eq 1 ]
	[ "$(sum client bytes_sdp_tx)" -gt 100000 ]
}

@test "hosts: software devices are left alone unless a setting says so" {
	SOFT=no
	export LIBSDP_PATH=both
	talk 500
	[ "$(sum client lifted)" -eq 0 ]
	[ "$(sum client bytes_sdp_tx)" -eq 0 ]
	grep -q '"soft-device":1' "$TMP/client.stats"
}

@test "hosts: whoever waits comes out when the peer spills" {
	local how server py=$BATS_TEST_DIRNAME/py/spill.py
	SOFT=yes
	for how in recv poll select level edge; do
		on "$B" server timeout 60 /usr/bin/python3 "$py" server 7778 $how &
		server=$!
		until_true 10 there 7778
		on "$A" client timeout 60 /usr/bin/python3 "$py" \
			client 10.99.0.2 7778 5
		wait "$server"
	done
	[ "$(sum client spills)" -ge 5 ]
}

@test "hosts: queue pairs break: on over TCP, lifted again, no byte lost" {
	local n
	SOFT=yes
	for n in 1 2 5 9 30 200; do
		BREAK=FAKE_BREAK=$n
		talk 3000
	done
	# more than those that broke could carry
	[ "$(sum client bytes_sdp_tx)" -gt 100000 ]
}

# bats test_tags=unsteady
@test "hosts: an end that hears nothing of it is told on the anchor" {
	local n
	SOFT=yes
	DEAF=FAKE_DEAF=1
	for n in 3 8 40; do
		BREAK=FAKE_BREAK=$n
		talk 1500
	done
}

# said N WORDS: by client and server together.
said() {
	[ "$(grep -cs "$2" "$TMP/talk")" -ge "$1" ]
}

@test "hosts: the way is down for a while" {
	local downs
	SOFT=yes
	BREAK=FAKE_DOWN=$TMP/down
	(
		# both have lifted; who sends finds it broken, the other one
		# perhaps only when the way is back; both lift again
		until_true 30 said 2 LIFT
		touch "$TMP/down"
		until_true 30 said 1 'RDMA connection broke'
		rm "$TMP/down"
		until_true 30 said 4 LIFT
		touch "$TMP/enough"
	) 3>&- &
	downs=$!
	talk 100 until "$TMP/enough" 2>"$TMP/talk"
	wait "$downs"
	grep -v ' MATCH' "$TMP/talk"
	said 4 LIFT
}

@test "hosts: a fork with unread bytes: the child has them" {
	local py=$BATS_TEST_DIRNAME/py/fork_unread.py
	SOFT=yes
	on "$B" server timeout 60 /usr/bin/python3 "$py" server 7779 3>&- &
	server=$!
	until_true 10 there 7779
	on "$A" client timeout 60 /usr/bin/python3 "$py" client 10.99.0.2 7779
	wait "$server"
	[ "$(sum client lifted)" -eq 1 ]
}
