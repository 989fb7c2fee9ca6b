/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/guard.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <signal.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "base/scratch.h"
#include "base/sys.h"
#include "base/table.h"

#define SLOTS	     256 /* of a chunk */
#define FEW	     8 /* slots in use before the first sweep */
#define RETIRED_MOST 16 /* weight; then retiring one frees, too */

/* Own cache lines: a thread's store must not disturb its neighbour. */
struct slot {
	struct guard g;
} __attribute__((aligned(64)));

struct chunk {
	struct slot slot[SLOTS];
	struct chunk *next; /* atomic */
};

__thread struct guard *guard_own __attribute__((tls_model("initial-exec")));
uint64_t guard_now = 1;
bool guard_exchanges = true;

TABLE static struct chunk first;
/* Threads that found no slot: nothing is freed in their process any more. */
static struct guard crowd;
static bool crowded;

static struct lock lock; /* of the list */
static struct retired *list;
static uint32_t count;
static uint32_t heavy; /* atomic; those of that weight, in the list or not */
static uint32_t since; /* weight of those since the last were freed */

void guard_begin(bool barriers)
{
	const int reg = MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;

	if (barriers && !sys_call3(SYS_membarrier, reg, 0, 0))
		__atomic_store_n(&guard_exchanges, false, __ATOMIC_SEQ_CST);
}

/* --- slots ---------------------------------------------------------------- */

/*
 * A child of vfork() is a thread of this memory, too, but of another process:
 * so it is asked for by its own number alone. One that another process has by
 * now keeps a slot, and an epoch if its thread ended inside, for a while.
 */
static bool tid_dead(uint32_t tid)
{
	return sys_call3(SYS_tkill, (long)tid, 0, 0) == -ESRCH;
}

#define SWEPT UINT32_MAX /* no thread's yet, and not to be taken */

static struct guard *claim(struct guard *g, uint32_t was, uint32_t tid)
{
	if (!__atomic_compare_exchange_n(&g->tid, &was, tid, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return NULL;
	__atomic_store_n(&g->epoch, 0, __ATOMIC_RELEASE);
	g->put_off = 0;
	g->nested = 0;
	scratch_fresh(g->scratch);
	guard_call_end(g, GUARD_NO_CALL);
	return g;
}

/* One of that thread number, 0: a free one; of the first `most`. */
static struct guard *claim_of(uint32_t was, uint32_t tid, uint32_t most)
{
	struct guard *g;
	struct chunk *c;
	uint32_t i;

	for (c = &first; c; c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE))
		for (i = 0; i < SLOTS; i++) {
			if (!most--)
				return NULL;
			g = &c->slot[i].g;
			if (__atomic_load_n(&g->tid, __ATOMIC_RELAXED) == was &&
			    claim(g, was, tid))
				return g;
		}
	return NULL;
}

static struct chunk *last_chunk(void)
{
	struct chunk *c = &first, *next;

	while ((next = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE)))
		c = next;
	return c;
}

/* Those of the dead are free again, of the first `most`: so many were. */
static uint32_t sweep_chunk(struct chunk *c, uint32_t most)
{
	uint32_t was, dead = 0, i;

	for (i = 0; i < most; i++) {
		struct guard *g = &c->slot[i].g;

		was = __atomic_load_n(&g->tid, __ATOMIC_RELAXED);
		if (!was || was == SWEPT || !tid_dead(was) ||
		    !claim(g, was, SWEPT))
			continue;
		__atomic_store_n(&g->tid, 0, __ATOMIC_RELEASE);
		dead++;
	}
	return dead;
}

/*
 * All were taken, up to the chunk `last`. True: so many were of the dead that
 * it was worth it.
 */
static bool sweep(const struct chunk *last)
{
	uint32_t all = 0, dead = 0;
	struct chunk *c;

	for (c = &first;; c = c->next) {
		dead += sweep_chunk(c, SLOTS);
		all += SLOTS;
		if (c == last)
			return dead >= all / 4;
	}
}

/*
 * No slot behind so many was ever taken, unless it is SLOTS; raised before one
 * is taken, so that the slot of a thread that is inside is always looked at.
 */
static uint32_t few = FEW; /* atomic */

/*
 * A slot keeps its scratch memory: so one that was never used is taken only
 * when those in use were swept, or threads that come and go would use up all.
 * The number in use doubles when that was not worth it: a thread costs a fixed
 * number of looks, whatever their number.
 */
static struct guard *claim_few(uint32_t tid)
{
	uint32_t most = __atomic_load_n(&few, __ATOMIC_RELAXED), was = most;
	struct guard *g = claim_of(0, tid, most);

