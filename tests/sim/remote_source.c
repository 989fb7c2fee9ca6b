/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Memory lent in the world (zcopy_rdma.c): a send names bytes instead of
 * sending them, the reader takes them over the queue pair without the writer's
 * doing, and reports. Nothing else of that direction goes meanwhile.
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

bool source_begin(struct end *e)
{
	uint32_t n = 1 + rnd(12);

	if (!rnd(3) || e->held || e->recalled || e->broke || !e->confirmed ||
	    e->ahead || e->marker_due || anc_state(e->tx) != ANC_LIFTED ||
	    !remote_seen(&e->r) || e->tx->tcp_rx || !room(outlet(e)))
		return false;
	if (n > world_due(e) - e->at.sent)
		n = (uint32_t)(world_due(e) - e->at.sent);
	say(e, ITEM_LENT, (uint32_t)e->at.sent, n);
	e->lent = n;
	w.sources++;
	return true;
}

bool source_back(struct end *e)
{
	if (!e->lent || !world_rule(RULE_RECALL))
		return true;
	if (!e->wrote && !e->recalled && !e->broke && room(outlet(e))) {
		say(e, ITEM_RECALL, 0, 0);
		e->recalled = true;
	}
	return false;
}

void source_broke(struct end *e, uint64_t read)
{
	if (world_rule(RULE_LENT))
		anc_sent(e->tx, &e->at, e->lent);
	e->lent = 0;
	e->sink = 0;
	/* its program may have been told that so much was sent, and stop */
	if (anc_state(e->tx) == ANC_LIFTED && read > e->at.sent)
		world_fault("more was read than counts as sent");
}

/* --- the reader -------------------------------------------------------- */

static void report(struct end *e)
{
	if (e->unreported && room(outlet(e)))
		say(e, ITEM_REPORT, 0, e->unreported);
	else if (e->unreported)
		return;
	e->unreported = 0;
}

void source_read(struct end *e, uint64_t n)
{
	if (e->broke || w.severed || e->unreported || !room(outlet(e)))
		return;
	if (n > e->source)
		n = e->source;
	if (n > 1)
		n = 1 + rnd((uint32_t)n);
	for (; n; n--) {
		world_deliver(e, e->source_at++);
		anc_taken(e->rx, &e->ar, 1);
		e->source--;
		e->unreported++;
		w.read++;
	}
	if (world_rule(RULE_REPORT) || !rnd(4))
		report(e);
}

void source_item(struct end *e, const struct item *i)
{
	if (e->broke)
		return; /* too late */
	if (sink_item(e, i))
		return;
	switch (i->kind) {
	case ITEM_LENT:
		if (e->sink)
			break; /* void on both sides */
		e->source_at = i->off;
		e->source = i->n;
		break;
	case ITEM_RECALL:
		report(e);
		e->source = 0;
		say(e, ITEM_BACK, 0, 0);
		break;
	case ITEM_BACK:
		if (!e->wrote)
			e->lent = 0;
		e->recalled = false;
		break;
	default:
		if (i->n > e->lent) {
			world_fault("more was reported than lent");
			break;
		}
		e->lent -= i->n;
		anc_sent(e->tx, &e->at, i->n);
		break;
	}
}
