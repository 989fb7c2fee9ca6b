#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# A process is killed, or gets a signal, at places all over the code of its calls.

load helpers
load ways

teardown() {
	stop_all
}

@test "steps: plain" {
	mode plain
	cases steps
}

@test "steps: at once" {
	mode now
	cases steps
	[ "$(stat_sum steps lifted)" -gt 100 ]
}

@test "interrupts: plain" {
	mode plain
	cases interrupts
}

@test "interrupts: no rule" {
	mode norule
	cases interrupts
}

@test "interrupts: at once" {
	mode now
	cases interrupts
	[ "$(stat_sum interrupts lifted)" -gt 100 ]
}