	if (g || most >= SLOTS)
		return g;
	if (sweep_chunk(&first, most) < most / 4) {
		most *= 2;
		__atomic_compare_exchange_n(&few, &was, most, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	}
	return claim_of(0, tid, most);
}

/* Unless another thread has done so since. */
static void more_behind(struct chunk *c)
{
	struct chunk *none = NULL, *next;

	next = sys_mmap(NULL, sizeof(*next), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!sys_is_err(next) &&
	    !__atomic_compare_exchange_n(&c->next, &none, next, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		sys_munmap(next, sizeof(*next));
}

/* A dead thread that had this one's number may have left its slot inside. */
struct guard *guard_slot(void)
{
	uint32_t tid = (uint32_t)sys_gettid();
	struct guard *g = claim_of(tid, tid, UINT32_MAX);
	struct chunk *last;
	int i;

	if (!g)
		g = claim_few(tid);
	for (i = 0; !g && i < 3; i++) {
		__atomic_store_n(&few, SLOTS, __ATOMIC_RELAXED);
		last = last_chunk();
		g = claim_of(0, tid, UINT32_MAX);
		if (!g && !sweep(last))
			more_behind(last);
	}
	if (!g) {
		__atomic_store_n(&crowded, true, __ATOMIC_SEQ_CST);
		g = &crowd;
	}
	guard_own = g;
	return g;
}

static void vacate(struct guard *g)
{
	g->scratch = scratch_drop(g->scratch);
	__atomic_store_n(&g->tid, 0, __ATOMIC_RELEASE);
}

void guard_sweep(void)
{
	struct chunk *c;
	uint32_t was;
	int i;

	for (c = &first; c; c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE))
		for (i = 0; i < SLOTS; i++) {
			struct guard *g = &c->slot[i].g;

			was = __atomic_load_n(&g->tid, __ATOMIC_RELAXED);
			if (was && was != SWEPT && g != guard_own &&
			    tid_dead(was) && claim(g, was, SWEPT))
				vacate(g);
		}
}

void guard_exit(void)
{
	struct guard *g = guard_own;

	guard_own = NULL;
	if (g && g != &crowd)
		vacate(g);
}

/* --- nested --------------------------------------------------------------- */

/*
 * On a stack for signals frames cannot be compared with those of the call that
 * was interrupted. Doubt means that `at` lies on one.
 */
bool guard_on_signal_stack(uintptr_t at)
{
	stack_t ss = { .ss_flags = 0 };

	return sys_call3(SYS_sigaltstack, 0, (long)&ss, 0) ||
	       ((ss.ss_flags & SS_ONSTACK) &&
		at - (uintptr_t)ss.ss_sp <= ss.ss_size);
}

/* Is the call that is inside left by what runs, or goes on, at `frame`? */
static bool left(const struct guard *g, uintptr_t frame)
{
	return g != &crowd && g->frame && frame > g->frame &&
	       !guard_on_signal_stack(frame);
}

/* In a function that makes two of them the frame is the same. */
void guard_call_left(struct guard *g, int fd, uintptr_t frame)
{
	if (!g->number || g == &crowd || frame < g->by ||
	    (frame == g->by && g->number != (uint32_t)fd + 1) ||
	    guard_on_signal_stack(frame))
		return;
	guard_call_end(g, GUARD_NO_CALL);
}

void guard_jumping(uintptr_t to)
{
	struct guard *g = guard_own;

	if (!g)
		return;
	if (!g->epoch)
		guard_call_left(g, -1, to);
	if (!g->epoch || !left(g, to))
		return;
	g->nested = 0;
	guard_call_end(g, GUARD_NO_CALL);
	guard_leave(0);
}

uint64_t guard_nested(struct guard *g, uintptr_t frame)
{
	if (left(g, frame)) {
		guard_call_end(g, GUARD_NO_CALL);
		g->nested = 0;
		guard_in(g, frame);
		return 0;
	}
	g->nested++;
	return 1;
}

/* --- processes ------------------------------------------------------------ */

void guard_forked(void)
{
	struct guard *g;
	struct chunk *c;
	int i;

	for (c = &first; c; c = c->next)
		for (i = 0; i < SLOTS; i++) {
			g = &c->slot[i].g;
			if (g == guard_own)
				g->tid = (uint32_t)sys_gettid();
			else if (g->tid)
				*g = (struct guard){ .scratch = g->scratch };
		}
	lock.word = 0;
	list = NULL;
	count = since = heavy = 0;
}

/* --- memory --------------------------------------------------------------- */

/* The oldest epoch that a thread is inside of; the present one if none is. */
static uint64_t oldest(uint64_t now)
{
	uint32_t most = __atomic_load_n(&few, __ATOMIC_RELAXED), i;
	struct chunk *c;
	uint64_t at;

	for (c = &first; c; c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE))
		for (i = 0; i < most; i++) {
			struct guard *g = &c->slot[i].g;

			at = __atomic_load_n(&g->epoch, __ATOMIC_ACQUIRE);
			/* a thread that ended inside holds up nothing */
			if (at && at < now &&
			    (g == guard_own ||
			     !tid_dead(__atomic_load_n(&g->tid,
						       __ATOMIC_RELAXED))))
				now = at;
		}
	return now;
}

/*
 * A barrier on every thread that runs: what each had stored is seen behind it.
 */
static void barrier(void)
{
	const int cmd = MEMBARRIER_CMD_PRIVATE_EXPEDITED;

	if (!__atomic_load_n(&guard_exchanges, __ATOMIC_SEQ_CST))
		sys_call3(SYS_membarrier, cmd, 0, 0);
#ifndef __x86_64__
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

bool guard_elsewhere(int fd, const void *what)
{
	struct chunk *c;
	struct guard *g;
	int i;

	if (__atomic_load_n(&crowded, __ATOMIC_SEQ_CST))
		return true;
	barrier();
	for (c = &first; c; c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE))
		for (i = 0; i < SLOTS; i++) {
			g = &c->slot[i].g;
			if (__atomic_load_n(&g->number, __ATOMIC_ACQUIRE) ==
				    (uint32_t)fd + 1 &&
			    g != guard_own &&
			    __atomic_load_n(&g->what, __ATOMIC_RELAXED) !=
				    what &&
			    !tid_dead(
				    __atomic_load_n(&g->tid, __ATOMIC_RELAXED)))
				return true;
		}
	return false;
}

/* With the lock. */
static void append(struct retired *r)
{
	r->next = list;
	list = r;
	count++;
}

/* It is too early: to be looked at again. */
static void put_back(struct retired *r)
{
	if (lock_take(&lock) == -EDEADLK)
		return; /* cannot be: inside, no handler runs; it is lost */
	append(r);
	lock_drop(&lock);
}

static void look_at(struct retired *r, uint64_t now, uint64_t safe)
{
	bool idle;

	if (r->epoch >= safe) {
		put_back(r);
		return;
	}
	idle = !r->idle || r->idle(r);
	if (idle && (r->was_idle || !r->idle)) {
		if (r->weight == RETIRED_HEAVY)
			__atomic_fetch_sub(&heavy, 1, __ATOMIC_SEQ_CST);
		r->free(r);
		return;
	}
	r->was_idle = idle;
	r->epoch = now;
	put_back(r);
}

void guard_reap(void)
{
	struct retired *r, *next;
	uint64_t now, safe;

	if (__atomic_load_n(&crowded, __ATOMIC_SEQ_CST) ||
	    !__atomic_load_n(&count, __ATOMIC_RELAXED) ||
	    lock_take(&lock) == -EDEADLK)
		return;
	r = list;
	list = NULL;
	count = 0;
	lock_drop(&lock);
	if (!r)
		return;
	now = __atomic_add_fetch(&guard_now, 1, __ATOMIC_SEQ_CST);
	barrier();
	safe = oldest(now);
	for (; r; r = next) {
		next = r->next;
		look_at(r, now, safe);
	}
}

uint32_t guard_heavy(void)
{
	return __atomic_load_n(&heavy, __ATOMIC_SEQ_CST);
}

void guard_retire(struct retired *r)
{
	bool many;

	r->was_idle = false;
	/* in the order of all that raise it, behind what unlinked r */
	r->epoch = __atomic_fetch_add(&guard_now, 0, __ATOMIC_SEQ_CST);
	if (lock_take(&lock) == -EDEADLK)
		return; /* as put_back() */
	append(r);
	if (r->weight == RETIRED_HEAVY)
		__atomic_fetch_add(&heavy, 1, __ATOMIC_SEQ_CST);
	since += r->weight;
	many = since >= RETIRED_MOST;
	if (many)
		since = 0;
	lock_drop(&lock);
	if (many)
		guard_reap();
}

/*
 * Without a deferral of signals nothing is ever put off: a weak one, so that
 * programs of the tests link without it.
 */
__attribute__((weak)) void guard_let_in(struct guard *g)
{
	g->put_off = 0;
}
