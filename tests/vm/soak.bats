#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Zero copy for a while, between two hosts on real verbs: as
# tests/soak/zcopy.bats, with main on node 1 and the peer on node 2.

load lib
load ../soak/draw

teardown() {
	stop_all
	vm_restore
}

@test "soak: zero copy between hosts, real verbs" {
	local prog what rc
	soak_setup
	while more; do
		mode now
		draw
		draw_far
		with "${SET[@]}"
		rc=0
		client "$SDP_PROGS/$prog" -p node "${what[@]}" \
			>"$TMP/out" 2>"$TMP/err" || rc=$?
		account "$rc" "$prog" "${what[@]}"
	done
	verdict "between hosts, real verbs"
}
