/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which way a large send goes (D10): by copy through the ring, or lent.
 *
 * Which is faster depends on the machine, on where the bytes lie and on what
 * else its processors have to do, so it is measured, for each size by itself,
 * in the time that sends take. Now and then a run of sends goes the usual way
 * and then one the other, side by side; the other becomes usual when its
 * median is clearly shorter, and is given up as soon as it cannot be. A
 * comparison that brings no change makes the next one rarer, down to one in
 * 65536 sends, so the slower way costs nothing that could be measured.
 *
 * Where the kernel copies between processes far slower than a program within
 * one, sources can hardly win: then comparisons are as rare from the beginning.
 * That is measured once, within the process, when the first comparison is due:
 * 64 KiB that are in the cache, the best of some.
 *
 * Between hosts there are two ways to lend: the reader reads our memory, or
 * offers its own, which is written into. They are compared in the same manner,
 * and the first is the usual one to begin with: it takes less of processors
 * that do a device's work. Where many connections take turns with large sends,
 * writing is hardly ever seen at its best: each has to change its mode first.
 *
 * What is compared is the process's, not the connection's: a connection of
 * few sends would never know. A lost comparison is harmless; two threads that
 * compare at once disturb each other at most.
 */

#include <sys/mman.h>

#include "base/scratch.h"
#include "base/sys.h"
#include "sdp_proto/zcopy.h"
#include "socket/zcopy/zcopy.h"

#define CLASSES	   8 /* 64 KiB, 128 KiB, ... 8 MiB and more */
#define RUN	   7 /* sends of each way in a comparison, */
#define RUN_IN	   2 /* the first of which show what was before */
#define SEEN	   (RUN - RUN_IN)
#define APART_MIN  512u
#define APART_MAX  65536u
#define CLEARLY(a) ((a) - (a) / 8) /* hysteresis */
#define PROBE	   65536u /* bytes */
#define PROBES	   4
#define FAR_SLOWER 4 /* a ring copies twice, on two processors */

static struct way {
	uint32_t busy; /* atomic: a thread is at it */
	uint32_t sends, apart; /* since the last comparison; between two */
	uint32_t step; /* of the comparison; 0: none */
	bool seen; /* it was due before */
	bool lends; /* of the way to lend: into sinks */
	uint64_t cost[2][SEEN]; /* ps per byte: usual way, other way */
	uint32_t worse; /* of those of the other way: not clearly shorter */
} ways[3 * CLASSES]; /* on one host, between two, and there into sinks? */

/* Other classes for other carriers: what one teaches is not the other's. */
static uint8_t class_of(const struct sock *s, size_t len)
{
	unsigned int i = 0;

	while (i < CLASSES - 1 && len >= (size_t)131072 << i)
		i++;
	return (uint8_t)(zc_into_sinks(s) ? i + CLASSES : i);
}

static bool enter(struct way *w)
{
	return !__atomic_exchange_n(&w->busy, 1, __ATOMIC_ACQUIRE);
}

static void leave(struct way *w)
{
	__atomic_store_n(&w->busy, 0, __ATOMIC_RELEASE);
}

/* ns that `n` bytes take from our own memory, by the kernel or by us. */
static uint64_t probe(uint8_t *mem, bool by_kernel)
{
	struct iovec to = { mem, PROBE }, from = { mem + PROBE, PROBE };
	uint64_t best = UINT64_MAX, ns;
	long pid = sys_getpid();
	int i;

	for (i = 0; i < PROBES; i++) {
		ns = clock_ns();
		if (!by_kernel)
			memcpy(to.iov_base, from.iov_base, PROBE);
		else if (sys_call6(SYS_process_vm_readv, pid, (long)&to, 1,
				   (long)&from, 1, 0) != PROBE)
			return UINT64_MAX;
		__asm__ volatile("" ::"r"(mem) : "memory");
		ns = clock_ns() - ns;
		if (ns < best)
			best = ns;
	}
	return best;
}

