#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Between hosts: two network namespaces joined by a veth, and in place of
# libsdp-verbs.so the pretended devices of tests/fake.
# shellcheck disable=SC2030,SC2031,SC2034 # every test has variables of its own, and
# talk.bash uses them

load helpers
load hosts
load talk

@test "hosts: a dialogue is lifted over RDMA, every byte right" {
	local watch
	SOFT=yes
	until_over "$TMP/enough" 7777 100000
	talk 100 until "$TMP/enough"
	wait "$watch"
	[ "$(sum client lifted)" -eq 1 ]
	[ "$(sum server lifted)" -eq 1 ]
	[ "$(sum client bytes_sdp_tx)" -gt 100000 ]
	[ "$(sum client bytes_sdp_tx)" -eq "$(sum server bytes_sdp_rx)" ]
	[ "$(sum server bytes_sdp_tx)" -eq "$(sum client bytes_sdp_rx)" ]
}

@test "hosts: closed with bytes unread on the anchor: a reset, as on TCP" {
	SOFT=yes
	until_counted stalls left.py 7783 3000
}

@test "hosts: software devices are left alone unless a setting says so" {
	local watch
	SOFT=no
	export LIBSDP_PATH=both
	(
		bad=0
		until_true 30 shown stays 7777 peer 1 soft-device || bad=1
		touch "$TMP/enough"
		exit $bad
	) 3>&- &
	watch=$!
	talk 100 until "$TMP/enough"
	wait "$watch"
	[ "$(sum client lifted)" -eq 0 ]
	[ "$(sum client bytes_sdp_tx)" -eq 0 ]
	grep -q '"soft-device":1' "$TMP/client.stats"
}

@test "hosts: a waiting thread comes out when the peer stalls" {
	local how pid pids=() port=7790 py=$BATS_TEST_DIRNAME/py/spill.py
	SOFT=yes
	for how in recv poll select level edge; do
		port=$((port + 1))
		on "$B" server timeout 120 /usr/bin/python3 "$py" \
			server $port $how 3>&- &
		pids+=("$!")
		until_true 10 there $port
		on "$A" client timeout 120 /usr/bin/python3 "$py" \
			client 10.99.0.2 $port 5 3>&- &
		pids+=("$!")
	done
	for pid in "${pids[@]}"; do
		wait "$pid"
	done
	[ "$(sum client stalls)" -ge 5 ]
}

# Over and over, until so much went over SDP: when a stream is lifted is for the
# machine to say.
@test "hosts: a program that is told of room can send" {
	local py=$BATS_TEST_DIRNAME/py/sockets.py
	SOFT=yes
	for _ in {1..30}; do
		SDP_HOST=10.99.0.2 on "$B" server /usr/bin/python3 "$py" \
			listen 7779 by_selector by_selector 3>&- &
		server=$!
		until_true 60 there 7779
		SDP_HOST=10.99.0.2 on "$A" client /usr/bin/python3 "$py" \
			connect 7779 by_selector by_selector
		wait "$server"
		[ "$(sum client bytes_sdp_tx)" -lt 10000000 ] || break
	done
	[ "$(sum client bytes_sdp_tx)" -ge 10000000 ]
}

