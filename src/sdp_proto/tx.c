/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What to send next. Order: the end of the connection, control messages,
 * stream bytes, DisConn, credit update. Credits [3.3]: 3 for
 * anything that carries stream bytes, 2 for the rest, 1 for a message without
 * payload that tells of new receives.
 */
#include "sdp_proto/state.h"

#define likely(x) __builtin_expect(!!(x), 1)

uint32_t conn_tx_room(const struct conn *c)
{
	if (c->credits < DATA_CREDITS || !state_tx_open(c))
		return 0;
	return c->peer_rcv_size - WIRE_BSDH;
}

/* MSeqAck stays below a cancel that is being processed [3.1]. */
static inline uint32_t own_ack(const struct conn *c)
{
	return c->cancel_rx ? c->cancel_mseq - 1 : c->mseq_rcvd;
}

/* The part all messages share: numbers and what they tell the peer. */
static inline void count_sent(struct conn *c)
{
	uint32_t bufs;

	c->ack_told = own_ack(c);
	/*
	 * What came behind an MSeqAck that is held back is no longer under
	 * way. Counted here, it takes no credits from the peer; two ends with
	 * few receives could else be left without any [3.2].
	 */
	bufs = c->posted + (c->mseq_rcvd - c->ack_told);
	c->bufs_told = bufs < UINT16_MAX ? bufs : UINT16_MAX;
	c->mseq_sent++;
	c->credits--;
}

static inline void send_data(struct conn *c, uint32_t flags, uint32_t payload,
			     struct conn_op *op)
{
	count_sent(c);
	wire_put64(op->hdr, wire_word0(WIRE_DATA, flags, c->bufs_told,
				       WIRE_BSDH + payload));
	wire_put64(op->hdr + 8, wire_word1(c->mseq_sent, c->ack_told));
	op->type = CONN_SEND;
	op->hdr_len = WIRE_BSDH;
	op->payload = payload;
	op->solicited = true;
	op->took = CONN_TOOK_NONE;
	c->tx_stream += payload;
}

void conn_bare(struct conn *c, struct conn_op *op)
{
	c->tx_stream -= op->payload;
	op->payload = 0;
	wire_put32(op->hdr + 4, op->hdr_len);
}

static inline uint32_t data_payload(const struct conn *c, uint64_t bytes,
				    uint32_t room)
{
	uint32_t most = c->peer_rcv_size < room ? c->peer_rcv_size : room;

	most -= WIRE_BSDH;
	return bytes < most ? (uint32_t)bytes : most;
}

void tx_msg(struct conn *c, struct wire_msg *m, uint32_t payload,
	    struct conn_op *op)
{
	count_sent(c);
	m->bufs = (uint16_t)c->bufs_told;
	m->mseq = c->mseq_sent;
	m->ack = c->ack_told;
	m->len = wire_hdr_len(m->mid) + payload;
	op->type = CONN_SEND;
	op->hdr_len = (uint32_t)wire_encode(m, op->hdr);
	op->payload = payload;
	op->solicited = true;
	op->took = CONN_TOOK_NONE;
	c->tx_stream += payload;
}

/* Enough credits for a message without payload? */
static bool control_credits(const struct conn *c)
{
	return c->credits >= 2 || (c->credits && conn_last_credit(c));
}

/* What a control message about to be posted says, and changes. */
static void prepare(struct conn *c, unsigned int bit, struct wire_msg *m)
{
	switch (bit) {
	case CONN_WANT_RD_COMPL:
		m->bytes = srcavail_report(c);
		break;
	case CONN_WANT_SENDSM:
		c->peer_src_count = 0;
		c->cancel_rx = c->refuse = c->read_failed = false;
		c->sendsm_sent = true;
		c->sendsm_mseq = c->mseq_sent + 1;
		break;
	case CONN_WANT_WR_COMPL:
		m->bytes = sinkavail_report(c);
		c->wr_told = c->writes_wait && m->bytes;
		c->wr_mseq = c->mseq_sent + 1;
		break;
	case CONN_WANT_SRC_CANCEL:
		c->cancel_tx = true;
		break;
	case CONN_WANT_SINK_CANCEL:
		c->sink_cancel = true;
		break;
	case CONN_WANT_MODE:
		m->mode = c->mode_due;
		mode_posted(c);
		break;
	case CONN_WANT_RCVACK:
		m->bytes = resize_report(c);
		c->rcv_told = conn_sizes(c);
		c->rcv_mseq = c->mseq_sent + 1;
		break;
	}
}

