/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_HOLD_H
#define LIBSDP_BASE_HOLD_H

/*
 * A signal that comes while a thread spins would be handled, and then not end
 * the sleep with EINTR as in the kernel's wait. So all but the shortest spins
 * hold signals back; the sleep lets them in with the program's mask. What a
 * fault raises is never held.
 */

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/guard.h"
#include "base/lock.h"
#include "base/sys.h"

struct hold {
	bool on;
	uint64_t saved[sizeof(sigset_t) / 8];
};

/*
 * What others are told of this thread (of_the_first()): before the kernel is
 * told to block, and after it was told to let in.
 */
static inline void hold_tell(unsigned char held)
{
	__atomic_store_n(&lock_mask.held, held, __ATOMIC_RELEASE);
}

/* They are held, and let in only where a lock is long in coming. */
static inline void hold_on(const struct hold *h)
{
	__atomic_store_n(&lock_mask.set, h->saved[0], __ATOMIC_RELAXED);
	lock_mask_on(h->on);
	hold_tell(h->on ? HELD_BACK : HELD_NOT);
}

/*
 * Block `all`; hold_on() behind it. What was put off is blocked already, but
 * not by the program: it comes as soon as its mask is there again.
 */
static inline bool hold_block(struct hold *h, uint64_t all)
{
	hold_tell(HELD_SOON);
	if (sys_call6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)h->saved,
		      8, 0, 0))
		return false;
	if (guard_own)
		h->saved[0] &= ~guard_own->put_off;
	return true;
}

/* The program's mask again: what is let in here must not find `on`. */
static inline void hold_unblock(const struct hold *h)
{
	lock_mask_on(false);
	sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)h->saved, 0, 8, 0, 0);
	hold_tell(HELD_NOT);
}

static inline void hold_signals(struct hold *h)
{
	uint64_t all = ~(1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) |
			 1ull << (SIGFPE - 1) | 1ull << (SIGILL - 1) |
			 1ull << (SIGTRAP - 1) | 1ull << (SIGABRT - 1));

	if (!h->on)
		h->on = hold_block(h, all);
	hold_on(h);
}

/*
 * Before they are let in again. One for the process that came meanwhile is not
 * this thread's as a rule: the kernel has woken the first thread for it, if
 * that lets it in, and programs that wait for it there count on that. But it
 * goes to the thread that lets it in first. So this waits, for a bounded time,
 * until it is taken.
 */
void hold_give_way(const struct hold *h);
/*
 * Pending for its process, and let in by the thread of which /proc tells this
 * (task/TID/status), or soon to be, if it holds them itself: `own`, read behind
 * `status`. 0 also where that is cut, behind a long list of groups.
 */
uint64_t hold_lets_in(const char *status, const struct lock_mask *own);

static inline void hold_end(struct hold *h)
{
	if (h->on) {
		hold_give_way(h);
		h->on = false;
		hold_unblock(h);
	}
}

/*
 * The mask for a kernel wait that the program called with `mask`; hold_on()
 * behind it. What had been put off before signals were held is let in, too.
 */
static inline const sigset_t *hold_mask(struct hold *h, const sigset_t *mask)
{
	if (!h->on)
		return mask;
	hold_give_way(h);
	lock_mask_on(false);
	if (guard_called())
		h->saved[0] &= ~guard_own->put_off;
	return (const sigset_t *)(const void *)h->saved;
}

#endif
