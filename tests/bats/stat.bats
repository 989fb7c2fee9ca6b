#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# sdpstat as a user of ss(8) expects it: filters, rates, counters.
# shellcheck disable=SC2154,SC2030,SC2031 # `run` sets stderr; tests are subshells

bats_require_minimum_version 1.5.0

load helpers

setup() {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	mode now
	PORT=$(free_port)
	lifted_pair
}

teardown() {
	stop_all
}

# rows WORD...: how many sockets of the pair's process fit.
rows() {
	sdpstat -H -p "${PID[pair]}" "$@" | wc -l
}

# headings N: so many at least are among what sdpstat has shown.
headings() {
	[ "$(grep -c '^ *Pid Program' "$TMP/rates")" -ge "$1" ]
}

# refused TEXT WORD...: it is a wrong command line, and that is said.
refused() {
	run sdpstat "${@:2}"
	[ "$status" -eq 64 ]
	[[ $output == *"$1"* ]] || fail "$output"
}

@test "stat: a filter shows what fits, and all conditions have to" {
	[ "$(rows)" -eq 3 ]
	[ "$(rows state established)" -eq 2 ]
	[ "$(rows state=open path=shm)" -eq 2 ]
	[ "$(rows state listening)" -eq 1 ]
	[ "$(rows state all)" -eq 3 ]
	[ "$(rows path=listen)" -eq 1 ]
	[ "$(rows path=tcp)" -eq 0 ]
	[ "$(rows reason=none)" -eq 2 ]
	[ "$(rows reason=listener)" -eq 1 ]
	[ "$(rows sport="$PORT")" -eq 2 ]
	[ "$(rows dport="$PORT")" -eq 1 ]
	[ "$(rows port="$PORT" state established)" -eq 2 ]
	[ "$(rows address=127.0.0.0/8)" -eq 3 ]
	[ "$(rows dst=127.0.0.1 dport="$PORT")" -eq 1 ]
	[ "$(rows src=::/0)" -eq 0 ]
	[ "$(rows 'program=pyth*')" -eq 3 ]
	[ "$(rows program=perl)" -eq 0 ]
	[ "$(sdpstat -H pid="${PID[pair]}" path=sdp | wc -l)" -eq 2 ]
}

@test "stat: the options of ss are understood" {
	[ "$(sdpstat -aHtnp "port=$PORT" | wc -l)" -eq 3 ]
	[ "$(sdpstat -tnlpH "port=$PORT" | wc -l)" -eq 1 ]
	[ "$(sdpstat -H -o state established "port=$PORT" | wc -l)" -eq 2 ]
	[ "$(sdpstat -4HO "port=$PORT" | wc -l)" -eq 3 ]
	[ "$(sdpstat -6H "port=$PORT" | wc -l)" -eq 0 ]
	[ "$(sdpstat -46H "port=$PORT" | wc -l)" -eq 3 ]
	[ "$(sdpstat -lH "port=$PORT" path=shm | wc -l)" -eq 0 ]
	sdpstat -e "port=$PORT" path=sdp |
		grep -q "ino:$(stat -Lc %i "/proc/${PID[pair]}/fd/$(
			sdpstat -H "dport=$PORT" | awk '{ print $3 }')")"
}

@test "stat: a number belongs to the option in front of it" {
	[ "$(sdpstat port="$PORT" -H -p "${PID[pair]}" | wc -l)" -eq 3 ]
	sdpstat -p "${PID[pair]}" -w "port=$PORT" >"$TMP/rates" 3>&- &
	PID[rates]=$!
	until_true 10 headings 2
	stop rates
	[ -z "$(awk -v p="${PID[pair]}" '$1 ~ /^[0-9]+$/ && $1 != p' \
		"$TMP/rates")" ]
}

@test "stat: IPv4 is IPv4 for a socket of both families, too" {
	server dual "$PY" -c '
import signal, socket
with socket.socket(socket.AF_INET6) as l:
    l.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    l.bind(("::", 0))
    l.listen()
    c = socket.create_connection(("127.0.0.1", l.getsockname()[1]))
    a = l.accept()[0]
    print("ready", flush=True)
    signal.pause()'
	until_true 10 grep -q ready "$TMP/dual.out"
	[ "$(sdpstat -H -p "${PID[dual]}" src=127.0.0.1 | wc -l)" -eq 2 ]
	[ "$(sdpstat -H -p "${PID[dual]}" address=127.0.0.0/8 | wc -l)" -eq 2 ]
	[ "$(sdpstat -H -p "${PID[dual]}" src=10.0.0.0/8 | wc -l)" -eq 0 ]
}

