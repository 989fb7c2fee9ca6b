#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# sdpstat --prometheus: the format, and sums that only grow.

load helpers

setup() {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	mode now
	PORT=$(free_port)
}

teardown() {
	stop_all
}

# The value of a series as a whole number, or nothing.
metric() {
	awk -v name="$2" '$1 == name { printf "%.0f\n", $2 }' "$1"
}

# Of each sample a HELP and a TYPE before it, once; no series twice; numbers.
sound() {
	awk '
	/^# HELP / { if (help[$3]++ || NF < 4) bad("HELP"); next }
	/^# TYPE / {
		if (type[$3]) bad("TYPE twice")
		if (!help[$3]) bad("TYPE without HELP")
		if ($4 !~ /^(gauge|counter|histogram)$/ || NF != 4) bad("TYPE")
		if (($4 == "counter") != ($3 ~ /_total$/)) bad("name")
		type[$3] = $4; last = $3; next
	}
	/^[a-z_]+({[a-z_]+="[^"\\]*"(,le="[^"]*")?})? [0-9]+(\.[0-9]+)?$/ {
		name = $1; sub(/{.*/, "", name)
		if (type[last] == "histogram") {
			series = $1
			sub(/(,?le="[^"]*"|{le="[^"]*"})/, "", series)
			if (name == last "_bucket") {
				if ($2 < below[series]) bad("not cumulative")
				below[series] = $2; inf = $1 ~ /le="\+Inf"}$/
				if (inf) all = $2
			} else if (name == last "_count" && (!inf || $2 != all)) {
				bad("not as many as in +Inf")
			}
			sub(/_(bucket|sum|count)$/, "", name)
		}
		if (name != last) bad("not behind its TYPE")
		if (seen[$1]++) bad("twice")
		samples++; next
	}
	{ bad("line") }
	function bad(what) { print FNR ": " what ": " $0; wrong = 1 }
	END { exit wrong || samples < 12 }' "$1"
	if command -v promtool >/dev/null; then
		promtool check metrics <"$1"
	fi
}

# end_pair [SIGNAL]: by its input, or by that.
end_pair() {
	local pid=${PID[pair]}
	[ "$#" -eq 0 ] || kill "-$1" "$pid"
	exec 9>&-
	until_true 10 gone "$pid"
	unset "PID[pair]"
	wait "$pid" || :
}

COUNTERS=(libsdp_lifts_total libsdp_messages_total libsdp_wakeups_total
	'libsdp_transmitted_bytes_total{path="shm"}'
	'libsdp_received_bytes_total{path="shm"}'
	'libsdp_transmitted_bytes_total{path="tcp"}'
	'libsdp_received_bytes_total{path="tcp"}'
	'libsdp_fallbacks_total{reason="requested"}'
	'libsdp_message_size_bytes_bucket{direction="transmitted",le="128"}'
	'libsdp_message_size_bytes_sum{direction="transmitted"}'
	'libsdp_message_size_bytes_count{direction="received"}'
	libsdp_spin_duration_seconds_count libsdp_sleep_duration_seconds_count)

# How many messages of 65 to 128 bytes were sent.
of_128() {
	local name=libsdp_message_size_bytes_bucket
	echo $(($(metric "$1" "$name{direction=\"transmitted\",le=\"128\"}") - \
		$(metric "$1" "$name{direction=\"transmitted\",le=\"64\"}")))
}

# No counter of $2 is below that of $1.
grew() {
	local c
	for c in "${COUNTERS[@]}"; do
		[ "$(metric "$2" "$c")" -ge "$(metric "$1" "$c")" ] ||
			fail "$c: $(metric "$1" "$c"), $(metric "$2" "$c")"
	done
}

@test "metrics: the format, with and without sockets" {
	need sdpstat "$PY"
	sdpstat --prometheus >"$TMP/none"
	sound "$TMP/none"
	lifted_pair
	sdpstat --prometheus >"$TMP/some"
	sound "$TMP/some"
	end_pair
	[ "$(metric "$TMP/some" libsdp_sockets)" -ge 3 ]
	[ "$(metric "$TMP/some" libsdp_shared_memory_bytes)" -gt 24576 ]
	grep '^libsdp_build_info{version="[0-9.]*"} 1$' "$TMP/some"
	[ "$(metric "$TMP/some" libsdp_lifts_total)" -ge \
		$(($(metric "$TMP/none" libsdp_lifts_total) + 2)) ]
	run sdpstat --prometheus --pid 1
	[ "$status" -eq 64 ]
}

