#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Zero copy for a while (tests/soak/run): transfers of sizes around the
# threshold, with delays, every byte checked by the programs; settings, cases
# and kinds of peer are drawn anew for each run. SDP_SOAK seconds for each
# fabric; SDP_SOAK_SEED repeats what was drawn.

load ../bats/helpers
load ../bats/hosts

SHM="out in duplex turns vector file cross sips"
SINK=$("$SDP_PROGS/zcsink" -l)
FAR="out in turns vector file"
# whose ends need not see each other's processes
FAR_SINK=$(printf '%s\n' "$SINK" | grep -vx asleep)

setup_file() {
	far_up
}

# shellcheck disable=SC2034 # ON: of hosts.bash
setup() {
	ON=()
	RANDOM=${SDP_SOAK_SEED:-$$}
	end=$(($(date +%s) + ${SDP_SOAK:-60}))
	runs=0
	moved=0
	spared=0
	bad=0
}

# pick WORD...: one of them.
pick() {
	local n=$((RANDOM % $# + 1))
	printf '%s' "${!n}"
}

draw() {
	SET=("LIBSDP_ZCOPY=$(pick always always auto)"
		"LIBSDP_ZCOPY_THRESHOLD=$(pick 2048 16384 65536 262144)"
		"LIBSDP_ZCOPY_WAIT_MS=$(pick 1 2 20 200)"
		"LIBSDP_SPIN_US=$(pick 0 50 50)")
}

# account RC WHAT...: a run is over; its counts are in $STATS.
account() {
	local rc=$1
	shift
	runs=$((runs + 1))
	moved=$((moved + $(total bytes_sdp_rx)))
	spared=$((spared + $(total zcopy_rx)))
	: >"$STATS"
	[ "$rc" -ne 0 ] || [ "$(cat "$TMP/out")" != "ok ${!#}" ] || return 0
	bad=$((bad + 1))
	{
		echo "# FAILED, status $rc: ${SET[*]} $*"
		tail -n 12 "$TMP/err"
	} >&3
}

total() {
	grep -o "\"$1\":[0-9]*" "$STATS" 2>/dev/null |
		awk -F: '{ n += $2 } END { printf "%.0f", n }'
}

# The end of a test. Nothing without a copy proves nothing.
verdict() {
	echo "# $1: $runs runs, $bad failed, $((moved / 1000000)) MB over SDP," \
		"$((spared / 1000000)) MB of them without a copy" >&3
	[ "$bad" -eq 0 ] && [ "$runs" -gt 0 ] && [ "$spared" -gt 1000000 ]
}

more() {
	[ "$(date +%s)" -lt "$end" ]
}

@test "soak: zero copy on one host" {
	local prog what rc
	while more; do
		mode now
		draw
		prog=$(pick zcopy zcopy zcsink)
		# shellcheck disable=SC2046,SC2086,SC2207 # words
		what=(-p "$(pick exec fork thread)" $(pick -r -6 "-r -6" "")
			"$(pick $([ "$prog" = zcopy ] && echo $SHM || echo $SINK))")
		rc=0
		CLIENT_ENV+=("${SET[@]}")
		LIMIT=120 client "$SDP_PROGS/$prog" "${what[@]}" \
			>"$TMP/out" 2>"$TMP/err" || rc=$?
		account "$rc" "$prog" "${what[@]}"
	done
	verdict "one host"
}

@test "soak: zero copy between hosts, pretended devices" {
	local prog what rc
	far_setup
	while more; do
		draw
		prog=$(pick zcopy zcsink)
		# shellcheck disable=SC2046,SC2086,SC2207 # words
		what=(-w 2000 $(pick -r -6 "-r -6" "")
			"$(pick $([ "$prog" = zcopy ] && echo $FAR ||
				echo $FAR_SINK))")
		rc=0
		: >"$TMP/case.log"
		# shellcheck disable=SC2034 # of hosts.bash
		ON=("${NODES[@]}" "${SET[@]}")
		on "$A" case timeout -k 5 120 "$SDP_PROGS/$prog" -p node \
			"${what[@]}" >"$TMP/out" || rc=$?
		grep -v 'MATCH\|LISTEN\|CONNECT' "$TMP/case.log" >"$TMP/err" || :
		cat "$TMP/case.stats" >"$STATS" && : >"$TMP/case.stats"
		account "$rc" "$prog" "${what[@]}"
	done
	verdict "between hosts"
}
