/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A message arrived: checks that concern every message [6, rows 1-11],
 * numbers and credits [3.1, 3.2], and the way to the handler of its kind.
 */
#include "sdp_proto/state.h"

#define likely(x) __builtin_expect(!!(x), 1)

#define PLAIN_DATA ((uint32_t)WIRE_DATA << 8) /* MID and no flags */

static inline uint32_t credits_of(uint32_t bufs, uint32_t in_flight)
{
	return bufs > in_flight ? bufs - in_flight : 0;
}

int rx_payload(struct conn *c, const struct wire_msg *m, struct conn_in *in)
{
	if (c->rd_shut)
		return state_abort(c, "stream bytes after reading was shut");
	if (c->dis_rcvd)
		return state_abort(c, "stream bytes after DisConn");
	if (c->peer_src_count)
		return state_abort(c, "stream bytes pass a SrcAvail");
	in->off = m->hdr_len;
	in->len = m->len - m->hdr_len;
	c->rx_stream += in->len;
	if (!c->sink_count) {
		c->nond_recv++;
		return 0;
	}
	/* They take the place of the oldest advertisement [4.5]. */
	sink_free(c, 0);
	return 0;
}

/*
 * SuspComm and SuspCommAck [5.7]: towards an end without the capability, as we
 * are, neither is answered nor means anything [6, 35].
 */
static int on_suspend(struct conn *c, uint64_t now, const struct wire_msg *m,
		      struct conn_in *in)
{
	(void)c;
	(void)now;
	(void)m;
	(void)in;
	return 0;
}

static int on_data(struct conn *c, uint64_t now, const struct wire_msg *m,
		   struct conn_in *in)
{
	if (m->len > m->hdr_len)
		return rx_payload(c, m, in);
	/* Two throttled ends must not bounce updates [3.4]. */
	c->update_late = true;
	c->update_at = now + (UPDATE_LATE << c->update_tries);
	return 0;
}

/* A kind of message of ours. False: not agreed on; *ret: what of it. */
static bool agreed(struct conn *c, int *ret)
{
	const char *what = "unknown kind of message";

	*ret = 0;
	if (c->native)
		c->fault = what;
	else if (!(c->own_ext_flags & c->peer_ext_flags & CONN_EXT_WORDS))
		*ret = state_abort(c, what);
	else
		return true;
	return false;
}

static int on_words(struct conn *c, uint64_t now, const struct wire_msg *m,
		    struct conn_in *in)
{
	int ret;

	(void)now;
	if (agreed(c, &ret))
		in->words = m->words;
	return ret;
}

static int on_back(struct conn *c, uint64_t now, const struct wire_msg *m,
		   struct conn_in *in)
{
	int ret;

	(void)now;
	if (agreed(c, &ret)) {
		in->back_off = m->hdr_len;
		in->back = m->len - m->hdr_len;
	}
	return ret;
}

static rx_fn *handler(uint8_t mid)
{
	switch (mid) {
	case WIRE_DISCONN:
		return close_on_disconn;
	case WIRE_ABORT:
		return close_on_abort;
	case WIRE_SENDSM:
		return srcavail_on_sendsm;
	case WIRE_WR_COMPL:
		return sinkavail_on_compl;
	case WIRE_RD_COMPL:
		return srcavail_on_compl;
	case WIRE_MODE:
		return mode_on_change;
	case WIRE_SRC_CANCEL:
		return srcavail_on_cancel;
	case WIRE_SINK_CANCEL:
		return sinkavail_on_cancel;
	case WIRE_SINK_ACK:
		return sinkavail_on_ack;
	case WIRE_RCVBUF:
		return resize_on_ask;
	case WIRE_RCVBUF_ACK:
		return resize_on_ack;
	case WIRE_SUSP:
	case WIRE_SUSP_ACK:
		return on_suspend;
	case WIRE_WORDS:
		return on_words;
	case WIRE_BACK:
		return on_back;
	case WIRE_SINK_AVAIL:
		return sinkavail_on_avail;
	case WIRE_SRC_AVAIL:
		return srcavail_on_avail;
	case WIRE_DATA:
		return on_data;
	}
	return NULL;
}

/* Rows 1 to 11 but the numbers; NULL or what is wrong. */
static const char *frame_fault(const struct conn *c, const struct wire_msg *m,
			       enum wire_fault f)
{
	switch (f) {
	case WIRE_SHORT:
		return "shorter than a header";
	case WIRE_BAD_LEN:
		return "Len is not the length";
	case WIRE_BAD_HDR:
		if (c->native && m->mid == WIRE_WORDS)
			break; /* ours alone: to a kernel peer it is any other */
		return "Len does not fit the kind of message";
	case WIRE_UNKNOWN:
		if (!c->native)
			return "unknown kind of message";
		break;
	case WIRE_OK:
		if (m->mid <= WIRE_HELLO_ACK)
			return "Hello or HelloAck after set-up";
		break;
	}
	if (m->len > c->rcv_size)
		return "longer than a receive buffer";
	if (!c->posted)
		return "more messages than receives";
	return NULL;
}

