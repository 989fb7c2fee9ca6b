# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Shared by the scripts of this directory: sourced, never run. Sets $top.

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# libtool is a shell script that runs for each object: configure gives it bash,
# and dash takes about half as long.
[ ! -x /bin/dash ] || export CONFIG_SHELL=${CONFIG_SHELL:-/bin/dash}

say() {
	printf '%s: %s\n' "${0##*/}" "$*"
}

die() {
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 1
}

# Files of the project that match the given git patterns, one per line: what
# is tracked, and what is new and not ignored. Outside git: all but _build*.
files_of() {
	if git -C "$top" rev-parse --git-dir >/dev/null 2>&1; then
		git -C "$top" ls-files --cached --others --exclude-standard \
			-- "$@" | while IFS= read -r f; do
			[ ! -f "$top/$f" ] || printf '%s\n' "$f"
		done | sort -u
		return
	fi
	local pat
	for pat in "$@"; do
		(cd "$top" && find . -path './_*' -prune -o -type f \
			-path "./$pat" -printf '%P\n')
	done | sort -u
}

# run_quiet LOG COMMAND...: output to LOG, shown only on failure; a dot every
# 20 seconds, so that a slow machine is not taken for a dead one.
run_quiet() {
	local log=$1 rc
	shift
	"$@" >"$log" 2>&1 &
	local pid=$! waited=0
	while kill -0 "$pid" 2>/dev/null; do
		read -r -t 1 <> <(:) || :
		waited=$((waited + 1))
		[ $((waited % 20)) -ne 0 ] || say "still at: $1 ($waited s)"
	done
	rc=0
	wait "$pid" || rc=$?
	[ "$rc" -eq 0 ] || {
		tail -n 80 "$log" >&2
		say "failed ($rc): $*" >&2
	}
	return "$rc"
}
