/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a program does not cause by itself, or seldom: mode changes, other
 * receive buffers, advertisements taken back or refused.
 */

#include "world.h"

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

void world_trick(struct world *w, struct side *s)
{
	switch (sim_rnd(w->sim, 6)) {
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
		conn_set_mode(&s->c, sim_rnd(w->sim, 3));
		break;
	case 4:
		conn_set_mode(&s->c, WIRE_PIPELINED);
		break;
	default:
		if (conn_sizes(&s->c))
			say(w, s);
	}
}