static const struct {
	uint16_t want;
	uint8_t mid;
} controls[] = {
	{ CONN_WANT_RD_COMPL, WIRE_RD_COMPL },
	{ CONN_WANT_SENDSM, WIRE_SENDSM },
	{ CONN_WANT_WR_COMPL, WIRE_WR_COMPL },
	{ CONN_WANT_SINK_ACK, WIRE_SINK_ACK },
	{ CONN_WANT_SRC_CANCEL, WIRE_SRC_CANCEL },
	{ CONN_WANT_SINK_CANCEL, WIRE_SINK_CANCEL },
	{ CONN_WANT_MODE, WIRE_MODE },
	{ CONN_WANT_RCVACK, WIRE_RCVBUF_ACK },
};

static bool next_control(struct conn *c, const struct conn_offer *offer,
			 uint32_t room, struct conn_op *op)
{
	struct wire_msg m = { 0 };
	uint32_t len;
	size_t i;

	for (i = 0; i < sizeof(controls) / sizeof(controls[0]); i++) {
		if (!(c->want & controls[i].want) ||
		    (controls[i].want == CONN_WANT_WR_COMPL &&
		     !sinkavail_compl_due(c, offer)))
			continue;
		len = wire_hdr_len(controls[i].mid);
		if (len > c->peer_rcv_size) {
			/* A peer that takes 17 bytes cannot be told. */
			c->want &= (uint16_t)~controls[i].want;
			continue;
		}
		if (len > room || !control_credits(c))
			return false;
		c->want &= (uint16_t)~controls[i].want;
		m.mid = controls[i].mid;
		if (m.mid == WIRE_SRC_CANCEL)
			m.flags = urgent_notice(c, offer);
		prepare(c, controls[i].want, &m);
		tx_msg(c, &m, 0, op);
		zcopy_due(c);
		state_settle(c);
		return true;
	}
	return false;
}

int conn_words(struct conn *c, unsigned int set, const uint8_t w[CONN_WORDS])
{
	if (set >= CONN_WORDS_SETS)
		return -EINVAL;
	/* never smaller than in the Hello: what fits now will fit */
	if (!(c->own_ext_flags & c->peer_ext_flags & CONN_EXT_WORDS) ||
	    c->peer_rcv_size < wire_hdr_len(WIRE_WORDS))
		return -EOPNOTSUPP;
	if (!state_in(c, STATES_OPEN))
		return 0;
	memcpy(c->words[set], w, CONN_WORDS);
	c->words_due |= (uint8_t)BIT(set);
	c->want |= CONN_WANT_WORDS;
	return 0;
}

static bool next_words(struct conn *c, uint32_t room, struct conn_op *op)
{
	unsigned int set = c->words_due & 1 ? 0 : 1;
	struct wire_msg m = { .mid = WIRE_WORDS, .words = c->words[set] };

	if (wire_hdr_len(WIRE_WORDS) > room || !control_credits(c))
		return false;
	c->words_due &= (uint8_t)~BIT(set);
	if (!c->words_due)
		c->want &= (uint16_t)~CONN_WANT_WORDS;
	tx_msg(c, &m, 0, op);
	return true;
}

/*
 * What is handed back is no part of our own stream, nor ended by its end. It
 * is taken at once, as control messages are: it must not wait for the credits
 * that come only when the other program reads.
 */
static bool next_back(struct conn *c, const struct conn_offer *offer,
		      uint32_t room, struct conn_op *op)
{
	struct wire_msg m = { .mid = WIRE_BACK };
	uint32_t payload;

	if (!offer->back || room <= WIRE_BSDH || !control_credits(c) ||
	    !(c->own_ext_flags & c->peer_ext_flags & CONN_EXT_WORDS))
		return false;
	payload = data_payload(c, offer->back, room);
	tx_msg(c, &m, payload, op);
	c->tx_stream -= payload;
	return true;
}

/* AbortConn, CONN_DISCONNECT: these need no credits. */
static bool next_end(struct conn *c, uint32_t room, struct conn_op *op)
{
	struct wire_msg m = { .mid = WIRE_ABORT };

	if (c->want & CONN_WANT_ABORT) {
		c->want &= (uint16_t)~CONN_WANT_ABORT;
		if (room >= WIRE_BSDH) {
			tx_msg(c, &m, 0, op);
			return true;
		}
	}
	if (c->want & CONN_WANT_END) {
		c->want &= (uint16_t)~CONN_WANT_END;
		op->type = CONN_DISCONNECT;
		return true;
	}
	return false;
}

