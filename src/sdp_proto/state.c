/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "sdp_proto/state.h"

/* States and their successors [5.3]; every state but the last may die. */
static const struct {
	const char *name;
	unsigned int to;
} states[] = {
	[CONN_NEW] = { "new", BIT(CONN_HELLO_SENT) | BIT(CONN_HELLO_RCVD) },
	[CONN_HELLO_SENT] = { "hello-sent", BIT(CONN_EST) },
	[CONN_HELLO_RCVD] = { "hello-received", BIT(CONN_EST) },
	[CONN_EST] = { "established",
		       BIT(CONN_RCVD) | BIT(CONN_SEND1) | BIT(CONN_TW) },
	[CONN_RCVD] = { "received-disconn", BIT(CONN_LAST) },
	[CONN_SEND1] = { "disconn-queued", BIT(CONN_SENT1) | BIT(CONN_BOTH) },
	[CONN_SENT1] = { "disconn-sent", BIT(CONN_TW) },
	[CONN_BOTH] = { "both", BIT(CONN_TW) },
	[CONN_LAST] = { "last", BIT(CONN_TW) },
	[CONN_TW] = { "time-wait", 0 },
	[CONN_CLOSED] = { "closed", 0 },
};

const char *conn_state_name(enum conn_state s)
{
	return (unsigned int)s <= CONN_CLOSED ? states[s].name : "?";
}

void conn_init(struct conn *c, const struct conn_params *p)
{
	memset(c, 0, sizeof(*c));
	c->active = p->active;
	c->native = p->native;
	c->rcv_size = c->rcv_said = c->rcv_least = p->rcv_size;
	c->rcv_max = p->rcv_max;
	c->posted = p->posted;
	c->max_adverts = p->max_adverts;
	if (c->max_adverts > CONN_ADVERTS)
		c->max_adverts = CONN_ADVERTS;
	if (!c->max_adverts || p->native)
		c->max_adverts = 1;
	c->own_ext_flags = p->native ? 0 : p->ext_flags;
	c->keepalive_ns = p->keepalive_ns;
	c->may_read = p->reads;
	c->writes_wait = p->writes_wait;
	c->tx_mode = c->rx_mode = WIRE_COMBINED;
}

void state_move(struct conn *c, enum conn_state to)
{
	if (!(states[c->state].to & BIT(to)) && to != CONN_CLOSED) {
		state_die(c, -EINVAL, "illegal change of state");
		return;
	}
	c->state = (uint8_t)to;
	if (to == CONN_TW || to == CONN_CLOSED) {
		c->mute = true;
		c->timer_at = 0;
		c->want &= CONN_WANT_ABORT | CONN_WANT_END;
	}
	state_settle(c);
}

bool state_tx_open(const struct conn *c)
{
	return state_in(c, STATES_OPEN) && !c->dis_sent && !c->mute &&
	       !c->src_count && !c->wr_told && !c->suspending &&
	       !(c->want & CONN_WANT_SUSPACK);
}

void state_settle(struct conn *c)
{
	c->tx_fast = state_tx_open(c) && !c->peer_sink_count && !c->cancel_rx;
	c->rx_fast = state_in(c, STATES_OPEN) && !c->dis_rcvd && !c->deaf &&
		     !c->rd_shut && !c->peer_src_count && !c->sink_count &&
		     !c->mode_mseq && !c->sendsm_sent && !c->wr_told &&
		     !c->rcv_told;
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
	/* Ours stay, until conn_fenced(): the peer may still be at them. */
	c->peer_src_count = c->peer_sink_count = 0;
	state_move(c, CONN_CLOSED);
	return error;
}

int state_abort(struct conn *c, const char *fault)
{
	/* AbortConn only after our DisConn [5.2]; kernel peers: plain DREQ. */
	bool say = c->dis_sent && !c->native && !c->mute &&
		   (c->credits >= 2 ||
		    (c->credits && c->posted > conn_peer_view(c)));

	state_die(c, -ECONNRESET, fault);
	if (say)
		c->want |= CONN_WANT_ABORT;
	return c->error;
}