@test "stat: JSON and the summary are filtered as well" {
	sdpstat --json "dport=$PORT" | "$PY" -c '
import json, sys
p, = json.load(sys.stdin)
s, = p["list"]
assert s["peer"]["port"] == int(sys.argv[1]) and s["path"]["tx"] == "shm"
' "$PORT"
	[ "$(sdpstat --json port=1)" = "[
]" ]
	[ "$(sdpstat -H --summary "port=$PORT" | wc -l)" -eq 1 ]
	[ "$(sdpstat -H --summary "port=$PORT" path=tcp | wc -l)" -eq 0 ]
}

@test "stat: rates, the busiest first, within 80 columns" {
	while echo move >&9; do tick; done 3>&- &
	PID[mover]=$!
	sdpstat -w 0.5 "port=$PORT" >"$TMP/rates" 3>&- &
	PID[rates]=$!
	until_true 10 headings 2
	stop rates
	stop mover
	[ "$(grep -c 'sockets, 2 on SDP' "$TMP/rates")" -ge 2 ]
	[ "$(awk '{ if (length > n) n = length } END { print n }' \
		"$TMP/rates")" -le 80 ]
	# behind the headings come those that move, the listener last
	awk '/Pid Program/ { n = 0 } { n++ } n == 2 && !/shm/ { exit 1 }
		n == 4 && !/listen/ { exit 1 }' <(sed 1,2d "$TMP/rates")
	# nothing reads: it ends
	timeout 10 sdpstat -w 0.1 "port=$PORT" | head -n 1 >/dev/null
}

