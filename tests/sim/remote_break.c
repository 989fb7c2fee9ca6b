/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The queue pair of the world breaks (resume.h): what rdma_failover.c does about
 * it, by the same words and the same machine.
 */
#include "remote_world.h"

#include <string.h>

#define GLANCE 96

static const uint8_t secret[2][RESUME_SECRET] = { "\xe1 first writer",
						  "\xe2 other writer" };

uint8_t byte_of(uint32_t off)
{
	return (uint8_t)(2 + off % 200);
}

const uint8_t *marker_of(const struct end *writer)
{
	static const uint8_t marker[2][MARKER] = { "\xf1 first writers",
						   "\xf2 other writers" };

	return marker[writer - w.end];
}

static struct end *other(const struct end *e)
{
	return &w.end[e == &w.end[0]];
}

static struct pipe *inlet(const struct end *e)
{
	return &w.anchor[other(e) - w.end];
}

/* --- the break --------------------------------------------------------- */

/*
 * Some of what is under way arrives; of that some is acknowledged. By turns one
 * message may be all that is lost.
 */
static void sever(void)
{
	bool last = w.end[0].turn && rnd(2);
	int i, whose = (int)rnd(2);

	w.severed = true;
	w.breaks++;
	for (i = 0; i < 2; i++) {
		struct pipe *p = &w.qp[i];
		struct end *e = &w.end[i];
		uint32_t k, lost = 0;

		p->dead = p->arrived + rnd(p->put - p->arrived + 1);
		if (last)
			p->dead = p->put - (i == whose && p->arrived != p->put);
		for (k = p->dead; k != p->put; k++)
			lost += !p->q[k % QUEUE].words && !p->q[k % QUEUE].kind;
		p->arrived = p->dead;
		e->acked = e->at.sent - lost;
		k = rnd(12);
		e->acked -= k < e->acked ? k : e->acked;
		e->deaf = !rnd(3);
	}
}

/* --- the writer -------------------------------------------------------- */

static void out(struct end *e, uint32_t off, uint8_t byte)
{
	e->out[e->out_n++] = (struct item){ .off = off, .byte = byte };
}

static void out_record(struct end *e, uint64_t from)
{
	uint8_t rec[RESUME_RECORD];
	int i;

	resume_record(rec, secret[e - w.end], from);
	for (i = 0; i < RESUME_RECORD; i++)
		out(e, KICK, rec[i]);
}

static void begin_tx(struct end *e)
{
	enum anc_state st = anc_state(e->tx);
	bool confirmed = st == ANC_DRAINING ? remote_seen(&e->r) : e->confirmed;
	uint64_t from = e->at.sent;
	uint32_t i;

	source_broke(e, other(e)->ar.taken);
	if (st == ANC_TCP ||
	    (st == ANC_RESTORING && e->put_n == from - e->tx->from))
		return;
	e->put_n = e->put_at = 0;
	if ((st == ANC_RECALLED || st == ANC_PAUSED) && e->at.y != ANC_OPEN) {
		st = ANC_DRAINING;
		confirmed = true;
	}
	switch (resume_tx(st, confirmed)) {
	case RESUME_RECORDED:
		for (i = 0; e->marker_due && i < MARKER; i++)
			out(e, KICK, marker_of(e)[i]);
		from = e->acked > e->at.x ? e->acked : e->at.x;
		out_record(e, from);
		w.records++;
		break;
	case RESUME_BACK:
		from = e->at.x;
		w.backs++;
		break;
	default:
		break;
	}
	e->marker_due = e->ahead = false;
	for (; from < e->at.sent; from++)
		out(e, (uint32_t)from, byte_of((uint32_t)from));
	e->at.y = e->at.sent;
	e->tx->state = ANC_PAUSED;
}

/* As failover_flush(). */
static void flush(struct end *e)
{
	struct pipe *p = &w.anchor[e - w.end];

	if (anc_state(e->tx) != ANC_PAUSED)
		return;
	for (; e->out_at < e->out_n && p->put - p->got < QUEUE - 16;
	     e->out_at++)
		p->q[p->put++ % QUEUE] = e->out[e->out_at];
	if (e->out_at < e->out_n)
		return;
	e->out_n = e->out_at = 0;
	e->tx->state = ANC_TCP;
}

