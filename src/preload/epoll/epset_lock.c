/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A thread that comes from a sock must not wait for a set: it may hold another
 * one (the two would wait for each other). It leaves the registration in the
 * inbox; either it gets the lock, or the holder finds it there after the lock
 * was dropped.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/stamp.h"
#include "base/sys.h"
#include "preload/epoll/epset.h"

#define SHOO_NS 20000000u

bool epset_take(struct epset *set)
{
	return lock_take(&set->lock) != -EDEADLK;
}

void epset_release(struct epset *set)
{
	do {
		epset_inbox(set);
		lock_drop(&set->lock);
#ifndef __x86_64__
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
	} while (ep_unlikely(epset_mail(set)) && !lock_try(&set->lock));
}

void epreg_post(struct epreg *r)
{
	struct epreg *head;

	if (__atomic_exchange_n(&r->queued, 1, __ATOMIC_ACQ_REL))
		return;
	head = __atomic_load_n(&r->set->inbox, __ATOMIC_RELAXED);
	do
		r->inext = head;
	while (!__atomic_compare_exchange_n(&r->set->inbox, &head, r, false,
					    __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED));
}

/* The sleeper narrows it if need be. */
void epreg_widen(struct epreg *r)
{
	if (r->ours && r->wake < 0 && epset_asleep(r->set)) {
		r->ours = 0;
		epreg_tell(r, true);
	}
}

/* Everything in the inbox, in the order in which it came. */
static struct epreg *empty(struct epset *set)
{
	struct epreg *r =
		__atomic_exchange_n(&set->inbox, NULL, __ATOMIC_SEQ_CST);
	struct epreg *list = NULL, *next;

	for (; r; r = next) {
		next = r->inext;
		r->inext = list;
		list = r;
	}
	return list;
}

void epset_inbox(struct epset *set)
{
	struct epreg *r, *next;

	if (ep_likely(!__atomic_load_n(&set->inbox, __ATOMIC_RELAXED)))
		return;
	for (r = empty(set); r; r = next) {
		next = r->inext;
		__atomic_store_n(&r->queued, 0, __ATOMIC_SEQ_CST);
		if (r->doomed) {
			epreg_free(r, false);
			continue;
		}
		if (r->deleted) {
			epreg_bury(r);
			continue;
		}
		r->still = false;
		r->idle = 0;
		if (!r->off && !set->inherited) {
			epreg_follow(r);
			epreg_widen(r);
			epreg_heat(r);
		}
	}
}

/*
 * Hot members are looked at in the order in which they joined the set, as far
 * as that is cheap, not in that of their lifts: a program that started one
 * exchange after the other is served so.
 */
#define LOOK_BACK 16

static struct epreg *place(const struct epset *set, uint64_t age)
{
	struct epreg *next = set->hot;
	int i;

	for (i = 0; i < LOOK_BACK && next->hprev->age > age; i++) {
		next = next->hprev;
		if (next == set->hot)
			break; /* once around */
	}
	return next;
}

void epreg_heat(struct epreg *r)
{
	struct epset *set = r->set;
	struct epreg *next;

	if (r->hot)
		return;
	if (r->quiet)
		set->nquiet--;
	r->quiet = false;
	r->hot = true;
	set->nhot++;
	if (!set->hot) {
		r->hnext = r->hprev = r;
		set->hot = r;
		return;
	}
	next = place(set, r->age);
	r->hnext = next;
	r->hprev = next->hprev;
	r->hprev->hnext = r;
	r->hnext->hprev = r;
	if (next == set->hot && r->age < next->age)
		set->hot = r;
}

void epreg_unlist(struct epreg *r)
{
	struct epset *set = r->set;

	r->bits = 0;
	if (ep_likely(!r->listed))
		return;
	r->listed = false;
	set->nready--;
	if (r->rprev)
		r->rprev->rnext = r->rnext;
	else
		set->ready = r->rnext;
	if (r->rnext)
		r->rnext->rprev = r->rprev;
	else
		set->ready_last = r->rprev;
}

void epreg_anew(struct epreg *r)
{
	r->at = stamp_now();
	r->told = r->stays = false;
	r->modded = r->at + 2; /* later */
	if (!r->set->kern.added)
		r->set->kern.added = r->at;
	if (!r->set->kern.mark_added)
		r->set->kern.mark_added = r->at;
}

void epreg_cool(struct epreg *r)
{
	struct epset *set = r->set;

	epreg_unlist(r);
	if (r->quiet)
		set->nquiet--;
	r->quiet = false;
	if (!r->hot)
		return;
	r->hot = false;
	set->nhot--;
	r->hprev->hnext = r->hnext;
	r->hnext->hprev = r->hprev;
	if (set->hot == r)
		set->hot = r->hnext == r ? NULL : r->hnext;
}

void epreg_watch(struct epreg *r, bool on)
{
	if (r->watched == on || !r->sock)
		return;
	r->watched = on;
	sock_watch(r->sock, on ? 1 : -1);
}

/*
 * A spinner looks at `epoch` before every look at a member. It is gone after
 * a few instructions, unless it lost its processor or never comes back (a
 * longjmp out of a handler): bounded.
 */
void epset_shoo(struct epset *set)
{
	uint64_t end, clocks = clock_looks(SHOO_NS);

	if (!__atomic_load_n(&set->spinners, __ATOMIC_SEQ_CST))
		return;
	__atomic_add_fetch(&set->epoch, 1, __ATOMIC_SEQ_CST);
	end = clock_ns() + SHOO_NS;
	while (__atomic_load_n(&set->spinners, __ATOMIC_SEQ_CST) &&
	       clock_ns() < end && clocks--)
		sys_call3(SYS_sched_yield, 0, 0, 0);
}
