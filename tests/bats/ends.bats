#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# How a program ends, and what is told about it: LIBSDP_STATS_FILE, sdpstat.

load helpers

teardown() {
	stop_all
}

# What the lines of the file say about the program that ended.
told() {
	"$PY" - "$STATS" <<'END'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
rows = [r for r in rows if r["program"] == "python3"]
print(len({r["pid"] for r in rows}), *(
    sum(r[f] for r in rows) for f in ("sockets", "lifted")),
    *(sum(r[a] + r[b] for r in rows) for a, b in (
        ("bytes_sdp_tx", "bytes_tcp_tx"), ("bytes_sdp_rx", "bytes_tcp_rx"))))
END
}

@test "statistics: a line from each process that ends, whatever ends it" {
	local way want got
	ulimit -c 0
	for way in exit _exit abort fault hup term flagged usr1 int alarm \
		pipe exec fail; do
		mode plain
		want=0 got=0
		client "$PY" "$BATS_TEST_DIRNAME/py/ends.py" "$way" \
			2>/dev/null || want=$?
		mode lifted
		client "$PY" "$BATS_TEST_DIRNAME/py/ends.py" "$way" \
			2>/dev/null || got=$?
		[ "$got" -eq "$want" ] || fail "$way: $got instead of $want"
		[ "$MODE" != plain ] || continue
		[ "$(told)" = "1 3 2 12000 12000" ] ||
			fail "$way: $(told); $(cat "$STATS")"
	done
}

@test "statistics: the first process of a namespace is spared as ever" {
	unshare -Upfr true 2>/dev/null || lack "no namespaces"
	local m kid
	for m in plain lifted; do
		mode "$m"
		server "$m" unshare -Upfr --kill-child "$PY" \
			"$BATS_TEST_DIRNAME/py/ends.py" ready
		until_true 10 grep -q ready "$TMP/$m.out"
		kid=$(($(children "${PID[$m]}")))
		kill -USR1 "$kid"
		kill -TERM "$kid"
		tick
		refuse gone "$kid"
		stop "$m" KILL
	done
	[ ! -e "$STATS" ]
}

@test "sdpstat: a program that became another shows nothing of the old one" {
	mode lifted
	local old
	server old "$PY" "$BATS_TEST_DIRNAME/py/ends.py" sleep
	old=${PID[old]}
	until_true 10 grep -q sleep "/proc/${PID[old]}/comm"
	sdpstat --pid "${PID[old]}" --json >"$TMP/seen" || :
	refuse grep path "$TMP/seen"
	stop old KILL
	sdpstat >"$TMP/seen" # removes what nothing else will
	[ -z "$(find /dev/shm -name "libsdp.$old.*")" ]
}

# A turn, and then sdpstat shows connection and listener in the heir.
inherits() {
	echo >&8
	sdpstat --json --pid "$1" >"$TMP/seen" || return 1
	jq -e ".[0].list | length == 2 and all(.reason != \"unmanaged\") and
		(.[] | select(.state == \"open\") | .bytes_${2}_rx > 0) and
		any(.state == \"listen\")" "$TMP/seen"
}

@test "sdpstat: a connection is shown by the child that has it alone" {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	need jq sdpstat
	local how heir by=sdp
	mkfifo "$TMP/in"
	exec 8<>"$TMP/in"
	for how in close exit raw; do
		mode now
		[ "$how" != raw ] || {
			mode lifted
			by=tcp
		}
		INPUT=$TMP/in server "$how" "$PY" \
			"$BATS_TEST_DIRNAME/py/heir.py" "$how" 8>&-
		until_true 10 test -s "$TMP/$how.out"
		heir=$(cat "$TMP/$how.out")
		until_true 10 inherits "$heir" "$by" ||
			fail "$how: $(cat "$TMP/seen" "$TMP/$how.err")"
		kill "$heir"
		until_true 10 gone "$heir"
		stop "$how" || :
	done
	exec 8>&-
}

@test "sdpstat: a connection is shown by a number that it has" {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	need sdpstat
	local want got n=0
	mode now
	client "$PY" "$BATS_TEST_DIRNAME/py/renumbered.py" >"$TMP/numbers"
	while read -r want && read -r got; do
		[ "$got" = "$want" ] || fail "$got, not $want"
		n=$((n + 1))
	done <"$TMP/numbers"
	[ "$n" -eq 4 ]
}
