/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Over RDMA, too, a writer may leave the anchor before its reader has taken
 * everything, if both vouch for their counts (D3). Until the reader has passed
 * x the direction is SWITCHING, and there the rules are stricter than on one
 * host:
 *
 * - the reader takes what lies in front of x by receives of exactly so many
 *   bytes (anc_dir.closing), since nothing tells it when the writer, far away,
 *   is about to stall;
 * - only the writer moves the direction on to LIFTED (anc_dir.far), when it
 *   hears that x was passed: so there are never two that decide;
 * - the marker follows then, or, if the writer has to stall before, in front of
 *   the bytes that go to the anchor again.
 */

#include "socket/transport/transport.h"

/* The marker is the next on the anchor: it counts as kicks from now on. */
void rdma_marker_begin(struct sock *s)
{
	s->at.kicks += RDMA_MARKER;
	__atomic_store_n(&s->tx->kicks, s->at.kicks, __ATOMIC_SEQ_CST);
	s->rd->mark.marker_due = RDMA_MARKER;
	s->rd->mark.ahead = false;
}

/*
 * Asked to fall back, too: a thread of the reader that sleeps in the kernel
 * since before the lift comes out by the marker, and has to before the answer.
 */
void rdma_risen(struct sock *s)
{
	enum anc_state st = anc_state(s->tx);

	if ((st != ANC_SWITCHING && st != ANC_RECALLED) ||
	    !anc_risen(s->tx, &s->at))
		return;
	rdma_marker_begin(s);
	s->rd->due.changed = true;
	rdma_tell(s, false);
}

/* The answer tells when x has been passed. */
void rdma_rising(struct sock *s)
{
	s->rd->mark.ahead = true;
	__atomic_store_n(&s->tx->wait, 1, __ATOMIC_SEQ_CST);
	rdma_tell(s, false);
	rdma_arm(s);
}

int rdma_marker_ahead(struct sock *s, int fd)
{
	struct rdma *r = s->rd;
	ssize_t n;

	/* its receives are exact from when it knows, but for older ones */
	if (fd < 0 || !remote_seen(&r->words) ||
	    __atomic_load_n(&s->tx->tcp_rx, __ATOMIC_SEQ_CST))
		return -EBUSY;
	n = sys_send(fd, r->mark.marker_tx, RDMA_MARKER,
		     MSG_DONTWAIT | MSG_NOSIGNAL);
	sock_eats(s, n);
	if (n <= 0)
		return n == -EAGAIN ? -EBUSY : (int)n;
	rdma_marker_begin(s);
	r->mark.marker_due = (uint8_t)(RDMA_MARKER - n);
	if (!r->mark.marker_due)
		return 0;
	/* the kernel takes so few bytes whole, or none */
	s->conn.fault = "half a marker";
	return pump_fail(s, -EPROTO);
}

/*
 * What was sent by SDP is not shown before the marker, and after the
 * answer none would come. Where nothing was sent the reader needs no marker:
 * the anchor has the whole stream.
 */
bool rdma_may_answer(struct sock *s, int fd)
{
	if (!rdma_anchor_free(s))
		return false;
	if (!s->rd->mark.ahead || s->at.sent == s->at.x)
		return true;
	if (rdma_marker_ahead(s, fd))
		return false;
	s->rd->failover.confirmed =
		true; /* with the marker no way leads back to x */
	return true;
}

void rdma_marker_end(struct sock *s)
{
	struct rdma *r = s->rd;

	r->mark.marker_wait = false;
	r->mark.hidden = 0;
	r->mark.eof_hidden = false;
}
