/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The markers that prove that anchor and queue pair have the same two ends:
 * each is written by the writer of a direction that was lifted, and is the
 * first on the anchor behind the lift.
 */

#include "base/mem.h"
#include "socket/transport/transport.h"

#define MARKER_END(r) ((r)->mark.marker_at + RDMA_MARKER)

bool rdma_hide(struct sock *s, uint32_t len, bool eof)
{
	struct rdma *r = s->rd;

	/*
	 * of a lift that was never known of here: it comes again, on the anchor
	 */
	if (unlikely(r->state == RDMA_FAILOVER) &&
	    anc_state(s->rx) == ANC_RESTORING)
		return true;
	if (!r->mark.marker_wait)
		return false;
	r->mark.hidden += len;
	r->mark.eof_hidden |= eof;
	return true;
}

static void marker_done(struct sock *s)
{
	struct rdma *r = s->rd;

	r->mark.marker_wait = false;
	s->got.avail += r->mark.hidden;
	s->eos.rx_eof |= r->mark.eof_hidden;
	r->mark.hidden = 0;
	r->mark.eof_hidden = false;
	__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
	if (s->got.avail && !s->stats.counted)
		sock_is_lifted(s);
	log_debug("fd %d: receives over SDP (verbs)", sock_fd(s));
}

/*
 * Bytes at the place of marker and kicks were taken. What is neither comes from
 * a peer whose queue pair broke: rdma_failover.c has to judge it, and what was
 * taken for the beginning of a marker with it. A peer that closed wrote its
 * marker before, and nothing else.
 */
static void marker_count(struct sock *s, const uint8_t *got, size_t n)
{
	struct rdma *r = s->rd;
	bool ended = r->state == RDMA_ENDED;

	for (; n && (ended || r->state == RDMA_UP); got++, n--) {
		if (*got !=
		    (r->mark.marker_wait ?
			     r->mark.marker_rx[s->ar.kicks - r->mark.marker_at] :
			     0))
			break;
		s->ar.kicks++;
		if (r->mark.marker_wait && s->ar.kicks == MARKER_END(r))
			marker_done(s);
	}
	remote_kicks_ahead(&r->words);
	if (!n)
		return;
	if (ended) {
		s->conn.fault = "no marker";
		pump_fail(s, -EPROTO);
		return;
	}
	if (r->state == RDMA_UP && r->mark.marker_wait) {
		failover_ahead(s, r->mark.marker_rx,
			       s->ar.kicks - r->mark.marker_at);
		s->ar.kicks = r->mark.marker_at;
	}
	failover_ahead(s, got, n);
	reports.broke(s, -ECONNRESET);
}

/* Its writer is no more, and what came behind it is not shown. */
static void marker_lost(struct sock *s)
{
	struct rdma *r = s->rd;

	s->ar.kicks = MARKER_END(r);
	remote_kicks_ahead(&r->words);
	if (s->ar.taken < __atomic_load_n(&s->rx->y, __ATOMIC_ACQUIRE) &&
	    !rdma_was_reset(s)) {
		s->conn.fault = "an end without its marker";
		pump_fail(s, -EPROTO);
	}
	rdma_marker_end(s);
}

void rdma_strayed(struct sock *s, uint64_t n)
{
	struct rdma *r = s->rd;

	if (r->state == RDMA_FAILOVER) {
		reports.strayed(s, n);
		return;
	}
	s->ar.kicks += n;
	remote_kicks_ahead(&r->words);
	if (r->mark.marker_wait && s->ar.kicks >= MARKER_END(r)) {
		marker_done(s);
		r->due.changed = true;
		rdma_wake(s);
	}
}

/* Is the marker the next on the anchor, and no stream byte in front of it? */
static bool marker_next(const struct sock *s)
{
	enum anc_state st = anc_state(s->rx);

	return st != ANC_TCP && st != ANC_RESTORING && st != ANC_GONE &&
	       s->ar.taken + s->ar.kept >=
		       __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);
}

/*
 * The marker lies in front of all else on the anchor, in whatever state it
 * comes. While threads are inside receives that began before the lift it is
 * theirs, and while others sleep in poll on it, it has to wake them first. The
 * service thread cannot know of those that have slept in the kernel since
 * before the lift, so it leaves the marker to a thread of the program: to one
 * that sleeps elsewhere it says so.
 */
