/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Waiting (D7): spin for a bounded time while that has lately paid, then
 * sleep in the kernel on the wake-up socket, so that signals, SA_RESTART,
 * time-outs and cancellation come out as for a kernel socket.
 *
 * A signal during the spin is as one that came just before the call: the
 * spin is always the beginning of a wait.
 */

#include <sched.h>

#include "socket/rdma.h"

#define SPIN_SKIP_MAX 128

/* --- spinning ---------------------------------------------------------- */

static bool one_processor(void)
{
	static int known; /* 0 unknown, 1 one, 2 more */

	if (!known) {
		cpu_set_t set;

		CPU_ZERO(&set);
		known = sched_getaffinity(0, sizeof(set), &set) ||
					CPU_COUNT(&set) > 1 ?
				2 :
				1;
	}
	return known == 1;
}

/*
 * Where all processors are busy with other work, a thread that spins uses up
 * its share of them and is taken off the processor for milliseconds when the
 * message comes; one that sleeps is put on at once. That it was taken off
 * shows by the clock: the spin ended much later than it should. Then this
 * process does not spin for a while, twice as long each time; after a row of
 * spins that ended in time it starts anew. A lost update is harmless.
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

void sock_spin_ended(uint64_t now, uint64_t end)
{
	uint32_t step = __atomic_load_n(&rest.step, __ATOMIC_RELAXED);

	if (likely(now <= end + LATE_NS)) {
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

uint64_t sock_spin_ns(struct sock *s)
{
	if (!settings.spin_us || crowded())
		return 0;
	if (s->spin_skip) {
		s->spin_skip--;
		return 0;
	}
	return (uint64_t)settings.spin_us * 1000;
}

/* After each spin that found nothing, twice as many waits go without. */
void sock_spun(struct sock *s, bool paid)
{
	if (paid) {
		s->spin_ns = 0;
		return;
	}
	s->spin_ns = s->spin_ns ? s->spin_ns * 2 : 1;
	/* bound to one processor: the peer may still have another */
	if (s->spin_ns > (one_processor() ? 8u : 1u) * SPIN_SKIP_MAX)
		s->spin_ns = (one_processor() ? 8u : 1u) * SPIN_SKIP_MAX;
	s->spin_skip = s->spin_ns;
}

bool sock_pending(struct sock *s)
{
	return s->paired && (fab_pending(s) || anc_state(s->rx) != ANC_LIFTED ||
			     s->orphan || (unlikely(s->rd) && rdma_fresh(s)));
}

/*
 * Between two looks. On one processor the other end can only move when it is
 * let on: then spinning is giving way, without a wake-up on either side.
 */
static void breathe(void)
{
	if (unlikely(one_processor()))
		sys_call3(SYS_sched_yield, 0, 0, 0);
	else
		clock_relax();
}

static bool spin_rx(struct sock *s, enum anc_state was)
{
	uint64_t ns = sock_spin_ns(s), end, now = 0;
	int burst = one_processor() ? 1 : 64, i;
	uint32_t gen = s->in_gen;
	bool paid = false;

	if (!ns)
		return false;
	sock_unlock(s);
	end = clock_ns() + ns;
	do {
		for (i = 0; i < burst && !paid; i++) {
			paid = fab_pending(s) || anc_state(s->rx) != was ||
			       s->orphan ||
			       __atomic_load_n(&s->in_gen, __ATOMIC_RELAXED) !=
				       gen;
			if (!paid)
				breathe();
		}
		/* what was there at once tells nothing */
		if (!paid || i > SPIN_LOOKS || now)
			now = clock_ns();
	} while (!paid && now < end);
	if (now)
		sock_spin_ended(now, end);
	lock_take(&s->lock);
	sock_spun(s, paid);
	return paid;
}

static bool spin_tx(struct sock *s)
{
	uint64_t ns = sock_spin_ns(s), end, now;
	int burst = one_processor() ? 1 : 16, i;
	bool paid = false;

	if (!ns)
		return false;
	now = clock_ns();
	end = now + ns;
	do {
		sock_unlock(s);
		for (i = 0; i < burst; i++)
			breathe();
		lock_take(&s->lock);
		if (!s->paired)
			return true;
		if (fab_pending(s))
			pump_poll(s); /* credits may come with it */
		paid = pump_room(s) || !tx_by_ring(s) || s->orphan;
		now = clock_ns();
	} while (!paid && now < end);
	sock_spin_ended(now, end);
	sock_spun(s, paid);
	return paid;
}

/* --- sleeping ---------------------------------------------------------- */

uint64_t wait_deadline(int64_t timeo)
{
	return timeo > 0 ? clock_ns() + (uint64_t)timeo : UINT64_MAX;
}

static void awake(struct sock **s)
{
	if (*s)
		__atomic_sub_fetch(&(*s)->sleepers, 1, __ATOMIC_RELAXED);
}

/* The last step, without the lock: 1 rung, 0 hung up, negative errno. */
static int sleep_on(struct sock *s, uint64_t deadline)
{
	__attribute__((cleanup(awake))) struct sock *in = s;
	int fd = s->wake;
	char byte;

	if (deadline == UINT64_MAX) {
		ssize_t n = hooks.recv(fd, &byte, 1, MSG_PEEK);

		return n < 0 ? -errno : (int)n;
	} else {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		uint64_t now = clock_ns(), left;
		struct timespec ts;
		int n;

		left = deadline > now ? deadline - now : 0;
		ts.tv_sec = (time_t)(left / 1000000000u);
		ts.tv_nsec = (long)(left % 1000000000u);
		n = hooks.ppoll(&p, 1, &ts, NULL);
		(void)in;
		if (n < 0)
			return -errno;
		if (!n)
			return -EAGAIN;
		return p.revents & POLLIN ? 1 : 0;
	}
}