/* --- the reader -------------------------------------------------------- */

static bool behind_stall(const struct end *e)
{
	enum anc_state st = anc_state(e->rx);

	return (st == ANC_RECALLED || st == ANC_PAUSED) && e->rx->y != ANC_OPEN;
}

/* The writer cannot have all of it: it is unread, whatever comes. */
static void keep_early(struct end *e)
{
	uint32_t i;

	for (i = 0; i < e->given_n; i++)
		e->ring[e->ring_n++] = e->given[i];
	e->given_n = e->given_at = 0;
	e->pinned = false;
	e->rx->kicks = e->ar.kicks;
	e->rx->x = e->ar.taken;
	e->rx->y = e->ar.taken + e->ring_n;
	e->rx->state = ANC_DRAINING;
}

static bool begin_rx(struct end *e)
{
	bool sure = remote_sure(&e->r);
	enum anc_state st = anc_state(e->rx);

	if (st == ANC_TCP && !sure)
		return false; /* nothing falls back without a record */
	if (behind_stall(e)) {
		st = ANC_DRAINING;
		sure = true;
	} else if (st == ANC_RESTORING) {
		sure = !e->ar.unsure;
		if (e->ar.unsure && !remote_sure(&e->r))
			keep_early(e);
	}
	memset(&e->in, 0, sizeof(e->in));
	e->in.marker = marker_of(other(e));
	e->in.secret = secret[other(e) - w.end];
	e->in.marker_got = MARKER;
	e->in.from = e->ar.from;
	if (e->marker_wait)
		e->in.marker_got = (uint8_t)(e->ar.kicks - e->marker_at);
	if (st == ANC_DRAINING)
		e->in.kicks = (uint64_t)anc_kicks(e->rx, &e->ar);
	resume_begin(&e->in, st, e->marker_wait, sure);
	if (!world_rule(RULE_HIDDEN) && st == ANC_DRAINING && sure)
		e->in.phase = RESUME_PLAIN;
	return true;
}

void break_known(struct end *e)
{
	if (e->broke)
		return;
	e->broke = true;
	e->r.peer->ready = 0;
	begin_tx(e);
	if (!begin_rx(e))
		w.lost = true;
}

static void stash(struct end *e, uint8_t byte, uint32_t off)
{
	e->stash[e->stash_n++] = (struct item){ .off = off, .byte = byte };
}

/*
 * As marker_count(): what is neither marker nor kick is for parse() to judge.
 */
void take_control(struct end *e, uint64_t n)
{
	struct pipe *p = inlet(e);
	uint64_t k;

	for (; n && p->got != p->arrived; n--, p->got++) {
		struct item *i = &p->q[p->got % QUEUE];
		uint8_t due = e->marker_wait ?
				      marker_of(other(
					      e))[e->ar.kicks - e->marker_at] :
				      0;

		if (!e->broke && i->byte == due) {
			e->ar.kicks++;
			e->marker_wait = e->marker_wait &&
					 e->ar.kicks < e->marker_at + MARKER;
			continue;
		}
		if (!e->broke && e->marker_wait) {
			for (k = 0; k < e->ar.kicks - e->marker_at; k++)
				stash(e, marker_of(other(e))[k], KICK);
			e->ar.kicks = e->marker_at;
		}
		stash(e, i->byte, i->off);
		break_known(e);
	}
	remote_kicks_ahead(&e->r);
}

static size_t glance(const struct end *e, uint8_t *buf)
{
	const struct pipe *p = inlet(e);
	size_t n = 0, i;

	for (; n < e->stash_n; n++)
		buf[n] = e->stash[n].byte;
	for (i = p->got; i != p->arrived && n < GLANCE; i++)
		buf[n++] = p->q[i % QUEUE].byte;
	return n;
}

