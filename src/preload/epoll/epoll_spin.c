/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Looking at members of a set again and again, without its lock. */
#include "base/clock.h"
#include "base/sys.h"
#include "preload/epoll/epset.h"

#define ASKS	    4 /* members asked how long to spin */
#define YIELD_AFTER 128 /* looks in vain, then others may run, too */

/* Those that user space decides on, of the hot ones; how long they want. */
static void gather(const struct epset *set, struct epspin *sp)
{
	uint32_t left = set->nhot;
	struct epreg *r;
	uint64_t ns;

	for (r = set->hot; left && sp->n < EP_SPIN_SOCKS;
	     left--, r = r->hnext) {
		if (!r->sock || !(r->ours & EPOLLIN) || r->off)
			continue;
		if (sp->n < ASKS) {
			ns = sock_spin_ns(r->sock);
			if (ns > sp->ns) {
				sp->ns = ns;
				sp->best = r->sock;
			}
		}
		sp->sock[sp->n++] = r->sock;
	}
}

/* Each stays what it is while it is looked at, even if it is closed. */
static void stay(struct epspin *sp)
{
	struct sock *best = sp->best;
	int i, n = sp->n;

	sp->n = 0;
	sp->best = NULL;
	for (i = 0; i < n; i++) {
		struct sock *s = sp->sock[i];

		if (!sock_stay(s))
			continue;
		if (!sp->best || s == best)
			sp->best = s;
		sp->sock[sp->n++] = s;
	}
}

bool epspin_begin(struct epset *set, struct epspin *sp)
{
	sp->n = 0;
	sp->ns = 0;
	sp->best = NULL;
	if (!epset_take(set))
		return false;
	gather(set, sp);
	/* a thread that closes one of them takes the lock first */
	if (sp->ns)
		stay(sp);
	else
		sp->n = 0;
	if (sp->n)
		__atomic_add_fetch(&set->spinners, 1, __ATOMIC_SEQ_CST);
	epset_release(set);
	return sp->n != 0;
}

void epspin_end(struct epset *set, struct epspin *sp)
{
	while (sp->n)
		sock_go_on(sp->sock[--sp->n]);
	__atomic_sub_fetch(&set->spinners, 1, __ATOMIC_SEQ_CST);
}

static bool epspin_over(struct epspin *sp, uint64_t end)
{
	return !sp->clocks || !--sp->clocks || guard_called() ||
	       clock_ns() >= end;
}

enum spun epspin_some(struct epset *set, struct epspin *sp, uint64_t end)
{
	uint32_t epoch = __atomic_load_n(&set->epoch, __ATOMIC_SEQ_CST);
	int i, looks = 0, turn = 0;

	for (;;) {
		for (i = 0; i < sp->n; i++) {
			if (__atomic_load_n(&set->epoch, __ATOMIC_ACQUIRE) !=
			    epoch)
				return SPUN_CALLED;
			if (sock_pending(sp->sock[i])) {
				sp->best = sp->sock[i];
				return SPUN_PAID;
			}
		}
		if (__atomic_load_n(&set->inbox, __ATOMIC_ACQUIRE))
			return SPUN_CALLED;
		if ((++turn & 7) == 0 && epspin_over(sp, end))
			return SPUN_OUT;
		looks += sp->n;
		if (looks > YIELD_AFTER && (turn & 3) == 0)
			sys_call3(SYS_sched_yield, 0, 0, 0);
		else
			clock_relax();
	}
}
