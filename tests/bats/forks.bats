#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
# Handlers of pthread_atfork() that hold a mutex or use sockets, forks by several
# threads at once, and sets that report what only a child holds by now.

load helpers

teardown() {
	stop_all
}

@test "forks: plain" {
	mode plain
	cases forks -p fork
}

@test "forks: lifted" {
	mode lifted
	cases forks -p exec
	proof 10000 forks
}

@test "forks: at once" {
	mode now
	cases forks -p fork
	cases forks -p fork -r -6 -w 0
	proof 10000 forks
}

@test "forks: no rule" {
	mode norule
	cases forks -p exec
	proof 0 forks
}
