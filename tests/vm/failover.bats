#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Queue pairs that break in mid-stream, on real verbs: servers on node 1,
# clients on node 2. Each stream goes on until the test has seen what it wants
# to see; every byte of it is checked, and the logs and counters of both ends
# tell that it was lifted, fell back and was lifted again.
# SDP_BULK_MIB: how much the last test moves in each direction (256;
# what is asked of a release is 1024).
# shellcheck disable=SC2016 # words for the shell over there

load lib
load streams

ENOUGH=/run/enough

setup() {
	need "$PY" openssl
	on 2 rm -f "$ENOUGH"
	until_true 30 busybox ping -c 1 -W 1 "$VM_ADDR4_2"
}

# A CM message that leaves while the link is down makes Soft-RoCE mute, until
# the device is made anew; a failed test may leave one so.
teardown() {
	stop_all
	vm_restore
	for n in 1 2; do
		on $n bash -c 'rdma link delete "$VM_RDMA"
			rdma link add "$VM_RDMA" type rxe netdev "$VM_LINK"'
	done
}

# --- streams that go on -----------------------------------------------------

# going turns | going bulk: both directions are lifted when it returns, and of
# bulk much is under way. Where all is slow a reader may be away for long.
going() {
	local kind=$1
	between lifted
	with LIBSDP_LOG=7:stderr LIBSDP_STALL_MS=2000
	PORT=$(free_port)
	if [ "$kind" = turns ]; then
		server far "$PY" "$TALK" server "$PORT"
		set -- "$TALK" client "$HOST" "$PORT" 100
	else
		server far "$PY" "$DUPLEX" server "$HOST" "$PORT"
		set -- "$DUPLEX" client "$HOST" "$PORT" 4
	fi
	wait_port "$PORT"
	start_on 2 cl env "${CLIENT_ENV[@]}" "$PY" "$@" until "$ENOUGH"
	came 2 LIFT
	[ "$kind" = turns ] || until_true 30 grep -q begun "$TMP/cl.out"
}

# said WORDS: lines of both ends' logs with them.
said() {
	cat "$TMP/far.err" "$TMP/cl.err" | grep -c "$1"
}

has_said() {
	[ "$(said "$2")" -ge "$1" ]
}

# came N WORDS: in the end both together have said it so often.
came() {
	until_true 40 has_said "$@" ||
		fail "$(tail -n 8 "$TMP/far.err" "$TMP/cl.err")"
}

broke() {
	came "$1" 'RDMA connection \(broke\|ended\)'
}

# goes_on: another round begins or ends.
grown() {
	[ "$(stat -c %s "$TMP/cl.out")" -gt "$1" ]
}

goes_on() {
	until_true 20 grown "$(stat -c %s "$TMP/cl.out")"
}

# total tx | total rx: bytes that both ends together count, by whatever path.
total() {
	echo $(($(stat_sum python3 "bytes_sdp_$1") +
		$(stat_sum python3 "bytes_tcp_$1")))
}

# enough: both ends end, and are content; both kinds of path were used, and by
# the counters, too, no byte was lost or came twice.
enough() {
	on 2 touch "$ENOUGH"
	wait_end cl || fail "client: $(tail -n 8 "$TMP/cl.err")"
	wait_end far || fail "server: $(tail -n 8 "$TMP/far.err")"
	proof 100000 python3
	until_true 5 stat_lines python3 2
	[ "$(stat_sum python3 bytes_tcp_tx)" -gt 0 ]
	[ "$(total tx)" -eq "$(total rx)" ] || {
		show_stats
		return 1
	}
}

# --- the link --------------------------------------------------------------

# away NODE: the link of that node goes down in mid-stream, and comes back.
away() {
	link_down "$1"
	broke 1
	link_up "$1"
	came 4 LIFT
}

@test "failover: the client's link is down for a while, a dialogue" {
	going turns
	away 2
	enough
}

@test "failover: the server's link is down for a while, a dialogue" {
	going turns
	away 1
	enough
}

@test "failover: the client's link is down for a while, both ways at once" {
	going bulk
	away 2
	goes_on
	enough
}

@test "failover: the server's link is down for a while, both ways at once" {
	going bulk
	away 1
	goes_on
	enough
}

@test "failover: the way is dead for a while, and no end is told" {
	going turns
	netem 1 loss 100%
	netem 2 loss 100%
	broke 1
	netem_off 1
	netem_off 2
	came 4 LIFT
	enough
}

@test "failover: packets are lost and come late and in disorder" {
	going bulk
	netem 1 loss 1% delay 1ms 1ms reorder 10%
	netem 2 loss 1% delay 1ms
	goes_on
	goes_on
	[ "$(dropped 1)" -gt 0 ]
	[ "$(dropped 2)" -gt 0 ]
	netem_off 1
	netem_off 2
	goes_on
	enough
}

# --- the device ------------------------------------------------------------

# bare NODE: its device is taken away; the stream goes on without one; then it
# is given back.
bare() {
	LIMIT=60 on "$1" rdma link delete "$VM_RDMA"
	broke 2
	rdma_add "$1"
	came 4 LIFT
}

