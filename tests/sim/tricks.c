/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Messages that a program never causes by itself: mode changes, larger
 * receive buffers, and advertisements as the zero-copy path makes them. An
 * advertisement is made by hand, with the machine's books kept as it would;
 * the other end answers it with SendSm or spends it on Data.
 */

#include <string.h>

#include "world.h"

bool world_send(struct world *w, struct side *s, struct wire_msg *m,
		uint32_t payload)
{
	uint32_t hdr = wire_hdr_len(m->mid), i;
	struct conn *c = &s->c;
	uint8_t *mem;

	if (s->e->ops->room(s->e) < hdr + payload ||
	    hdr + payload > c->peer_rcv_size)
		return false;
	mem = s->e->ops->buf(s->e, hdr + payload);
	c->bufs_told = c->posted;
	c->ack_told = c->cancel_rx ? c->cancel_mseq - 1 : c->mseq_rcvd;
	c->mseq_sent++;
	c->credits--;
	m->bufs = (uint16_t)c->bufs_told;
	m->mseq = c->mseq_sent;
	m->ack = c->ack_told;
	m->len = hdr + payload;
	wire_encode(m, mem);
	for (i = 0; i < payload; i++)
		mem[hdr + i] = world_byte(s->which, s->sent + i);
	s->sent += payload;
	c->tx_stream += payload;
	world_tape(w, "%c>%s! ", 'a' + (int)s->which, wire_name(m->mid));
	if (w->trace)
		fprintf(w->trace, "%c > %s by hand mseq %u\n",
			'a' + (int)s->which, wire_name(m->mid), m->mseq);
	s->e->ops->send(s->e, m->len, true);
	return true;
}

/* Is the next urgent byte among those the program has written? */
static bool urgent_near(const struct side *s)
{
	uint32_t i;

	for (i = 0; i < s->plan.urgents; i++)
		if (s->plan.urgent[i] >= s->sent &&
		    s->plan.urgent[i] < s->written)
			return true;
	return false;
}

void trick_src_avail(struct world *w, struct side *s)
{
	uint64_t bytes = s->written - s->sent;
	struct wire_msg m = { .mid = WIRE_SRC_AVAIL, .rkey = 7 };
	struct conn *c = &s->c;
	bool combined = c->tx_mode == WIRE_COMBINED;
	uint32_t payload = 0, most = combined ? 1 : c->peer_max_adverts;

	if (c->want || c->credits < 3 || c->tx_mode == WIRE_BUFFERED ||
	    !state_in(c, STATES_OPEN) || c->dis_sent || c->mute ||
	    c->suspending || c->cancel_tx || c->peer_sink_count ||
	    c->src_count >= most || c->src_count >= CONN_ADVERTS ||
	    urgent_near(s))
		return;
	if (combined) {
		if (bytes < 2)
			return;
		payload = 1 + sim_rnd(w->sim, 8);
		if (payload >= bytes)
			payload = (uint32_t)bytes - 1;
	} else if (!bytes) {
		return;
	}
	m.vaddr = 4096 + sim_rnd(w->sim, 1000);
	m.buf_len = (uint32_t)bytes;
	if (!world_send(w, s, &m, payload))
		return;
	if (payload)
		c->nond_sent++;
	c->src_mseq = m.mseq;
	c->src[c->src_count++] = (struct conn_advert){
		.vaddr = m.vaddr,
		.rkey = m.rkey,
		.len = m.buf_len - payload,
		.mseq = m.mseq,
	};
	state_settle(c);
}

static void src_cancel(struct world *w, struct side *s)
{
	struct wire_msg m = { .mid = WIRE_SRC_CANCEL };

	if (!s->c.src_count || s->c.cancel_tx || s->c.credits < 2 ||
	    s->c.mute || s->c.want)
		return;
	if (world_send(w, s, &m, 0))
		s->c.cancel_tx = true;
}

static void sink_avail(struct world *w, struct side *s)
{
	struct wire_msg m = { .mid = WIRE_SINK_AVAIL, .rkey = 9 };
	struct conn *c = &s->c;

	if (c->rx_mode != WIRE_PIPELINED || c->want || c->credits < 3 ||
	    !state_in(c, STATES_OPEN) || c->mute || c->dis_rcvd || c->rd_shut ||
	    c->sink_cancel || c->peer_src_count ||
	    c->sink_count >= c->peer_max_adverts ||
	    c->sink_count >= CONN_ADVERTS)
		return;
	m.vaddr = 65536;
	m.buf_len = 4 * SIM_MSG_MAX;
	m.nond = c->nond_recv;
	if (!world_send(w, s, &m, 0))
		return;
	c->sink[c->sink_count++] = (struct conn_advert){
		.vaddr = m.vaddr,
		.rkey = m.rkey,
		.len = m.buf_len,
		.mseq = m.mseq,
	};
	state_settle(c);
}

static void sink_cancel(struct world *w, struct side *s)
{
	struct wire_msg m = { .mid = WIRE_SINK_CANCEL };

	if (!s->c.sink_count || s->c.sink_cancel || s->c.credits < 2 ||
	    s->c.mute || s->c.want)
		return;
	if (world_send(w, s, &m, 0))
		s->c.sink_cancel = true;
}

static void resize(struct world *w, struct side *s)
{
	uint32_t want = conn_rcvbuf_wanted(&s->c);

	if (want)
		conn_rcvbuf_ready(&s->c, sim_rnd(w->sim, 2) ? want : 0);
	else if (s->c.peer_rcv_size < SIM_MSG_MAX / 2)
		conn_ask_rcvbuf(&s->c,
				s->c.peer_rcv_size + sim_rnd(w->sim, 200));
}

void world_trick(struct world *w, struct side *s)
{
	switch (sim_rnd(w->sim, 8)) {
	case 0:
	case 1:
		trick_src_avail(w, s);
		break;
	case 2:
		src_cancel(w, s);
		break;
	case 3:
		sink_avail(w, s);
		break;
	case 4:
		sink_cancel(w, s);
		break;
	case 5:
		conn_set_mode(&s->c, sim_rnd(w->sim, 3));
		break;
	case 6:
		conn_set_rx_mode(&s->c, WIRE_COMBINED);
		break;
	default:
		resize(w, s);
	}
}
