#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The programs of tests/progs, case by case, with main on node 1 and the peer
# on node 2, lifted from the first message on where SDP_EXPECT lets it; main
# connects and accepts, over IPv4 and IPv6.

load lib

teardown() {
	stop_all
	vm_restore
}

far() {
	mode now
	cases "$1" -p node
	cases "$1" -p node -r -6 -w 0
	proof 10000 "$1"
}

@test "between: the cases themselves are right" {
	mode plain
	cases halfclose -p node
}

@test "between: stream" {
	far stream
}

@test "between: calls" {
	far calls
}

@test "between: flags" {
	far flags
}

@test "between: nonblock" {
	far nonblock
}

@test "between: polls" {
	far polls
}

@test "between: epolls" {
	far epolls
}

@test "between: halfclose" {
	far halfclose
}

@test "between: life" {
	far life
}

@test "between: procs" {
	far procs
}

@test "between: pass" {
	far pass
}

@test "between: signals" {
	far signals
}

@test "between: options" {
	far options
}
