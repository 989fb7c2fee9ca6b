#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Zero copy for a while (tests/soak/run) on one machine.
# shellcheck disable=SC2030,SC2031 # each test draws its own

load ../bats/helpers
load ../bats/hosts
load draw

setup_file() {
	far_up
}

# shellcheck disable=SC2034 # ON: of hosts.bash
setup() {
	ON=()
	soak_setup
}

@test "soak: zero copy on one host" {
	local prog peer way name what rc
	while more; do
		mode now
		draw
		pick prog zcopy zcopy zcsink
		pick peer exec fork thread
		pick way -r -6 "-r -6" ""
		# shellcheck disable=SC2086 # words
		case $prog in
		zcopy) pick name $SHM ;;
		*) pick name $SINK ;;
		esac
		# shellcheck disable=SC2206 # words
		what=(-p "$peer" $way "$name")
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
		draw_far
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
