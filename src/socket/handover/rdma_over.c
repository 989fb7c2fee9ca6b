/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A queue pair is lost, and what a fallback over RDMA waits for. */

#include "socket/handover/handover.h"

/* Is each direction the anchor's, or has it ended in order, all arrived? */
static bool bare(const struct sock *s)
{
	return (anc_state(s->tx) == ANC_TCP ||
		(s->conn.dis_sent && !failover_unacked(s->rd, NULL))) &&
	       (anc_state(s->rx) == ANC_TCP || s->conn.dis_rcvd);
}

void rdma_lost(struct sock *s, int error)
{
	if (!bare(s)) {
		log_note("fd %d: the RDMA connection broke (%d), on over TCP",
			 sock_fd(s), error);
		page_add(fallbacks_for[WHY_RDMA_LOST], 1);
		sock_event(s, EVENT_FAILOVER, WHY_RDMA_LOST);
		sock_why(s, WHY_RDMA_LOST);
		return;
	}
	log_note("fd %d: the RDMA connection ended (%d), nothing was on it",
		 sock_fd(s), error);
	if (s->stats.why == WHY_PAIRED)
		sock_why(s, WHY_WAITING);
}

/*
 * Nothing can be handed back any more: once the FIN is there all that is unread
 * lies here, but for what is in front of x, and it goes into a stand-in. What
 * lies behind on the anchor are marker and kicks.
 */
bool rdma_over(struct sock *s, int fd)
{
	struct anc_dir *d = s->rx;
	enum anc_state st = anc_state(d);
	uint64_t n, front;

	if (st == ANC_TCP || st == ANC_GONE || s->peer_gone)
		return false;
	if (s->eos.fin_due || __atomic_load_n(&d->tcp_rx, __ATOMIC_SEQ_CST) ||
	    !rdma_fin_came(s, fd) || pump_poll(s) || !rdma_silent(s) ||
	    rdma_api->flushed(s->rd->end) != 1)
		return true;
	if (st == ANC_RESTORING && !rdma_back_to_tcp(s, fd))
		return false;
	if (st == ANC_DRAINING && tcp_where(s, &n) == ANC_AT_ANCHOR)
		return false;
	n = __atomic_load_n(&d->x, __ATOMIC_ACQUIRE);
	front = s->ar.taken < n ? n - s->ar.taken : 0;
	while (s->ar.kept < front &&
	       bytebuf_pull(s, fd, front - s->ar.kept) > 0)
		;
	rdma_marker_read(s, fd);
	if (s->ar.kept < front ||
	    (s->rd->mark.marker_wait && s->rd->mark.hidden))
		return true;
	while (tcp_throw(s, fd, UINT64_MAX) > 0)
		;
	s->ar.kicks = __atomic_load_n(&d->kicks, __ATOMIC_ACQUIRE);
	rdma_ended(s);
	return false;
}

/* Sleepers come out by the end of their socket. */
void rdma_ended(struct sock *s)
{
	struct rdma *r = s->rd;

	zcr_over(s);
	zcr_sink_over(s);
	r->state = RDMA_ENDED;
	r->due.changed = true;
	if (r->far >= 0)
		sys_shutdown(r->far, SHUT_WR);
	lift_peer_gone(s);
}

bool rdma_last_word(struct sock *s, int fd)
{
	/* what may be lost with the queue pair can be told before it only */
	if (rdma_api->flushed(s->rd->end) != 1)
		return false;
	switch (anc_state(s->tx)) {
	case ANC_DRAINING: /* behind which nothing comes */
		__atomic_store_n(&s->fallback.stand, 0, __ATOMIC_SEQ_CST);
		return true;
	case ANC_RECALLED: /* nothing is shown without the marker */
		rdma_marker_write(s, fd);
		if (s->rd->mark.marker_due ||
		    (s->rd->mark.ahead && s->at.sent != s->at.x &&
		     rdma_marker_ahead(s, fd)))
			return false;
		break;
	case ANC_RESTORING: /* without all that it was to put back: none of it */
		if (rdma_put_whole(s->rd))
			return false;
		rdma_put_drop(s->rd);
		anc_resumed(s->tx);
		return true;
	case ANC_PAUSED:
		break;
	default:
		return true;
	}
	__atomic_store_n(&s->tx->state, ANC_TCP, __ATOMIC_SEQ_CST);
	return true;
}

bool rdma_unheld(const struct sock *s)
{
	return rdma_here(s) && !s->peer_gone && s->rd->state == RDMA_UP &&
	       !s->conn.dis_rcvd && !remote_held(&s->rd->words);
}

void rdma_look_for_peer(struct sock *s)
{
	if (!s->rd || !s->paired)
		return;
	fallback_pin(s);
	if (!s->conn.error)
		pump_poll(s);
	rdma_tell(s, true);
}
