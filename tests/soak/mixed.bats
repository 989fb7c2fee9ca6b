#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Mixed traffic for a while (tests/soak/run, mixed.c), SDP_SOAK seconds of it in
# shares. SDP_SOAK_SEED repeats what was drawn.
# shellcheck disable=SC2030,SC2031 # each test has variables of its own

load ../bats/helpers
load ../bats/hosts

MIXED=$SDP_BUILD/tests/soak/mixed

setup_file() {
	hosts_up
}

setup() {
	[ -x "$MIXED" ] || fail "$MIXED is missing (make check)"
}

# share PERCENT: $seconds and $often, how long and when it is quiet.
share() {
	seconds=$((${SDP_SOAK:-300} * $1 / 100))
	often=$((seconds / 12))
	[ "$often" -ge 4 ] || often=4
	[ "$often" -le 60 ] || often=60
	OPTIONS=(-t "$seconds" -q "$often")
	[ -z "${SDP_SOAK_SEED-}" ] || OPTIONS+=(-s "$SDP_SOAK_SEED")
}

# What it says is shown while it runs.
shown_too() {
	tee "$1" | sed -u 's/^/# /' >&3
}

# alone ENVIRONMENT... -- OPTION...: with a folder of the library's pages of its
# own, where that can be had. What was counted goes to $TMP/sums, what is left in
# the folder when all have ended to $TMP/left.
alone() {
	local env=()
	while [ "$1" != -- ]; do
		env+=("$1")
		shift
	done
	shift
	# shellcheck disable=SC2016 # of the inner shell
	local run='out=$1; shift
		"$@"
		rc=$?
		sdpstat --stats --json >"$out/sums"
		ls /dev/shm >"$out/left"
		exit $rc'
	if unshare -m true 2>/dev/null; then
		# shellcheck disable=SC2016
		unshare -m sh -c 'mount -t tmpfs none /dev/shm || exit
			exec sh -c "$@"' sh "$run" sh "$TMP" \
			env "${env[@]}" "$MIXED" -F /dev/shm "$@"
	else
		sh -c "$run" sh "$TMP" env "${env[@]}" "$MIXED" "$@"
	fi 2> >(shown_too "$TMP/err")
}

counted() {
	grep -o "\"$1\": *[0-9]*" "$TMP/sums" | head -n 1 | grep -o '[0-9]*$'
}

# No page of a process that has ended, but that of the last one killed.
nothing_left() {
	unshare -m true 2>/dev/null || return 0
	refuse grep -v '^libsdp\.\(sums\|killed\)\.' "$TMP/left"
}

@test "soak: mixed traffic on TCP, without the library" {
	share 10
	alone -- "${OPTIONS[@]}"
	nothing_left
	grep -q 'done: .* refused 0$' "$TMP/err"
}

@test "soak: mixed traffic, lifted at once" {
	share 40
	need_library
	alone LD_PRELOAD="$LIBSDP" LIBSDP_CONFIG_FILE="$RULES/both.conf" \
		LIBSDP_LIFT_AFTER_MESSAGES=0 LIBSDP_LIFT_AFTER_BYTES=0 \
		-- "${OPTIONS[@]}"
	nothing_left
	# Each second more than that, by far.
	[ "$(counted lifted)" -gt "$seconds" ]
	[ "$(counted fallbacks)" -gt "$seconds" ]
	[ "$(counted bytes_sdp_rx)" -gt $((seconds * 1000000)) ]
}

@test "soak: mixed traffic, default settings" {
	share 20
	need_library
	alone LD_PRELOAD="$LIBSDP" LIBSDP_CONFIG_FILE="$RULES/both.conf" \
		-- "${OPTIONS[@]}"
	nothing_left
	[ "$(counted lifted)" -gt "$((seconds / 10))" ]
	[ "$(counted bytes_sdp_rx)" -gt $((seconds * 100000)) ]
}

# Queue pairs break now and then.
@test "soak: mixed traffic between hosts, pretended devices" {
	local port=7799 server rc=0
	share 30
	hosts_library
	# shellcheck disable=SC2034 # of hosts.bash
	ON=(LIBSDP_LOG=9 FAKE_BREAK=20000
		LIBSDP_LIFT_AFTER_MESSAGES=0 LIBSDP_LIFT_AFTER_BYTES=0)
	on_start "$B" server "$MIXED" -l "$port" -q 4
	ready "$port"
	on "$A" client "$MIXED" -c "10.99.0.2:$port" "${OPTIONS[@]}" &
	PID["client"]=$!
	tail -f --pid="${PID[client]}" "$TMP/client.log" 2>/dev/null |
		sed -u 's/^/# /' >&3
	wait "${PID[client]}" || rc=$?
	unset "PID[client]"
	kill "${PID[server]}" || rc=$?
	server=${PID[server]}
	unset "PID[server]"
	wait "$server" || rc=$?
	[ "$rc" -eq 0 ] || sed 's/^/# server: /' "$TMP/server.log" >&3
	[ "$rc" -eq 0 ]
	[ "$(sum client bytes_rdma_rx)" -gt $((seconds * 10000)) ]
}
