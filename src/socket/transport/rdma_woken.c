/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What being woken costs between hosts, as it was of late. */

#include "socket/transport/transport.h"

/*
 * A wait that spins as long as being woken costs is at most twice as dear as
 * the better of spinning and sleeping. On one host that is spin_us. Between
 * hosts the service thread is woken by the completion, works, and wakes the
 * program: a multiple of the second half, which is measured; and in a dialogue
 * the other end may be asleep at first, so that the answer takes as much more.
 * What counts is the middle one of the last.
 */
#define WOKEN	8u
#define WOKEN_X 8u

static struct {
	uint32_t next, middle, ns[WOKEN];
} woken;

static uint32_t middle_of_last(void)
{
	uint32_t in_order[WOKEN], n = 0, i, j, one;

	for (i = 0; i < WOKEN; i++) {
		one = __atomic_load_n(&woken.ns[i], __ATOMIC_RELAXED);
		if (!one)
			continue;
		for (j = n++; j && in_order[j - 1] > one; j--)
			in_order[j] = in_order[j - 1];
		in_order[j] = one;
	}
	return n ? in_order[(n - 1) / 2] : 0;
}

void spin_rung(struct sock *s)
{
	__atomic_store_n(&s->waits.rung_at, clock_ns(), __ATOMIC_RELAXED);
}

void spin_awake(struct sock *s)
{
	uint64_t at, ns;
	uint32_t i;

	if (!__atomic_load_n(&s->waits.rung_at, __ATOMIC_RELAXED))
		return;
	at = __atomic_exchange_n(&s->waits.rung_at, 0, __ATOMIC_RELAXED);
	if (!at)
		return;
	ns = clock_ns() - at;
	i = __atomic_fetch_add(&woken.next, 1, __ATOMIC_RELAXED) % WOKEN;
	__atomic_store_n(&woken.ns[i],
			 ns < UINT32_MAX ? (uint32_t)ns + 1 : UINT32_MAX,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&woken.middle, middle_of_last(), __ATOMIC_RELAXED);
}

/* So long it takes to be woken by what another host sent, 0 if unknown. */
uint64_t spin_woken_ns(void)
{
	return (uint64_t)__atomic_load_n(&woken.middle, __ATOMIC_RELAXED) *
	       WOKEN_X;
}
