/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <time.h>

#include "base/clock.h"
#include "base/proc.h"
#include "base/seccomp.h"
#include "base/sys.h"

#define LOCK_SPINS	 40 /* about 2000 cycles */
#define LOCK_PATIENCE_NS 50000000u

__thread uint32_t lock_tid_cache __attribute__((tls_model("initial-exec")));

__thread struct lock_mask lock_mask __attribute__((tls_model("initial-exec")));

const struct lock_mask *lock_mask_first;

/* Caches nothing: of a fork before the first socket we may not hear. */
__attribute__((constructor)) static void lock_first(void)
{
	if (!seccomp_bars() && sys_gettid() == sys_getpid())
		lock_mask_first = &lock_mask;
}

uint32_t lock_tid_slow(void)
{
	lock_tid_cache = (uint32_t)sys_gettid();
	return lock_tid_cache;
}

void lock_forked(void)
{
	lock_tid_cache = 0;
	lock_first();
}

/*
 * Has the thread ended? kill() still finds a process that was killed but not
 * yet waited for, and it may be the caller that ought to wait, so the state in
 * /proc is asked as well. Doubt means alive.
 */
static bool lock_owner_dead(uint32_t tid)
{
	char c = proc_state_of((int)tid);

	return c == 'Z' || c == 'X';
}

static bool lock_cas(struct lock *l, uint32_t *seen, uint32_t to)
{
	return __atomic_compare_exchange_n(&l->word, seen, to, 0,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

/* A handler may leave by a jump: then nothing is blocked any more. */
static void let_signals_in(void)
{
	const struct timespec now = { 0, 0 };
	const uint64_t mask = lock_mask.set;

	if (!lock_mask.on)
		return;
	lock_mask_on(false);
	sys_call6(SYS_ppoll, 0, 0, (long)&now, (long)&mask, sizeof(mask), 0);
	__atomic_store_n(&lock_mask.set, mask, __ATOMIC_RELAXED);
	lock_mask_on(true);
}

/*
 * From here on the lock is always taken with LOCK_WAITERS set: others may be
 * asleep, and only the owner's drop can wake the next one.
 */
static int lock_sleep(struct lock *l, uint32_t tid)
{
	const struct timespec patience = { .tv_nsec = LOCK_PATIENCE_NS };
	uint32_t owner = 0, word = __atomic_load_n(&l->word, __ATOMIC_RELAXED);
	uint64_t since = 0;

	for (;;) {
		if (!word) {
			if (lock_cas(l, &word, tid | LOCK_WAITERS))
				return 0;
			continue;
		}
		if (!(word & LOCK_WAITERS)) {
			if (!lock_cas(l, &word, word | LOCK_WAITERS))
				continue;
			word |= LOCK_WAITERS;
		}
		if (owner != (word & ~LOCK_WAITERS)) {
			owner = word & ~LOCK_WAITERS;
			since = clock_ns();
		} else if (clock_ns() - since >= LOCK_PATIENCE_NS) {
			if (lock_owner_dead(owner) &&
			    lock_cas(l, &word, tid | LOCK_WAITERS))
				return -EOWNERDEAD;
			let_signals_in();
			since = clock_ns();
		}
		sys_futex(&l->word, FUTEX_WAIT, word, &patience);
		word = __atomic_load_n(&l->word, __ATOMIC_RELAXED);
	}
}

int lock_take_slow(struct lock *l, uint32_t tid)
{
	uint32_t word;
	int i;

	for (i = 0; i < LOCK_SPINS; i++) {
		word = __atomic_load_n(&l->word, __ATOMIC_RELAXED);
		if ((word & ~LOCK_WAITERS) == tid)
			return -EDEADLK;
		if (!word && lock_cas(l, &word, tid))
			return 0;
		clock_relax();
	}
	return lock_sleep(l, tid);
}

/* A lock that another thread holds is left alone. */
void lock_drop_slow(struct lock *l)
{
	uint32_t word = __atomic_load_n(&l->word, __ATOMIC_RELAXED);

	if ((word & ~LOCK_WAITERS) != lock_tid())
		return;
	word = __atomic_exchange_n(&l->word, 0, __ATOMIC_RELEASE);
	if (word & LOCK_WAITERS)
		sys_futex(&l->word, FUTEX_WAKE, 1, NULL);
}