@test "stat: connections that moved no byte have names and a state as well" {
	server quiet "$PY" -c '
import signal, socket
ends = []
for family, at in (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"):
    listener = socket.create_server((at, 0), family=family)
    ends += [listener, socket.create_connection(listener.getsockname()[:2])]
    ends.append(listener.accept()[0])
fresh = socket.socket()
for end in ends:
    if end not in ends[::3]:
        pair = end.getsockname(), end.getpeername()
        print(end.fileno(), *("[%s]:%d" % a[:2] if ":" in a[0] else "%s:%d" % a
                              for a in pair))
print("ready", flush=True)
signal.pause()
'
	until_true 10 grep -q ready "$TMP/quiet.out"
	sdpstat -H -p "${PID[quiet]}" state established |
		awk '{ print $3, $5, $6 }' >"$TMP/shown"
	grep -v ready "$TMP/quiet.out" | diff - "$TMP/shown"
	sdpstat -He -p "${PID[quiet]}" state established >"$TMP/shown"
	[ "$(grep -c "ino:[1-9]" "$TMP/shown")" -eq 4 ]
	[ "$(sdpstat -H -p "${PID[quiet]}" state new | wc -l)" -eq 1 ]
}

@test "stat: counters, one a line" {
	sdpstat --stats -p "${PID[pair]}" >"$TMP/counters"
	grep -qE '^lifted +2$' "$TMP/counters"
	grep -qE '^bytes_sdp_tx +[1-9]' "$TMP/counters"
	[ "$(grep -c ' 0$' "$TMP/counters")" -eq 0 ]
	sdpstat --stats -a -p "${PID[pair]}" | grep -qE '^stalls +0$'
	sdpstat --stats --json -p "${PID[pair]}" | "$PY" -c '
import json, sys
c = json.load(sys.stdin)
assert c["lifted"] == 2 and c["sockets"] == 3, c
'
	sdpstat --fallback "${PID[pair]}"
	sdpstat --stats -p "${PID[pair]}" |
		grep -qE '^fallbacks\.requested +2$'
	# of all, and those that ended
	local before after
	before=$(sdpstat --stats -a | awk '$1 == "fallbacks.requested" { print $2 }')
	exec 9>&-
	wait_end pair
	after=$(sdpstat --stats -a | awk '$1 == "fallbacks.requested" { print $2 }')
	[ "$after" -ge "$before" ]
}

# How many sleeps have taken more than 66 ms.
slept() {
	sdpstat --json -p "${PID[pair]}" | "$PY" -c '
import json, sys
p, = json.load(sys.stdin)
print(sum(n for least, n in p["histograms"]["slept_ns"]["buckets"].items()
          if least == "more" or int(least) > 70000000))'
}

slept_more() {
	[ "$(slept)" -gt "$1" ]
}

@test "stat: histograms, as bars within 80 columns" {
	sdpstat -g -p "${PID[pair]}" >"$TMP/bars"
	grep -qE "^[^ ]+, process ${PID[pair]}\$" "$TMP/bars"
	grep -qE '^  messages sent, bytes: [0-9]+ times, ' "$TMP/bars"
	# 200 there and 200 back, the first of them perhaps by TCP
	awk '$2 == 128 && !n++ { ok += $3 >= 190 && $3 <= 200 && $5 ~ /^#+$/ }
		$2 == 16 && !m++ { ok += $3 >= 190 && $3 <= 200 }
		length > 80 || /[ \t]$/ { exit 2 } END { exit ok != 2 }' "$TMP/bars"
	[ -z "$(sdpstat -g -p "${PID[pair]}" port=1)" ]
	sdpstat --histogram --json -p "${PID[pair]}" >"$TMP/json"
	"$PY" - "$TMP/json" <<'END'
import json, sys
p, = json.load(open(sys.argv[1]))
assert "list" not in p
for way in "tx", "rx":
    h = p["histograms"]["sizes_" + way]
    assert list(h["buckets"]) == [str(16 << i) for i in range(13)] + ["more"]
    assert h["count"] == sum(h["buckets"].values())
    assert h["sum"] == p["bytes_sdp_" + way], (h, p["bytes_sdp_" + way])
for name, last, total in ("spun_ns", 8192000, "spin_ns"), \
        ("slept_ns", 1048576000, "sleep_ns"):
    h = p["histograms"][name]
    assert list(h["buckets"])[0] == "1000"
    assert list(h["buckets"])[-2:] == [str(last), "more"]
    assert h["sum"] == p[total] and h["count"] == sum(h["buckets"].values())
END
	# a reader that waits long enough sleeps, and for how long is counted
	local before
	before=$(slept)
	echo wait >&9
	until_true 10 slept_more "$before"
}

@test "stat: what received over SDP counts as lifted" {
	need curl
	local web
	web=$(free_port)
	random_file "$TMP/file" 8000000
	server web env -C "$TMP" "$PY" -m http.server "$web"
	wait_port "$web"
	mode lifted
	for _ in {1..8}; do
		client curl -so "$TMP/copy" "http://127.0.0.1:$web/file"
		same "$TMP/file" "$TMP/copy"
	done
	until_true 5 stat_lines curl 8
	"$PY" - "$STATS" <<'END'
import json, sys
ends = [json.loads(line) for line in open(sys.argv[1])]
curls = [e for e in ends if e["program"] == "curl" and e["bytes_sdp_rx"]]
assert curls
for e in curls:
    assert e["lifted"] == 1, e
END
}

@test "stat: a page of another version is said to be one, and no more" {
	local page=/dev/shm/libsdp.${PID[pair]}.1
	cp "/dev/shm/libsdp.${PID[pair]}."* "$TMP/page"
	printf '\001\000\000\000' |
		dd of="$TMP/page" bs=1 seek=8 conv=notrunc status=none
	cp "$TMP/page" "$page"
	run --separate-stderr sdpstat -H "port=$PORT"
	rm -f "$page"
	[ "$status" -eq 0 ]
	[[ $stderr == *"another version of libsdp (page 1, not "* ]]
	[ "${#lines[@]}" -eq 3 ]
	# that of a process that lives: it may be on SDP, and cannot be asked
	page=$(echo /dev/shm/libsdp."${PID[pair]}".*)
	printf '\001\000\000\000' |
		dd of="$page" bs=1 seek=8 conv=notrunc status=none
	[ "$(rows path=tcp)" -eq 0 ]
	[ "$(sdpstat -H -p "${PID[pair]}" state established |
		awk '{ print $7 }' | sort -u)" = '?' ]
	run sdpstat --fallback "${PID[pair]}"
	[ "$status" -eq 1 ]
	[[ $output == *"but no page that says how it can be asked"* ]]
	run sdpconf reload "${PID[pair]}"
	[ "$status" -eq 1 ]
	[[ $output == *"no page that can be read here"* ]] || fail "$output"
}

@test "stat: wrong words are refused, with what would be right" {
	refused "keys are program, pid, port" colour=red
	refused "expected KEY=VALUE" colour
	refused "no such state" state happy
	refused "expected a state" state
	refused "no such reason" reason=whim
	refused "expected tcp, shm, rdma, sdp or listen" path=up
	refused "expected a number" port=70000
	refused "expected an address" address=localhost
	refused "more bits" address=10.0.0.0/33
	refused "given twice" port=1 port=2
	refused "one state only" state new state listening
	refused "expected a process id" pid=0
	refused "expected seconds" -w 0
	refused "-w shows sockets" -w --json
	refused "-w shows sockets" -w --why 1/2
	refused "know no JSON" --json --prometheus
	refused "a filter picks sockets" --stats program=nginx
	refused "a filter picks sockets" --prometheus port=1
	refused "expected a process id" --pid=x
	run sdpstat --stats -p 4194303
	[ "$status" -eq 1 ]
}

# sleep(1) waits for no child.
@test "stat: a process that was killed is not shown, waited for or not" {
	local pid
	# shellcheck disable=SC2016 # of the inner shell
	server parent sh -c '"$@" & exec sleep 60' sh "$PY" -c 'import signal, socket
listener = socket.create_server(("127.0.0.1", 0))
signal.pause()'
	until_true 5 pgrep -P "${PID[parent]}" python
	pid=$(pgrep -P "${PID[parent]}" python)
	until_true 5 sdpstat -H -p "$pid"
	kill -KILL "$pid"
	until_true 5 grep -q ') Z' "/proc/$pid/stat"
	refuse sdpstat -H -p "$pid"
}
