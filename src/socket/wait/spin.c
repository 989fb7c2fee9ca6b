/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Spinning (D7): looking at the ring again and again, for a bounded time,
 * while that has lately paid; wait.c sleeps when it has not.
 */

#include "socket/wait/wait.h"

#define SPIN_SKIP_MAX 128

/* Can the other end move only while we do not? */
static bool in_turns(struct sock *s)
{
	return s->own && unlikely(s->own->bound) &&
	       s->own->bound ==
		       __atomic_load_n(&s->peer->bound, __ATOMIC_RELAXED);
}

/* No more than all may spin: or the busier, the longer. */
static uint64_t far_ns(void)
{
	uint64_t most = (uint64_t)settings.spin_rdma_us * 1000;
	uint64_t ns = spin_woken_ns();

	return ns < most ? ns : most;
}

/* With one processor to run on, others need it. Asked without the lock, too. */
static uint64_t longest(const struct sock *s)
{
	uint64_t ns = (uint64_t)settings.spin_us * 1000, far;
	const struct anc_side *own = s->own;

	if (likely(!carrier_wakes_late(s)) || !own || own->bound)
		return ns;
	far = far_ns();
	return far > ns ? far : ns;
}

/*
 * Where all processors are busy with other work, a thread that spins uses up
 * its share of them and is taken off the processor for milliseconds when the
 * message comes; one that sleeps is put on at once. That it was taken off
 * shows by the clock: the spin ended much later than it should. Then this
 * process does not spin for a while, twice as long each time; after a row of
 * spins that ended in time it starts anew. A lost update is harmless. Where
 * being woken takes longer than that, so may a spin that was to be as long.
 */
#define LATE_NS	   100000u
#define REST_NS	   4000000u
#define REST_STEPS 7u
#define GOOD_SPINS 256u
#define SPIN_LOOKS 8

static struct {
	uint64_t until;
	uint32_t step, good;
} rest;

static bool crowded(void)
{
	uint64_t until = __atomic_load_n(&rest.until, __ATOMIC_RELAXED);

	if (likely(!until))
		return false;
	if (clock_ns() < until)
		return true;
	__atomic_store_n(&rest.until, 0, __ATOMIC_RELAXED);
	return false;
}

void sock_spin_ended(uint64_t now, uint64_t end, uint64_t ns)
{
	uint32_t step = __atomic_load_n(&rest.step, __ATOMIC_RELAXED);

	if (likely(now <= end + LATE_NS) ||
	    (now <= end + ns && now <= end + far_ns())) {
		if (step && ++rest.good >= GOOD_SPINS)
			rest.step = rest.good = 0;
		return;
	}
	__atomic_store_n(&rest.until, now + ((uint64_t)REST_NS << step),
			 __ATOMIC_RELAXED);
	rest.good = 0;
	if (step < REST_STEPS)
		rest.step = step + 1;
}

void sock_spin_spent(struct sock *s, uint64_t ns, uint64_t whole)
{
	COUNT(s, spin_ns, ns);
	if (whole)
		COUNT(s, h.spun[page_time_bucket(whole, PAGE_SPUN)], 1);
}

uint64_t sock_spin_ns(struct sock *s)
{
	uint32_t skip;

	if (!settings.spin_us || crowded())
		return 0;
	skip = __atomic_load_n(&s->waits.spin_skip, __ATOMIC_RELAXED);
	if (skip) { /* one that two threads took at once counts once */
		__atomic_store_n(&s->waits.spin_skip, skip - 1,
				 __ATOMIC_RELAXED);
		return 0;
	}
	return longest(s);
}

/* After each spin that found nothing, twice as many waits go without. */
void sock_spun(struct sock *s, bool paid)
{
	/* giving way costs more than looking */
	const uint32_t most = (in_turns(s) ? 8 : 1) * SPIN_SKIP_MAX;

	if (paid) {
		s->waits.spin_ns = 0;
		return;
	}
	s->waits.spin_ns = s->waits.spin_ns ? s->waits.spin_ns * 2 : 1;
	if (s->waits.spin_ns > most)
		s->waits.spin_ns = most;
	__atomic_store_n(&s->waits.spin_skip, s->waits.spin_ns,
			 __ATOMIC_RELAXED);
}

bool sock_pending(struct sock *s)
{
	return s->paired && (fab_glance(s) || rx_state_seen(s) != ANC_LIFTED ||
			     s->peer_gone || rdma_fresh(s));
}

bool sock_quiet(struct sock *s, uint32_t in_gen)
{
	return !sock_pending(s) &&
	       __atomic_load_n(&s->waits.in_gen, __ATOMIC_RELAXED) == in_gen;
}

/*
 * Between two looks. On one processor the other end can only move when it is
 * let on: then spinning is giving way, without a wake-up on either side.
 */
static void breathe(bool turns)
{
	if (unlikely(turns))
		sys_call3(SYS_sched_yield, 0, 0, 0);
	else
		clock_relax();
}

static void go_on(struct sock *s)
{
	__atomic_sub_fetch(&s->in.users, 1, __ATOMIC_SEQ_CST);
}

