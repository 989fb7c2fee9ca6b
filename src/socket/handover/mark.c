/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The urgent mark, and what lies in front of it. */

#include "socket/handover/handover.h"

/* Does anything lie in front of the first byte that the kernel would give? */
static bool behind(struct sock *s, int fd)
{
	bool ret = true;
	uint64_t n;
	int where;

	if (sock_lock(s))
		return true;
	fd = sock_at(s, fd);
	pump_poll(s);
	where = tcp_where(s, &n);
	if (where == ANC_AT_KICKS && !peek_no_kick(s) &&
	    !__atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST)) {
		keep_kicks(s, fd);
		where = tcp_where(s, &n);
	}
	if (where == ANC_AT_RING)
		ret = s->got.avail > 0 || zc_here(s);
	else if (where != ANC_AT_KICKS)
		ret = s->ar.kept > 0;
	sock_unlock(s);
	return ret;
}

int sock_atmark(struct sock *s, int fd)
{
	int mark = 0, ret;

	if (s->paired && rx_state_seen(s) != ANC_TCP && behind(s, fd))
		return 0;
	ret = sys_ioctl(fd, SIOCATMARK, &mark);
	return ret < 0 ? ret : mark;
}

bool peek_no_kick(const struct sock *s)
{
	return marker_waits(s) || unlikely(s->ar.unsure) ||
	       rdma_failing_over(s);
}
