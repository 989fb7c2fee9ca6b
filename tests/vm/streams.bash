# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Streams between two nodes, servers on node 1 and clients on node 2
# (SDP_HOST, SDP_CLIENT_ON, SDP_SHARED); used by lift.bats and failover.bats
# beside lib.bash.
# shellcheck disable=SC2034 # the tests use it

PYS=$BATS_TEST_DIRNAME/../bats/py
DUPLEX=$PYS/duplex.py
MANY=$PYS/many_echo.py
TALK=$PYS/digest_echo.py

# between MODE: what the far end may lift over is a software device.
between() {
	mode "$1"
	[ "$1" = plain ] || with LIBSDP_ALLOW_SOFT_RDMA=yes
}

# duplex_serve [PORT], duplex MIB [ROUNDS], duplex_end: both ends are content.
duplex_serve() {
	PORT=${1:-$(free_port)}
	server duplex "$PY" "$DUPLEX" server "$HOST" "$PORT"
	wait_port "$PORT"
}

duplex() {
	LIMIT=${LIMIT:-250} client "$PY" "$DUPLEX" client "$HOST" "$PORT" \
		"$@" >"$TMP/client.out"
	cat "$TMP/client.out"
	[ "$(tail -n 1 "$TMP/client.out")" = ok ]
}

duplex_end() {
	wait_end duplex
	[ "$(tail -n 1 "$TMP/duplex.out")" = ok ]
}
