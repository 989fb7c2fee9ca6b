#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# What the other suites stand on: two nodes, their RDMA devices, vm-on, and the
# helpers that disturb the link or look at it. Nothing of libsdp.
# shellcheck disable=SC2016 # words for the shell over there

bats_require_minimum_version 1.5.0
unset SDP_SHARED
load lib

teardown() {
	stop_all
	vm_restore
}

# rping_between ADDRESS [COUNT]: the server here, the client on node 2.
rping_between() {
	server rping timeout 60 rping -s -a "$1" -C "${2:-3}"
	until_true 10 cm_listens
	LIMIT=${LIMIT:-50} on 2 rping -c -a "$1" -C "${2:-3}" -v \
		>"$TMP/rping.2"
	wait_end rping 20
	[ "$(grep -c '^ping data: rdma-ping-' "$TMP/rping.2")" -eq "${2:-3}" ]
}

cm_listens() {
	rdma resource show cm_id | grep -q 'state LISTEN'
}

@test "vm-on: status, streams, input, directory, environment" {
	cd /usr/share
	local status=0
	HERE=there vm-on 2 bash -c \
		'echo "$VM_NODE $HERE $PWD"; echo oops >&2; exit 42' \
		>"$TMP/out" 2>"$TMP/err" </dev/null || status=$?
	[ "$status" -eq 42 ]
	[ "$(cat "$TMP/out")" = "2 there /usr/share" ]
	[ "$(cat "$TMP/err")" = oops ]
	random_file "$TMP/in" 5000001
	vm-on 2 cat <"$TMP/in" >"$TMP/back"
	cmp "$TMP/in" "$TMP/back"
	run -137 vm-on 2 bash -c 'kill -KILL $$' </dev/null
	run -127 vm-on 2 nonesuch </dev/null
}

@test "vm-on: signals are passed on, and its end is the command's" {
	local status=0
	start_on 2 trap bash -c 'trap "echo told; exit 7" TERM
		echo ready; while :; do read -r -t 1 <> <(:) || :; done'
	until_true 10 grep -q ready "$TMP/trap.out"
	kill -TERM "${PID[trap]}"
	wait_end trap 10 || status=$?
	[ "$status" -eq 7 ]
	grep -q told "$TMP/trap.out"
	start_on 2 long sleep 1000
	until_true 10 vm-on 2 test -s /run/long.pid
	kill -KILL "${PID[long]}"
	until_true 10 vm-on 2 bash -c '! kill -0 $(cat /run/long.pid)'
}

@test "both nodes' clocks go right" {
	# the emulated clock chip has the host's time
	for n in 1 2; do
		on $n bash -c 'cd /sys/class/rtc/rtc0
			d=$(($(date +%s) - $(cat since_epoch)))
			echo "off by $d s, up $(cut -d" " -f1 /proc/uptime) s"
			[ "${d#-}" -le 2 ]
			! grep -q tsc_early_khz /proc/cmdline ||
			dmesg | grep "tsc: Detected"'
	done
}

@test "both nodes have an RDMA device with an active port" {
	local n
	for n in 1 2; do
		on $n ibv_devinfo -d "$VM_RDMA" >"$TMP/info"
		grep -q PORT_ACTIVE "$TMP/info"
		grep -q 'link_layer:.*Ethernet' "$TMP/info"
		[ "$(on $n bash -c 'ulimit -l')" = unlimited ]
	done
}

@test "rping over IPv4 and IPv6" {
	rping_between "$VM_ADDR4_1"
	rping_between "$VM_ADDR6_1"
}

@test "verbs without a connection manager: ibv_rc_pingpong" {
	server pong timeout 60 ibv_rc_pingpong -d "$VM_RDMA" -g 1 -n 200
	wait_port 18515
	on 2 ibv_rc_pingpong -d "$VM_RDMA" -g 1 -n 200 "$VM_ADDR4_1" \
		>"$TMP/pong.2"
	wait_end pong 20
	grep -q '^200 iters' "$TMP/pong.2"
}

