/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Does the library know of every byte? A writer may leave the anchor before
 * its reader has taken everything only if both count alike: a byte that code
 * we do not see has taken would be waited for for ever. Each end compares its
 * own counts with those the kernel kept since the connection's birth.
 */

#include <linux/tcp.h>
#include <sys/ioctl.h>

#include <linux/sockios.h>

#include "socket/transport/transport.h"

#define TRIES	    64
#define TRIES_OFTEN 16

/* tcpi_state, where the stream lives */
enum { ESTABLISHED = 1, FIN_WAIT1 = 4, FIN_WAIT2 = 5, CLOSE_WAIT = 8 };

struct counts {
	uint64_t received, acked;
	int in, out;
	bool fin_in, fin_out; /* the kernel counts those as bytes */
	bool good;
};

/* One picture of the socket: twice the same, or none. */
static void look(int fd, struct counts *c)
{
	struct tcp_info a, b;
	socklen_t alen = sizeof(a), blen = sizeof(b);

	c->good = false;
	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	if (sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &a, &alen) ||
	    sys_ioctl(fd, FIONREAD, &c->in) ||
	    sys_ioctl(fd, SIOCOUTQ, &c->out) ||
	    sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &b, &blen))
		return;
	c->received = b.tcpi_bytes_received;
	c->acked = b.tcpi_bytes_acked;
	c->fin_in = b.tcpi_state == CLOSE_WAIT;
	c->fin_out = b.tcpi_state == FIN_WAIT1 || b.tcpi_state == FIN_WAIT2;
	c->good = (b.tcpi_state == ESTABLISHED || c->fin_in || c->fin_out) &&
		  a.tcpi_state == b.tcpi_state &&
		  a.tcpi_bytes_received == b.tcpi_bytes_received &&
		  a.tcpi_bytes_acked == b.tcpi_bytes_acked;
}

int32_t lift_audit(struct sock *s, int fd)
{
	uint64_t taken = __atomic_load_n(&s->ar.taken, __ATOMIC_SEQ_CST);
	uint64_t sent = __atomic_load_n(&s->at.sent, __ATOMIC_SEQ_CST);
	uint32_t had = s->own->counted, has = had;
	struct counts c = { 0 };

	if (s->id.role == ROLE_UNSEEN) {
		lift_base(s, fd);
		return LOOK_NEVER; /* its birth was not seen */
	}
	look(fd, &c);
	/*
	 * even with a thread inside: it would have taken more than was counted
	 */
	if (c.good && anc_state(s->rx) == ANC_TCP && !s->ar.kicks &&
	    taken == __atomic_load_n(&s->ar.taken, __ATOMIC_SEQ_CST) &&
	    c.received == taken + (uint64_t)c.in + c.fin_in) {
		s->ar.base = 0;
		s->ar.based = true;
	}
	/*
	 * no thread was inside at the time: what the kernel gave was counted;
	 * the SYN of one that connected is acknowledged, too
	 */
	if (c.good && !__atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST) &&
	    taken == __atomic_load_n(&s->ar.taken, __ATOMIC_SEQ_CST) &&
	    c.received == taken + (uint64_t)c.in + c.fin_in)
		has |= ANC_COUNTED_RX;
	if (c.good && !__atomic_load_n(&s->in.tcp_tx, __ATOMIC_SEQ_CST) &&
	    sent == __atomic_load_n(&s->at.sent, __ATOMIC_SEQ_CST) &&
	    c.acked + (uint64_t)c.out ==
		    sent + (s->id.role == ROLE_CONNECTED) + c.fin_out)
		has |= ANC_COUNTED_TX;
	if (has != had)
		__atomic_store_n(&s->own->counted, has, __ATOMIC_RELEASE);
	if (has == (ANC_COUNTED_RX | ANC_COUNTED_TX) ||
	    ++s->fallback.audits > TRIES)
		return LOOK_NEVER;
	return s->fallback.audits < TRIES_OFTEN ? 1 : 8;
}

/* --- what went astray ---------------------------------------------------- */

enum { LAST_ACK = 9, CLOSING = 11 };

/* -EAGAIN: not in one picture; -ENOTCONN: never again. */
static int drawn(int fd, int64_t *n)
{
	struct tcp_info a = { 0 }, b = { 0 };
	socklen_t alen = sizeof(a), blen = sizeof(b);
	int in, i;

	for (i = 0; i < 8; i++) {
		if (sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &a, &alen) ||
		    sys_ioctl(fd, FIONREAD, &in) ||
		    sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &b, &blen))
			return -ENOTCONN;
		if (a.tcpi_state != b.tcpi_state ||
		    a.tcpi_bytes_received != b.tcpi_bytes_received)
			continue;
		*n = (int64_t)b.tcpi_bytes_received - in;
		switch (b.tcpi_state) {
		case CLOSE_WAIT:
		case LAST_ACK:
		case CLOSING:
			--*n; /* the FIN */
			return 0;
		case ESTABLISHED:
		case FIN_WAIT1:
		case FIN_WAIT2:
			return 0;
		default:
			return -ENOTCONN;
		}
	}
	return -EAGAIN;
}

/* What was drawn and not counted, with `inside` threads in a TCP receive. */
static int uncounted(struct sock *s, int fd, uint32_t inside, int64_t *n)
{
	int64_t counted = anc_drawn(s->rx, &s->ar, s->got.stale);
	int ret = drawn(fd, n);

	if (!ret &&
	    (counted != anc_drawn(s->rx, &s->ar, s->got.stale) ||
	     __atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST) > inside))
		ret = -EAGAIN;
	*n -= counted;
	return ret;
}

