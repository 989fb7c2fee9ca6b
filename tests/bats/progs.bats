#!/usr/bin/env bats
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# The programs of tests/progs, case by case: what passes on plain TCP passes
# with the library, whatever the peer is, wherever a fallback falls.
#   plain    no library, to know that the case itself is right
#   lifted   after the usual threshold; the peer another process or a thread
#   at once  before the first byte; also reversed, IPv6, without a warm-up
#   home     each connection is passed, inherited by an exec, touched by a fork
#   alone    the peer has no library
#   no rule  nothing lifts, and nothing changes

load helpers
load ways

teardown() {
	stop_all
}

@test "stream: plain" {
	plain stream
}

@test "stream: lifted" {
	lifted stream
}

@test "stream: at once" {
	at_once stream
}

@test "stream: home" {
	home stream
}

@test "stream: alone" {
	alone stream
}

@test "stream: no rule" {
	no_rule stream
}

@test "calls: plain" {
	plain calls
}

@test "calls: lifted" {
	lifted calls
}

@test "calls: at once" {
	at_once calls
}

@test "calls: home" {
	home calls
}

@test "calls: alone" {
	alone calls
}

@test "calls: no rule" {
	no_rule calls
}

@test "corners: plain" {
	plain corners
}

@test "corners: lifted" {
	lifted corners
}

@test "corners: at once" {
	at_once corners
}

@test "corners: home" {
	home corners
}

@test "corners: alone" {
	alone corners
}

@test "corners: no rule" {
	no_rule corners
}

@test "ended: plain" {
	plain ended
}

@test "ended: lifted" {
	lifted ended
}

@test "ended: at once" {
	at_once ended
}

@test "ended: home" {
	home ended
}

@test "ended: alone" {
	alone ended
}

@test "ended: no rule" {
	no_rule ended
}

@test "tells: plain" {
	plain tells
}

@test "tells: lifted" {
	mode lifted
	cases tells -p exec
	proof 3000 tells
	cases tells -p thread
}

@test "tells: at once, home" {
	mode now
	cases tells -p fork
	cases tells -p fork -r -6 -w 0
	cases tells -p fork -H pass
}

@test "tells: alone" {
	alone tells
}

@test "tells: no rule" {
	no_rule tells
}

@test "flags: plain" {
	plain flags
}

@test "flags: lifted" {
	lifted flags
}

@test "flags: at once" {
	at_once flags
}

@test "flags: home" {
	home flags
}

@test "flags: alone" {
	alone flags
}

@test "flags: no rule" {
	no_rule flags
}

@test "nonblock: plain" {
	plain nonblock
}

@test "nonblock: lifted" {
	lifted nonblock
}

@test "nonblock: at once" {
	at_once nonblock
}

@test "nonblock: home" {
	home nonblock
}

@test "nonblock: alone" {
	alone nonblock
}

@test "nonblock: no rule" {
	no_rule nonblock
}

@test "polls: plain" {
	plain polls
}

@test "polls: lifted" {
	lifted polls
}

@test "polls: at once" {
	at_once polls
}

@test "polls: nothing spins" {
	mode now
	with LIBSDP_SPIN_US=0
	cases polls -p fork
}

@test "polls: home" {
	home polls
}

@test "polls: alone" {
	alone polls
}

@test "polls: no rule" {
	no_rule polls
}

@test "epolls: plain" {
	plain epolls
}

@test "epolls: lifted" {
	lifted epolls
}

@test "epolls: at once" {
	at_once epolls
}

@test "epolls: home" {
	home epolls
}

@test "epolls: alone" {
	alone epolls
}

@test "epolls: no rule" {
	no_rule epolls
}

@test "sets: plain" {
	plain sets
}

@test "sets: lifted" {
	lifted sets
}

@test "sets: at once" {
	at_once sets
}

@test "sets: alone" {
	alone sets
}

@test "sets: no rule" {
	no_rule sets
}

@test "idlers: plain, lifted" {
	plain idlers
	lifted idlers
}

@test "idlers: at once, home" {
	at_once idlers
	home idlers
}

@test "halfclose: plain" {
	plain halfclose
}

@test "halfclose: lifted" {
	lifted halfclose
}

@test "halfclose: at once" {
	at_once halfclose
}

@test "halfclose: home" {
	home halfclose
}

@test "halfclose: alone" {
	alone halfclose
}

@test "halfclose: no rule" {
	no_rule halfclose
}

@test "life: plain" {
	plain life
}

@test "life: lifted" {
	lifted life
}

@test "life: at once" {
	at_once life
}

@test "life: home" {
	home life
}