@test "metrics: what ended is not lost, nor counted twice" {
	need sdpstat "$PY"
	local lifts how
	sdpstat --prometheus >"$TMP/before"
	for how in TERM KILL; do
		lifted_pair
		sdpstat --prometheus >"$TMP/open"
		lifts=$(metric "$TMP/open" libsdp_lifts_total)
		[ "$lifts" -ge \
			$(($(metric "$TMP/before" libsdp_lifts_total) + 2)) ]
		grew "$TMP/before" "$TMP/open"
		end_pair "$how"
		sdpstat --prometheus >"$TMP/ended"
		grew "$TMP/open" "$TMP/ended"
		sdpstat >/dev/null
		sdpstat --prometheus >"$TMP/again"
		grew "$TMP/ended" "$TMP/again"
		# a pair moved 200 times 100 bytes; others may run beside this
		[ "$(of_128 "$TMP/again")" -ge $(($(of_128 "$TMP/before") + 190)) ]
		[ "$(metric "$TMP/again" libsdp_lifts_total)" -ge "$lifts" ]
		mv "$TMP/again" "$TMP/before"
	done
}

@test "metrics: a fallback is counted by its reason" {
	need sdpstat "$PY"
	lifted_pair
	sdpstat --prometheus >"$TMP/open"
	sdpstat --fallback "${PID[pair]}"
	sdpstat --prometheus >"$TMP/told"
	[ "$(metric "$TMP/told" 'libsdp_fallbacks_total{reason="requested"}')" -gt \
		"$(metric "$TMP/open" 'libsdp_fallbacks_total{reason="requested"}')" ]
	[ "$(metric "$TMP/told" 'libsdp_unlifted_sockets{reason="requested"}')" -ge 1 ]
	end_pair
}

@test "metrics: another user's file in the place of ours does no harm" {
	need sdpstat setpriv "$PY"
	local uid=54321 names
	[ "$(id -u)" -eq 0 ] || lack "only as root"
	cat >"$TMP/sums.py" <<'END'
import os, socket
with socket.create_server(("127.0.0.1", 0)) as l:
    with socket.create_connection(l.getsockname()) as c, l.accept()[0] as a:
        for _ in range(200):
            c.sendall(b"x" * 100)
            a.recv(100)
print("fine")
END
	chmod 755 "$TMP"
	rm -f /dev/shm/libsdp.sums."$uid".*
	setpriv --reuid "$uid" --regid "$uid" --clear-groups env \
		LD_PRELOAD="$LIBSDP" "$PY" - <"$TMP/sums.py" | grep fine
	names=(/dev/shm/libsdp.sums."$uid".*)
	[ "$(stat -c '%u %a' "${names[0]}")" = "$uid 600" ]
	# root believes no more than its size and owner
	printf x >"${names[0]}"
	sdpstat --prometheus >"$TMP/cut"
	sound "$TMP/cut"
	rm "${names[0]}"
	printf '%01024d' 0 >"${names[0]}"
	chown 54322 "${names[0]}"
	setpriv --reuid "$uid" --regid "$uid" --clear-groups env \
		LD_PRELOAD="$LIBSDP" "$PY" - <"$TMP/sums.py" | grep fine
	sdpstat --prometheus >"$TMP/taken" 2>"$TMP/said"
	sound "$TMP/taken"
	grep 'not of the user' "$TMP/said"
	rm "${names[0]}"
	# nor sums that no program can come to, or an addition without an end
	"$PY" - "${names[0]}" "$uid" <<'END'
import os, struct, sys
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack("QQ", 9, 8) + b"\xff" * 65536)
os.chmod(sys.argv[1], 0o600)
os.chown(sys.argv[1], int(sys.argv[2]), -1)
END
	sdpstat --stats -a 2>"$TMP/said" |
		awk '$2 > 2 ^ 62 { exit 1 } $1 == "lifted" { ok = 1 }
			END { exit !ok }'
	grep 'not counters' "$TMP/said"
	rm "${names[0]}"
}

@test "sdpstat: the options of ss" {
	need sdpstat ss "$PY"
	local inode pid
	lifted_pair
	pid=${PID["pair"]}
	sdpstat -p "$pid" -Htnl >"$TMP/listening"
	[ "$(wc -l <"$TMP/listening")" -eq 1 ]
	grep " 127.0.0.1:$PORT .* listen " "$TMP/listening"
	[ "$(sdpstat -p "$pid" -atnHO | wc -l)" -eq 3 ]
	[ "$(sdpstat -p "$pid" -4H | wc -l)" -eq 3 ]
	[ "$(sdpstat -p "$pid" -6H | wc -l)" -eq 0 ]
	inode=$(sdpstat -p "$pid" -eHl | grep -o 'ino:[0-9]*')
	ss -tlneH | grep ":$PORT .* $inode "
	end_pair
}
