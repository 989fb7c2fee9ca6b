/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Read Zcopy [4.3]. As sink we take the inline bytes and answer SendSm, which
 * is legal towards everybody; as source we follow our own advertisements
 * until they are complete, given back or void.
 */
#include "sdp_proto/state.h"

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

int srcavail_on_avail(struct conn *c, uint64_t now, const struct wire_msg *m,
		      struct conn_in *in)
{
	uint32_t payload = m->len - m->hdr_len;
	const char *fault = avail_fault(c, m, payload);
	struct conn_advert *a;

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
	a = &c->peer_src[c->peer_src_count++];
	a->vaddr = m->vaddr + payload;
	a->len = m->buf_len - payload;
	a->rkey = m->rkey;
	a->mseq = m->mseq;
	a->done = 0;
	c->want |= CONN_WANT_SENDSM;
	return 0;
}

int srcavail_on_cancel(struct conn *c, uint64_t now, const struct wire_msg *m,
		       struct conn_in *in)
{
	(void)now;
	(void)in;
	if (!c->peer_src_count || c->cancel_rx)
		return 0;
	c->cancel_rx = true; /* until SendSm is posted, see own_ack() */
	c->cancel_mseq = m->mseq;
	c->want |= CONN_WANT_SENDSM;
	return 0;
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
	if (a->done == a->len)
		advert_drop(c->src, &c->src_count, 1);
	if (!c->src_count)
		c->cancel_tx = false;
	return 0;
}

int srcavail_on_sendsm(struct conn *c, uint64_t now, const struct wire_msg *m,
		       struct conn_in *in)
{
	(void)now;
	(void)in;
	if (!c->src_count || mseq_before(m->ack, c->src[0].mseq))
		return 0;
	c->src_count = 0;
	c->cancel_tx = false;
	return 0;
}