void lift_base(struct sock *s, int fd)
{
	bool tcp = anc_state(s->rx) == ANC_TCP;
	int64_t n = 0;

	/* in TCP there may be what is taken and not yet counted */
	if (tcp && (s->ar.based || s->in.strayed))
		return;
	if (fd < 0 || uncounted(s, fd, tcp ? 0 : UINT32_MAX, &n))
		return;
	s->ar.base += n;
	s->ar.based = true;
}

/* What was taken uncounted is not known: no more audits. */
static void doubt(struct sock *s)
{
	s->ar.based = false;
	if (s->paired)
		__atomic_and_fetch(&s->own->counted, ~(uint32_t)ANC_COUNTED_RX,
				   __ATOMIC_SEQ_CST);
}

/* The stream's part is lost, as on TCP; the rest was for us. */
static void count_lost(struct sock *s, uint64_t n)
{
	enum anc_state st = anc_state(s->rx);
	uint64_t x = __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);
	uint64_t at = s->ar.taken + s->ar.kept, front = at < x ? x - at : 0;

	if (st == ANC_TCP || st == ANC_RESTORING || front > n)
		front = n;
	if (front) {
		anc_taken(s->rx, &s->ar, front);
		ring_writer(s);
		if (!s->rd && anc_passed(s->rx, &s->ar))
			tcp_passed(s, s->rx);
	}
	n -= front;
	if (!n)
		return;
	/*
	 * between hosts it is told of kicks when they are there, but for
	 * DRAINING
	 */
	if ((!s->rd || st == ANC_DRAINING) &&
	    anc_kicks(s->rx, &s->ar) < (int64_t)n)
		doubt(s);
	else if (s->link)
		s->link->strayed(s, n);
	else
		s->ar.kicks += n;
}

void lift_find_strayed(struct sock *s, int fd, uint64_t own)
{
	uint32_t inside = own ? 1 : 0;
	int64_t n = 0;
	int ret;

	if (fd < 0 ||
	    __atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST) > inside)
		return;
	__atomic_store_n(&s->in.strayed, false, __ATOMIC_SEQ_CST);
	ret = -ENOTCONN;
	/* FIONREAD ends at an urgent byte */
	if (s->ar.based && s->paired && !s->peer->urgent &&
	    anc_state(s->rx) != ANC_GONE)
		ret = uncounted(s, fd, inside, &n);
	if (ret == -EAGAIN) {
		__atomic_store_n(&s->in.strayed, true, __ATOMIC_SEQ_CST);
		return;
	}
	if (!ret && s->rd) /* taken for rdma_failover.c to judge */
		n -= (int64_t)(s->rd->failover.stash.len - s->ar.kept);
	n -= (int64_t)own;
	if (ret || n < 0) {
		doubt(s);
	} else if (n) {
		log_debug("fd %d: %lld bytes went to a receive that was left",
			  fd, (long long)n);
		count_lost(s, (uint64_t)n);
	}
}

/* All that was written to the anchor, less a constant; false: not known. */
static bool written(int fd, int64_t *n)
{
	struct counts c = { 0 };
	int i;

	for (i = 0; i < 8; i++) {
		look(fd, &c);
		*n = (int64_t)c.acked + c.out - c.fin_out;
		if (c.good)
			return true;
	}
	return false;
}

void lift_sent_base(struct sock *s, int fd)
{
	int64_t n = 0;

	s->at.based = written(fd, &n);
	s->at.base = n - (int64_t)s->at.kicks;
	s->fallback.given = false;
}

bool lift_sent(struct sock *s, int fd)
{
	uint64_t behind;
	int64_t n = 0;

	if (s->at.y == ANC_OPEN || !s->at.based || !written(fd, &n))
		return false;
	n -= s->at.base + (int64_t)s->at.kicks;
	behind = s->at.sent - s->at.y;
	if (n < (int64_t)behind)
		return false;
	anc_sent(s->tx, &s->at, (uint64_t)n - behind);
	s->in.unsent = false;
	return true;
}

bool lift_audited(const struct sock *s)
{
	return (s->own->counted & ANC_COUNTED_TX) &&
	       (__atomic_load_n(&s->peer->counted, __ATOMIC_ACQUIRE) &
		ANC_COUNTED_RX);
}

/*
 * The shared words take over from the local ones. Threads that are inside a
 * TCP call keep the words they entered by (tcp.c).
 */
void lift_adopt(struct sock *s, struct anc_dir *tx, struct anc_dir *rx)
{
	__atomic_store_n(&rx->tcp_rx, 1, __ATOMIC_SEQ_CST);
	/* a call that holds it on TCP does so on */
	if (s->fallback.pins & 1)
		anc_busy(tx);
	if (s->fallback.pins & 2)
		anc_busy(rx);
	__atomic_store_n(&s->rx, rx, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->tx, tx, __ATOMIC_SEQ_CST);
	/* only now: a thread that leaves the old words takes it from s->rx */
	__atomic_store_n(&s->in.carry, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&s->local[1].tcp_rx, __ATOMIC_SEQ_CST) &&
	    __atomic_exchange_n(&s->in.carry, 0, __ATOMIC_SEQ_CST))
		anc_tcp_leave(rx);
	__atomic_store_n(&rx->taken, s->ar.taken, __ATOMIC_SEQ_CST);
	__atomic_store_n(&tx->sent, s->at.sent, __ATOMIC_SEQ_CST);
}