/* What the program has already, or never gets. */
static void swallow(struct end *e, size_t n)
{
	uint64_t has = e->ar.taken + e->ring_n + e->given_n;
	struct pipe *p = inlet(e);

	for (; n; n--) {
		struct item i;

		if (e->stash_n) {
			i = e->stash[0];
			memmove(e->stash, e->stash + 1,
				--e->stash_n * sizeof(i));
		} else {
			i = p->q[p->got++ % QUEUE];
		}
		if (i.off != KICK && i.off >= has)
			world_fault("news were thrown away");
	}
}

/* 1: the stream follows; 0: not yet; negative. */
static int parse(struct end *e)
{
	uint8_t buf[GLANCE + STASH];
	size_t n, eat;
	int ret;

	if (e->in.phase == RESUME_PLAIN)
		return 1;
	if (!resume_turn(&e->in, e->rx, &e->ar))
		return 0;
	do {
		n = glance(e, buf);
		if (!n)
			return 0;
		world_poll(e);
		ret = resume_look(&e->in, buf, n,
				  e->ar.taken + e->ring_n + e->given_n, &eat);
		swallow(e, eat);
		if (e->marker_wait && e->in.marker_got == MARKER) {
			e->marker_wait = false;
			e->ar.kicks = e->marker_at + MARKER;
			remote_kicks_ahead(&e->r);
		}
	} while (!ret && eat);
	return ret;
}

static void settle(struct end *e)
{
	enum anc_state st = anc_state(e->rx);
	bool stalled = behind_stall(e) && !e->ar.kept &&
		       anc_kicks(e->rx, &e->ar) > 0;
	uint32_t i;

	/* what was not shown is gone with the end */
	if (e->in.back || e->marker_wait)
		e->ring_n = 0;
	e->marker_wait = false;
	for (i = 0; i < e->stash_n; i++) {
		if (e->stash[i].off == KICK)
			world_fault("control bytes left for the program");
		e->ring[e->ring_n++] = e->stash[i].off;
	}
	if (e->stash_n && (st == ANC_DRAINING || st == ANC_TCP))
		world_fault("bytes taken ahead where none can be");
	e->stash_n = 0;
	for (i = 0; i < e->ar.kept; i++)
		e->ring[e->ring_n++] = e->kept[i];
	e->ar.kept = 0;
	for (i = 0; i < e->given_n && !e->in.given; i++)
		e->ring[e->ring_n++] = e->given[i];
	e->given_n = e->given_at = 0;
	e->ar.unsure = false;
	if (stalled) {
		e->rx->state = ANC_DRAINING;
	} else if (st == ANC_RESTORING && !e->ring_n) {
		anc_resumed(e->rx);
	} else if (st == ANC_SWITCHING || st == ANC_LIFTED ||
		   st == ANC_RECALLED || st == ANC_PAUSED ||
		   st == ANC_RESTORING) {
		if (e->in.back)
			e->ar.kicks = e->marker_at;
		e->rx->kicks = e->ar.kicks;
		if (st == ANC_RESTORING)
			e->rx->x = e->ar.taken;
		e->rx->y = e->ar.taken + e->ring_n;
		e->rx->state = e->ring_n ? ANC_DRAINING : ANC_TCP;
	} else if (st == ANC_DRAINING && e->in.marker_got == MARKER &&
		   !e->in.kicks) {
		e->ar.kicks = e->rx->kicks;
	}
	e->mended = true;
}

/* --- what came back ---------------------------------------------------- */

void put_record(struct end *e, uint64_t from)
{
	struct pipe *p = &w.anchor[e - w.end];
	uint8_t rec[RESUME_RECORD];
	int i;

	if (p->fin)
		world_fault("a record follows the FIN");
	resume_give(rec, secret[e - w.end], from);
	for (i = 0; i < RESUME_RECORD; i++)
		p->q[p->put++ % QUEUE] =
			(struct item){ .off = KICK, .byte = rec[i] };
}

