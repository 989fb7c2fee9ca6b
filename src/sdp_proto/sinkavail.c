/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Write Zcopy [4.5]. As source we hold the peer's SinkAvails and spend them
 * on Data; as sink we follow our own until they are completed or void.
 */
#include "sdp_proto/state.h"

/* Data of ours crossed it, and has taken its place at the sink. */
static bool crossed_data(struct conn *c, const struct wire_msg *m,
			 uint32_t nond)
{
	if (m->nond == nond)
		return false;
	c->nond_sent--;
	c->mode_nond--;
	return true;
}

static int keep(struct conn *c, const struct wire_msg *m)
{
	struct conn_advert *a;

	if (m->buf_len < c->peer_rcv_size - WIRE_BSDH ||
	    m->vaddr > UINT64_MAX - m->buf_len)
		return state_abort(c, "SinkAvail too small");
	if (c->peer_sink_count >= c->max_adverts)
		return state_abort(c, "more SinkAvails than MaxAdverts");
	if (crossed_data(c, m, c->nond_sent))
		return 0;
	c->src_count = 0; /* void on both sides */
	c->cancel_tx = false;
	a = &c->peer_sink[c->peer_sink_count++];
	a->vaddr = m->vaddr;
	a->len = m->buf_len;
	a->rkey = m->rkey;
	a->mseq = m->mseq;
	a->done = 0;
	return 0;
}

int sinkavail_on_avail(struct conn *c, uint64_t now, const struct wire_msg *m,
		       struct conn_in *in)
{
	(void)now;
	if (m->len > m->hdr_len) { /* a request with room for its answer */
		int ret = rx_payload(c, m, in);

		if (ret < 0)
			return ret;
	}
	if (c->dis_sent)
		return 0; /* it crossed our DisConn */
	if (c->mode_mseq) { /* it crossed our ModeChange, whatever came since */
		crossed_data(c, m, c->mode_nond);
		return 0;
	}
	if (c->tx_mode != WIRE_PIPELINED)
		return state_abort(c, "SinkAvail outside Pipelined mode");
	return keep(c, m);
}

int sinkavail_on_cancel(struct conn *c, uint64_t now, const struct wire_msg *m,
			struct conn_in *in)
{
	(void)now;
	(void)m;
	(void)in;
	if (c->peer_sink_count)
		c->want |= CONN_WANT_SINK_ACK;
	c->peer_sink_count = 0;
	return 0;
}

int sinkavail_on_ack(struct conn *c, uint64_t now, const struct wire_msg *m,
		     struct conn_in *in)
{
	(void)now;
	(void)m;
	(void)in;
	if (!c->sink_cancel && c->dis_rcvd)
		return 0; /* DisConn ended what was cancelled [5.2] */
	if (!c->sink_cancel)
		return state_abort(c, "SinkCancelAck not asked for");
	c->sink_count = 0;
	c->sink_cancel = false;
	return 0;
}

int sinkavail_on_compl(struct conn *c, uint64_t now, const struct wire_msg *m,
		       struct conn_in *in)
{
	(void)now;
	(void)in;
	if (!c->sink_count)
		return state_abort(c, "RdmaWrCompl without SinkAvail");
	if (m->bytes > c->sink[0].len)
		return state_abort(c, "RdmaWrCompl of more than there was");
	c->rx_stream += m->bytes;
	advert_drop(c->sink, &c->sink_count, 1);
	if (!c->sink_count)
		c->sink_cancel = false;
	return 0;
}
