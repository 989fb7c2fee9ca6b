/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The end of a connection [5.2, 5.3]. Our DisConn counts as completed when it
 * is posted: CONN_DISCONNECT waits for what was posted before it.
 */
#include "sdp_proto/state.h"

/* Both DisConns are through, and the fabric connection is ours to end. */
static void time_wait(struct conn *c, uint64_t now, bool disconnect)
{
	state_move(c, CONN_TW);
	c->timer_at = now + TW_LIMIT;
	if (disconnect)
		c->want |= CONN_WANT_END;
}

int close_on_disconn(struct conn *c, uint64_t now, const struct wire_msg *m,
		     struct conn_in *in)
{
	(void)m;
	if (c->dis_rcvd)
		return state_abort(c, "second DisConn");
	if (c->peer_src_count)
		return state_abort(c, "DisConn passes a SrcAvail");
	c->dis_rcvd = true;
	in->eof = true;
	sink_over(c); /* they end with what they hold [5.2] */
	switch (c->state) {
	case CONN_EST:
		state_move(c, CONN_RCVD);
		break;
	case CONN_SEND1:
		state_move(c, CONN_BOTH);
		break;
	default:
		time_wait(c, now, true);
	}
	return 0;
}

int close_on_abort(struct conn *c, uint64_t now, const struct wire_msg *m,
		   struct conn_in *in)
{
	bool legal = c->dis_rcvd;

	(void)now;
	(void)m;
	in->reset = true;
	state_die(c, -ECONNRESET,
		  legal ? "AbortConn" : "AbortConn without DisConn");
	return legal ? 0 : c->error;
}

void close_sent(struct conn *c, uint64_t now)
{
	c->dis_sent = true;
	c->peer_sink_count = 0; /* nothing comes for them any more */
	switch (c->state) {
	case CONN_SEND1:
		state_move(c, CONN_SENT1);
		if (c->app_closed)
			c->timer_at = now + CLOSE_LIMIT;
		break;
	case CONN_LAST:
		c->timer_at = now + CLOSE_LIMIT;
		break;
	default: /* BOTH */
		time_wait(c, now, true);
	}
	state_settle(c);
}

static void start_shutdown(struct conn *c)
{
	if (c->state != CONN_EST && c->state != CONN_RCVD)
		return;
	c->want |= CONN_WANT_DISC;
	state_move(c, c->state == CONN_EST ? CONN_SEND1 : CONN_LAST);
}

void close_pending_shutdown(struct conn *c)
{
	if (c->shut_asked)
		start_shutdown(c);
}

void conn_shutdown(struct conn *c, uint64_t now, bool closed)
{
	if (c->error || state_in(c, BIT(CONN_TW) | BIT(CONN_CLOSED)))
		return;
	c->shut_asked = true;
	if (closed && !c->app_closed) {
		c->app_closed = true;
		conn_shut_read(c);
		if (c->state == CONN_SENT1)
			c->timer_at = now + CLOSE_LIMIT;
	}
	start_shutdown(c);
}

void conn_shut_read(struct conn *c)
{
	c->rd_shut = true;
	zcopy_due(c);
	state_settle(c);
}

void conn_abort(struct conn *c)
{
	if (!state_in(c, BIT(CONN_TW) | BIT(CONN_CLOSED)))
		state_abort(c, NULL);
}

int conn_on_disconnected(struct conn *c, uint64_t now)
{
	switch (c->state) {
	case CONN_CLOSED:
		return c->error;
	case CONN_TW:
		state_move(c, CONN_CLOSED);
		return 0;
	case CONN_LAST:
		if (!c->dis_sent)
			break;
		time_wait(c, now, false);
		return 0;
	case CONN_NEW:
	case CONN_HELLO_SENT:
	case CONN_HELLO_RCVD:
		return state_die(c, -ECONNREFUSED, NULL);
	case CONN_RCVD:
		return state_die(c, -EPIPE, "disconnected without DisConn");
	}
	return state_die(c, -ECONNRESET, "disconnected without DisConn");
}

void conn_on_lost(struct conn *c, int error)
{
	if (state_in(c, BIT(CONN_TW) | BIT(CONN_CLOSED))) {
		state_move(c, CONN_CLOSED);
		return;
	}
	state_die(c, error < 0 ? error : -error, NULL);
}