/* Sends between two comparisons, to begin with. */
static uint32_t first_apart(void)
{
	static uint32_t known; /* atomic */
	uint32_t apart = __atomic_load_n(&known, __ATOMIC_RELAXED);
	uint64_t ours;
	uint8_t *mem;

	if (apart)
		return apart;
	apart = APART_MIN;
	mem = sys_mmap(NULL, 2 * PROBE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (!sys_is_err(mem)) {
		ours = probe(mem, false);
		if (probe(mem, true) / FAR_SLOWER >= ours)
			apart = APART_MAX;
		sys_munmap(mem, 2 * PROBE);
	}
	__atomic_store_n(&known, apart, __ATOMIC_RELAXED);
	return apart;
}

/* It is time to compare again, or for the first time to see if it may pay. */
static void due(const struct sock *s, struct way *w)
{
	w->sends = 0;
	if (zc_barred(s))
		return;
	if (!w->apart)
		w->apart = zc_by_kernel(s) ? first_apart() : APART_MIN;
	w->step = w->apart < APART_MAX || w->seen;
	w->seen = true;
}

/* The first run of a comparison goes the usual way. */
static bool chosen(const struct sock *s, struct way *w, struct zc_send *z)
{
	if (!w->step && ++w->sends >= (w->apart ? w->apart : APART_MIN))
		due(s, w);
	if (!w->step)
		return w->lends;
	z->begun = clock_ns();
	return (w->step > RUN) != w->lends;
}

static bool lends(const struct sock *s, struct zc_send *z)
{
	struct way *w = &ways[z->class];
	bool yes;

	if (settings.zcopy == SET_ZCOPY_ALWAYS)
		return true;
	if (s->zc.home != sock_pid || s->zc.skip || !enter(w))
		return false;
	yes = chosen(s, w, z);
	leave(w);
	return yes;
}

/* What the reader offers is written into, rather than that it reads. */
static bool into_sinks(const struct sock *s, struct zc_send *z)
{
	struct way *w = &ways[z->class + CLASSES];
	bool yes;

	if (!zc_into_sinks(s) || settings.zcopy_write != SET_ZCOPY_AUTO)
		return zc_into_sinks(s) &&
		       settings.zcopy_write == SET_ZCOPY_ALWAYS;
	if (!enter(w))
		return false;
	yes = w->lends;
	/* one comparison at a time */
	if (!z->begun) {
		yes = chosen(s, w, z);
		if (z->begun)
			z->class = (uint8_t)(z->class + CLASSES);
	}
	leave(w);
	return yes;
}

void zc_choose(struct sock *s, size_t len, struct zc_send *z)
{
	*z = (struct zc_send){ .class = class_of(s, len) };
	/* read into memory of ours first; a copy is quicker then */
	if (__atomic_load_n(&s->zc.files, __ATOMIC_RELAXED) && zc_by_kernel(s))
		return;
	z->lend = lends(s, z);
	if (z->lend && into_sinks(s, z))
		zc_prefer(s);
	else if (!z->lend && s->zc.skip)
		s->zc.skip--;
	else
		zc_decline(s);
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

/* The other way's sends were clearly shorter, as far as the median goes. */
static void decide(struct way *w)
{
	static const char *const name[2][2] = { { "by copy", "lent" },
						{ "read", "into sinks" } };
	uint64_t usual = median(w->cost[0]), other = median(w->cost[1]);

	w->lends = !w->lends;
	w->apart = APART_MIN;
	log_debug("sends of %zu KiB: %s, %llu ps/B instead of %llu",
		  (size_t)64 << (w - ways) % CLASSES,
		  name[w - ways >= 2 * CLASSES][w->lends],
		  (unsigned long long)other, (unsigned long long)usual);
}

/* One more send of a comparison took so long. */
static void compared(struct way *w, uint64_t cost)
{
	bool other = w->step > RUN;
	uint32_t at = (w->step++ - 1) % RUN;

	if (at < RUN_IN)
		return;
	at -= RUN_IN;
	w->cost[other][at] = cost;
	if (!other) {
		w->worse = 0;
		return;
	}
	w->worse += cost >= CLEARLY(median(w->cost[0]));
	if (w->worse > SEEN / 2) {
		w->step = 0;
		if (w->apart < APART_MAX)
			w->apart *= 2;
	} else if (at == SEEN - 1) {
		w->step = 0;
		decide(w);
	}
}

void zc_chosen(struct zc_send *z, size_t len, bool whole)
{
	struct way *w = &ways[z->class];
	uint64_t ns;

	if (!z->begun || !enter(w))
		return;
	ns = clock_ns() - z->begun;
	if (!whole) {
		/* cut short: it says nothing, but that the other way failed */
		if (z->lend && !w->lends && w->step > RUN)
			ns = UINT32_MAX;
		else
			w->step = 0;
	}
	if (w->step)
		compared(w, ns * 1000 / len);
	leave(w);
}
