#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# Filters of system calls that are there before the program begins, as service
# managers and containers make them. They are made for what the program calls:
# with the library it runs as without, whatever they do to other calls.

load helpers

LIMIT=20

# What a simple TCP program does not call, and the library does.
BARRED=(memfd_create membarrier sendmsg recvmsg clone clone3 unix netlink
	process_vm_readv process_vm_writev socketpair epoll_create1 epoll_ctl
	epoll_pwait eventfd2 kill tgkill getpid gettid geteuid readlinkat
	linkat unlinkat mkdirat ftruncate fallocate fstatfs getdents64 fcntl ioctl
	ppoll dup3 mremap madvise sched_yield recvfrom sendto rt_sigpending
	rt_sigtimedwait rt_sigqueueinfo clock_gettime getpeername
	prctl) # the last one: the cage calls it itself

setup() {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	need jq
	need_library
	CAGE=$SDP_PROGS/cage
	PORT=$(free_port)
	LIB=(-e "LD_PRELOAD=$LIBSDP" -e LIBSDP_CONFIG_FILE=/nothing
		-e LIBSDP_LIFT_AFTER_MESSAGES=0
		-e LIBSDP_LIFT_AFTER_BYTES=0 -e "LIBSDP_STATS_FILE=$STATS")
}

teardown() {
	stop_all
}

# dialogue SERVER-WORDS -- CLIENT-WORDS: two ends, each started by words.
dialogue() {
	local near=()
	while [ "$1" != -- ]; do
		near+=("$1")
		shift
	done
	shift
	rm -f "$STATS"
	"${near[@]}" "$SDP_PROGS/meet" serve 127.0.0.1 "$PORT" \
		>"$TMP/server.out" 2>"$TMP/server.err" 3>&- &
	PID["server"]=$!
	wait_port "$PORT"
	timeout -k 5 "$LIMIT" "$@" "$SDP_PROGS/meet" talk 127.0.0.1 "$PORT" \
		300 >"$TMP/client.out" 3>&-
	[ "$(cat "$TMP/client.out")" = ok ]
	wait_end server 10
}

# bar LETTER: all of them, by that action of the cage.
bar() {
	local call
	BAR=()
	for call in "${BARRED[@]}"; do
		BAR+=("-$1" "$call")
	done
}

# as_without LETTER
as_without() {
	bar "$1"
	dialogue "$CAGE" "${BAR[@]}" -- "$CAGE" "${BAR[@]}"
	dialogue "$CAGE" "${BAR[@]}" "${LIB[@]}" -- \
		"$CAGE" "${BAR[@]}" "${LIB[@]}"
	dialogue "$CAGE" "${LIB[@]}" -- "$CAGE" "${BAR[@]}" "${LIB[@]}"
	dialogue "$CAGE" "${BAR[@]}" "${LIB[@]}" -- "$CAGE" "${LIB[@]}"
	# the end without a filter says why it stays on TCP
	[ "$(jq -s 'map(.lifted) | add' "$STATS")" -eq 0 ]
}

@test "a filter that kills the process" {
	as_without k
}

@test "a filter that kills the thread" {
	as_without x
}

@test "a filter that sends a signal" {
	as_without t
}

@test "a filter that refuses" {
	as_without f
}

@test "a filter that allows everything is not seen to" {
	dialogue "$CAGE" -a "${LIB[@]}" -- "$CAGE" -a "${LIB[@]}"
	[ ! -e "$STATS" ]
}

@test "sdpstat says of a process under a filter why nothing is lifted" {
	bar k
	"$CAGE" "${BAR[@]}" "${LIB[@]}" "$SDP_PROGS/meet" serve 127.0.0.1 \
		"$PORT" >"$TMP/server.out" 2>&1 3>&- &
	PID["server"]=$!
	wait_port "$PORT"
	sdpstat --json "${PID[server]}" | tee "$TMP/json" | jq -e --argjson port "$PORT" '
		[.. | objects | select(.reason? == "sandbox")] | length > 0'
	stop server
}

lifted_both() {
	[ "$(jq -s 'map(select(.program == "meet").bytes_sdp_tx) | add' \
		"$STATS")" -gt 100000 ]
}

@test "a filter that is trusted" {
	dialogue "$CAGE" -a "${LIB[@]}" -e LIBSDP_SECCOMP=trust -- \
		"$CAGE" -a "${LIB[@]}" -e LIBSDP_SECCOMP=trust
	lifted_both
}

@test "sdprun --probe: a filter that allows everything" {
	dialogue "$CAGE" -a "${LIB[@]}" sdprun --probe -- \
		"$CAGE" -a -a "${LIB[@]}" sdprun --probe
	lifted_both
}

@test "sdprun --probe: filters that refuse what is not needed" {
	local few=(-f memfd_create -f ptrace -f process_vm_readv)
	dialogue "$CAGE" "${few[@]}" "${LIB[@]}" sdprun --probe -- \
		"$CAGE" "${LIB[@]}"
	# the client would make no segment: it offers
	[ -s "$STATS" ]
	jq -s -e 'any(.[]; .reasons["no-memfd"] > 0)' "$STATS" || {
		cat "$STATS"
		false
	}
}

# probed ACTION CALL: what it says, and that the program runs.
probed() {
	local why=$2
	[ "$why" != clone3 ] || why=clone
	dialogue "$CAGE" "-$1" "$2" "${LIB[@]}" sdprun --probe -- \
		"$CAGE" "${LIB[@]}"
	grep -q "in the way of $why:" "$TMP/server.err"
	[ "$(jq -s 'map(.lifted) | add' "$STATS")" -eq 0 ]
}

@test "sdprun --probe: filters that kill" {
	local call
	for call in memfd_create membarrier process_vm_readv epoll_create1 \
		sendmsg fallocate; do
		probed k "$call"
	done
	probed x tgkill
	probed t mremap
}

@test "sdprun --probe: filters that refuse what is needed" {
	probed f sendto
	probed f clock_gettime
	probed f recvmsg
}

@test "more filters than were probed" {
	dialogue "$CAGE" -a "${LIB[@]}" sdprun --probe "$CAGE" -k memfd_create \
		-- "$CAGE" "${LIB[@]}"
	[ "$(jq -s 'map(.lifted) | add' "$STATS")" -eq 0 ]
}

# A call that is added to the library is added to the probe, or here, because it
# is the program's own: made in its place, or looked at on its way.
@test "the probe tries every call that the library makes" {
	local src=$BATS_TEST_DIRNAME/../../src own
	own=(accept clone clone3 close_range dup dup2 epoll_pwait2 epoll_wait
		execve execveat exit_group fork io_submit io_uring_enter io_uring_register
		io_uring_setup kill poll prctl pselect6 pwritev2
		recvmmsg seccomp select sendfile sendmmsg setns signalfd4 tgkill pidfd_getfd
		tkill unshare vfork rt_sigreturn restart_syscall)
	comm -23 <(grep -rhoE 'SYS_[a-z][a-z0-9_]*' "$src"/{base,fabric,socket,preload} |
		sed 's/SYS_//' | sort -u) \
		<( (grep -oE '(CALL|SPARE)\([a-z0-9_]+' "$src/tools/probe.c" |
			sed 's/.*(//'; printf '%s\n' "${own[@]}") | sort -u) \
		>"$TMP/missing"
	[ ! -s "$TMP/missing" ] || fail "$(cat "$TMP/missing")"
}
