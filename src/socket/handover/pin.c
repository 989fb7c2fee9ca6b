/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Directions held on TCP: for a call that needs the anchor, and while several
 * processes use the connection.
 */

#include "socket/handover/handover.h"

void fallback_pin(struct sock *s)
{
	if (!(s->fallback.pins & 1) && !anc_busy(s->tx))
		s->fallback.pins |= 1;
	if (!(s->fallback.pins & 2) && !anc_busy(s->rx))
		s->fallback.pins |= 2;
}

static void let_go(struct sock *s, bool ours)
{
	if (ours && (s->fallback.pins & 1))
		anc_idle(s->tx);
	if (ours && (s->fallback.pins & 2))
		anc_idle(s->rx);
	s->fallback.pins = 0;
}

void fallback_unpin(struct sock *s, bool ours)
{
	if (s->fallback.callers && --s->fallback.callers == 0 &&
	    !s->fallback.apart)
		let_go(s, ours);
}

void fallback_left(struct sock *s)
{
	if (!s->fallback.callers && !s->fallback.apart)
		let_go(s, true);
}

void sock_unpin(struct sock *s)
{
	if (sock_lock(s))
		return;
	fallback_unpin(s, true);
	sock_unlock(s);
}
