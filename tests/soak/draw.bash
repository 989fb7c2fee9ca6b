# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Zero copy for a while: transfers of sizes around the threshold, with delays,
# every byte checked by the programs; settings, cases and kinds of peer are
# drawn anew for each run. SDP_SOAK seconds for each fabric; SDP_SOAK_SEED
# repeats what was drawn. Here (tests/soak/run), and on real verbs (tests/vm).
# shellcheck disable=SC2034 # the tests use it

SHM="out in duplex turns vector file cross sips"
SINK=$("$SDP_PROGS/zcsink" -l)
FAR="out in turns vector file"
# whose ends need not see each other's processes
FAR_SINK=$(printf '%s\n' "$SINK" | grep -vx asleep)

soak_setup() {
	seed=${SDP_SOAK_SEED:-$$}
	RANDOM=$seed
	end=$(($(date +%s) + ${SDP_SOAK:-60}))
	runs=0
	moved=0
	spared=0
	bad=0
}

# pick NAME WORD...: one of them. Not in a shell below this one: what that draws
# is not of our seed.
pick() {
	printf -v "$1" %s "${@:2 + RANDOM % ($# - 1):1}"
}

draw() {
	local zcopy sinks threshold wait spin
	pick zcopy always always auto
	pick sinks auto always always
	pick threshold 2048 16384 65536 262144
	pick wait 1 2 20 200
	pick spin 0 50 50
	SET=("LIBSDP_ZCOPY=$zcopy" "LIBSDP_ZCOPY_WRITE=$sinks"
		"LIBSDP_ZCOPY_THRESHOLD=$threshold"
		"LIBSDP_ZCOPY_WAIT_MS=$wait" "LIBSDP_SPIN_US=$spin")
}

# draw_far: $prog and $what, which main and a peer on the other host run.
draw_far() {
	local way name
	pick prog zcopy zcsink
	pick way -r -6 "-r -6" ""
	# shellcheck disable=SC2086,SC2154 # words; pick has set it
	case $prog in
	zcopy) pick name $FAR ;;
	*) pick name $FAR_SINK ;;
	esac
	# shellcheck disable=SC2206 # words
	what=(-w 2000 $way "$name")
}

# account RC what...: a run is over; its counts are in $STATS.
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
	echo "# $1: seed $seed, $runs runs, $bad failed," \
		"$((moved / 1000000)) MB over SDP," \
		"$((spared / 1000000)) MB of them without a copy" >&3
	[ "$bad" -eq 0 ] && [ "$runs" -gt 0 ] && [ "$spared" -gt 1000000 ]
}

more() {
	[ "$(date +%s)" -lt "$end" ]
}
