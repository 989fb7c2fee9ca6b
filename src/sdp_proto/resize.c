/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Sizes of receive buffers [5.6], BSDH included. Kernel peers count the stream
 * bytes alone: told of a size, they fill that and add the BSDH.
 *
 * A peer that asks for larger ones is told of what there is. Sizes change only
 * between two ends with CONN_EXT_SIZES. There the receiver needs no question to
 * say what it has, and may take back what it said. Its word needs no answer:
 * once a message acknowledges it (MSeqAck), all that come behind that message
 * were sent by a peer that knows.
 */
#include "sdp_proto/state.h"

uint32_t resize_report(const struct conn *c)
{
	return c->rcv_said - (c->native ? WIRE_BSDH : 0);
}

int resize_on_ask(struct conn *c, uint64_t now, const struct wire_msg *m,
		  struct conn_in *in)
{
	(void)now;
	(void)m;
	(void)in;
	c->want |= CONN_WANT_RCVACK;
	return 0;
}

int conn_say_rcvbuf(struct conn *c, uint32_t bytes)
{
	if (c->error)
		return c->error;
	if (!state_in(c, STATES_OPEN))
		return -ENOTCONN;
	if (!conn_sizes(c) || c->peer_rcv_size < wire_hdr_len(WIRE_RCVBUF_ACK))
		return -EOPNOTSUPP;
	if (bytes < c->rcv_least)
		return -EINVAL;
	if (bytes == c->rcv_said)
		return 0;
	if (bytes > c->rcv_size)
		c->rcv_size = bytes;
	c->rcv_said = bytes;
	c->want |= CONN_WANT_RCVACK;
	return 0;
}

void resize_heard(struct conn *c)
{
	c->rcv_told = false;
	/* another word is due: it may be of larger ones again */
	if (!(c->want & CONN_WANT_RCVACK))
		c->rcv_size = c->rcv_said;
}

int resize_on_ack(struct conn *c, uint64_t now, const struct wire_msg *m,
		  struct conn_in *in)
{
	(void)now;
	(void)in;
	if (!conn_sizes(c))
		return 0; /* we have not asked */
	if (m->bytes < c->peer_rcv_least)
		return state_abort(c, "receives smaller than at first");
	c->peer_rcv_size = m->bytes;
	return 0;
}