/* Numbers and credits; NULL or what is wrong. */
static const char *count_received(struct conn *c, const struct wire_msg *m)
{
	uint32_t in_flight = c->mseq_sent - m->ack;

	if (mseq_before(c->mseq_sent, m->ack))
		return "MSeqAck of a message never sent";
	if (m->mseq != c->mseq_rcvd + 1) {
		if (!c->native)
			return "gap in MSeq";
		c->fault = "gap in MSeq";
	}
	if (in_flight > m->bufs)
		c->fault = "negative credits";
	c->mseq_rcvd = m->mseq;
	if (c->mode_mseq && !mseq_before(m->ack, c->mode_mseq))
		c->mode_mseq = 0;
	if (c->sendsm_sent && !mseq_before(m->ack, c->sendsm_mseq))
		c->sendsm_sent = false;
	if (c->wr_told && !mseq_before(m->ack, c->wr_mseq))
		c->wr_told = false;
	if (c->rcv_told && !mseq_before(m->ack, c->rcv_mseq))
		resize_heard(c);
	c->posted--;
	c->credits = credits_of(m->bufs, in_flight);
	return NULL;
}

static int dispatch(struct conn *c, uint64_t now, const struct wire_msg *m,
		    struct conn_in *in)
{
	rx_fn *fn = handler(m->mid);
	int ret = 0;

	if (m->mid != WIRE_DATA || m->len > WIRE_BSDH) {
		c->update_late = false;
		c->update_tries = 0;
	}
	if (fn)
		ret = fn(c, now, m, in);
	else
		c->fault = "unknown kind of message";
	if (ret < 0)
		return ret;
	urgent_received(c, m, in);
	if (!in->len) {
		c->ctl_bufs++;
		c->ctl_held = true;
	}
	return 0;
}

static int recv_slow(struct conn *c, uint64_t now, const uint8_t *msg,
		     uint32_t byte_len, struct conn_in *in)
{
	uint32_t credits = c->credits, room = conn_tx_room(c);
	uint32_t freed = c->freed_count;
	enum wire_fault bad;
	const char *fault;
	struct wire_msg m;
	int ret;

	if (c->error)
		return c->error;
	if (state_in(c, BIT(CONN_TW) | BIT(CONN_CLOSED)))
		return 0; /* late ones are tolerated [5.3] */
	if (!state_in(c, STATES_OPEN))
		return state_die(c, -EPROTO, "message before set-up");
	bad = wire_decode(msg, byte_len, &m);
	fault = frame_fault(c, &m, bad);
	if (!fault)
		fault = count_received(c, &m);
	if (fault)
		return state_abort(c, fault);
	ret = dispatch(c, now, &m, in);
	if (ret < 0)
		return ret;
	zcopy_due(c);
	state_settle(c);
	in->freed = c->freed_count > freed;
	in->credits = c->credits > credits || conn_tx_room(c) > room;
	return 0;
}

int conn_on_recv(struct conn *c, uint64_t now, const void *msg,
		 uint32_t byte_len, struct conn_in *in)
{
	const uint8_t *p = msg;
	uint32_t ack, in_flight, credits;
	uint64_t w0;

	memset(in, 0, sizeof(*in));
	if (!c->rx_fast || byte_len <= WIRE_BSDH || byte_len > c->rcv_size ||
	    !c->posted)
		return recv_slow(c, now, msg, byte_len, in);
	w0 = wire_get64(p);
	ack = wire_get32(p + 12);
	in_flight = c->mseq_sent - ack;
	if (!likely(w0 >> 48 == PLAIN_DATA && (uint32_t)w0 == byte_len &&
		    wire_get32(p + 8) == c->mseq_rcvd + 1 &&
		    (int32_t)in_flight >= 0 &&
		    in_flight <= ((w0 >> 32) & 0xffff)))
		return recv_slow(c, now, msg, byte_len, in);
	c->mseq_rcvd++;
	c->posted--;
	credits = (uint32_t)(w0 >> 32 & 0xffff) - in_flight;
	in->credits = credits > c->credits;
	c->credits = credits;
	c->update_late = false;
	c->update_tries = 0;
	c->nond_recv++;
	in->off = WIRE_BSDH;
	in->len = byte_len - WIRE_BSDH;
	c->rx_stream += in->len;
	return 0;
}
