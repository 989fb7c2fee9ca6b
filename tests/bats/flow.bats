#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Options that shape a stream: how fast, how much, and when. Each case holds
# itself against the kernel's TCP.

load helpers

teardown() {
	stop_all
}

@test "flow: plain" {
	mode plain
	cases flow -p fork
}

@test "flow: lifted" {
	mode lifted
	cases flow -p exec
	proof 10000 flow
	cases flow -p thread
}

@test "flow: at once" {
	mode now
	cases flow -p fork
	cases flow -p fork -r -6 -w 0
	proof 10000 flow
}

@test "flow: home" {
	mode now
	cases flow -p fork -H pass
	cases flow -p fork -H fork
	proof 10000 flow
}

@test "flow: alone" {
	mode now
	cases flow -p plain
	cases flow -p plain -r
}
