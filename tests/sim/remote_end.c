/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Directions end in the world of remote_world.h: as fallback.c and rdma_end.c.
 */
#include "remote_world.h"

static struct pipe *outlet(const struct end *e)
{
	return &w.anchor[e - w.end];
}

static struct pipe *inlet(const struct end *e)
{
	return &w.anchor[e == &w.end[0]];
}

bool end_silent(const struct end *e)
{
	return e->dis_sent && e->dis_rcvd && !e->broke;
}

static bool flushed(const struct end *e)
{
	const struct pipe *p = &w.qp[e - w.end];

	return p->arrived == p->put;
}

/* --- the writer -------------------------------------------------------- */

static bool may_end(struct end *e)
{
	struct pipe *p = &w.qp[e - w.end];

	if (!e->dis_sent && (anc_state(e->tx) == ANC_SWITCHING ||
			     !remote_seen(&e->r) || world_full(p, 1)))
		return false;
	if (!e->dis_sent)
		p->q[p->put++ % QUEUE] = (struct item){ .kind = ITEM_DISCONN };
	e->dis_sent = true;
	return !e->marker_due;
}

/* As last_word() of fallback.c. */
static bool last_word(struct end *e)
{
	if (!flushed(e))
		return false;
	switch (anc_state(e->tx)) {
	case ANC_RECALLED:
		if (e->marker_due || !world_shown(e))
			return false;
		break;
	case ANC_RESTORING:
		if (e->put_n == e->at.sent - e->tx->from)
			return false;
		e->put_n = e->put_at = 0;
		anc_resumed(e->tx);
		return true;
	case ANC_PAUSED:
		break;
	default:
		return true;
	}
	e->tx->state = ANC_TCP;
	return true;
}

static void finish(struct end *e)
{
	bool silent = end_silent(e) && world_rule(RULE_FIN);

	switch (anc_state(e->tx)) {
	case ANC_SWITCHING:
	case ANC_LIFTED:
		if (!may_end(e))
			return;
		if (silent ? !last_word(e) : e->at.sent != e->tx->taken)
			return;
		anc_risen(e->tx, &e->at);
		if (anc_stall(e->tx, &e->at, true))
			return;
		break;
	case ANC_DRAINING:
		if (silent ? !last_word(e) : e->tx->taken < e->at.y)
			return;
		break;
	case ANC_RECALLED:
	case ANC_PAUSED:
	case ANC_RESTORING:
		if (!silent || !last_word(e))
			return;
		break;
	default:
		break;
	}
	e->fin_due = false;
	outlet(e)->fin = true;
}

void end_step(struct end *e)
{
	if (e->fin_due && !rnd(4))
		finish(e);
	if (e->shut || e->at.sent < e->total || rnd(20))
		return;
	switch (anc_state(e->tx)) {
	case ANC_TCP:
	case ANC_DRAINING:
	case ANC_SWITCHING:
	case ANC_LIFTED:
		e->shut = e->fin_due = true;
		finish(e);
		break;
	default:
		break;
	}
}

/* --- the reader -------------------------------------------------------- */

static struct item *next(struct end *e)
{
	struct pipe *p = inlet(e);

	return p->got == p->arrived ? NULL : &p->q[p->got++ % QUEUE];
}

/* Into a stand-in. */
static void deliver(struct end *e, uint32_t front)
{
	uint32_t i;

	for (i = 0; i < front; i++)
		world_deliver(e, e->kept[i]);
	for (i = 0; i < e->ring_n; i++)
		world_deliver(e, e->ring[i]);
	for (i = front; i < e->ar.kept; i++)
		world_deliver(e, e->kept[i]);
	w.silent += front || e->ring_n || e->ar.kept;
	w.ended++;
	e->ring_n = 0;
	e->ar.kept = 0;
	e->rx->state = ANC_TCP;
	e->falling_back = false;
	e->tcp = true;
}

/* As rdma_over(). */
bool end_over(struct end *e)
{
	enum anc_state st = anc_state(e->rx);
	struct pipe *p = inlet(e);
	struct item *i;
	uint32_t front;
	uint64_t n;

	if (st == ANC_TCP || !world_rule(RULE_OVER))
		return false;
	if (e->fin_due || e->in_tcp || !p->fin || p->arrived != p->put)
		return true;
	world_poll(e);
	if (!flushed(e))
		return true;
	if (st == ANC_RESTORING && (!e->ar.unsure || take_record(e) == 1)) {
		e->given_n = e->given_at = 0;
		e->ar.unsure = false;
		return false;
	}
	if (st == ANC_RESTORING) {
		for (n = 0; n < e->given_n; n++)
			e->ring[e->ring_n++] = e->given[n];
		e->given_n = 0;
	}
	if (st == ANC_DRAINING && anc_where(e->rx, &e->ar, &n) == ANC_AT_ANCHOR)
		return false;
	front = 0;
	if (e->ar.taken < e->rx->x && st != ANC_RESTORING)
		front = (uint32_t)(e->rx->x - e->ar.taken);
	while (e->ar.kept < front && (i = next(e)))
		e->kept[e->ar.kept++] = i->off;
	if (e->marker_wait)
		take_control(e, e->marker_at + MARKER - e->ar.kicks);
	if (e->marker_wait && e->ring_n)
		world_fault("no marker, and bytes behind it");
	while ((i = next(e)))
		if (i->off != KICK)
			world_fault("stream bytes behind both ends");
	deliver(e, front);
	return false;
}

bool end_done(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		const struct end *e = &w.end[i];

		if (e->ends && (!e->shut || e->fin_due))
			return false;
		/* a receive in the kernel that nothing comes for */
		if (e->home_at <= e->expect && !e->tcp &&
		    (!e->in_tcp || anc_state(e->rx) != ANC_TCP))
			return false;
	}
	return true;
}
