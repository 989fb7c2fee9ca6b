/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/guard.h"

#include <linux/membarrier.h>
#include <stddef.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "base/sys.h"
#include "base/table.h"

#define SLOTS	     256 /* of a chunk */
#define RETIRED_MOST 64 /* then whoever retires one frees, too */

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

void guard_begin(bool barriers)
{
	const int reg = MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;

	if (barriers && !sys_call3(SYS_membarrier, reg, 0, 0))
		guard_exchanges = false;
}

static bool tid_dead(uint32_t tid)
{
	return sys_call3(SYS_tgkill, sys_getpid(), (long)tid, 0) == -ESRCH;
}

static struct guard *claim(struct chunk *c, uint32_t tid)
{
	int i;

	for (i = 0; i < SLOTS; i++) {
		struct guard *g = &c->slot[i].g;
		uint32_t was = __atomic_load_n(&g->tid, __ATOMIC_RELAXED);

		if ((was && !tid_dead(was)) ||
		    !__atomic_compare_exchange_n(&g->tid, &was, tid, false,
						 __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED))
			continue;
		__atomic_store_n(&g->epoch, 0, __ATOMIC_RELEASE);
		g->put_off = 0;
		return g;
	}
	return NULL;
}

/* The one behind c, made if there is none; NULL: no memory. */
static struct chunk *chunk_after(struct chunk *c)
{
	struct chunk *next = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE);
	struct chunk *none = NULL;

	if (next)
		return next;
	next = sys_mmap(NULL, sizeof(*next), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_is_err(next))
		return NULL;
	if (__atomic_compare_exchange_n(&c->next, &none, next, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return next;
	sys_munmap(next, sizeof(*next));
	return none;
}

struct guard *guard_slot(void)
{
	uint32_t tid = (uint32_t)sys_gettid();
	struct guard *g = NULL;
	struct chunk *c;

	for (c = &first; c && !g; c = g ? c : chunk_after(c))
		g = claim(c, tid);
	if (!g) {
		__atomic_store_n(&crowded, true, __ATOMIC_SEQ_CST);
		g = &crowd;
	}
	guard_own = g;
	return g;
}

void guard_forked(void)
{
	struct chunk *c;
	int i;

	for (c = &first; c; c = c->next)
		for (i = 0; i < SLOTS; i++) {
			struct guard *g = &c->slot[i].g;

			if (g == guard_own) {
				g->tid = (uint32_t)sys_gettid();
				continue;
			}
			*g = (struct guard){ 0 };
		}
	lock.word = 0;
}

/* The oldest epoch that a thread is inside of; the present one if none is. */
static uint64_t oldest(uint64_t now)
{
	struct chunk *c;
	uint64_t at;
	int i;

	for (c = &first; c; c = __atomic_load_n(&c->next, __ATOMIC_ACQUIRE))
		for (i = 0; i < SLOTS; i++) {
			struct guard *g = &c->slot[i].g;

			at = __atomic_load_n(&g->epoch, __ATOMIC_ACQUIRE);
			/* a thread that ended inside holds up nothing */
			if (at && at < now && !tid_dead(g->tid))
				now = at;
		}
	return now;
}

static void retire(struct retired *r)
{
	r->next = list;
	list = r;
	count++;
}

void guard_reap(void)
{
	const int cmd = MEMBARRIER_CMD_PRIVATE_EXPEDITED;
	struct retired *r, *next;
	uint64_t safe;

	if (__atomic_load_n(&crowded, __ATOMIC_SEQ_CST) || lock_take(&lock))
		return;
	r = list;
	list = NULL;
	count = 0;
	lock_drop(&lock);
	if (!r)
		return;
	safe = __atomic_add_fetch(&guard_now, 1, __ATOMIC_SEQ_CST);
	if (!guard_exchanges)
		sys_call3(SYS_membarrier, cmd, 0, 0);
	safe = oldest(safe);
	for (; r; r = next) {
		next = r->next;
		if (r->epoch < safe && r->free(r))
			continue;
		if (lock_take(&lock))
			continue; /* cannot be: inside, no handler runs */
		retire(r);
		lock_drop(&lock);
	}
}

void guard_retire(struct retired *r)
{
	bool many;

	r->epoch = __atomic_load_n(&guard_now, __ATOMIC_SEQ_CST);
	if (lock_take(&lock))
		return;
	retire(r);
	many = count >= RETIRED_MOST;
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