/*
 * A thread that slept in it when it was closed may have left it to this thread.
 */
void sock_go_on(struct sock *s)
{
	go_on(s);
	if (unlikely(__atomic_load_n(&s->waits.orphan_fd, __ATOMIC_SEQ_CST) >=
		     0))
		reports.left(s);
}

struct sock *sock_stays(struct sock *s)
{
	sock_keep(s);
	holder_in(s, HOLDS_STAY);
	return s;
}

void sock_stay_ends(struct sock *s)
{
	holder_out(s, HOLDS_STAY);
	sock_go_on(s);
}

bool sock_stay(struct sock *s)
{
	bool here;

	if (sock_cold(s) || sock_lock(s))
		return false;
	here = s->paired && sock_here(s);
	if (here)
		sock_keep(s);
	sock_unlock(s);
	return here;
}

/* Until `end`, without the lock. *now: the time of the last look, or 0. */
static bool look_till(struct sock *s, enum anc_state was, uint32_t gen,
		      uint64_t end, uint64_t *now)
{
	bool turns = in_turns(s), paid = false;
	int burst = turns ? 1 : 64, i;
	uint64_t clocks = clock_looks(longest(s));

	do {
		for (i = 0; i < burst && !paid; i++) {
			paid = fab_glance(s) || rx_state_seen(s) != was ||
			       s->peer_gone ||
			       __atomic_load_n(&s->waits.in_gen,
					       __ATOMIC_RELAXED) != gen;
			if (!paid)
				breathe(turns);
		}
		/* what was there at once tells nothing */
		if (!paid || i > SPIN_LOOKS || *now)
			*now = clock_ns();
	} while (!paid && *now < end && clocks-- && !guard_called());
	return paid;
}

/*
 * Signals were held back. In vain: what came meanwhile ends the wait as it
 * would have ended the kernel's.
 */
static int let_in(struct sock *s, struct sigblock *h, bool paid,
		  enum spin_how how)
{
	uint64_t pending = 0;
	bool restarts = true;
	int ret = 0;
	SLEEP(in);

	if (!paid)
		sys_call3(SYS_rt_sigpending, (long)&pending, 8, 0);
	if (unlikely(pending & ~h->hold.saved[0]))
		ret = sigblock_heed(s, h, &restarts);
	wait_away(&in, s, false);
	hold_end(&h->hold);
	wait_back(&in);
	return ret && (how == SPIN_ENDS || !restarts) ? -EINTR : 0;
}

int spin_rx(struct sock *s, enum anc_state was, uint64_t deadline,
	    enum spin_how how)
{
	uint64_t ns = sock_spin_ns(s), begin, end, now = 0;
	const uint64_t open = (uint64_t)settings.spin_us * 1000;
	struct sigblock sigblock = { .fd = -1 };
	uint32_t gen = s->waits.in_gen;
	bool paid;
	int ret;

	if (!ns)
		return 0;
	sock_keep(s);
	sock_named(s);
	sock_unlock(s);
	begin = clock_ns();
	if (deadline <= begin)
		ns = 0;
	else if (ns > deadline - begin)
		ns = deadline - begin;
	end = begin + (ns < open ? ns : open);
	paid = look_till(s, was, gen, end, &now);
	if (!paid && ns > open && how != SPIN_BRIEF) {
		if (how != SPIN_DEAF)
			hold_signals(&sigblock.hold);
		end = begin + ns;
		paid = look_till(s, was, gen, end, &now);
	}
	if (now) {
		sock_spin_ended(now, end, end - begin);
		sock_spin_spent(s, now - begin, now - begin);
	}
	lock_take(&s->lock);
	sock_unnamed(s);
	go_on(s);
	sock_spun(s, paid);
	ret = sigblock.hold.on ? let_in(s, &sigblock, paid, how) : 0;
	return paid ? 1 : ret;
}

bool spin_tx(struct sock *s)
{
	uint64_t ns, end, now, clocks;
	bool turns = in_turns(s);
	int burst = turns ? 1 : 16, i;
	bool paid = false;

	if (carrier_buffers(s))
		return false;
	ns = sock_spin_ns(s);
	if (!ns)
		return false;
	if (ns > (uint64_t)settings.spin_us * 1000)
		ns = (uint64_t)settings.spin_us * 1000;
	now = clock_ns();
	end = now + ns;
	clocks = clock_looks(ns);
	do {
		sock_keep(s);
		sock_unlock(s);
		for (i = 0; i < burst; i++)
			breathe(turns);
		lock_take(&s->lock);
		go_on(s);
		if (!s->paired)
			return true;
		if (fab_pending(s))
			pump_poll(s); /* credits may come with it */
		paid = pump_room(s) || !tx_by_ring(s) || s->peer_gone;
		now = clock_ns();
	} while (!paid && now < end && clocks-- && !guard_called());
	sock_spin_ended(now, end, ns);
	sock_spin_spent(s, now - (end - ns), now - (end - ns));
	sock_spun(s, paid);
	return paid;
}