# The kernel always has room for a few bytes. Here they need credits, which were
# gone in more than half of all cases, to reports on what was read.
@test "hosts: a reader of much can send a few bytes" {
	local py=$BATS_TEST_DIRNAME/py/few.py told refused
	SOFT=yes
	for _ in {1..30}; do
		on "$B" server /usr/bin/python3 "$py" server 7780 3>&- &
		server=$!
		until_true 60 there 7780
		on "$A" client /usr/bin/python3 "$py" \
			client 10.99.0.2 7780 134217728 >>"$TMP/few"
		wait "$server"
		[ "$(sum client bytes_sdp_rx)" -lt 60000000 ] || break
	done
	[ "$(sum client bytes_sdp_rx)" -ge 60000000 ]
	read -r told refused < <(awk '{ t += $1; r += $2 }
		END { print t, r }' "$TMP/few")
	echo "$told times, $refused without room" >&3
	[ "$refused" -le $((told / 4)) ]
}

@test "hosts: queue pairs break: on over TCP, lifted again, no byte lost" {
	local n again
	SOFT=yes
	for n in 1 2 5 9 30; do
		BREAK=FAKE_BREAK=$n
		talk 3000
	done
	# messages of each queue pair: until its ends may lift again they exchange
	# hundreds, as fast as the dialogue turns
	BREAK=FAKE_BREAK=30000
	(
		until_true 60 said 4 LIFT
		touch "$TMP/again"
	) 3>&- &
	again=$!
	talk 100 until "$TMP/again" 2>"$TMP/talk"
	wait "$again"
	said 1 "$LOST"
}

@test "hosts: an end that hears nothing of it is told on the anchor" {
	local n
	SOFT=yes
	DEAF=FAKE_DEAF=1
	for n in 3 8 40; do
		BREAK=FAKE_BREAK=$n
		talk 1500
	done
}

# with something on it, or when nothing was
LOST='RDMA connection \(broke\|ended\)'

# said N WORDS: by client and server together.
said() {
	[ "$(grep -cs "$2" "$TMP/talk")" -ge "$1" ]
}

# down SECONDS: the way is down for so long at least, and comes back.
down() {
	local downs
	SOFT=yes
	BREAK=FAKE_DOWN=$TMP/down
	(
		# both have lifted; the sender finds it broken, the other one
		# perhaps only when the way is back; both lift again
		until_true 30 said 2 LIFT
		touch "$TMP/down"
		until_true 30 said 1 "$LOST"
		sleep "$1"
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

@test "hosts: the way is down for a while" {
	down 0
}

# A listener is found however late, also where it was asked to once only.
@test "hosts: the way is down for longer than a listener is kept for nothing" {
	export LIBSDP_RDMA_RETRY_S=1
	down 35
}

stopped() {
	grep -q '^State:.T' "/proc/$(cat "$TMP/c.stop")/status"
}

# What comes to a closed socket is answered by a reset, which takes what the
# kernel still held for the other end: here the record by which that goes on,
# after its peer has closed, before it reads.
@test "hosts: an end that has said all and closes during a failover is heard" {
	local client py=$BATS_TEST_DIRNAME/py/failover_close.py
	SOFT=yes
	BREAK=FAKE_DOWN=$TMP/c.down
	on "$B" server timeout 200 /usr/bin/python3 "$py" server 7783 150000 \
		"$TMP/c" 3>&- 2>"$TMP/server.log" &
	server=$!
	until_true 10 there 7783
	on "$A" client timeout 200 /usr/bin/python3 "$py" client 10.99.0.2 \
		7783 150000 "$TMP/c" 3>&- 2>"$TMP/talk" &
	client=$!
	until_true 30 over 7783 2 1000
	touch "$TMP/c.lifted"
	until_true 10 test -e "$TMP/c.stop"
	until_true 10 stopped
	touch "$TMP/c.down"
	until_true 30 said 1 'RDMA connection broke'
	touch "$TMP/c.broke"
	until_true 10 test -e "$TMP/c.closed"
	rm "$TMP/c.down"
	kill -CONT "$(cat "$TMP/c.stop")"
	until_true 30 grep -q 'RDMA connection broke' "$TMP/server.log"
	sleep 1 # the reset, if there is one, has come by then
	touch "$TMP/c.late"
	wait "$server" || fail "$(tail -n 5 "$TMP/server.log")"
	touch "$TMP/c"
	wait "$client"
}

# lent N ARGUMENT...: as talk() with N large requests, when both are lifted;
# large sends lend their memory if they can.
lent() {
	local lifted n=$1
	shift
	: >"$TMP/talk" # not what the one before said
	(
		until_true 30 said 2 LIFT
		touch "$TMP/lifted"
	) 3>&- &
	lifted=$!
	LIBSDP_ZCOPY=always LIBSDP_ZCOPY_THRESHOLD=4096 \
		LIBSDP_ZCOPY_WAIT_MS="${wait_ms-2}" \
		talk 100 large "$n" "$@" until "$TMP/lifted" 2>"$TMP/talk"
	wait "$lifted"
	rm "$TMP/lifted"
	grep -v ' MATCH' "$TMP/talk"
}

@test "hosts: large sends lend their memory, every byte right" {
	SOFT=yes
	wait_ms=1000
	lent 200
	[ "$(sum client zcopy_tx)" -gt 10000000 ]
	[ "$(sum server zcopy_tx)" -gt 1000000 ]
	[ "$(sum client zcopy_tx)" -eq "$(sum server zcopy_rx)" ]
	[ "$(sum server zcopy_tx)" -eq "$(sum client zcopy_rx)" ]
	[ "$(sum client bytes_sdp_tx)" -eq "$(sum server bytes_sdp_rx)" ]
}

@test "hosts: large sends whose readers do not come at once" {
	SOFT=yes
	wait_ms=1
	lent 200
	[ "$(sum client bytes_sdp_tx)" -gt 10000000 ]
}

@test "hosts: what is lent, and queue pairs that break at each message" {
	local n
	SOFT=yes
	wait_ms=1000
	for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 15 17 20; do
		BREAK=FAKE_BREAK_LENT=$n
		lent 12
		said 1 'RDMA connection broke'
	done
}

@test "hosts: a read that is never completed gives the queue pair up" {
	local n
	SOFT=yes
	wait_ms=1000
	for n in 1 2 5; do
		BREAK=FAKE_STUCK=$n
		lent 20
		said 1 'RDMA connection broke (-110)'
	done
}

@test "hosts: memory that cannot be registered is copied" {
	SOFT=yes
	BREAK=FAKE_NOREG=5
	lent 100
	[ "$(sum client zcopy_unregistered)" -gt 10 ]
	[ "$(sum client bytes_sdp_tx)" -eq "$(sum server bytes_sdp_rx)" ]
	said 1 'memory cannot be registered'
}

# The direction is taken away while memory is lent: each send says exactly
# how much went, and what its buffer holds afterwards does not matter.
@test "hosts: sources whose readers come late, and what happens meanwhile" {
	local how lifted py=$BATS_TEST_DIRNAME/py/sources.py
	SOFT=yes
	export LIBSDP_ZCOPY=always LIBSDP_ZCOPY_THRESHOLD=4096
	for how in late fork timeo alarm half; do
		: >"$TMP/talk"
		(
			until_true 30 said 2 LIFT
			touch "$TMP/lifted"
		) 3>&- &
		lifted=$!
		LIBSDP_ZCOPY_WAIT_MS=1000 on "$B" server timeout 60 \
			/usr/bin/python3 "$py" server 7780 2>>"$TMP/talk" 3>&- &
		server=$!
		until_true 10 there 7780
		LIBSDP_ZCOPY_WAIT_MS=1000 on "$A" client timeout 60 \
			/usr/bin/python3 "$py" client 10.99.0.2 7780 \
			"$TMP/lifted" $how 2>>"$TMP/talk" ||
			fail "$how: $(grep -v MATCH "$TMP/talk")"
		wait "$server"
		wait "$lifted"
		rm "$TMP/lifted"
	done
	[ "$(sum client zcopy_tx)" -gt 1000000 ]
}

# sunk LARGE: as the client of sinks.py, when both are lifted; so many large
# receives, or until that file is there.
sunk() {
	local lifted py=$BATS_TEST_DIRNAME/py/sinks.py
	: >"$TMP/talk"
	export LIBSDP_ZCOPY=always LIBSDP_ZCOPY_THRESHOLD=4096
	export LIBSDP_ZCOPY_WAIT_MS=${wait_ms-1000} LIBSDP_ZCOPY_WRITE=always
	(
		until_true 30 said 2 LIFT
		touch "$TMP/lifted"
	) 3>&- &
	lifted=$!
	on "$B" server timeout 90 /usr/bin/python3 "$py" server 7781 \
		2>>"$TMP/talk" 3>&- &
	server=$!
	until_true 10 there 7781
	LIBSDP_ZCOPY=${reader-always} on "$A" client timeout 90 \
		/usr/bin/python3 "$py" client 10.99.0.2 7781 \
		"$TMP/lifted" "$1" 2>>"$TMP/talk" ||
		fail "$(grep -v MATCH "$TMP/talk")"
	wait "$server"
	wait "$lifted"
	rm "$TMP/lifted"
}

# broken WHAT: the same with BREAK, until that has happened.
broken() {
	local watch
	BREAK=$1
	rm -f "$TMP/broke"
	: >"$TMP/talk" # the last one's break is none of this one's
	(
		until_true 60 said 1 'RDMA connection broke'
		touch "$TMP/broke"
	) 3>&- &
	watch=$!
	sunk "$TMP/broke"
	wait "$watch"
}

@test "hosts: large sends are written into a receiver that waits" {
	SOFT=yes
	sunk 60
	[ "$(sum server zcopy_tx)" -gt 1000000 ]
	[ "$(sum client zcopy_rx)" -gt 1000000 ]
}

# Longer than the half second that a reader has for its answer. Nothing but writes
# counts: what is lent cannot be read.
@test "hosts: a write that takes its time is not given up" {
	SOFT=yes
	BREAK=FAKE_LATE=800
	DEAF=FAKE_NOREAD=1
	wait_ms=2
	sunk 6
	[ "$(sum server zcopy_tx)" -gt 0 ]
	[ "$(sum client zcopy_rx)" -gt 0 ]
}

# What a writer says it wrote is taken for granted. The first write would break
# the queue pair.
@test "hosts: memory is offered to a trusted host, or where a setting insists" {
	SOFT=yes
	BREAK=FAKE_LOSE=1
	reader=auto
	sunk 60
	# not one that was given up, for time
	if said 1 'RDMA connection broke' &&
		! said 1 'broke (-1\(25\|10\))'; then
		fail "memory was offered"
	fi
	[ "$(sum client zcopy_rx)" -gt 0 ]
	export LIBSDP_TRUSTED=10.99.0.0/24
	broken FAKE_LOSE=1
}

# The write was done: its bytes are there, and the reader has not heard of them.
@test "hosts: what was written, and is lost with the queue pair" {
	local n
	SOFT=yes
	for n in 1 2 3 5 9; do
		broken FAKE_LOSE=$n
	done
}

@test "hosts: memory on offer, and queue pairs that break at each message" {
	local n
	SOFT=yes
	for n in 1 2 3 4 5 6 7 8 10 13; do
		broken FAKE_BREAK_LENT=$n
	done
}

# On RDMA or on TCP: the server's row.
row_says() {
	ip netns exec "$B" sdpstat --json --pid "$1" >"$TMP/row"
	jq -es "[.[0][0].list[] | select(.state == \"open\" and
		.reason != \"unmanaged\")] | length == 1 and
		(.[0] | $2)" "$TMP/row"
}

@test "hosts: rules that are read again, for a connection that exists" {
	need sdpconf sdpstat jq
	local py=$BATS_TEST_DIRNAME/py/reload.py pid port=7801
	SOFT=yes
	ON=(SDP_HOST=10.99.0.2 LIBSDP_LIFT_AFTER_MESSAGES=0
		LIBSDP_LIFT_AFTER_BYTES=0 "LIBSDP_CONFIG_FILE=$TMP/rules")
	echo "use both server * *:$port" >"$TMP/rules"
	on_start "$B" server /usr/bin/python3 "$py" serve "$port"
	until_true 10 there "$port"
	mkfifo "$TMP/in"
	exec 9<>"$TMP/in"
	on_become "$A" client /usr/bin/python3 "$py" talk "$port" \
		<"$TMP/in" >"$TMP/talked" 3>&- 9>&- &
	PID[client]=$!
	pid=${PID[server]}
	for _ in 1 2 3; do
		until_true 20 row_says "$pid" \
			'.path.tx == "rdma" and .path.rx == "rdma"'
		echo "use tcp server * *:$port" >"$TMP/rules"
		ip netns exec "$B" sdpconf reload --apply --timeout 30 "$pid"
		# what was put back has to be read first
		until_true 10 row_says "$pid" '.path.tx == "tcp" and
			.path.rx == "tcp" and .reason == "rule-changed"'
		echo "use both server * *:$port" >"$TMP/rules"
		ip netns exec "$B" sdpconf reload --apply --timeout 30 "$pid"
	done
	exec 9>&-
	wait_end client
	grep '^ok [1-9]' "$TMP/talked"
}
