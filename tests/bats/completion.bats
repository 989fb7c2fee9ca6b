#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# bash completion knows every option of the tools, and no other.
# shellcheck disable=SC1090 # which file is a variable

COMPLETION=$BATS_TEST_DIRNAME/../../packaging/completion

# completes TOOL WORD...: what the last word may become, a line each.
completes() {
	. "$COMPLETION/$1"
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	COMPREPLY=()
	"_$1" 2>/dev/null || :
	printf '%s\n' "${COMPREPLY[@]}"
}

@test "completion: every long option, and no other" {
	local tool
	for tool in sdpstat sdprun sdpconf; do
		"$tool" --help | grep -oE -- '--[a-z]+[a-z0-9-]*' | grep -v -e '--usage' |
			sort -u >"$BATS_TEST_TMPDIR/has"
		completes "$tool" -- | sort -u >"$BATS_TEST_TMPDIR/offers"
		diff "$BATS_TEST_TMPDIR/has" "$BATS_TEST_TMPDIR/offers"
	done
}

@test "completion: commands, states, keys" {
	[ "$(completes sdpconf li)" = lint ]
	[ "$(completes sdpconf rel)" = reload ]
	[ "$(completes sdpstat state esta)" = established ]
	[ "$(completes sdpstat path=r)" = path=rdma ]
	[ "$(completes sdpstat repor)" = "" ]
	cd "$BATS_TEST_TMPDIR"
	echo x >some.rules
	[ "$(completes sdpconf check some)" = some.rules ]
	[ "$(completes sdprun --rules som)" = some.rules ]
	[ "$(completes sdprun bas | grep -cx bash)" -ge 1 ]
}