static bool next_data(struct conn *c, const struct conn_offer *offer,
		      uint32_t room, struct conn_op *op)
{
	uint32_t payload;

	if (!offer->bytes || room <= WIRE_BSDH || c->credits < DATA_CREDITS ||
	    !state_tx_open(c) || (c->want & CONN_WANT_WR_COMPL))
		return false;
	payload = data_payload(c, offer->bytes, room);
	send_data(c, urgent_flags(c, offer, payload), payload, op);
	if (c->peer_sink_count) { /* Data spends an advertisement [4.5] */
		advert_drop(c->peer_sink, &c->peer_sink_count, 1);
		state_settle(c);
	} else {
		c->nond_sent++;
	}
	return true;
}

/*
 * A kernel's source is dealt with before DisConn; see gives_back(). Nor does
 * it take the last credit, of which conn_last_credit() knows a better use.
 */
static bool disconn_may_go(const struct conn *c, const struct conn_offer *offer)
{
	return !offer->bytes && !offer->more && !c->src_count && !c->wr_told &&
	       !(c->want & CONN_WANT_WR_COMPL) &&
	       !(c->native && (c->peer_src_count || c->credits < 2));
}

static bool next_disconn(struct conn *c, uint64_t now,
			 const struct conn_offer *offer, struct conn_op *op)
{
	struct wire_msg m = { .mid = WIRE_DISCONN };

	if (!(c->want & CONN_WANT_DISC) || !disconn_may_go(c, offer) ||
	    !control_credits(c))
		return false;
	c->want &= (uint16_t)~CONN_WANT_DISC;
	tx_msg(c, &m, 0, op);
	close_sent(c, now);
	return true;
}

/* What the offer allows besides copying; a waiting reader comes first. */
static bool next_zcopy(struct conn *c, const struct conn_offer *offer,
		       uint32_t room, struct conn_op *op)
{
	return sinkavail_next(c, offer, room, op) ||
	       sinkavail_write(c, offer, op) ||
	       srcavail_next(c, offer, room, op);
}

/*
 * The last credits are for stream bytes, which go at once. Not while the peer
 * waits for a report on what it lent, or for bytes handed back.
 */
static bool next_spared(struct conn *c, const struct conn_offer *offer,
			uint32_t room, struct conn_op *op)
{
	if (likely(!c->spare) || !conn_spared(c, room) || !state_tx_open(c) ||
	    offer->zc || offer->oob_last || offer->back || c->want)
		return false;
	next_data(c, offer, room, op);
	return true;
}

static void next_slow(struct conn *c, uint64_t now,
		      const struct conn_offer *offer, uint32_t room,
		      struct conn_op *op)
{
	uint32_t flags = 0;

	op->type = CONN_NOTHING;
	op->hdr_len = op->payload = 0;
	op->took = CONN_TOOK_NONE;
	c->write_fresh = false;
	if ((c->want & (CONN_WANT_ABORT | CONN_WANT_END)) &&
	    next_end(c, room, op))
		return;
	if (!state_in(c, STATES_OPEN) || room < WIRE_BSDH)
		return;
	update_ripe(c, now);
	if (next_spared(c, offer, room, op))
		return;
	/* words count what was read: its report comes before them */
	if (c->want & CONN_WANT_WORDS && c->want & CONN_WANT_RD_COMPL) {
		next_control(c, offer, room, op);
		return;
	}
	if (c->want & CONN_WANT_WORDS) {
		next_words(c, room, op);
		return;
	}
	if (offer->oob_last && offer->bytes)
		conn_cancel_sources(c); /* it never travels in one [5.1] */
	if (c->want && next_control(c, offer, room, op))
		return;
	if (offer->back && next_back(c, offer, room, op))
		return;
	if (offer->zc && next_zcopy(c, offer, room, op))
		return;
	if (next_data(c, offer, room, op))
		return;
	if (c->want && next_disconn(c, now, offer, op))
		return;
	if (control_credits(c))
		flags = urgent_notice(c, offer);
	if (flags || (conn_update_due(c) && !conn_spared(c, room))) {
		if (c->burn)
			c->burn--;
		send_data(c, flags, 0, op);
	}
}

void conn_next(struct conn *c, uint64_t now, const struct conn_offer *offer,
	       uint32_t room, struct conn_op *op)
{
	if (likely(c->tx_fast && !c->want && offer->bytes && !offer->oob_last &&
		   !offer->zc && !offer->back && c->credits >= DATA_CREDITS &&
		   room > WIRE_BSDH)) {
		send_data(c, 0, data_payload(c, offer->bytes, room), op);
		c->nond_sent++;
		return;
	}
	next_slow(c, now, offer, room, op);
}