@test "ib_send_lat through the connection manager" {
	server lat timeout 60 ib_send_lat -R -n 100
	until_true 10 cm_listens
	on 2 ib_send_lat -R -n 100 "$VM_ADDR4_1" >"$TMP/lat.2"
	wait_end lat 20
	grep -qE '^ +2 +100 ' "$TMP/lat.2"
}

@test "rsockets carry a python server and client" {
	local rs code
	rs=$(echo /usr/lib/*/rsocket/librspreload.so)
	[ -e "$rs" ]
	PORT=$(free_port)
	code='import socket, sys, hashlib
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
s.sendall(b"x" * 300000); s.shutdown(1)
print(s.recv(100).decode())'
	server rs timeout 60 env "LD_PRELOAD=$rs" "$PY" -c 'import socket, sys
l = socket.socket(); l.bind((sys.argv[1], int(sys.argv[2]))); l.listen()
print("listens", flush=True)
c = l.accept()[0]; n = 0
while True:
    b = c.recv(65536)
    if not b: break
    n += len(b)
c.sendall(str(n).encode()); c.close()' "$VM_ADDR4_1" "$PORT"
	until_true 20 grep -q listens "$TMP/rs.out"
	[ "$(on 2 env "LD_PRELOAD=$rs" "$PY" -c "$code" "$VM_ADDR4_1" \
		"$PORT")" = 300000 ]
	wait_end rs 20
	refuse listening "$PORT" # it was never a TCP port
}

# reading.bats looks at it
@test "what crosses the link is seen" {
	capture pings
	rping_between "$VM_ADDR4_1"
	capture_end pings
	kept pings
}

# held NAME LENGTH: UDP packets of that length in a capture.
held() {
	tcpdump -n --count -r "$TMP/$1.pcap" "udp[4:2] = $2" 2>/dev/null |
		cut -d ' ' -f 1
}

# Thirty times the packets that a ring of 32 MiB holds in immediate mode.
@test "nothing that crosses the link is lost while tcpdump does not run" {
	local n
	# what waits for an address may be thrown away
	until_true 10 busybox ping -c 1 -W 1 "$VM_ADDR4_2"
	capture long
	kill -STOP "${PID[long]}"
	"$PY" -c 'import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for size in (4000, 60):
    for i in range(8000):
        s.sendto(b"x" * size, (sys.argv[1], 9))' "$VM_ADDR4_2"
	kill -CONT "${PID[long]}"
	capture_end long
	for n in 4008 68; do
		[ "$(held long $n)" -eq 8000 ] ||
			fail "$(held long $n) of $n: $(cat "$TMP/long.tcpdump")"
	done
}

@test "packets are lost and come late on demand" {
	local i
	netem 1 loss 10% delay 2ms 1ms reorder 25%
	rping_between "$VM_ADDR4_1" 8
	# so much that something is surely lost
	for ((i = 0; i < 200; i++)); do
		echo "$i" >"/dev/udp/$VM_ADDR4_2/9"
	done
	[ "$(dropped 1)" -gt 0 ]
	netem_off 1
	! vm-on 1 tc qdisc show dev "$VM_LINK" </dev/null | grep netem ||
		fail "netem is still there"
}

@test "the link goes down and comes back" {
	busybox ping -c 1 -W 5 "$VM_ADDR4_2" >/dev/null
	link_down 2
	refuse busybox ping -c 1 -W 1 "$VM_ADDR4_2"
	on 2 hostname # vm-on has a network of its own
	link_up 2
	until_true 10 busybox ping -c 1 -W 1 "$VM_ADDR4_2"
	until_true 10 busybox ping6 -c 1 -W 1 "$VM_ADDR6_2"
	until_true 10 rdma_active 2
	rping_between "$VM_ADDR6_1"
}

@test "an RDMA device is taken away and given back" {
	rdma_del 2
	refuse has_rdma 2
	refuse on 2 ibv_devinfo -d "$VM_RDMA"
	busybox ping -c 1 -W 5 "$VM_ADDR4_2" >/dev/null
	rdma_add 2
	until_true 10 rdma_active 2
	rping_between "$VM_ADDR4_1"
}
