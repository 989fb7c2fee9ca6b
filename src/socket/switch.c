/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Switching (D3): the writer of a paired connection decides where its next
 * byte goes. It leaves the anchor for the ring at a moment when nothing is
 * under way, and the ring for the anchor when it must.
 */

#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <linux/sockios.h>

#include "socket/impl.h"

#define GLANCES_MAX 16
#define GLANCE_NS   30000u
#define HOLDS_MAX   6
#define HOLD_NS	    100000000u /* a bulk writer waits for a drained moment, */
#define STALL_NS    10000000u /* but only while the reader takes */

/* Time between holds: 20 ms, 80 ms ... */
static uint64_t hold_pause(const struct sock *s)
{
	return 5000000ull << (2 * s->holds);
}

/* --- to the ring ------------------------------------------------------- */

static void keep_nagle_off(struct sock *s, int fd)
{
	socklen_t len = sizeof(int);
	int on = 1, off = 0;

	if (s->nodelay < 0 &&
	    sys_getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &s->nodelay, &len))
		s->nodelay = 0;
	len = sizeof(int);
	if (s->cork < 0 &&
	    sys_getsockopt(fd, IPPROTO_TCP, TCP_CORK, &s->cork, &len))
		s->cork = 0;
	if (s->cork)
		sys_setsockopt(fd, IPPROTO_TCP, TCP_CORK, &off, sizeof(off));
	if (!s->nodelay)
		sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void give_nagle_back(struct sock *s, int fd)
{
	if (s->nodelay == 0)
		sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &s->nodelay,
			       sizeof(int));
	if (s->cork > 0)
		sys_setsockopt(fd, IPPROTO_TCP, TCP_CORK, &s->cork,
			       sizeof(int));
	s->nodelay = s->cork = -1;
}

/* Nothing of ours is under way, by the counts and by the kernel's word. */
static bool drained(struct sock *s, int fd)
{
	struct diag d;
	int queued = 0;

	if (__atomic_load_n(&s->rawtx, __ATOMIC_SEQ_CST) ||
	    s->at.sent != __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE))
		return false;
	if (sys_ioctl(fd, SIOCOUTQ, &queued) || queued)
		return false;
	if (diag_peer(fd, &d))
		return false;
	if (d.rqueue) {
		/* more lies there than was counted: foreign code writes */
		s->pinned = true;
		sock_why(s, WHY_FOREIGN_IO);
		return false;
	}
	return true;
}

/* Lock held. True: the direction is lifted now. */
static bool switch_tx(struct sock *s, int fd)
{
	static const char bell;
	bool done;

	if (!s->paired || s->orphan || never_lift(s) || s->shut_wr ||
	    __atomic_load_n(&s->tx->state, __ATOMIC_ACQUIRE) != ANC_RAW ||
	    !__atomic_load_n(&s->peer->ready, __ATOMIC_ACQUIRE) ||
	    clock_ns() < s->lift_not_before)
		return false;
	/* raw senders look here after they counted themselves in */
	__atomic_store_n(&s->switching, 1, __ATOMIC_SEQ_CST);
	done = drained(s, fd) && !anc_switch(s->tx, &s->at);
	__atomic_store_n(&s->switching, 0, __ATOMIC_SEQ_CST);
	if (!done)
		return false;
	keep_nagle_off(s, fd);
	/* whoever of R sleeps in the kernel comes out by this byte */
	anc_bell(s->tx, &s->at);
	if (sys_send(fd, &bell, 1, MSG_DONTWAIT | MSG_NOSIGNAL) != 1)
		__atomic_store_n(&s->tx->bells, --s->at.bells,
				 __ATOMIC_SEQ_CST);
	ring_note(s);
	s->full = s->hold = false;
	s->met = true;
	sock_is_lifted(s);
	log_note("LIFT: fd %d: transmits over SDP (shm) from offset %llu", fd,
		 (unsigned long long)s->at.x);
	return true;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec now = { 0, 0 };

	return sys_ppoll(&p, 1, &now, NULL) > 0;
}

/*
 * A one-way writer is never drained by itself. It waits for that moment, but
 * only while the reader takes, and not often.
 */
static bool hold_blocking(struct sock *s, int fd)
{
	uint64_t now = clock_ns(), until = now + HOLD_NS, moved = now;
	uint64_t seen = __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);

	for (; now < until && now < moved + STALL_NS; now = clock_ns()) {
		struct pollfd p = { .fd = s->wake, .events = POLLIN };
		struct timespec ts = { 0, STALL_NS }, nap = { 0, 100000 };
		uint32_t mark = ring_mark(s);
		bool eat;
		uint64_t taken;

		__atomic_store_n(&s->tx->wait, 1, __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		taken = __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);
		if (taken == s->at.sent)
			return switch_tx(s, fd);
		if (taken != seen)
			moved = now;
		seen = taken;
		/*
		 * Two ends that both write and hold would wait for each
		 * other's program to read: one of them gives way.
		 */
		if (!s->pair.offering && readable(fd)) {
			s->holds--;
			return false;
		}
		eat = ring_may_eat(s);
		if (eat)
			ring_eat(s, mark);
		sock_unlock(s);
		/* a byte that is not ours to eat must not make us spin */
		if (sys_ppoll(&p, 1, &ts, NULL) > 0)
			sys_ppoll(NULL, 0, &nap, NULL);
		lock_take(&s->lock);
		if (!s->paired || s->orphan)
			return false;
	}
	return false;
}

