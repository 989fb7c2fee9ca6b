/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kicks, taken: the bytes on the anchor by which threads come out of the kernel
 * that slept there since before the lift.
 */

#include "socket/transport/transport.h"

#define NAPS_LOST 200 /* of no process that lives */

#define NAPS_THERE 2000 /* of one that does not run, or ended them there */

void ring_throw(struct sock *s, int fd, int64_t n)
{
	while (n > 0) {
		ssize_t got = tcp_throw(s, fd, (uint64_t)n);

		if (got <= 0)
			break;
		s->ar.kicks += (uint64_t)got;
		n -= got;
	}
}

/*
 * Kicks wake threads that slept in the kernel on the anchor since before the
 * switch; they stay until the last of those is out. This thread counts itself
 * in meanwhile, so that no stream byte can come behind the kicks it counted.
 */
int ring_kicks(struct sock *s, int fd)
{
	int64_t n;

	lift_strayed(s, fd, 0);
	n = anc_kicks(s->rx, &s->ar);
	if (n <= 0 || rdma_failing_over(s))
		return n < 0 ? (int)n : 0;
	if (s->rd && s->rd->mark.marker_wait) {
		s->link->marker_read(s, fd);
		return 0;
	}
	if (__atomic_load_n(&s->waits.asleep_anchor, __ATOMIC_SEQ_CST))
		return 0;
	if (__atomic_add_fetch(&s->rx->tcp_rx, 1, __ATOMIC_SEQ_CST) == 1 &&
	    anc_state(s->rx) == ANC_LIFTED)
		ring_throw(s, fd, anc_kicks(s->rx, &s->ar));
	__atomic_sub_fetch(&s->rx->tcp_rx, 1, __ATOMIC_SEQ_CST);
	return 0;
}

/*
 * One that was killed or ended inside will never count itself out. One that
 * comes back after all finds that it was counted out (anc_tcp_leave()).
 */
static void inside_too_long(struct sock *s)
{
	enum holder_part part;
	uint32_t n, all = 0;

	for (part = HOLDS_OLD_RX; part <= HOLDS_RX; part++) {
		n = holders_miss(s, part);
		/* those that were there all the time */
		if (!s->fallback.miss_naps || n < s->fallback.missed[part])
			s->fallback.missed[part] = n < 255 ? (uint8_t)n : 255;
		all += s->fallback.missed[part];
	}
	s->fallback.miss_naps = all ? s->fallback.miss_naps + 1 : 0;
	if (s->fallback.miss_naps == NAPS_LOST) {
		s->fallback.miss_naps = 0;
		for (part = HOLDS_OLD_RX; part <= HOLDS_RX; part++)
			while (s->fallback.missed[part]--)
				tcp_abandoned(s, part);
	} else if (++s->fallback.kick_naps == NAPS_THERE) {
		s->fallback.kick_naps = 0;
		s->in.strayed = true;
		__atomic_store_n(&s->rx->tcp_rx, 0, __ATOMIC_SEQ_CST);
	}
}

bool ring_take_kicks(struct sock *s, int fd, uint64_t n)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec ms = { 0, 1000000 };
	ssize_t got;

	holders_sweep(s);
	if (__atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST)) {
		inside_too_long(s);
		/* a thread from before the switch may hold one uncounted */
		sock_unlock(s);
		sys_ppoll(NULL, 0, &ms, NULL);
		lock_take(&s->lock);
		return false;
	}
	s->fallback.kick_naps = s->fallback.miss_naps = 0;
	if (s->rd && (s->rd->mark.marker_wait || rdma_failing_over(s))) {
		s->link->marker_read(s, fd);
		sock_unlock(s);
		sys_ppoll(rdma_failing_over(s) ? NULL : &p,
			  !rdma_failing_over(s), &ms, NULL);
		lock_take(&s->lock);
		return false;
	}
	/* counted anew: that thread may have taken it meanwhile */
	lift_strayed(s, fd, 0);
	if (anc_kicks(s->rx, &s->ar) < (int64_t)n)
		return true;
	got = tcp_throw(s, fd, n);
	if (got > 0) {
		s->ar.kicks += (uint64_t)got;
		return true;
	}
	if (got == -EAGAIN) {
		/* counted, about to be written: W is between the two steps */
		sock_unlock(s);
		got = sys_ppoll(&p, 1, &ms, NULL);
		lock_take(&s->lock);
		return got > 0;
	}
	s->ar.kicks += n; /* FIN or error instead: W died in between */
	return true;
}

bool ring_marker(struct sock *s, int fd)
{
	if (likely(!s->rd) || !s->rd->mark.marker_wait || s->conn.error)
		return false;
	ring_take_kicks(s, fd, 0);
	return true;
}
