/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Write Zcopy [4.5]. As source we hold the peer's SinkAvails, write into the
 * oldest and report it, or spend it on Data; as sink we follow our own until
 * they are completed or void.
 */
#include "sdp_proto/state.h"

/* --- as source --------------------------------------------------------- */

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

static int keep(struct conn *c, const struct wire_msg *m, struct conn_in *in)
{
	uint32_t least = conn_sizes(c) ? c->peer_rcv_least : c->peer_rcv_size;

	if (m->buf_len < least - WIRE_BSDH ||
	    m->vaddr > UINT64_MAX - m->buf_len)
		return state_abort(c, "SinkAvail too small");
	if (c->peer_sink_count >= c->max_adverts)
		return state_abort(c, "more SinkAvails than MaxAdverts");
	if (crossed_data(c, m, c->nond_sent))
		return 0;
	src_over(c); /* void on both sides */
	c->peer_sink[c->peer_sink_count++] = (struct conn_advert){
		.vaddr = m->vaddr,
		.rkey = m->rkey,
		.mseq = m->mseq,
		.len = m->buf_len,
	};
	in->sink = true;
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
	return keep(c, m, in);
}

int sinkavail_on_cancel(struct conn *c, uint64_t now, const struct wire_msg *m,
			struct conn_in *in)
{
	uint32_t begun = c->want & CONN_WANT_WR_COMPL ? 1 : 0;

	(void)now;
	(void)m;
	(void)in;
	if (c->peer_sink_count > begun)
		c->want |= CONN_WANT_SINK_ACK;
	c->peer_sink_count = begun;
	c->sink_end = begun;
	return 0;
}

uint32_t conn_write_room(const struct conn *c)
{
	const struct conn_advert *a = &c->peer_sink[0];

	if (!c->peer_sink_count || c->sink_end || c->writes == CONN_RDMA ||
	    !state_tx_open(c) || c->peer_rcv_size < wire_hdr_len(WIRE_WR_COMPL))
		return 0;
	return a->len - a->done;
}

bool sinkavail_write(struct conn *c, const struct conn_offer *offer,
		     struct conn_op *op)
{
	uint64_t len = offer->zc->write;
	struct conn_advert *a = &c->peer_sink[0];
	uint32_t room;

	if (len > offer->bytes)
		len = offer->bytes;
	if (!len || offer->oob_last)
		return false;
	room = conn_write_room(c);
	if (!room)
		return false;
	op->type = CONN_WRITE;
	op->vaddr = a->vaddr + a->done;
	op->rkey = a->rkey;
	op->len = len < room ? len : room;
	a->done += (uint32_t)op->len;
	c->tx_stream += op->len;
	c->write_len[c->writes++] = (uint32_t)op->len;
	c->write_fresh = true;
	c->want |= CONN_WANT_WR_COMPL;
	return true;
}

int sinkavail_write_done(struct conn *c, uint64_t len)
{
	uint32_t asked = c->write_len[0];

	if (!c->writes)
		return -EINVAL;
	c->writes--;
	memmove(c->write_len, c->write_len + 1, c->writes * sizeof(asked));
	if (len >= asked || !state_in(c, STATES_OPEN))
		return 0;
	if (!c->write_fresh || c->writes)
		return state_abort(c, NULL); /* it may be reported already */
	c->peer_sink[0].done -= asked - (uint32_t)len;
	c->tx_stream -= asked - len;
	c->sink_end = true;
	return 0;
}

bool sinkavail_compl_due(const struct conn *c, const struct conn_offer *offer)
{
	const struct conn_advert *a = &c->peer_sink[0];
	bool more = offer->more ||
		    (offer->bytes && offer->zc && offer->zc->write);

	return c->sink_end || a->done == a->len || !more || offer->oob_last ||
	       (c->want & CONN_WANT_MODE) || !state_tx_open(c);
}

uint32_t sinkavail_report(struct conn *c)
{
	uint32_t bytes = c->peer_sink[0].done;

	c->sink_end = false;
	advert_drop(c->peer_sink, &c->peer_sink_count, 1);
	return bytes;
}

/* --- as sink ----------------------------------------------------------- */

bool conn_sink_wanted(const struct conn *c, uint32_t len)
{
	uint32_t most = c->peer_max_adverts < CONN_ADVERTS ?
				c->peer_max_adverts :
				CONN_ADVERTS;
	/* where sizes come and go the Hello's is the measure */
	uint32_t least = conn_sizes(c) ? c->rcv_least : c->rcv_size;

	if (!state_in(c, STATES_OPEN) || c->dis_rcvd || c->rd_shut ||
	    c->native || c->rx_mode != WIRE_PIPELINED)
		return false;
	if (c->sink_cancel || (c->want & CONN_WANT_SINK_CANCEL) ||
	    c->peer_src_count)
		return false;
	return len >= least - WIRE_BSDH && c->sink_count < most &&
	       advert_fits(c) &&
	       c->peer_rcv_size >= wire_hdr_len(WIRE_SINK_AVAIL);
}

bool sinkavail_next(struct conn *c, const struct conn_offer *offer,
		    uint32_t room, struct conn_op *op)
{
	const struct conn_mem *mem = &offer->zc->sink;
	struct wire_msg m = { .mid = WIRE_SINK_AVAIL };

	if (!mem->len || c->credits < DATA_CREDITS ||
	    room < wire_hdr_len(WIRE_SINK_AVAIL) ||
	    !conn_sink_wanted(c, mem->len))
		return false;
	m.vaddr = mem->vaddr;
	m.rkey = mem->rkey;
	m.buf_len = mem->len;
	m.nond = c->nond_recv;
	tx_msg(c, &m, 0, op);
	op->took = CONN_TOOK_SINK;
	op->len = mem->len;
	c->sink[c->sink_count++] = (struct conn_advert){
		.vaddr = m.vaddr,
		.key = mem->key,
		.rkey = m.rkey,
		.mseq = m.mseq,
		.len = m.buf_len,
	};
	state_settle(c);
	return true;
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
	sink_over(c);
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
	if (m->bytes && c->rd_shut)
		return state_abort(c, "stream bytes after reading was shut");
	sink_free(c, m->bytes);
	return 0;
}
