/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Read Zcopy [4.3]. As source we follow our own advertisements until they are
 * complete, given back or void; as sink we keep the peer's until they are read
 * and reported, or given back with SendSm. An end that cannot read gives back
 * at once, which is legal towards every peer.
 */
#include "sdp_proto/state.h"

#define SRC_HDR 32

/* --- as source --------------------------------------------------------- */

static uint32_t most_sources(const struct conn *c)
{
	if (c->tx_mode == WIRE_COMBINED)
		return 1;
	return c->peer_max_adverts < CONN_ADVERTS ? c->peer_max_adverts :
						    CONN_ADVERTS;
}

bool conn_src_wanted(const struct conn *c, uint32_t len)
{
	bool combined = c->tx_mode == WIRE_COMBINED;

	/* FreeBSD takes it for stream bytes, and looks like OFED [7, 2]. */
	if (c->native)
		return false;
	if (!state_in(c, STATES_OPEN) || c->dis_sent ||
	    c->tx_mode == WIRE_BUFFERED)
		return false;
	if (c->cancel_tx || (c->want & (CONN_WANT_SRC_CANCEL | CONN_WANT_MODE)))
		return false;
	/* With MSeqAck held back it would look as if it crossed a SendSm. */
	if (c->cancel_rx || c->wr_told)
		return false;
	/* The peer would drop it without a word while it has a sink out. */
	if (c->peer_sink_count || (combined && c->peer_src_count))
		return false;
	return len > (combined ? 1 : 0) && c->src_count < most_sources(c) &&
	       advert_fits(c) && c->peer_rcv_size > SRC_HDR;
}

/* Bytes of a source of `len` that go inside the message [4.1]. */
static uint32_t inline_bytes(const struct conn *c, uint32_t wish, uint32_t len,
			     uint32_t room)
{
	uint32_t most = c->peer_rcv_size < room ? c->peer_rcv_size : room;

	if (c->tx_mode == WIRE_PIPELINED)
		return 0;
	most -= SRC_HDR;
	if (most >= len)
		most = len - 1;
	if (!wish)
		wish = 1;
	return wish < most ? wish : most;
}

bool srcavail_next(struct conn *c, const struct conn_offer *offer,
		   uint32_t room, struct conn_op *op)
{
	const struct conn_mem *mem = &offer->zc->src;
	struct wire_msg m = { .mid = WIRE_SRC_AVAIL };
	uint32_t inl;

	m.buf_len = mem->len < offer->bytes ? mem->len : (uint32_t)offer->bytes;
	if (!m.buf_len || offer->oob_last || c->credits < DATA_CREDITS ||
	    room <= SRC_HDR || !conn_src_wanted(c, m.buf_len))
		return false;
	m.vaddr = mem->vaddr;
	m.rkey = mem->rkey;
	inl = inline_bytes(c, offer->zc->inl, m.buf_len, room);
	tx_msg(c, &m, inl, op);
	op->took = CONN_TOOK_SRC;
	op->len = m.buf_len - inl;
	if (inl)
		c->nond_sent++;
	c->src_mseq = m.mseq;
	c->src[c->src_count++] = (struct conn_advert){
		.vaddr = m.vaddr + inl,
		.key = mem->key,
		.rkey = m.rkey,
		.mseq = m.mseq,
		.len = m.buf_len - inl,
	};
	state_settle(c);
	return true;
}

int srcavail_on_compl(struct conn *c, uint64_t now, const struct wire_msg *m,
		      struct conn_in *in)
{
	struct conn_advert *a = &c->src[0];

	(void)now;
	(void)in;
	if (!c->src_count) {
		if (c->cancel_tx || mseq_before(m->ack, c->src_mseq))
			return 0;
		return state_abort(c, "RdmaRdCompl without SrcAvail");
	}
	if (mseq_before(m->ack, a->mseq))
		return 0; /* of an earlier advertisement */
	if (m->bytes > a->len - a->done)
		return state_abort(c, "RdmaRdCompl of more than was left");
	a->done += m->bytes;
	c->tx_stream += m->bytes;
	if (a->done == a->len)
		src_free(c);
	return 0;
}

int srcavail_on_sendsm(struct conn *c, uint64_t now, const struct wire_msg *m,
		       struct conn_in *in)
{
	(void)now;
	(void)in;
	if (!c->src_count || mseq_before(m->ack, c->src[0].mseq))
		return 0;
	src_over(c);
	return 0;
}

/* --- as sink ----------------------------------------------------------- */

/* Rows 13 to 17, for a SrcAvail of `payload` inline bytes. */
static const char *avail_fault(const struct conn *c, const struct wire_msg *m,
			       uint32_t payload)
{
	if (c->rx_mode == WIRE_BUFFERED)
		return "SrcAvail in Buffered mode";
	if (c->cancel_rx)
		return "SrcAvail during SrcAvailCancel";
	if (!m->buf_len || m->vaddr > UINT64_MAX - m->buf_len)
		return "SrcAvail of no memory";
	if (c->rx_mode == WIRE_PIPELINED) {
		if (payload)
			return "SrcAvail with payload in Pipelined mode";
		if (c->peer_src_count >= c->max_adverts)
			return "more SrcAvails than MaxAdverts";
		return NULL;
	}
	if (!payload)
		return "SrcAvail without payload";
	if (m->buf_len <= payload)
		return "SrcAvail of no more than its payload";
	if (c->peer_src_count)
		return "second SrcAvail in Combined mode";
	return NULL;
}

