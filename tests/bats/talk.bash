# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Dialogues between the two hosts of hosts.bash, which comes before it.

# A server that a failed test leaves behind.
teardown() {
	[ -z "${server-}" ] || kill "$server" 2>/dev/null || :
}

setup() {
	hosts_library
}

# on NAMESPACE NAME COMMAND...: preloaded, on a host with a device.
on() {
	local ns=$1 name=$2
	shift 2
	# shellcheck disable=SC2016
	setpriv --pdeathsig TERM ip netns exec "$ns" env \
		LIBSDP_STATS_FILE="$TMP/$name.stats" \
		LIBSDP_LOG=7:stderr LIBSDP_ALLOW_SOFT_RDMA="$SOFT" \
		${BREAK:+"$BREAK"} ${DEAF:+"$DEAF"} \
		sh -c 'mount -t tmpfs none /sys/class &&
		mkdir -p /sys/class/infiniband/fake0 &&
		LD_PRELOAD=$0 exec "$@"' "$TMP/lib/libsdp.so" "$@"
}

# there PORT: a server listens on the other host.
there() {
	ip netns exec "$B" ss -ltn | grep -q ":$1"
}

# talk COUNT...: as the client of digest_echo.py; BREAK: what befalls it.
talk() {
	local py=$BATS_TEST_DIRNAME/py/digest_echo.py server
	on "$B" server /usr/bin/python3 "$py" server 7777 3>&- &
	server=$!
	until_true 10 there 7777
	on "$A" client /usr/bin/python3 "$py" client 10.99.0.2 7777 "$@"
	wait "$server"
}

# sum NAME FIELD: over the processes of that side.
sum() {
	grep -o "\"$2\":[0-9]*" "$TMP/$1.stats" |
		awk -F: '{ n += $2 } END { print n + 0 }'
}

# until_counted FIELD PROGRAM.py PORT COUNT: its server and its client, up to 30
# times, until the client has counted some of that: what is looked for has to
# happen before the program is over.
until_counted() {
	local field=$1 py=$BATS_TEST_DIRNAME/py/$2 port=$3 count=$4
	for _ in {1..30}; do
		on "$B" server timeout 100 /usr/bin/python3 "$py" \
			server "$port" 3>&- &
		server=$!
		until_true 60 there "$port"
		on "$A" client timeout 100 /usr/bin/python3 "$py" \
			client 10.99.0.2 "$port" "$count"
		wait "$server"
		[ "$(sum client "$field")" -eq 0 ] || break
	done
	[ "$(sum client "$field")" -gt 0 ]
}

# until_over FILE PORT BYTES: FILE comes when both ends of the connection go over
# SDP and have sent so much by it; wait for $watch.
until_over() {
	(
		bad=0
		until_true 30 over "$2" 2 "$3" || bad=1
		touch "$1"
		exit $bad
	) 3>&- &
	# shellcheck disable=SC2034 # of the files
	watch=$!
}