void rdma_marker_read(struct sock *s, int fd)
{
	struct rdma *r = s->rd;
	uint8_t got[RDMA_MARKER];
	ssize_t n;

	lift_strayed(s, fd, 0);
	if (!r->mark.marker_wait || fd < 0 || s->conn.error ||
	    !marker_next(s) || r->state == RDMA_FAILOVER)
		return;
	r->due.restless |= rdma_marker_urgent(s);
	if (r->due.serving && s->waits.orphan_fd < 0) {
		if (s->waits.readers &&
		    sys_recv(fd, got, 1, MSG_PEEK | MSG_DONTWAIT) == 1)
			rdma_wake(s);
		return;
	}
	if (__atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST) ||
	    __atomic_load_n(&s->waits.asleep_anchor, __ATOMIC_SEQ_CST))
		return;
	n = sys_recv(fd, got, (size_t)(MARKER_END(r) - s->ar.kicks),
		     MSG_DONTWAIT);
	sock_eats(s, n);
	if (n > 0)
		marker_count(s, got, (size_t)n);
	else if (n != -EAGAIN && r->state == RDMA_ENDED)
		marker_lost(s);
	if (n > 0 && !r->mark.marker_wait)
		rdma_wake(s);
}

/*
 * Bytes that the kernel has put there. The program may have taken the permission
 * to read them away since: they prove what they prove all the same.
 */
static bool read_back(struct cursor *c, uint8_t *to, size_t n)
{
	size_t part;

	if (likely(cursor_get(c, to, n)))
		return true;
	for (; n; n -= part, to += part) {
		part = c->iov->iov_len - c->at;
		if (part > n)
			part = n;
		if (!mem_read_protected(to, (char *)c->iov->iov_base + c->at,
					part))
			return false;
		cursor_skip(c, part);
	}
	return true;
}

bool rdma_tcp_took(struct sock *s, const struct iovec *iov, size_t cnt,
		   size_t at, size_t n)
{
	struct cursor c = { .iov = iov, .left = cnt, .at = at };
	uint8_t got[64];
	bool ours;

	if (!s->paired || sock_lock(s))
		return false;
	lift_strayed(s,
		     s->waits.orphan_fd >= 0 ? s->waits.orphan_fd : sock_fd(s),
		     n);
	ours = s->rd && marker_next(s);
	while (ours && n) {
		size_t part = n < sizeof(got) ? n : sizeof(got);

		if (!read_back(&c, got, part)) {
			s->conn.fault = "bytes that are gone";
			pump_fail(s, -EFAULT);
			break;
		}
		marker_count(s, got, part);
		n -= part;
	}
	if (ours)
		rdma_wake(s); /* there may be something for others now */
	sock_unlock(s);
	return ours;
}

void rdma_marker_write(struct sock *s, int fd)
{
	struct rdma *r = s->rd;
	enum anc_state st = anc_state(s->tx);
	ssize_t n;

	if (!r->mark.marker_due || fd < 0 || r->state != RDMA_UP)
		return;
	if (!remote_seen(&r->words) || (st != ANC_LIFTED && st != ANC_RECALLED))
		return;
	failover_seen(s); /* with the marker no way leads back to x */
	n = sys_send(fd, r->mark.marker_tx + RDMA_MARKER - r->mark.marker_due,
		     r->mark.marker_due, MSG_DONTWAIT | MSG_NOSIGNAL);
	sock_eats(s, n);
	if (n > 0)
		r->mark.marker_due = (uint8_t)(r->mark.marker_due - n);
	if (r->mark.marker_due)
		r->due.restless = true;
}

bool rdma_anchor_free(struct sock *s)
{
	if (s->rd->state != RDMA_UP)
		return false;
	return !s->rd->mark.marker_due && remote_seen(&s->rd->words) &&
	       !__atomic_load_n(&s->tx->tcp_rx, __ATOMIC_SEQ_CST);
}

bool rdma_may_kick(struct sock *s)
{
	return s->rd->state == RDMA_UP && !s->rd->mark.marker_due &&
	       remote_seen(&s->rd->words) && anc_state(s->tx) != ANC_SWITCHING;
}

/* Does the service thread have to see to it that the marker is taken? */
bool rdma_marker_urgent(const struct sock *s)
{
	return s->rd->mark.marker_wait &&
	       (s->waits.readers || s->waits.orphan_fd >= 0);
}
