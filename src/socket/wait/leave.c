/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A writer takes its direction back to the anchor, and waits for that. */

#include "socket/wait/wait.h"

int lift_leave(struct sock *s, int fd, enum reason why)
{
	uint64_t until =
		clock_ns() + (uint64_t)settings.fallback_timeout_ms * 1000000u;
	int ret = 0;

	if (sock_lock(s))
		return -EDEADLK;
	rdma_unspare(s);
	s->fallback.pinned = true;
	/* it meets no peer any more; a family's pairing is not ours alone */
	if (!s->paired && sock_holders(s) == 1)
		pair_cancel(&s->seek.pair);
	while (s->paired && ((anc_state(s->tx) != ANC_TCP &&
			      anc_state(s->tx) != ANC_DRAINING &&
			      anc_state(s->tx) != ANC_GONE) ||
			     s->fallback.stand)) {
		fallback_serve(s, fd = sock_at(s, fd));
		if (s->fallback.stand)
			pump_poll(s);
		else if (!lift_stall(s, fd, why, false) && !s->fallback.stand)
			break;
		if (clock_ns() > until) {
			ret = -EAGAIN;
			break;
		}
		ret = wait_tx(s, fd, clock_ns() + 1000000u, false);
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