/*
 * A non-blocking writer whose reader keeps pace is drained between any two
 * writes, never just before one. A glance of microseconds finds the moment.
 */
static bool glance(struct sock *s)
{
	uint64_t now = clock_ns(), until = now + GLANCE_NS;
	int i;

	if (s->glances >= GLANCES_MAX || now < s->glance_at ||
	    !settings.spin_us)
		return false;
	s->glances++;
	s->glance_at = now + (1000000ull << (s->glances / 4));
	while (clock_ns() < until) {
		for (i = 0; i < 32; i++)
			clock_relax();
		if (s->at.sent ==
		    __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE))
			return true;
	}
	return false;
}

void lift_try_tx(struct sock *s, int fd, bool nonblock)
{
	struct anc_dir *tx = s->tx;
	bool done = false;

	if (anc_state(tx) != ANC_RAW || never_lift(s) || s->orphan ||
	    !__atomic_load_n(&s->peer->ready, __ATOMIC_ACQUIRE))
		return;
	if (s->at.sent != __atomic_load_n(&tx->taken, __ATOMIC_ACQUIRE) &&
	    (nonblock ? !glance(s) :
			(s->holds >= HOLDS_MAX || clock_ns() < s->hold_until)))
		return;
	if (lock_try(&s->lock))
		return;
	if (s->paired && !s->rawtx && anc_state(s->tx) == ANC_RAW) {
		done = switch_tx(s, fd);
		if (!done && !nonblock && s->holds < HOLDS_MAX &&
		    s->at.sent != s->tx->taken) {
			s->holds++;
			done = hold_blocking(s, fd);
			s->hold_until = clock_ns() + hold_pause(s);
		}
	}
	sock_unlock(s);
	if (done)
		sock_changed(s);
}

void lift_hold(struct sock *s, int fd)
{
	uint64_t now = clock_ns();

	if (!__atomic_load_n(&s->peer->ready, __ATOMIC_ACQUIRE) ||
	    never_lift(s) || s->holds >= HOLDS_MAX || now < s->hold_until ||
	    anc_state(s->tx) != ANC_RAW || lock_try(&s->lock))
		return;
	(void)fd;
	s->holds++;
	s->hold = true;
	s->hold_until = now + HOLD_NS;
	s->full_since = now;
	s->taken_seen = __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);
	__atomic_store_n(&s->tx->wait, 1, __ATOMIC_SEQ_CST);
	sock_unlock(s);
	sock_changed(s);
}

/* Lock held. What a held writer finds: true while it has to wait. */
bool lift_held(struct sock *s, int fd, uint64_t now)
{
	uint64_t taken;

	if (!s->hold)
		return false;
	if (s->at.sent == __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE) &&
	    switch_tx(s, fd))
		return false;
	taken = __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);
	if (taken != s->taken_seen) {
		s->taken_seen = taken;
		s->full_since = now;
	}
	if (now >= s->hold_until || now >= s->full_since + STALL_NS ||
	    s->orphan || !s->paired) {
		s->hold = false;
		s->hold_until = now + hold_pause(s);
		return false;
	}
	__atomic_store_n(&s->tx->wait, 1, __ATOMIC_SEQ_CST);
	return s->at.sent != __atomic_load_n(&s->tx->taken, __ATOMIC_SEQ_CST);
}

/* --- back to the anchor ------------------------------------------------ */

int lift_spill(struct sock *s, int fd, enum reason why, bool fin)
{
	int ret = anc_spill(s->tx, &s->at, fin);

	if (ret)
		return ret;
	if (s->spills < 255)
		s->spills++;
	if (s->spills >= 2)
		s->lift_not_before = clock_ns() + 1000000000u;
	s->full = false;
	give_nagle_back(s, fd);
	ring_note(s);
	page_add(spills, 1);
	sock_why(s, why);
	log_debug("fd %d: transmits over TCP again: %s", fd, reason_text(why));
	return 0;
}

int lift_leave(struct sock *s, int fd, enum reason why)
{
	uint64_t until =
		clock_ns() + (uint64_t)settings.home_timeout_ms * 1000000u;
	int ret = 0;

	if (sock_lock(s))
		return -EINTR;
	s->pinned = true;
	while (s->paired && anc_state(s->tx) != ANC_RAW &&
	       anc_state(s->tx) != ANC_SPILL && anc_state(s->tx) != ANC_GONE) {
		home_serve(s, fd);
		if (!lift_spill(s, fd, why, false))
			break;
		if (clock_ns() > until) {
			ret = -EAGAIN;
			break;
		}
		ret = wait_tx(s, fd, clock_ns() + 1000000u);
		if (ret == -EAGAIN)
			ret = 0;
		if (ret)
			break;
	}
	sock_why(s, why);
	sock_unlock(s);
	sock_changed(s);
	return ret;
}
