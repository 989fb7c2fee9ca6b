/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a program does not cause by itself, or seldom: mode changes, larger
 * receive buffers, advertisements taken back or refused, zero copy stopped.
 */

#include "world.h"

void world_enlarge(struct side *s, uint32_t size)
{
	uint32_t i;

	for (i = s->recv_first; i != s->recv_last; i++)
		if (s->size[i % WORLD_RECVS] < size)
			s->size[i % WORLD_RECVS] = size;
	s->size_now = size;
}

static uint32_t smallest(const struct side *s)
{
	uint32_t i, least = s->size_now;

	for (i = s->recv_first; i != s->recv_last; i++)
		if (s->size[i % WORLD_RECVS] < least)
			least = s->size[i % WORLD_RECVS];
	return least;
}

/*
 * As an end over RDMA does it: larger ones are posted first and told of when no
 * smaller one is left; smaller ones are told of first and posted when the peer
 * has heard. Then again, whatever of it is under way.
 */
static void say(struct world *w, struct side *s)
{
	uint32_t size = s->c.rcv_least + sim_rnd(w->sim, 600);
	uint32_t least = smallest(s);

	switch (sim_rnd(w->sim, 4)) {
	case 0:
		if (size > s->size_now)
			s->size_now = size;
		return;
	case 1:
		if (least > s->c.rcv_said)
			conn_say_rcvbuf(&s->c, least);
		return;
	case 2:
		if (size < s->c.rcv_said)
			conn_say_rcvbuf(&s->c, size);
		return;
	default:
		if (conn_rcvbuf_heard(&s->c))
			s->size_now = s->c.rcv_said;
	}
}

static void resize(struct world *w, struct side *s)
{
	uint32_t want = conn_rcvbuf_wanted(&s->c);

	if (conn_sizes(&s->c)) {
		say(w, s);
	} else if (want) {
		world_enlarge(s, want > s->size_now ? want : s->size_now);
		conn_rcvbuf_ready(&s->c, sim_rnd(w->sim, 2) ? want : 0);
	} else if (s->c.peer_rcv_size < SIM_MSG_MAX / 2) {
		conn_ask_rcvbuf(&s->c,
				s->c.peer_rcv_size + sim_rnd(w->sim, 200));
	}
}

void world_trick(struct world *w, struct side *s)
{
	switch (sim_rnd(w->sim, 10)) {
	case 0:
		conn_refuse_sources(&s->c);
		break;
	case 1:
		conn_cancel_sources(&s->c);
		break;
	case 2:
		conn_cancel_sinks(&s->c);
		break;
	case 3:
		conn_quiesce(&s->c, sim_rnd(w->sim, 4));
		break;
	case 4:
		conn_unquiesce(&s->c, CONN_TX | CONN_RX);
		break;
	case 5:
		conn_set_mode(&s->c, sim_rnd(w->sim, 3));
		break;
	case 6:
		conn_set_mode(&s->c, WIRE_PIPELINED);
		break;
	case 7:
		conn_set_rx_mode(&s->c, WIRE_COMBINED);
		break;
	case 8:
		conn_like_pipelined(&s->c, sim_rnd(w->sim, 2));
		if (conn_pipelined_liked(&s->c))
			conn_set_mode(&s->c, WIRE_PIPELINED);
		break;
	default:
		resize(w, s);
	}
}
