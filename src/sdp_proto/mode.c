/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Modes of the two halves [4.1, 4.6]. The source is master of leaving
 * Combined and Pipelined, the sink of leaving Buffered. The sender changes
 * when it posts, the receiver when it receives.
 */
#include "sdp_proto/state.h"

#define SEND_COMBINED (WIRE_MODE_SEND | WIRE_COMBINED)

/* May the source of a half with `adverts` SrcAvails out go from a to b? */
static bool source_may(unsigned int a, unsigned int b, uint32_t adverts)
{
	switch (b) {
	case WIRE_BUFFERED:
		return a == WIRE_COMBINED && !adverts;
	case WIRE_COMBINED:
		return a == WIRE_PIPELINED && !adverts;
	case WIRE_PIPELINED:
		return a == WIRE_COMBINED;
	}
	return false;
}

int mode_on_change(struct conn *c, uint64_t now, const struct wire_msg *m,
		   struct conn_in *in)
{
	(void)now;
	(void)in;
	if (m->mode == SEND_COMBINED && c->tx_mode == WIRE_BUFFERED) {
		c->tx_mode = WIRE_COMBINED;
		return 0;
	}
	if (m->mode > WIRE_PIPELINED ||
	    !source_may(c->rx_mode, m->mode, c->peer_src_count))
		return state_abort(c, "illegal ModeChange");
	if (c->rx_mode == WIRE_PIPELINED)
		sink_over(c); /* our SinkAvails are cancelled */
	c->rx_mode = m->mode;
	return 0;
}

int conn_set_mode(struct conn *c, unsigned int mode)
{
	if (c->error)
		return c->error;
	if (!state_in(c, STATES_OPEN))
		return -ENOTCONN;
	if (c->native || !(c->peer_ext_flags & CONN_EXT_SINKAVAIL))
		return -EOPNOTSUPP;
	if (c->want & CONN_WANT_MODE)
		return -EBUSY;
	if (c->dis_sent || !source_may(c->tx_mode, mode, c->src_count))
		return -EINVAL;
	if (mode == WIRE_PIPELINED && c->mode_mseq)
		return -EBUSY; /* SinkAvails older than that may come yet */
	c->mode_due = (uint8_t)mode;
	c->want |= CONN_WANT_MODE;
	return 0;
}

void mode_posted(struct conn *c)
{
	if (c->tx_mode == WIRE_PIPELINED) {
		c->mode_mseq = c->mseq_sent + 1;
		c->mode_nond = c->nond_sent;
		c->peer_sink_count = 0;
	}
	c->tx_mode = c->mode_due;
}
