/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A lifted stream is used by one process at a time, and only that one moves it.
 * Its children have it, too, and may close it or be killed at any point. One
 * that wants to use it asks the user to bring it back to TCP first, where the
 * kernel keeps them apart, and there it rests until one of them has used it
 * alone for a while. (Between hosts it was brought there by the fork:
 * life/close.c.)
 */

#include "socket/handover/handover.h"

#define REST_NS 1000000000u

static void rest_longer(struct sock *s)
{
	__atomic_store_n(&s->fallback.lift_not_before, clock_ns() + REST_NS,
			 __ATOMIC_RELAXED);
}

bool user_elsewhere(struct sock *s)
{
	if (!s->user || s->user == sock_pid || !carrier_shared(s) ||
	    !holder_of(s, s->user))
		return false;
	sock_holders(s); /* strikes off the dead */
	return holder_of(s, s->user);
}

void user_shown(struct sock *s)
{
	__atomic_store_n(&s->own->service, s->fallback.user_service,
			 __ATOMIC_RELEASE);
}

bool user_told(struct sock *s)
{
	if (!user_elsewhere(s))
		return false;
	if (s->fallback.user_service)
		service_poke(s->fallback.user_service);
	return true;
}

/* Others can ask its background thread. */
static bool reachable(struct sock *s)
{
	if (!settings.background_thread || service_start())
		return false;
	s->fallback.user_service = service_id();
	return true;
}

void user_takes(struct sock *s)
{
	int32_t was = s->user;
	bool shared;

	if (was == sock_pid)
		return;
	/* one that has it still passes the peer's questions on */
	shared = user_elsewhere(s);
	__atomic_store_n(&s->user, sock_pid, __ATOMIC_RELAXED);
	__atomic_store_n(&s->fallback.asked_at, 0, __ATOMIC_RELAXED);
	if (was && s->paired && carrier_shared(s) && reachable(s) && !shared)
		user_shown(s);
}

bool user_asks(struct sock *s)
{
	uint64_t since = s->fallback.asked_at, now;

	if (!user_other(s))
		return false;
	if (!user_elsewhere(s) || !sock_by_ring(s) ||
	    !settings.background_thread) {
		user_takes(s);
		return false;
	}
	now = clock_ns();
	if (!since) {
		s->fallback.apart = true;
		rest_longer(s);
		__atomic_store_n(&s->fallback.asked_at, now, __ATOMIC_SEQ_CST);
		service_poke(s->fallback.user_service);
	} else if (now - since >
		   (uint64_t)settings.fallback_timeout_ms * 1000000u) {
		user_takes(s); /* it is stopped, perhaps */
		return false;
	}
	return true;
}

bool user_parts(struct sock *s)
{
	bool other = user_elsewhere(s);

	/* the other direction may be lifted */
	if (user_asks(s) || !other)
		return other;
	s->fallback.apart = true;
	rest_longer(s);
	return true;
}

bool user_asked(const struct sock *s)
{
	return unlikely(__atomic_load_n(&s->fallback.asked_at,
					__ATOMIC_SEQ_CST)) &&
	       !user_other(s);
}

/* Of another process a thread is inside a call, or asleep. */
static bool others_inside(struct sock *s)
{
	const struct holder *h;
	uint32_t i;

	sock_holders(s);
	for (i = 0; (h = holder_at(s, i)); i++)
		if (h->pid && h->pid != sock_pid && holder_inside(h))
			return true;
	return false;
}

bool user_inside_elsewhere(struct sock *s)
{
	if (likely(!holders_several(s)) || !others_inside(s))
		return false;
	rest_longer(s);
	return true;
}

/* Nothing else uses it: it may be lifted again. */
static void alone_again(struct sock *s)
{
	if (!reachable(s))
		return;
	s->fallback.apart = false;
	fallback_left(s);
	s->seek.look = 1;
	sock_why(s, WHY_PAIRED);
}

/* Long enough, or the others have closed it: it is worth the lock. */
static bool rested(const struct sock *s)
{
	return !holders_several(s) ||
	       clock_ns() >= __atomic_load_n(&s->fallback.lift_not_before,
					     __ATOMIC_RELAXED);
}

void user_rests(struct sock *s)
{
	bool other = user_other(s);

	if (!carrier_shared(s) || (!other && !rested(s)) || lock_try(&s->lock))
		return;
	other = other && user_elsewhere(s);
	if (user_asks(s) || other || (s->fallback.apart && others_inside(s)))
		rest_longer(s);
	else if (s->fallback.apart)
		alone_again(s);
	sock_unlock(s);
}
