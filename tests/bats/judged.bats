#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# What the kernel alone judges, or does, in a stream that is lifted.

load helpers
load ways

teardown() {
	stop_all
}

@test "judged: plain" {
	plain judged
}

@test "judged: lifted" {
	lifted judged
}

@test "judged: at once" {
	at_once judged
}

@test "judged: home" {
	home judged
}

@test "judged: alone" {
	alone judged
}

@test "judged: no rule" {
	no_rule judged
}
