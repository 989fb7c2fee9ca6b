#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The peer's last bytes, carried by another connection (standin.c).

load helpers
load ways

teardown() {
	stop_all
}

@test "standins: plain" {
	plain standins
}

@test "standins: lifted" {
	lifted standins
}

@test "standins: at once" {
	at_once standins
}
