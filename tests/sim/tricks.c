/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a program does not cause by itself, or seldom: mode changes, larger
 * receive buffers, advertisements taken back or refused, zero copy stopped.
 */

#include "world.h"

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
