/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_LOCK_H
#define LIBSDP_BASE_LOCK_H

/*
 * A small lock that works between threads, and between processes when it
 * lies in shared memory (connections inherited over fork are shared, see
 * doc/design.md D5). The word holds the owner's thread id, so that
 *  - a signal handler that interrupts its own thread's critical section, which
 *    sigdefer.h puts off if it can, is told so (-EDEADLK) instead of waiting
 *    for itself: an error for that call, never a reason to try again;
 *  - a lock whose owner was killed is taken over (-EOWNERDEAD: the lock IS
 *    held, what it guards may be half changed).
 */

#include <stdbool.h>
#include <stdint.h>

struct lock {
	uint32_t word; /* 0 free, else owner's tid, bit 31: a thread waits */
};

#define LOCK_WAITERS 0x80000000u

/* This thread's id, cached; lock_forked() must be called in every child. */
extern __thread uint32_t lock_tid_cache
	__attribute__((tls_model("initial-exec")));
uint32_t lock_tid_slow(void);
static inline uint32_t lock_tid(void)
{
	uint32_t tid = lock_tid_cache;

	return tid ? tid : lock_tid_slow();
}
void lock_forked(void);

/*
 * This thread has signals blocked that its program lets in (hold.h): the
 * program's mask. A long wait for a lock lets them in, again and again:
 * the owner may be kept by a handler until this thread has answered a signal,
 * too (collectors of garbage that stop the world).
 */
struct lock_mask {
	uint64_t set;
	bool on;
	unsigned char held; /* for others, which cannot tell from /proc alone */
};
enum {
	HELD_NOT,
	HELD_SOON, /* they may be blocked already; `set` is of another time */
	HELD_BACK, /* they may be let in again already */
};
extern __thread struct lock_mask lock_mask
	__attribute__((tls_model("initial-exec")));
/* The same of the process's first thread, for others to look at. */
extern const struct lock_mask *lock_mask_first;
static inline void lock_mask_on(bool on)
{
	__atomic_store_n(&lock_mask.on, on, __ATOMIC_RELAXED);
}

int lock_take_slow(struct lock *l, uint32_t tid);
void lock_drop_slow(struct lock *l);

/* 0, -EDEADLK (not held: this thread has it already) or -EOWNERDEAD (held) */
static inline int lock_take(struct lock *l)
{
	uint32_t zero = 0, tid = lock_tid();

	if (__atomic_compare_exchange_n(&l->word, &zero, tid, 0,
					__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		return 0;
	return lock_take_slow(l, tid);
}

/* 0 or -EBUSY */
static inline int lock_try(struct lock *l)
{
	uint32_t zero = 0;

	return __atomic_compare_exchange_n(&l->word, &zero, lock_tid(), 0,
					   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED) ?
		       0 :
		       -16;
}

static inline void lock_drop(struct lock *l)
{
	uint32_t tid = lock_tid();

	if (!__atomic_compare_exchange_n(&l->word, &tid, 0, 0, __ATOMIC_RELEASE,
					 __ATOMIC_RELAXED))
		lock_drop_slow(l);
}

static inline int lock_mine(const struct lock *l)
{
	return (__atomic_load_n(&l->word, __ATOMIC_RELAXED) & ~LOCK_WAITERS) ==
	       lock_tid();
}

#endif