@test "failover: the client's device is taken away, a dialogue" {
	going turns
	bare 2
	enough
}

@test "failover: the server's device is taken away, a dialogue" {
	going turns
	bare 1
	enough
}

@test "failover: the client's device is taken away, both ways at once" {
	going bulk
	LIMIT=60 on 2 rdma link delete "$VM_RDMA"
	broke 2
	goes_on
	goes_on
	rdma_add 2
	came 4 LIFT
	goes_on
	enough
}

@test "failover: one after the other: device, silence, device" {
	going bulk
	bare 1
	netem 2 loss 100%
	broke 3
	netem_off 2
	came 6 LIFT
	LIMIT=60 on 2 rdma link delete "$VM_RDMA"
	broke 5
	rdma_add 2
	came 8 LIFT
	enough
}

# --- the anchor too ---------------------------------------------------------

@test "failover: the server is killed while the link is down" {
	going turns
	link_down 1
	broke 1
	kill -KILL "${PID[far]}"
	link_up 1
	wait_end cl && fail "the client took it for a good end"
	tail -n 1 "$TMP/cl.err" | grep -qE 'EOF|early|Reset|reset|Broken'
}

@test "failover: the client is killed while the server's device is gone" {
	going turns
	LIMIT=60 on 1 rdma link delete "$VM_RDMA"
	broke 2
	signal_on 2 cl KILL
	wait_end far || tail -n 1 "$TMP/far.err" |
		grep -qE 'EOF|early|Reset|reset|Broken'
}

# --- many --------------------------------------------------------------------

# ends N STEP...: so many ends have gone through these steps, in this order;
# how often they spilled and were lifted again meanwhile does not count. Told:
# how far the others came, and the last that some of them said.
ends() {
	awk -v want="$1" -v steps="${*:2}" '
	BEGIN { count = split(steps, step) }
	{
		is = /transmits over SDP/ ? "lifted" :
			/RDMA connection (broke|ended)/ ? "broke" : ""
		if (!match($0, /python3\[[0-9]+\]/))
			next
		end = FILENAME substr($0, RSTART, RLENGTH)
		if (!match($0, /fd [0-9]+/))
			next
		end = end substr($0, RSTART, RLENGTH)
		last[end] = $0
		if (is && step[at[end] + 1] == is && ++at[end] == count)
			n++
	}
	END {
		print n + 0 " of " want ": " steps
		for (end in last) {
			came[at[end] + 0]++
			if (at[end] < count && told++ < 8)
				print last[end]
		}
		for (i = 0; i < count; i++)
			print came[i] + 0 " wait for step " i + 1
		exit n < want
	}' "$TMP/far.err" "$TMP/cl.err"
}

came_to() {
	until_true 40 ends "$@" ||
		fail "$(ends "$@"; tail -n 8 "$TMP/far.err" "$TMP/cl.err")"
}

# rounds N: so many rounds of asking are over, of all the connections together.
rounds() {
	[ "$(wc -l <"$TMP/cl.out")" -ge "$1" ]
}

# many CONNECTIONS COUNT SERVER...: the device of node 1 goes and comes back
# while they are all there. They ask in turns, with long pauses: what they ask
# goes over SDP where a turn begins after they were all lifted.
many() {
	local connections=$1 count=$2 over
	shift 2
	between lifted
	with LIBSDP_LIFT_AFTER_MESSAGES=4 LIBSDP_STALL_MS=2000 \
		LIBSDP_LOG=7:stderr
	PORT=$(free_port)
	server far "$PY" "$MANY" "$1" "$PORT" "${@:2}"
	wait_port "$PORT"
	start_on 2 cl env "${CLIENT_ENV[@]}" "$PY" "$MANY" client "$HOST" \
		"$PORT" "$connections" "$count" until "$ENOUGH"
	came_to $((2 * connections)) lifted
	LIMIT=60 on 1 rdma link delete "$VM_RDMA"
	came_to $((2 * connections)) lifted broke
	rdma_add 1
	came_to $((2 * connections)) lifted broke lifted
	over=$(wc -l <"$TMP/cl.out")
	# one of each may have begun before
	until_true 60 rounds $((over + connections + connections / 2))
	on 2 touch "$ENOUGH"
	wait_end cl || fail "client: $(tail -n 8 "$TMP/cl.err")"
	stop far
	until_true 5 stat_lines python3 2
	[ "$(stat_sum python3 bytes_sdp_tx)" -gt 10000 ]
}

@test "failover: workers that share a listener" {
	many 6 50 prefork 2
}

@test "failover: a server that forks for each connection" {
	many 4 50 forking
}

@test "failover: two hundred connections" {
	many 200 5 prefork 2
}

# --- much ---------------------------------------------------------------------

@test "failover: both ways at once, every byte in its place, much of it" {
	local mib=${SDP_BULK_MIB:-256}
	between lifted
	duplex_serve
	LIMIT=$((120 + 2 * mib)) duplex "$mib"
	duplex_end
	proof $((mib << 19)) python3
}
