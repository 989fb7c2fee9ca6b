/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sdp_proto/state.h"

/* States and their successors [5.3]; every state but the last may die. */
static const unsigned int successors[] = {
	[CONN_NEW] = BIT(CONN_HELLO_SENT) | BIT(CONN_HELLO_RCVD),
	[CONN_HELLO_SENT] = BIT(CONN_EST),
	[CONN_HELLO_RCVD] = BIT(CONN_EST),
	[CONN_EST] = BIT(CONN_RCVD) | BIT(CONN_SEND1),
	[CONN_RCVD] = BIT(CONN_LAST),
	[CONN_SEND1] = BIT(CONN_SENT1) | BIT(CONN_BOTH),
	[CONN_SENT1] = BIT(CONN_TW),
	[CONN_BOTH] = BIT(CONN_TW),
	[CONN_LAST] = BIT(CONN_TW),
	[CONN_TW] = 0,
	[CONN_CLOSED] = 0,
};

void conn_init(struct conn *c, const struct conn_params *p)
{
	memset(c, 0, sizeof(*c));
	c->native = p->native;
	c->rcv_size = c->rcv_said = c->rcv_least = p->rcv_size;
	c->posted = p->posted;
	c->max_adverts = p->max_adverts;
	if (c->max_adverts > CONN_ADVERTS)
		c->max_adverts = CONN_ADVERTS;
	if (!c->max_adverts || p->native)
		c->max_adverts = 1;
	c->own_ext_flags = p->native ? 0 : p->ext_flags;
	c->may_read = p->reads;
	c->writes_wait = p->writes_wait;
	c->tx_mode = c->rx_mode = WIRE_COMBINED;
}

void state_move(struct conn *c, enum conn_state to)
{
	if (!(successors[c->state] & BIT(to)) && to != CONN_CLOSED) {
		state_die(c, -EINVAL, "illegal change of state");
		return;
	}
	c->state = (uint8_t)to;
	if (to == CONN_TW || to == CONN_CLOSED) {
		c->timer_at = 0;
		c->want &= CONN_WANT_ABORT | CONN_WANT_END;
	}
	state_settle(c);
}

bool state_tx_open(const struct conn *c)
{
	return state_in(c, STATES_OPEN) && !c->dis_sent && !c->src_count &&
	       !c->wr_told;
}

void state_settle(struct conn *c)
{
	c->tx_fast = state_tx_open(c) && !c->peer_sink_count && !c->cancel_rx;
	c->rx_fast = state_in(c, STATES_OPEN) && !c->dis_rcvd && !c->rd_shut &&
		     !c->peer_src_count && !c->sink_count && !c->mode_mseq &&
		     !c->sendsm_sent && !c->wr_told && !c->rcv_told;
}

int state_die(struct conn *c, int error, const char *fault)
{
	bool up = c->state != CONN_NEW && c->state != CONN_HELLO_RCVD;

	if (c->error)
		return c->error;
	if (c->state == CONN_CLOSED)
		return error;
	c->error = error;
	if (fault)
		c->fault = fault;
	c->want = up ? CONN_WANT_END : 0;
	/* Ours stay: the peer may still be at them. */
	c->peer_src_count = c->peer_sink_count = 0;
	state_move(c, CONN_CLOSED);
	return error;
}

int state_abort(struct conn *c, const char *fault)
{
	/* AbortConn only after our DisConn [5.2]; kernel peers: plain DREQ. */
	bool say = c->dis_sent && !c->native &&
		   (c->credits >= 2 ||
		    (c->credits && c->posted > conn_peer_view(c)));

	state_die(c, -ECONNRESET, fault);
	if (say)
		c->want |= CONN_WANT_ABORT;
	return c->error;
}
