/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is held back for more to come (holdback.h). */

#include "socket/transport/transport.h"

#define LONGEST_NS 200000000u /* TCP's, too */
#define LATELY_NS  1000000000u

static uint64_t last_ns; /* atomic: something was held back then */

/* On TCP an acknowledgement of what lies in front sends the rest. */
static bool behind(const struct sock *s)
{
	return s->at.sent != __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);
}

bool holdback_may(const struct sock *s)
{
	return !s->rd && FAB(s)->hold && service_running() && !s->conn.error &&
	       (s->opt.corked || s->window.holdback || !behind(s));
}

void holdback_show(struct sock *s)
{
	__atomic_store_n(&s->window.holdback, 0, __ATOMIC_RELAXED);
	FAB(s)->hold(END(s), false);
	ring_put_end(s);
	ring_reader(s, sock_anchor(s));
}

/* Lock held: it begins, and the thread that ends it has to know. */
static void begin(struct sock *s)
{
	uint64_t now = clock_ns();

	__atomic_store_n(&last_ns, now, __ATOMIC_RELAXED);
	__atomic_store_n(&s->window.holdback_until, now + LONGEST_NS,
			 __ATOMIC_RELAXED);
}

ssize_t holdback_send(struct sock *s, struct cursor *c, size_t n)
{
	uint32_t mss = s->window.mss ? s->window.mss : 1;
	size_t whole = (s->window.holdback + n) / mss * mss;
	ssize_t done = 0, got;
	uint32_t before;

	if (whole) { /* more than was held back, which fills none */
		whole -= s->window.holdback;
		done = pump_send(s, c, whole);
		if (done > 0)
			ring_reader(s, sock_anchor(s));
		if (done < (ssize_t)whole || whole == n)
			return done;
		n -= whole;
	}
	before = s->window.holdback;
	if (!before)
		begin(s);
	s->window.holding = true;
	FAB(s)->hold(END(s), true);
	got = pump_some(s, c, n);
	s->window.holding = false;
	if (before && !s->window.holdback) { /* shown by what went along */
		ring_reader(s, sock_anchor(s));
	} else if (got > 0) {
		__atomic_store_n(&s->window.holdback,
				 s->window.holdback + (uint32_t)got,
				 __ATOMIC_SEQ_CST);
		if (!before)
			service_by(s->window.holdback_until);
	} else if (!before) {
		holdback_show(s); /* what went without bytes */
	}
	if (got < (ssize_t)n && s->window.holdback)
		holdback_show(s); /* nothing more comes now */
	ring_put_end(s);
	return got < 0 && !done ? got : done + (got > 0 ? got : 0);
}

int holdback_tick(const struct sock *s, int tick)
{
	uint64_t until =
		__atomic_load_n(&s->window.holdback_until, __ATOMIC_RELAXED);
	uint64_t now = clock_ns();
	int ms = until > now ? (int)((until - now) / 1000000u) + 1 : 1;

	return tick && tick < ms ? tick : ms;
}

void holdback_serve(struct sock *s)
{
	if (clock_ns() < __atomic_load_n(&s->window.holdback_until,
					 __ATOMIC_RELAXED) ||
	    sock_lock(s))
		return;
	if (s->paired && sock_here(s) && s->window.holdback &&
	    clock_ns() >= s->window.holdback_until)
		holdback_show(s);
	sock_unlock(s);
}

void holdback_end(struct sock *s)
{
	if (likely(!__atomic_load_n(&s->window.holdback, __ATOMIC_RELAXED)) ||
	    sock_lock(s))
		return;
	if (s->paired && sock_here(s) && s->window.holdback && !s->opt.corked)
		holdback_show(s);
	sock_unlock(s);
}

bool holdback_lately(void)
{
	uint64_t last = __atomic_load_n(&last_ns, __ATOMIC_RELAXED);

	return last && clock_ns() - last < LATELY_NS;
}