@test "life: alone" {
	alone life
}

@test "life: no rule" {
	no_rule life
}

@test "procs: plain" {
	plain procs
}

@test "procs: lifted" {
	lifted procs
}

@test "procs: at once" {
	at_once procs
}

@test "procs: a fork in the midst of pairing" {
	mode now
	for _ in 1 2 3; do
		client "$SDP_PROGS/procs" -p fork -w 0 serve
		client "$SDP_PROGS/procs" -p fork -w 0 -r serve
	done
	# six runs of six connections with two ends
	[ "$MODE" = plain ] || [ "$(stat_sum procs lifted)" -ge 72 ]
}

@test "procs: home" {
	home procs
}

@test "procs: alone" {
	alone procs
}

@test "procs: no rule" {
	no_rule procs
}

@test "leavers: plain" {
	plain leavers
}

@test "leavers: lifted" {
	lifted leavers
}

@test "leavers: at once" {
	at_once leavers
}

@test "pass: plain" {
	plain pass
}

@test "pass: lifted" {
	lifted pass
}

@test "pass: at once" {
	at_once pass
}

@test "pass: home" {
	home pass
}

@test "pass: alone" {
	alone pass
}

@test "pass: no rule" {
	no_rule pass
}

@test "sandbox: plain" {
	plain sandbox
}

@test "sandbox: lifted" {
	lifted sandbox
}

@test "sandbox: at once" {
	at_once sandbox
}

@test "sandbox: alone" {
	alone sandbox
}

@test "sandbox: no rule" {
	no_rule sandbox
}

@test "handlers: plain, lifted" {
	plain handlers
	lifted handlers
}

@test "handlers: at once, alone" {
	at_once handlers
	mode now
	cases handlers -p plain
}

@test "signals: plain" {
	plain signals
}

@test "signals: lifted" {
	lifted signals
}

@test "signals: at once" {
	at_once signals
}

@test "signals: home" {
	home signals
}

@test "signals: alone" {
	alone signals
}

@test "signals: no rule" {
	no_rule signals
}

@test "notify: plain" {
	plain notify
}

@test "notify: lifted" {
	lifted notify
}

@test "notify: at once" {
	at_once notify
}

@test "notify: home" {
	home notify
}

@test "notify: alone" {
	alone notify
}

@test "notify: no rule" {
	no_rule notify
}

@test "options: plain" {
	plain options
}

@test "options: lifted" {
	lifted options
}

@test "options: at once" {
	at_once options
}

# Of 2,000,000 bytes, less what was moved while an option was set.
@test "options: taken back" {
	mode now
	client "$SDP_PROGS/options" -p fork back
	proof 1500000 options
	rm -f "$STATS"
	client "$SDP_PROGS/options" -p fork freed
	proof 1500000 options
}

@test "options: home" {
	home options
}

@test "options: alone" {
	alone options
}

@test "options: no rule" {
	no_rule options
}

@test "files: plain" {
	plain files
}

@test "files: lifted" {
	lifted files
}

@test "files: at once" {
	at_once files
}

# A reader that sleeps before each of forty calls is woken once by each. A few
# more wake-ups belong to the beginning and the end.
@test "files: one wake-up for each" {
	mode now
	client "$SDP_PROGS/files" -p exec -w 0 wakes
	proof 3500000 files
	woken=$(stat_sum files wakeups_tx)
	[ "$woken" -le 50 ] || fail "$woken wake-ups"
}

@test "files: home" {
	home files
}

@test "files: alone" {
	alone files
}

@test "files: no rule" {
	no_rule files
}

rings() {
	"$SDP_PROGS/uring" -t || skip "this kernel gives out no io_uring"
}

@test "uring: plain" {
	rings
	plain uring
}

@test "uring: lifted" {
	rings
	lifted uring
}

@test "uring: at once" {
	rings
	at_once uring
}

@test "uring: home" {
	rings
	home uring
}

@test "uring: alone" {
	rings
	alone uring
}

@test "uring: no rule" {
	rings
	no_rule uring
}

@test "native: without the library the kernel refuses families 27 and 28" {
	"$SDP_PROGS/native" plain
}

@test "native: families 27 and 28 are SDP" {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	mode lifted
	cases native -p exec
	cases native -p fork
	cases native -p thread
	proof 1000000 native
}

@test "native: rules for TCP do not touch those that ask by number" {
	[ -z "${SDP_BATS_PLAIN-}" ] || skip "needs the library"
	mode lifted
	with "LIBSDP_CONFIG_FILE=$BATS_TEST_DIRNAME/rules/none.conf"
	cases native -p exec
	proof 1000000 native
}
