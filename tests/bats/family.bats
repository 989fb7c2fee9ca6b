#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Between hosts, as in hosts.bats: forks, children that are killed, other programs
# that were given the socket.
# shellcheck disable=SC2030,SC2031,SC2034 # every test has variables of its own, and
# talk.bash uses them

load helpers
load hosts
load talk

@test "family: a fork brings the stream back to TCP, parent and child go on" {
	local watch
	SOFT=yes
	touch "$TMP/hold"
	until_over "$TMP/hold.waits" 7777 100000
	talk 100 held fork "$TMP/hold"
	wait "$watch"
	[ "$(sum client lifted)" -eq 1 ]
	[ "$(sum client fallbacks)" -eq 1 ]
	[ "$(sum client bytes_sdp_tx)" -gt 100000 ]
}

# back FILE PORT BYTES: FILE comes when the child of `held fork` has removed it and
# both ends go over SDP again; wait for $watch.
back() {
	(
		bad=0
		until_true 60 gone "$1" || bad=1
		until_true 60 over "$2" 2 "$3" || bad=1
		touch "$1"
		exit $bad
	) 3>&- &
	watch=$!
}

gone() {
	[ ! -e "$1" ]
}

@test "family: lifted again when the child of a fork is gone" {
	local lift back
	SOFT=yes
	touch "$TMP/hold"
	until_over "$TMP/hold.waits" 7777 100000
	lift=$watch
	back "$TMP/hold" 7777 100000
	back=$watch
	talk 100 held fork until "$TMP/hold" 2>"$TMP/talk"
	wait "$lift"
	wait "$back"
	[ "$(sum client fallbacks)" -eq 1 ]
	[ "$(grep -c 'LIFT: .* transmits' "$TMP/talk")" -eq 4 ]
}

@test "family: lifted again behind a fork, though its parent sleeps" {
	local lift back py=$BATS_TEST_DIRNAME/py/asleep.py
	SOFT=yes
	touch "$TMP/hold"
	on "$B" server timeout 100 /usr/bin/python3 "$py" \
		server 7784 "$TMP/hold" 2>"$TMP/talk" 3>&- &
	server=$!
	until_true 10 there 7784
	until_over "$TMP/hold.waits" 7784 100000
	lift=$watch
	back "$TMP/hold" 7784 100000
	back=$watch
	on "$A" client timeout 100 /usr/bin/python3 "$py" \
		client 10.99.0.2 7784 "$TMP/hold"
	wait "$server"
	wait "$lift"
	wait "$back"
	[ "$(sum server fallbacks)" -eq 1 ]
	[ "$(grep -c 'LIFT: .* transmits' "$TMP/talk")" -eq 2 ]
}

# What it was counted in has to be taken back: lifted again, what comes would be
# left to it for ever.
@test "family: a fork's child is killed in its sleep" {
	local how lift back
	SOFT=yes
	for how in poll recv poll recv close; do
		rm -f "$TMP/client.stats" "$TMP/hold.waits"
		touch "$TMP/hold"
		until_over "$TMP/hold.waits" 7777 100000
		lift=$watch
		back "$TMP/hold" 7777 100000
		back=$watch
		talk 100 held killed "$how" again until "$TMP/hold" 2>"$TMP/talk"
		wait "$lift"
		wait "$back"
		[ "$(grep -c 'LIFT: .* transmits' "$TMP/talk")" -ge 4 ]
	done
}

@test "family: a child is killed in its sleep before the ends have met" {
	local how watch
	SOFT=yes
	for how in poll recv poll recv; do
		rm -f "$TMP/enough"
		until_over "$TMP/enough" 7777 100000
		talk 0 killed "$how" until "$TMP/enough" 2>"$TMP/talk"
		wait "$watch"
	done
}

@test "family: a program that a vfork() child executes writes to the socket" {
	SOFT=yes
	until_counted bytes_sdp_tx child_says.py 7781 5000
}

# What the program wrote comes behind what is still in the ring, and both have to
# be handed back.
@test "family: a program was given the socket, and the reader forks" {
	SOFT=yes
	until_counted bytes_sdp_tx given.py 7782 3000
}

@test "family: a fork while the two ends are about to meet" {
	local py=$BATS_TEST_DIRNAME/py/digest_echo.py
	SOFT=yes
	touch "$TMP/hold"
	on "$B" server timeout 90 /usr/bin/python3 "$py" server 7780 3>&- &
	server=$!
	until_true 10 there 7780
	BREAK=FAKE_HOLD=$TMP/hold
	on "$A" client timeout 90 /usr/bin/python3 "$py" client 10.99.0.2 \
		7780 100 held fork "$TMP/hold"
	wait "$server"
}

@test "family: a fork with unread bytes: the child has them" {
	local watch py=$BATS_TEST_DIRNAME/py/fork_unread.py
	SOFT=yes
	until_over "$TMP/lifted" 7779 100
	on "$B" server timeout 300 /usr/bin/python3 "$py" server 7779 3>&- &
	server=$!
	until_true 60 there 7779
	on "$A" client timeout 300 /usr/bin/python3 "$py" client 10.99.0.2 7779 \
		"$TMP/lifted"
	wait "$server"
	wait "$watch"
	[ "$(sum client lifted)" -eq 1 ]
}
