#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Programs that a preloaded library meets by chance: of another libc, without
# any, static, with raised privileges. Each starts, does its work and ends as if
# the library were not there.

load helpers

setup() {
	need gcc
	need_library
}

teardown() {
	rm -rf "${OPEN-}"
}

# works PROGRAM: what it says is the same with the library, and not a word more.
works() {
	[ "$("$1" 2>&1)" = works ]
	[ "$(LD_PRELOAD=$LIBSDP "$1" 2>&1)" = works ]
	[ "$(LD_BIND_NOW=1 LD_PRELOAD=$LIBSDP "$1" 2>&1)" = works ]
}

@test "musl: dynamic" {
	need musl-gcc
	musl-gcc -O1 -o "$TMP/musl" "$BATS_TEST_DIRNAME/c/works.c"
	works "$TMP/musl"
}

@test "musl: static" {
	need musl-gcc
	musl-gcc -O1 -static -o "$TMP/musl" "$BATS_TEST_DIRNAME/c/works.c"
	works "$TMP/musl"
}

@test "static" {
	gcc -O1 -static -o "$TMP/static" "$BATS_TEST_DIRNAME/c/works.c"
	works "$TMP/static"
}

@test "dynamic, without libc" {
	gcc -O1 -nostdlib -nostartfiles -fno-stack-protector -pie \
		-Wl,-dynamic-linker,"$(interpreter)" \
		-o "$TMP/bare" "$BATS_TEST_DIRNAME/c/bare.c"
	works "$TMP/bare"
}

# The dynamic linker that bash asks for.
interpreter() {
	readelf -l /bin/bash |
		sed -n 's/.*program interpreter: \(.*\)]/\1/p'
}

@test "with a stack that may be executed" {
	gcc -O1 -z execstack -o "$TMP/stack" "$BATS_TEST_DIRNAME/c/works.c"
	works "$TMP/stack"
}

# As another user, for which the kernel says AT_SECURE.
@test "set-user-ID, and with capabilities of its file" {
	[ "$(id -u)" -eq 0 ] || lack "not root"
	need setcap setpriv
	OPEN=$(mktemp -d) # unlike $TMP, where others may go
	chmod 755 "$OPEN"
	gcc -O1 -o "$OPEN/raised" "$BATS_TEST_DIRNAME/c/works.c"
	cp "$OPEN/raised" "$OPEN/capable"
	chmod 4755 "$OPEN/raised"
	setcap cap_net_raw+ep "$OPEN/capable"
	local p
	for p in raised capable; do
		[ "$(setpriv --reuid 65534 --clear-groups \
			env LD_PRELOAD="$LIBSDP" "$OPEN/$p" 2>&1 |
			grep -v 'cannot be preloaded')" = works ]
	done
}
