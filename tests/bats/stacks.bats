#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Programs whose threads and signal handlers have the smallest stacks.

load helpers

teardown() {
	stop_all
}

@test "stacks: plain" {
	mode plain
	cases stacks
}

@test "stacks: no rule" {
	mode norule
	cases stacks
}

@test "stacks: lifted" {
	mode lifted
	cases stacks
}

@test "stacks: at once" {
	mode now
	cases stacks
	[ "$(stat_sum stacks lifted)" -gt 0 ]
}
