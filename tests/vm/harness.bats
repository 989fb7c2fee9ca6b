#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# tests/vm/run itself, seen from the host: nothing is lost, and every bad end
# has its own status and message. Each test boots.
# shellcheck disable=SC2016 # words for the shell over there

bats_require_minimum_version 1.5.0

VM=$BATS_TEST_DIRNAME/run

@test "run: status, streams, words, environment and files come through" {
	local out=$BATS_TEST_TMPDIR/out status=0 begun=$SECONDS
	cd /usr
	HERE='a b' "$VM" --out "$out" -- bash -c 'printf "%s|" "$@" "$HERE" \
		"$PWD" "$VM_NODES" "$(cat)"; echo oops >&2
		echo kept >"$VM_OUT/file"; echo lost >/usr/lost; exit 77' \
		-- 'x  y' '' '*' >"$BATS_TEST_TMPDIR/1" \
		2>"$BATS_TEST_TMPDIR/2" || status=$?
	[ "$status" -eq 77 ]
	[ "$(cat "$BATS_TEST_TMPDIR/1")" = 'x  y||*|a b|/usr|1||' ]
	[ "$(cat "$BATS_TEST_TMPDIR/2")" = oops ]
	[ "$(cat "$out/file")" = kept ]
	[ ! -e /usr/lost ]
	echo $((SECONDS - begun)) >"$BATS_FILE_TMPDIR/boot"
}

@test "run: time is up, or the machine ends before the command" {
	local ended=$BATS_TEST_TMPDIR/ended pid ends=0
	"$VM" -- bash -c 'echo b >/proc/sysrq-trigger; sleep 100' \
		>"$ended" 2>&1 3>&- &
	pid=$!
	run -243 "$VM" --timeout 10 -- bash -c 'echo begun; sleep 1000'
	[[ $output = *begun* ]]
	[[ $output = *"time is up: 10 s"* ]]
	wait "$pid" || ends=$?
	[ "$ends" -eq 244 ]
	grep -q "without the command's end" "$ended"
}

@test "run: a machine that does not come up" {
	run -241 "$VM" --mtu 99999 -- true
	[[ $output = *"node 1 did not come up"* ]]
}

# hanging NODE TIMES: so often a machine in whose place nothing happens.
hanging() {
	local bin=$BATS_TEST_TMPDIR/bin
	mkdir "$bin"
	cat >"$bin/qemu-system-x86_64" <<-END
	#!/bin/bash
	case "\$*" in
	*" vm.node=$1"*)
		echo >>"$bin/starts"
		[ \$(wc -l <"$bin/starts") -gt $2 ] || exec sleep 10000
		;;
	esac
	exec "$(command -v qemu-system-x86_64)" "\$@"
	END
	chmod +x "$bin/qemu-system-x86_64"
	PATH=$bin:$PATH
}

@test "run: a machine that hangs is started afresh; a panic of node 2 ends it" {
	local boot log=$BATS_TEST_TMPDIR/log
	# what one takes to come up where nothing hangs is told by the first test
	boot=$(($(cat "$BATS_FILE_TMPDIR/boot" || echo 30) + 5))
	hanging 2 1
	run -242 "$VM" --nodes 2 --boot "$boot,$((10 * boot)),$((10 * boot))" \
		--keep-log "$log" -- bash -c 'vm-on 2 echo there
		vm-on 2 bash -c "echo c >/proc/sysrq-trigger"'
	[[ $output = *"node 2 hangs: not up after $boot s, start 1 of 3"* ]]
	[[ $output = *there* ]]
	[ "$(wc -l <"$BATS_TEST_TMPDIR/bin/starts")" -ge 2 ]
	[[ $output = *"node 2: kernel panic"* ]]
	[[ $output = *"Kernel panic - not syncing"* ]]
	grep -q 'Kernel panic' "$log/console.2.log"
	[ -s "$log/console.1.log" ]
}

@test "run: a machine that always hangs" {
	hanging 1 1000
	run -241 "$VM" --boot 1,2,1 -- true
	[[ $output = *"node 1 hangs: not up after 1 s, start 1 of 3"* ]]
	[[ $output = *"node 1 hangs: not up after 2 s, start 2 of 3"* ]]
	[[ $output = *"node 1 hangs: not up after 1 s, start 3 of 3"* ]]
	[[ $output = *"node 1 did not come up"* ]]
	[ "$(wc -l <"$BATS_TEST_TMPDIR/bin/starts")" -eq 3 ]
}
