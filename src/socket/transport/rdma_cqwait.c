/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Asleep on the completions of one queue pair.
 *
 * A receive that is the only one to wait for what comes, or a send that waits
 * for room or the end of a source, sleeps on its end's ear beside the wake-up
 * socket, and the completion wakes it instead of the service thread (V), which
 * would only ring. V must not be woken beside it, so the ear is lent: V does
 * not watch it. To watch it again costs a system call, so it stays lent when
 * the sleep is over: most often the next one comes soon.
 *
 * All of this is under the sock's lock. `cqwait_by` is the thread that hears,
 * from before it arms until it has left. While the ear is lent one of these
 * holds:
 *
 *   cqwait_by    that thread sleeps or is about to look for the last time.
 *                What it is to be told of comes after it armed: so the ear is
 *                readable, or another thread polled under the lock and rang.
 *   cqwait_owed  V knows that no thread may hear of the next completion, and
 *                looks each 20 ms (calm) until the ear is its own again. Only V
 *                takes this back, at a look, and keeps to it while bytes move,
 *                or while the kernel has no memory to watch it with.
 *
 * V gives up looking when it has armed: rdma_arm() takes the ear back if no
 * thread hears; one that does arms V's look anew when it leaves. Another thread
 * that arms to be told by V (poll, select, sets, a writer) takes it back from
 * the one that hears, too: that one is rung then as all others are, and it may
 * be noted and not hear any more (below). What was armed, came and was not
 * taken still makes the ear readable when V watches it again. The thread that
 * takes it owes what V would pay.
 *
 * What has woken a thread is taken off the ear before it arms the next time,
 * not when it leaves (cqwait_rang): that is a system call less in front of its
 * answer.
 *
 * A thread that was jumped out of its sleep could not leave: signals are put
 * off meanwhile (sigblock.h), and one that is cancelled leaves in
 * wait_cancelled(). Not put off is what a fault raises, and any process may
 * send that: a thread that comes here again and is still noted was jumped out,
 * or is in a handler above its own sleep. The end may be destroyed under the
 * sleeper, and another file have its number: then the wake-up socket tells as
 * always, and rdma_up() has cleared `cqwait_by`, or the sock has no such end
 * any more.
 */

#include "socket/transport/transport.h"

/*
 * Others that wait for what comes here: the thread that takes it in rings them.
 * One that waits for room has said so itself, and takes it back when it sends.
 */
static bool others(const struct sock *s, bool room)
{
	return s->waits.sleepers || (s->waits.full && !room) ||
	       __atomic_load_n(&s->waits.watched, __ATOMIC_SEQ_CST);
}

/* Another thread hears of them. */
static bool another(const struct rdma *r)
{
	return r->due.cqwait_by && r->due.cqwait_by != lock_tid();
}

bool rdma_cqwait_free(const struct sock *s, bool room)
{
	const struct rdma *r = s->rd;

	return rdma_here(s) && r->state == RDMA_UP && !another(r) &&
	       !others(s, room) && rdma_api->ear(r->end) >= 0;
}

/* What has woken a thread is not to wake the next. */
static void empty(struct rdma *r)
{
	if (r->due.cqwait_rang)
		rdma_api->heard(r->end);
	r->due.cqwait_rang = false;
}

int rdma_cqwait_take(struct sock *s, bool room)
{
	struct rdma *r = s->rd;

	if (!r->due.cqwait_lent)
		rdma_api->deaf(r->end, true);
	empty(r);
	r->due.cqwait_lent = true;
	r->due.cqwait_by = lock_tid();
	r->due.cqwait_room = room;
	return rdma_api->ear(r->end);
}

void rdma_cqwait_arm(struct sock *s)
{
	rdma_api->arm(s->rd->end, false);
}

void rdma_cqwait_back(struct sock *s)
{
	struct rdma *r = s->rd;

	if (likely(!r->due.cqwait_lent) || (r->due.serving && another(r)))
		return;
	r->due.cqwait_by = 0;
	r->due.cqwait_lent = rdma_api->deaf(r->end, false) < 0;
	if (unlikely(r->due.cqwait_lent) && !r->due.cqwait_owed) {
		r->due.cqwait_owed = true; /* each look tries it again */
		rdma_owe(s);
	}
}

void rdma_cqwait_leave(struct sock *s)
{
	struct rdma *r = s->rd;

	if (!r || !rdma_here(s) || r->due.cqwait_by != lock_tid())
		return;
	r->due.cqwait_by = 0;
	if (r->state != RDMA_UP)
		return;
	r->due.cqwait_rang = true;
	if (others(s, r->due.cqwait_room)) {
		empty(r);
		rdma_cqwait_back(s);
		rdma_wake_writers(s);
		rdma_owe(s); /* it arms */
		return;
	}
	if (r->due.cqwait_owed)
		return;
	r->due.calm |= !r->due.restless;
	r->due.cqwait_owed = r->due.restless = true;
	service_poke(service_id());
}