int take_record(struct end *e)
{
	uint8_t buf[GLANCE + STASH];
	size_t n = glance(e, buf);
	int ret;

	if (!n)
		return 0;
	ret = resume_given(secret[other(e) - w.end], buf, n, e->ar.from);
	if (ret == 1)
		inlet(e)->got += RESUME_RECORD;
	return ret;
}

/* --- steps ------------------------------------------------------------- */

/* The record says it to an end that hears nothing else: rdma_called(). */
static bool called(struct end *e)
{
	struct resume in = { .marker = marker_of(other(e)),
			     .secret = secret[other(e) - w.end],
			     .marker_got = MARKER };
	uint8_t buf[GLANCE + STASH];

	if (anc_state(e->rx) == ANC_TCP || e->in_tcp || e->ar.kept ||
	    (e->ar.taken < e->rx->x && anc_state(e->rx) != ANC_RESTORING))
		return false;
	if (e->marker_wait)
		in.marker_got = (uint8_t)(e->ar.kicks - e->marker_at);
	resume_begin(&in, ANC_LIFTED, e->marker_wait, false);
	return resume_called(&in, buf, glance(e, buf));
}

/*
 * As rdma_serve.c: for the other end, which may have heard of the break. One
 * that wrote, and is not told that it was heard, or asked for what it has lent,
 * gives up after a while (zc_seize()).
 */
static bool waits(const struct end *e)
{
	enum anc_state tx = anc_state(e->tx), rx = anc_state(e->rx);

	if (e->wrote || (e->lent && e->recalled))
		return true;
	if (!world_rule(RULE_TRY))
		return false;
	return e->ar.unsure || rx == ANC_RECALLED || rx == ANC_PAUSED ||
	       (tx >= ANC_RECALLED && tx <= ANC_RESTORING) ||
	       (tx != ANC_TCP &&
		(e->ahead || e->tx->tcp_rx || !remote_seen(&e->r)));
}

static bool home_again(const struct end *e)
{
	return e->mended && !e->out_n && anc_state(e->tx) == ANC_TCP &&
	       anc_state(e->rx) == ANC_TCP && !e->ring_n && !e->falling_back &&
	       !e->pinned && !e->tcp;
}

/* Both are on TCP: paired anew, as rdma_up() does it. */
static void again(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		struct end *e = &w.end[i];

		memset(&e->r, 0, sizeof(e->r));
		e->tx->epoch = e->rx->epoch = 0;
		e->tx->wait = e->rx->wait = 0;
		e->at.kicks = e->ar.kicks = e->tx->kicks = e->rx->kicks = 0;
		e->ar.unsure = e->marker_wait = e->marker_due = e->ahead =
			false;
		e->broke = e->mended = false;
		e->source = e->unreported = 0;
		e->recalled = false;
		sink_forget(e);
		e->confirmed = true;
		remote_init(&e->r, &e->mirror, &e->at, &e->ar);
		e->r.own->ready = 1;
		memset(&w.qp[i], 0, sizeof(w.qp[i]));
		w.qp[i].dead = UINT32_MAX;
	}
	w.severed = false;
	w.again++;
}

void break_sink(struct end *e)
{
	sever();
	break_known(e);
	w.sinks_up++;
}

void break_step(struct end *e)
{
	int ret;

	if (!w.severed) {
		if (!rnd(w.longer ? 1500 : 150))
			sever();
		/* the recall is not answered: the writer gives it up itself */
		if (!w.severed && e->recalled && e->lent && !rnd(60)) {
			sever();
			break_known(e);
			w.given_up++;
		}
		return;
	}
	if (!e->broke) {
		struct pipe *p = &w.qp[e - w.end];

		/* one that waits for a word tries the queue pair */
		if (called(e) ||
		    ((!e->deaf || p->put > p->dead || waits(e)) && !rnd(6)))
			break_known(e);
		return;
	}
	flush(e);
	if (!e->mended) {
		world_poll(e);
		ret = parse(e);
		if (ret < 0)
			world_fault("a sound peer's record was refused");
		if (ret == 1)
			settle(e);
	}
	if (home_again(&w.end[0]) && home_again(&w.end[1]) && !rnd(4))
		again();
}