static void keep(struct conn *c, const struct wire_msg *m, uint32_t payload)
{
	c->peer_src[c->peer_src_count++] = (struct conn_advert){
		.vaddr = m->vaddr + payload,
		.rkey = m->rkey,
		.mseq = m->mseq,
		.len = m->buf_len - payload,
	};
	/* Two that write at one another and do not read get nowhere. */
	if (c->tx_mode == WIRE_COMBINED)
		conn_cancel_sources(c);
	srcavail_due(c);
}

int srcavail_on_avail(struct conn *c, uint64_t now, const struct wire_msg *m,
		      struct conn_in *in)
{
	uint32_t payload = m->len - m->hdr_len;
	const char *fault = avail_fault(c, m, payload);

	(void)now;
	if (c->rd_shut)
		return state_abort(c, "SrcAvail after reading was shut");
	if (c->dis_rcvd)
		return state_abort(c, "SrcAvail after DisConn");
	/*
	 * Legal crossings, only without inline bytes: it met our SinkAvail,
	 * or a SendSm that voids it together with the one it answers [4.4].
	 */
	if (!fault && !payload &&
	    (c->sink_count ||
	     (c->sendsm_sent && mseq_before(m->ack, c->sendsm_mseq))))
		return 0;
	if (fault)
		return state_abort(c, fault);
	if (payload) {
		int ret = rx_payload(c, m, in);

		if (ret < 0)
			return ret;
	}
	keep(c, m, payload);
	in->source = conn_source(c) != 0;
	return 0;
}

int srcavail_on_cancel(struct conn *c, uint64_t now, const struct wire_msg *m,
		       struct conn_in *in)
{
	(void)now;
	(void)in;
	if (!c->peer_src_count || c->cancel_rx)
		return 0;
	c->cancel_rx = true; /* until all are reported or SendSm is posted */
	c->cancel_mseq = m->mseq;
	srcavail_due(c);
	return 0;
}

/*
 * Will the unread rest of the peer's sources be given back? Behind our DisConn
 * a kernel sends no credit updates [3.4]: it may have two receives, and while
 * its source is out nothing of it comes that tells of new ones. A report and
 * then SendSm would be one too many.
 */
static bool gives_back(const struct conn *c)
{
	return !c->may_read || c->refuse || c->read_failed || c->cancel_rx ||
	       c->rd_shut || (c->native && c->dis_sent) ||
	       c->peer_rcv_size < wire_hdr_len(WIRE_RD_COMPL);
}

void srcavail_due(struct conn *c)
{
	const struct conn_advert *a = &c->peer_src[0];

	c->want &= (uint16_t) ~(CONN_WANT_RD_COMPL | CONN_WANT_SENDSM);
	if (!c->peer_src_count)
		return;
	if (a->done > a->told && (a->done == a->len || !c->reads))
		c->want |= CONN_WANT_RD_COMPL;
	else if (!c->reads && gives_back(c))
		c->want |= CONN_WANT_SENDSM;
}

uint32_t srcavail_report(struct conn *c)
{
	struct conn_advert *a = &c->peer_src[0];
	uint32_t bytes = a->done - a->told;

	a->told = a->done;
	if (a->told == a->len)
		advert_drop(c->peer_src, &c->peer_src_count, 1);
	if (!c->peer_src_count)
		c->cancel_rx = c->refuse = c->read_failed = false;
	srcavail_due(c);
	return bytes;
}

uint64_t conn_source(const struct conn *c)
{
	uint64_t bytes = 0;
	uint32_t i;

	if (!state_in(c, STATES_OPEN) || gives_back(c))
		return 0;
	for (i = 0; i < c->peer_src_count; i++)
		bytes += c->peer_src[i].len - c->peer_src[i].asked;
	return bytes;
}

bool conn_read(struct conn *c, uint64_t max, struct conn_op *op)
{
	struct conn_advert *a = c->peer_src;
	uint32_t left;

	if (!max || c->reads == CONN_RDMA || !conn_source(c))
		return false;
	while (a->asked == a->len)
		a++;
	left = a->len - a->asked;
	op->type = CONN_READ;
	op->hdr_len = op->payload = 0;
	op->took = CONN_TOOK_NONE;
	op->vaddr = a->vaddr + a->asked;
	op->rkey = a->rkey;
	op->len = max < left ? max : left;
	a->asked += (uint32_t)op->len;
	c->read_len[c->reads++] = (uint32_t)op->len;
	srcavail_due(c);
	return true;
}

int srcavail_read_done(struct conn *c, uint64_t len)
{
	struct conn_advert *a = c->peer_src;
	uint32_t asked = c->read_len[0];

	if (!c->reads)
		return -EINVAL;
	c->reads--;
	memmove(c->read_len, c->read_len + 1, c->reads * sizeof(asked));
	if (!state_in(c, STATES_OPEN))
		return -ECANCELED;
	if (c->read_failed) {
		srcavail_due(c);
		return -ECANCELED;
	}
	while (a->done == a->len)
		a++;
	if (len < asked)
		c->read_failed = true;
	else
		len = asked;
	a->done += (uint32_t)len;
	c->rx_stream += len;
	srcavail_due(c);
	return 0;
}

void conn_refuse_sources(struct conn *c)
{
	if (!c->peer_src_count)
		return;
	c->refuse = true;
	srcavail_due(c);
}
