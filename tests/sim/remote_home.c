/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Coming home in the world of remote_world.h: as fallback.c and rdma_back.c. */
#include "remote_world.h"

static struct pipe *outlet(const struct end *e, struct pipe *p)
{
	return &p[e - w.end];
}

static struct pipe *inlet(const struct end *e)
{
	return &w.anchor[e == &w.end[0]];
}

/* --- the writer -------------------------------------------------------- */

/* As rdma_put_back(). */
void world_put_back(struct end *e)
{
	struct pipe *p = outlet(e, w.anchor);

	if (e->put_n < e->at.sent - e->tx->from &&
	    (world_rule(RULE_WHOLE) || rnd(4)))
		return;
	if (!e->put_record && world_full(p, RESUME_RECORD))
		return;
	if (!e->put_record)
		put_record(e, e->tx->from);
	e->put_record = true;
	while (e->put_at < e->put_n && !world_full(p, 1))
		world_put(p, e->put[e->put_at++]);
	if (e->put_at < e->at.sent - e->tx->from ||
	    (!e->broke && !e->r.given && !end_silent(e)))
		return;
	w.resumes += e->put_n > 0;
	e->put_n = e->put_at = 0;
	e->put_record = false;
	anc_resumed(e->tx);
}

void world_came_back(struct end *e, uint32_t off)
{
	/* late: it was given up, and its reader keeps it */
	if (end_silent(e) && anc_state(e->tx) != ANC_RESTORING)
		return;
	if (anc_state(e->tx) != ANC_RESTORING || off != e->tx->from + e->put_n)
		world_fault("not what was to come back");
	e->put[e->put_n++ % QUEUE] = off;
}

/* --- the reader -------------------------------------------------------- */

/* As keep_pull(): true, there is nothing more to take. */
static bool pull(struct end *e)
{
	struct item *i;
	uint64_t n;

	for (;;) {
		int where = anc_keep(e->rx, &e->ar, &n);

		if (where == ANC_AT_ANCHOR)
			return true;
		if (e->in_tcp)
			return false;
		i = world_next(inlet(e));
		if (!i)
			return false;
		if (where == ANC_AT_KICKS && e->marker_wait) {
			take_control(e, e->marker_at + MARKER - e->ar.kicks);
		} else if (where == ANC_AT_KICKS) {
			world_sink(e, n);
		} else {
			if (i->off == KICK)
				world_fault("a control byte was kept");
			e->kept[e->ar.kept++] = i->off;
			inlet(e)->got++;
		}
		if (e->broke)
			return false;
	}
}

static void give_begin(struct end *e)
{
	uint64_t front = e->ar.taken < e->rx->x ? e->rx->x - e->ar.taken : 0;
	uint32_t i;

	e->given_n = e->given_at = 0;
	for (i = 0; i < front; i++)
		e->given[e->given_n++] = e->kept[i];
	for (i = 0; i < e->ring_n; i++)
		e->given[e->given_n++] = e->ring[i];
	for (i = (uint32_t)front; i < e->ar.kept; i++)
		e->given[e->given_n++] = e->kept[i];
	if (e->given_n != e->rx->sent - e->ar.taken)
		world_fault("not all that was sent has come");
	e->ring_n = 0;
	e->ar.kept = 0;
	e->marker_wait = false; /* where nothing was sent there is none */
	e->ar.unsure = true;
	anc_fall_back(e->rx, &e->ar, 0);
}

/* As rdma_back_to_tcp(). */
static void give(struct end *e)
{
	struct pipe *p = outlet(e, w.qp);
	int ret;

	world_tell(e);
	while (e->given_at + (world_rule(RULE_LAST) && !remote_sure(&e->r)) <
		       e->given_n &&
	       !world_full(p, 1)) {
		p->q[p->put++ % QUEUE] =
			(struct item){ .kind = ITEM_GIVEN,
				       .off = e->given[e->given_at++] };
	}
	ret = take_record(e);
	if (ret < 0 && !w.may_break)
		world_fault("no record of what came back");
	if (ret < 0)
		break_known(e);
	if (ret <= 0 && (world_rule(RULE_GIVEN) || e->given_at < e->given_n ||
			 !w.may_break))
		return;
	e->given_n = e->given_at = 0;
	e->ar.unsure = false;
	world_tell(e);
}

/* Will the writer leave the direction where it is? */
static bool held(const struct end *e)
{
	return world_rule(RULE_ANEW) ? remote_held(&e->r) : e->r.held;
}

/* For good; or, where worlds are long, it was in vain, as a failed exec is. */
static void gone_home(struct end *e)
{
	e->falling_back = false;
	w.homes++;
	e->tcp = !w.longer || !rnd(4);
	if (e->tcp)
		return;
	if (e->pinned)
		anc_idle(e->rx);
	e->pinned = false;
	e->home_at = (uint32_t)e->ar.taken + rnd(60);
}

void world_come_home(struct end *e)
{
	uint64_t n;

	if (!e->pinned && !anc_busy(e->rx))
		e->pinned = true;
	if (e->marker_wait && !e->broke && !e->in_tcp &&
	    anc_state(e->rx) != ANC_TCP && anc_state(e->rx) != ANC_RESTORING &&
	    e->ar.taken + e->ar.kept >= e->rx->x)
		take_control(e, e->marker_at + MARKER - e->ar.kicks);
	if (e->broke && !e->mended)
		return;
	if (end_silent(e) && end_over(e))
		return;
	switch (anc_state(e->rx)) {
	case ANC_TCP:
		if (e->in_tcp || (world_rule(RULE_HELD) && !e->broke &&
				  !held(e) && !e->dis_rcvd))
			break;
		gone_home(e);
		break;
	case ANC_SWITCHING:
	case ANC_LIFTED:
		anc_ask(e->rx);
		break;
	case ANC_RECALLED:
		pull(e);
		break;
	case ANC_PAUSED:
		if (!e->in_tcp && pull(e) && !e->in_tcp && !e->broke)
			give_begin(e);
		break;
	case ANC_DRAINING:
		if (e->ar.unsure || e->broke || rnd(2))
			world_read_some(e);
		else if (e->ar.taken < e->rx->y &&
			 anc_where(e->rx, &e->ar, &n) != ANC_AT_ANCHOR)
			anc_ask(e->rx);
		break;
	case ANC_RESTORING:
		if (e->ar.unsure)
			give(e);
		else if (!e->in_tcp && (held(e) || e->dis_rcvd))
			gone_home(e);
		break;
	default:
		break;
	}
}
