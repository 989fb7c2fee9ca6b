/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory on offer in the world (zsink_rdma.c): a receive that waits names its
 * memory, the writer puts bytes there without the reader's doing and says so.
 * To the writer it is a source until the reader has heard of it.
 */
#include "remote_world.h"

static struct pipe *outlet(const struct end *e)
{
	return &w.qp[e - w.end];
}

static bool room(const struct pipe *p)
{
	return p->put - p->got < QUEUE - 16;
}

static void say(struct end *e, enum item_kind kind, uint32_t at, uint32_t n)
{
	struct pipe *p = outlet(e);

	p->q[p->put++ % QUEUE] =
		(struct item){ .kind = kind, .off = at, .n = n };
}

/* --- the writer -------------------------------------------------------- */

void sink_spent(struct end *e)
{
	if (e->held)
		e->held = 0;
	else
		e->nond_sent++;
}

bool sink_write(struct end *e)
{
	uint32_t n;

	if (!e->held || e->broke || !e->confirmed || e->ahead ||
	    e->marker_due || anc_state(e->tx) != ANC_LIFTED ||
	    !remote_seen(&e->r) || e->tx->tcp_rx || !room(outlet(e)))
		return false;
	n = 1 + rnd(e->held);
	if (n > world_due(e) - e->at.sent)
		n = (uint32_t)(world_due(e) - e->at.sent);
	say(e, ITEM_WROTE, (uint32_t)e->at.sent, n);
	e->held = 0;
	w.writes++;
	if (!world_rule(RULE_HEARD)) {
		anc_sent(e->tx, &e->at, n);
		return true;
	}
	e->lent = n;
	e->wrote = true;
	return true;
}

/* Bytes of ours crossed it, or it is good and what is lent is void. */
static void offered(struct end *e, const struct item *i)
{
	if (i->off != e->nond_sent) {
		e->nond_sent--;
		return;
	}
	e->lent = 0;
	e->held = i->n;
}

/* --- the reader -------------------------------------------------------- */

/* As a receive in LIFTED that finds nothing, wherever it looks. */
void sink_offer(struct end *e)
{
	uint64_t n;

	if (e->sink || e->broke || e->ring_n || e->source || e->unreported ||
	    e->marker_wait || e->ar.unsure || e->in_tcp || e->tcp ||
	    e->falling_back || anc_state(e->rx) != ANC_LIFTED ||
	    anc_where(e->rx, &e->ar, &n) != ANC_AT_RING ||
	    anc_kicks(e->rx, &e->ar) > 0 || !room(outlet(e)))
		return;
	e->sink = 1 + rnd(10);
	e->sink_asked = false;
	say(e, ITEM_SINK, e->nond_rcvd, e->sink);
}

/* Its receive wants to end: by an answer, or the queue pair is given up. */
bool sink_back(struct end *e)
{
	if (!e->sink || e->broke || !room(outlet(e)))
		return false;
	if (!world_rule(RULE_ANSWER)) {
		e->sink = 0;
		return false;
	}
	if (!e->sink_asked)
		say(e, ITEM_SINK_BACK, 0, 0);
	e->sink_asked = true;
	return w.may_break && !w.severed && !rnd(20);
}

bool sink_takes(struct end *e)
{
	if (e->sink) {
		e->sink = 0;
		return false;
	}
	e->nond_rcvd++;
	return true;
}

static void written(struct end *e, const struct item *i)
{
	uint32_t k;

	if (!e->sink)
		return; /* it is not counted */
	if (e->ring_n || i->n > e->sink)
		world_fault("a write passes what came before");
	for (k = 0; k < i->n; k++) {
		world_deliver(e, i->off + k);
		anc_taken(e->rx, &e->ar, 1);
	}
	e->sink = 0;
	w.sunk += i->n;
	say(e, ITEM_HEARD, 0, i->n);
}

bool sink_waits(const struct end *e, const struct item *i)
{
	return (i->kind == ITEM_WROTE || i->kind == ITEM_SINK_BACK) &&
	       !e->broke && !room(outlet(e));
}

/* False: it is none of these. */
bool sink_item(struct end *e, const struct item *i)
{
	switch (i->kind) {
	case ITEM_SINK:
		offered(e, i);
		return true;
	case ITEM_WROTE:
		written(e, i);
		return true;
	case ITEM_HEARD:
		if (!e->wrote)
			return true;
		anc_sent(e->tx, &e->at, e->lent);
		e->lent = 0;
		e->wrote = false;
		return true;
	case ITEM_SINK_BACK:
		if (e->held)
			say(e, ITEM_SINK_ACK, 0, 0);
		e->held = 0;
		return true;
	case ITEM_SINK_ACK:
		e->sink = 0;
		return true;
	default:
		return false;
	}
}

void sink_forget(struct end *e)
{
	e->sink = e->held = e->nond_sent = e->nond_rcvd = 0;
	e->wrote = e->sink_asked = false;
}