/* -errno of the kernel's sleep, or 0 after anything that needs a new look */
static int sleep_locked(struct sock *s, uint64_t deadline)
{
	uint32_t eaten = s->rung_eaten;
	int saved = errno, ret;

	__atomic_add_fetch(&s->sleepers, 1, __ATOMIC_RELAXED);
	sock_unlock(s);
	ret = sleep_on(s, deadline);
	if (ret == 0 && s->shut_rd) {
		/* our own SHUT_RD brought the readers out; only room counts */
		struct timespec nap = { 0, 1000000 };

		if (hooks.ppoll(NULL, 0, &nap, NULL) < 0)
			ret = -errno;
		else
			ret = 1;
	}
	errno = saved;
	lock_take(&s->lock);
	if (ret == 0 || ret == -ECONNRESET || ret == -EBADF) {
		lift_orphan(s);
		return 0;
	}
	/* the byte that woke us is there, whether its number is yet or not */
	if (ret > 0 && eaten == s->rung_eaten)
		s->rung_seen = eaten + 1;
	return ret > 0 ? 0 : ret;
}

/* Is there room that somebody was refused and has not noticed yet? */
bool wait_room_due(struct sock *s)
{
	return s->full &&
	       (s->writers ||
		__atomic_load_n(&s->asleep_anchor, __ATOMIC_RELAXED)) &&
	       pump_room(s);
}

/*
 * In the middle of a homecoming there is nothing to sleep on: our own thread
 * may make the next move, and rings nobody for it.
 */
static int nap_locked(struct sock *s)
{
	struct timespec ms = { 0, 1000000 };
	int saved = errno, ret;

	sock_unlock(s);
	ret = hooks.ppoll(NULL, 0, &ms, NULL) < 0 ? -errno : 0;
	errno = saved;
	lock_take(&s->lock);
	return ret;
}

int wait_rx(struct sock *s, int fd, uint64_t deadline, enum anc_state was)
{
	uint32_t mark, gen = s->in_gen;
	int ret;

	(void)fd;
	if (was != ANC_LIFTED) {
		ret = nap_locked(s);
		return ret ? ret : clock_ns() >= deadline ? -EAGAIN : 0;
	}
	if (spin_rx(s, was))
		return 0;
	if (!s->paired || s->orphan)
		return 0;
	mark = ring_mark(s);
	anc_arm(s->rx, ANC_WAKE);
	rdma_arm(s);
	if (s->writers) {
		/* the byte may be theirs: they are rung again */
		__atomic_store_n(&s->tx->wait, 1, __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	}
	/* over RDMA the service thread may have taken it in meanwhile */
	if (fab_pending(s) || anc_state(s->rx) != was || s->in_gen != gen)
		return 0;
	if (!wait_room_due(s))
		ring_eat(s, mark);
	s->readers++;
	ret = sleep_locked(s, deadline);
	s->readers--;
	return ret;
}

/*
 * A sleep with a time limit always ends with EINTR, a blocking send on TCP is
 * restarted after a handler with SA_RESTART. Which handler ran cannot be
 * known; the send goes on when every handler of the process restarts.
 */
static bool all_restart(void)
{
	struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		unsigned long mask;
	} act;
	int sig;

	for (sig = 1; sig < 65; sig++) {
		if (sys_call6(SYS_rt_sigaction, sig, 0, (long)&act, 8, 0, 0))
			continue;
		if (act.handler != (void *)SIG_DFL &&
		    act.handler != (void *)SIG_IGN && !(act.flags & SA_RESTART))
			return false;
	}
	return true;
}

int wait_lent(struct sock *s, uint64_t until, bool restart)
{
	uint32_t mark;
	int ret;

	if (spin_tx(s))
		return 0;
	mark = ring_mark(s);
	__atomic_store_n(&s->tx->wait, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (pump_poll(s) || s->zc.out != ZC_OUT || !tx_by_ring(s) || s->orphan)
		return 0;
	if (ring_may_eat(s))
		ring_eat(s, mark);
	s->writers++;
	ret = sleep_locked(s, until);
	s->writers--;
	return ret == -EINTR && restart && all_restart() ? 0 : ret;
}

int wait_tx(struct sock *s, int fd, uint64_t deadline)
{
	uint64_t now, limit, taken;
	uint32_t mark;
	int ret;

	if (!tx_by_ring(s)) {
		ret = nap_locked(s);
		return ret ? ret : clock_ns() >= deadline ? -EAGAIN : 0;
	}
	if (spin_tx(s))
		return 0;
	mark = ring_mark(s);
	__atomic_store_n(&s->tx->wait, 1, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	rdma_tell(s, false);
	rdma_arm(s);
	if (pump_poll(s) || pump_room(s) || !tx_by_ring(s) || s->orphan)
		return 0;
	now = clock_ns();
	taken = __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);
	if (!s->full || taken != s->taken_seen) {
		s->full = true;
		s->full_since = now;
		s->taken_seen = taken;
	}
	limit = s->full_since + (uint64_t)settings.spill_ms * 1000000u;
	if (now >= limit) {
		if (!lift_spill(s, fd, WHY_SPILLED, false))
			return 0;
		limit = now + 1000000u;
	}
	if (ring_may_eat(s))
		ring_eat(s, mark);
	s->writers++;
	ret = sleep_locked(s, limit < deadline ? limit : deadline);
	s->writers--;
	if (ret == -EAGAIN)
		return clock_ns() >= deadline ? -EAGAIN : 0;
	if (ret == -EINTR && deadline == UINT64_MAX && all_restart())
		return 0;
	return ret;
}
