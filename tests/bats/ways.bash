# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The ways in which a program of tests/progs is run (progs.bats has the list).

lifted() {
	mode lifted
	cases "$1" -p exec
	proof 10000 "$1"
	cases "$1" -p thread
}

at_once() {
	mode now
	cases "$1" -p fork
	cases "$1" -p fork -r -6 -w 0
	proof 10000 "$1"
}

home() {
	mode now
	cases "$1" -p fork -H pass
	cases "$1" -p exec -H exec
	cases "$1" -p fork -H fork
	proof 10000 "$1"
}

alone() {
	mode now
	cases "$1" -p plain
	cases "$1" -p plain -r
}

no_rule() {
	mode norule
	cases "$1" -p exec
	proof 0 "$1"
}

plain() {
	mode plain
	cases "$1" -p fork
}
