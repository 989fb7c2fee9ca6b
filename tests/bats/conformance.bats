#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Every call with each argument bad, in every state of a connection: what the
# library says and leaves behind is what the kernel says of a twin in the same
# process (tests/conformance).

load helpers

ERRORS=$SDP_PROGS/../conformance/errors

teardown() {
	stop_all
}

# conforms: nothing differs, and so many calls were compared at least.
conforms() {
	local calls

	run env "${CLIENT_ENV[@]}" timeout 300 "$ERRORS"
	[ "$status" -eq 0 ] || fail "$output"
	calls=$(sed -n 's/^compared \([0-9]*\), differ 0$/\1/p' <<<"$output")
	[ "${calls:-0}" -gt 50000 ] || fail "compared only ${calls:-none}"
}

@test "conformance: errors, lifted at once" {
	mode now
	conforms
	proof 10000 errors
}

@test "conformance: errors, default settings" {
	mode lifted
	conforms
}

@test "conformance: errors, no rule" {
	mode norule
	conforms
}
