#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Descriptors run out: the library has a share of them, and gives back.

load helpers

teardown() {
	stop_all
}

@test "numbers: plain" {
	mode plain
	cases numbers -p fork
}

@test "numbers: lifted" {
	mode lifted
	cases numbers -p fork -w 60
}

@test "numbers: at once" {
	mode now
	cases numbers -p fork
	cases numbers -p fork -6
	[ "$MODE" = plain ] || [ "$(stat_sum numbers lifted)" -ge 8 ]
}

@test "numbers: no rule" {
	mode norule
	cases numbers -p fork
	proof 0 numbers
}
