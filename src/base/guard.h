/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_GUARD_H
#define LIBSDP_BASE_GUARD_H

/*
 * The guard: what a thread may touch, and when a signal handler may run.
 *
 * A thread is *inside* the library from guard_enter() to guard_leave(). As
 * long as it is, two things hold:
 *  - memory that another thread retires meanwhile stays what it is
 *    (guard_retire());
 *  - handlers of the program do not run in it: signals that come are put off
 *    until it is outside (sigdefer.h).
 *
 * A pointer to a sock, a set or a row of the registry is good from the
 * look-up, which must happen inside, to the matching guard_leave() or
 * guard_sleep(). Before a thread sleeps it goes outside; what it needs behind
 * the sleep it must have counted, under the lock of what it sleeps in, and
 * looks at again when it is awake.
 *
 * Entering is one plain store to memory of the thread's own. The price is paid
 * by whoever frees: one membarrier() for a batch of retired memory, or, where
 * the kernel has none, an exchange in place of the store.
 */

#include <stdbool.h>
#include <stdint.h>

/* A thread's own part. Slots are never unmapped; those of the dead are reused. */
struct guard {
	uint64_t epoch; /* atomic; of the moment it went inside, 0: outside */
	uint64_t put_off; /* signals that wait until then, bit number - 1 */
	uint32_t tid; /* atomic; 0: nobody's */
};

/* NULL until its thread enters for the first time. */
extern __thread struct guard *guard_own
	__attribute__((tls_model("initial-exec")));
extern uint64_t guard_now; /* atomic: the current epoch, never 0 */
extern bool guard_exchanges; /* no membarrier() here */

/*
 * Once in a process, while it has one thread if possible (a first registration
 * in a process of many costs milliseconds). `barriers`: membarrier() may be
 * called. Until then, and without it, entering is by exchange.
 */
void guard_begin(bool barriers);
struct guard *guard_slot(void); /* never NULL */
void guard_forked(void); /* in a child: of all threads this one is left */

/*
 * Inside from here on. Returns what guard_leave() wants back: calls may nest,
 * as in a handler that was not put off. Async-signal-safe.
 */
static inline uint64_t guard_enter(void)
{
	struct guard *g = guard_own;
	uint64_t was;

	if (__builtin_expect(!g, 0))
		g = guard_slot();
	was = g->epoch;
	if (was)
		return was;
	if (__builtin_expect(guard_exchanges, 0))
		(void)__atomic_exchange_n(&g->epoch,
					  __atomic_load_n(&guard_now,
							  __ATOMIC_RELAXED),
					  __ATOMIC_SEQ_CST);
	else
		__atomic_store_n(&g->epoch,
				 __atomic_load_n(&guard_now, __ATOMIC_RELAXED),
				 __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return 0;
}

/* Signals that were put off are let in: handlers of the program run here. */
void guard_let_in(struct guard *g);

/* Back to what it was before guard_enter(). errno stays. */
static inline void guard_leave(uint64_t was)
{
	struct guard *g = guard_own;

	__atomic_store_n(&g->epoch, was, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (__builtin_expect(!was && g->put_off, 0))
		guard_let_in(g);
}

static inline bool guard_inside(void)
{
	return guard_own && guard_own->epoch;
}

/*
 * Around a sleep in the kernel: outside, without letting in what was put off,
 * since the sleep does that (sigdefer.h); and inside again, in a new epoch.
 * Returns what guard_wake() wants back.
 */
static inline uint64_t guard_sleep(void)
{
	struct guard *g = guard_own;
	uint64_t was = g ? g->epoch : 0;

	if (was)
		__atomic_store_n(&g->epoch, 0, __ATOMIC_RELEASE);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return was;
}

static inline void guard_wake(uint64_t was)
{
	if (was)
		(void)guard_enter();
}

/*
 * Memory that no look-up finds any more, to be freed when no thread is inside
 * that may have found it before. `free` says false when it must wait for
 * something else, too (threads that sleep in it): it is asked again.
 * The struct lies in that memory.
 */
struct retired {
	struct retired *next;
	uint64_t epoch;
	bool (*free)(struct retired *r);
};
void guard_retire(struct retired *r);
/* Frees what can be by now: of the background thread, or for want of memory. */
void guard_reap(void);

#endif
