/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Larger receive buffers [5.6]. Sizes include the BSDH. Kernel peers count the
 * stream bytes alone: told of a size, they fill that and add the BSDH.
 *
 * Buffers do not shrink, but between two ends with CONN_EXT_SIZES. There the
 * receiver needs no question to say what it has, and may take back what it
 * said. Its word needs no answer: once a message acknowledges it (MSeqAck), all
 * that come behind that message were sent by a peer that knows.
 */
#include "sdp_proto/state.h"

static uint32_t beyond(const struct conn *c)
{
	return c->native ? WIRE_BSDH : 0;
}

uint32_t resize_report(const struct conn *c)
{
	return c->rcv_said - beyond(c);
}

int resize_on_ask(struct conn *c, uint64_t now, const struct wire_msg *m,
		  struct conn_in *in)
{
	uint64_t size = (uint64_t)m->bytes + beyond(c);

	(void)now;
	(void)in;
	if (size <= c->rcv_size || c->rcv_max <= c->rcv_size)
		c->want |= CONN_WANT_RCVACK; /* as it is */
	else
		c->rcv_want = size < c->rcv_max ? (uint32_t)size : c->rcv_max;
	return 0;
}

void conn_rcvbuf_ready(struct conn *c, uint32_t bytes)
{
	if (bytes > c->rcv_size)
		c->rcv_size = c->rcv_said = bytes;
	if (c->rcv_want && state_in(c, STATES_OPEN))
		c->want |= CONN_WANT_RCVACK;
	c->rcv_want = 0;
}

int conn_say_rcvbuf(struct conn *c, uint32_t bytes)
{
	if (c->error)
		return c->error;
	if (!state_in(c, STATES_OPEN) || c->mute)
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

int conn_ask_rcvbuf(struct conn *c, uint32_t bytes)
{
	if (c->error)
		return c->error;
	if (!state_in(c, STATES_OPEN) || c->mute)
		return -ENOTCONN;
	if (c->native)
		return -EOPNOTSUPP;
	if (c->rcv_asked)
		return -EALREADY;
	if (bytes <= c->peer_rcv_size)
		return -EINVAL;
	c->rcv_asked = true;
	c->rcv_ask = bytes;
	c->want |= CONN_WANT_RCVBUF;
	return 0;
}

int resize_on_ack(struct conn *c, uint64_t now, const struct wire_msg *m,
		  struct conn_in *in)
{
	uint32_t size = m->bytes < c->rcv_ask ? m->bytes : c->rcv_ask;

	(void)now;
	(void)in;
	if (conn_sizes(c)) {
		if (m->bytes < c->peer_rcv_least)
			return state_abort(c, "receives smaller than at first");
		if (!(c->want & CONN_WANT_RCVBUF))
			c->rcv_asked = false;
		c->peer_rcv_size = m->bytes;
		return 0;
	}
	if (!c->rcv_asked || (c->want & CONN_WANT_RCVBUF))
		return 0; /* answer to no question */
	c->rcv_asked = false;
	if (size > c->peer_rcv_size)
		c->peer_rcv_size = size;
	return 0;
}
