/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the service thread gives back: segments of closed connections, and what
 * idle ones have of their rings. A close frees what was closed before it, in
 * lots (guard.h); the last lot is due here.
 */

#include "base/clock.h"
#include "socket/core/core.h"

#define REAP_MS 100
#define REAP_SLOW \
	8 /* a longer time by powers of two, where a thread stays inside */

/* Of the service thread. */
static uint32_t in_vain; /* looks, one after the other */
static uint64_t at; /* of the next one; 0: there was nothing since the last */

void service_retired(void)
{
	service_by(clock_ns() + REAP_MS * 1000000u);
}

bool reap(uint64_t now)
{
	uint32_t was = guard_heavy();

	if (was && now < at)
		return true;
	at = 0;
	if (!was) {
		guard_reap();
		in_vain = 0;
		return false;
	}
	guard_drain();
	if (guard_heavy() < was)
		in_vain = 0;
	else if (in_vain < REAP_SLOW)
		in_vain++;
	return in_vain < REAP_SLOW;
}

int reap_ms(uint64_t now, int most)
{
	uint64_t ms;

	if (!guard_heavy())
		return most;
	if (!at)
		at = now + ((uint64_t)REAP_MS << in_vain) * 1000000u;
	ms = now < at ? (at - now + 999999) / 1000000 : 0;
	return ms < (uint64_t)most ? (int)ms : most;
}

void reap_trim(struct sock *s, void *arg)
{
	uint64_t moved = s->at.sent + s->ar.taken;

	(void)arg;
	if (moved != s->mem.idle_mark) {
		s->mem.idle_mark = moved;
		s->mem.trimmed = false;
		return;
	}
	if (s->mem.trimmed || lock_try(&s->lock))
		return;
	if (sock_here(s) && s->paired && !s->peer_gone && !s->got.avail) {
		FAB(s)->trim(END(s));
		s->mem.trimmed = true;
		sock_publish(s);
	}
	sock_unlock(s);
}

void reap_forked(void)
{
	in_vain = 0;
	at = 0;
}
