#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Numbers and sets that one thread uses while another closes or replaces them.

load helpers

teardown() {
	stop_all
}

@test "closes: plain" {
	mode plain
	cases closes
}

@test "closes: no rule" {
	mode norule
	cases closes
}

@test "closes: lifted" {
	mode lifted
	cases closes -n 2
	[ "$(stat_sum closes lifted)" -gt 100 ]
}

@test "closes: at once" {
	mode now
	cases closes -n 2
	[ "$(stat_sum closes lifted)" -gt 100 ]
}
