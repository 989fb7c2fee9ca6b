#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Calls that end with a part of what they were asked for, in the ways of
# progs.bats: by handlers, time limits, and pipes that take no more.

load helpers
load ways

teardown() {
	stop_all
}

@test "parts: plain" {
	plain parts
}

@test "parts: lifted" {
	lifted parts
}

@test "parts: at once" {
	at_once parts
}

@test "parts: home" {
	home parts
}

@test "parts: alone" {
	alone parts
}

@test "parts: no rule" {
	no_rule parts
}

@test "pipes: plain" {
	plain pipes
}

@test "pipes: lifted" {
	lifted pipes
}

@test "pipes: at once" {
	at_once pipes
}

@test "pipes: home" {
	home pipes
}

@test "pipes: alone" {
	alone pipes
}

@test "pipes: no rule" {
	no_rule pipes
}
