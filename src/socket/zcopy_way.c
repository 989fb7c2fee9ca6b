/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which way a large send goes (D10): by copy through the ring, or lent.
 *
 * Which is faster depends on the machine, on where the bytes lie and on what
 * else its processors have to do, so it is measured, for each size by itself,
 * in the time that sends take. Now and then a run of sends goes the other way
 * and as many the usual one, side by side; the other becomes usual when its
 * median is clearly shorter. A comparison that brings no change makes the
 * next one rarer, down to one in 65536 sends, so the slower way costs nothing
 * that could be measured.
 *
 * What is compared is the process's, not the connection's: a connection of
 * few sends would never know. A lost comparison is harmless; two threads that
 * compare at once disturb each other at most.
 */

#include "sdp_proto/zcopy.h"
#include "socket/impl.h"

#define CLASSES	   8 /* 64 KiB, 128 KiB, ... 8 MiB and more */
#define RUN	   7 /* sends of each way in a comparison, */
#define RUN_IN	   2 /* the first of which show what was before */
#define SEEN	   (RUN - RUN_IN)
#define APART_MIN  512u
#define APART_MAX  65536u
#define CLEARLY(a) ((a) - (a) / 8) /* hysteresis */

static struct way {
	uint32_t busy; /* atomic: a thread is at it */
	uint32_t sends, apart; /* since the last comparison; between two */
	uint32_t step; /* of the comparison; 0: none */
	bool lends;
	uint64_t cost[2][SEEN]; /* ps per byte: usual way, other way */
} ways[CLASSES];

static uint8_t class_of(size_t len)
{
	unsigned int i = 0;

	while (i < CLASSES - 1 && len >= (size_t)131072 << i)
		i++;
	return (uint8_t)i;
}

static bool enter(struct way *w)
{
	return !__atomic_exchange_n(&w->busy, 1, __ATOMIC_ACQUIRE);
}

static void leave(struct way *w)
{
	__atomic_store_n(&w->busy, 0, __ATOMIC_RELEASE);
}

/* The first run of a comparison goes the other way. */
static bool chosen(struct way *w, struct zc_send *z)
{
	if (!w->apart)
		w->apart = APART_MIN;
	if (!w->step && ++w->sends >= w->apart) {
		w->sends = 0;
		w->step = 1;
	}
	if (!w->step)
		return w->lends;
	z->begun = clock_ns();
	return (w->step <= RUN) != w->lends;
}

void zc_choose(struct sock *s, size_t len, struct zc_send *z)
{
	struct way *w;

	*z = (struct zc_send){ .class = class_of(len) };
	w = &ways[z->class];
	if (settings.zcopy == SET_ZCOPY_ALWAYS) {
		z->lend = true;
		return;
	}
	if (s->zc.home != sock_pid)
		return;
	if (s->zc.skip) {
		s->zc.skip--;
		return;
	}
	if (!enter(w))
		return;
	z->lend = chosen(w, z);
	leave(w);
}

static uint64_t median(uint64_t *v)
{
	size_t i, j;

	for (i = 1; i < SEEN; i++) {
		uint64_t x = v[i];

		for (j = i; j && v[j - 1] > x; j--)
			v[j] = v[j - 1];
		v[j] = x;
	}
	return v[SEEN / 2];
}

static void decide(struct way *w)
{
	uint64_t usual = median(w->cost[0]), other = median(w->cost[1]);

	w->step = 0;
	if (other < CLEARLY(usual)) {
		w->lends = !w->lends;
		w->apart = APART_MIN;
		log_debug("sends of %zu KiB: %s, %llu ps/B instead of %llu",
			  (size_t)64 << (w - ways),
			  w->lends ? "lent" : "by copy",
			  (unsigned long long)other, (unsigned long long)usual);
	} else if (w->apart < APART_MAX) {
		w->apart *= 2;
	}
}

void zc_chosen(struct zc_send *z, size_t len, bool whole)
{
	struct way *w = &ways[z->class];
	uint64_t ns;
	uint32_t at;

	if (!z->begun || !enter(w))
		return;
	ns = clock_ns() - z->begun;
	if (!whole) {
		/* cut short: it says nothing, but that lending failed */
		if (z->lend && !w->lends)
			ns = UINT32_MAX;
		else
			w->step = 0;
	}
	if (w->step) {
		at = (w->step - 1) % RUN;
		if (at >= RUN_IN)
			w->cost[w->step <= RUN][at - RUN_IN] = ns * 1000 / len;
		if (w->step++ == 2 * RUN)
			decide(w);
	}
	leave(w);
}
