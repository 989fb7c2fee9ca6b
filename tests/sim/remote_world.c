/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "remote_world.h"

#include <errno.h>
#include <string.h>

struct world w;

uint32_t rnd(uint32_t n)
{
	w.rnd ^= w.rnd << 13;
	w.rnd ^= w.rnd >> 7;
	w.rnd ^= w.rnd << 17;
	return (uint32_t)(w.rnd >> 33) % n;
}

bool world_rule(enum rule r)
{
	return !(w.without & (1u << r));
}

void world_fault(const char *what)
{
	if (!w.fault)
		w.fault = what;
}

static uint32_t id(const struct end *e)
{
	return (uint32_t)(e - w.end);
}

/* --- channels ---------------------------------------------------------- */

bool world_full(const struct pipe *p, uint32_t n)
{
	return p->put - p->got + n > QUEUE - 8;
}

void world_put(struct pipe *p, uint32_t off)
{
	if (p->fin)
		world_fault("something follows the FIN");
	p->q[p->put++ % QUEUE] =
		(struct item){ .off = off,
			       .byte = off == KICK ? 0 : byte_of(off) };
}

struct item *world_next(struct pipe *p)
{
	return p->got == p->arrived ? NULL : &p->q[p->got % QUEUE];
}

void world_tell(struct end *e)
{
	struct pipe *p = &w.qp[id(e)];
	enum remote_half h;

	if (e->broke || end_silent(e))
		return;
	for (h = 0; h < REMOTE_HALVES; h++) {
		struct item *i = &p->q[p->put % QUEUE];

		if (world_full(p, 1) || !remote_make(&e->r, h, !rnd(4), i->w))
			continue;
		i->kind = ITEM_PLAIN;
		i->words = true;
		p->put++;
	}
}

/* --- the writer -------------------------------------------------------- */

static void marker_begin(struct end *e)
{
	e->at.kicks += MARKER;
	e->marker_due = true;
	e->ahead = false;
}

static void put_marker_bytes(struct end *e)
{
	struct pipe *p = &w.anchor[id(e)];
	int i;

	if (p->fin)
		world_fault("a marker follows the FIN");
	for (i = 0; i < MARKER; i++)
		p->q[p->put++ % QUEUE] =
			(struct item){ .off = KICK, .byte = marker_of(e)[i] };
}

static void put_marker(struct end *e)
{
	if (e->broke || world_full(&w.anchor[id(e)], MARKER))
		return;
	if (e->ahead &&
	    (anc_state(e->tx) == ANC_SWITCHING ||
	     anc_state(e->tx) == ANC_RECALLED) &&
	    (anc_risen(e->tx, &e->at) || (!world_rule(RULE_PASSED) && !rnd(4))))
		marker_begin(e);
	if (!e->marker_due || (world_rule(RULE_SEEN) && !remote_seen(&e->r)) ||
	    (anc_state(e->tx) != ANC_LIFTED &&
	     anc_state(e->tx) != ANC_RECALLED &&
	     (world_rule(RULE_PASSED) || anc_state(e->tx) != ANC_SWITCHING)))
		return;
	put_marker_bytes(e);
	e->marker_due = false;
	e->confirmed = true;
}

static void lift(struct end *e)
{
	uint64_t taken = e->tx->taken;
	bool ahead = e->runs_ahead && !rnd(4);
	int ret;

	if (e->shut || e->held)
		return;
	if (!world_rule(RULE_DRAINED))
		e->tx->taken = e->at.sent;
	ret = anc_switch(e->tx, &e->at, ahead);
	e->tx->taken = taken;
	if (ret == -EAGAIN || ret == 1)
		e->tx->wait = 1;
	if (ret < 0)
		return;
	if (!ret)
		marker_begin(e);
	e->confirmed = !world_rule(RULE_KEPT);
	w.lifts++;
	e->ahead = ret;
	w.aheads += (uint64_t)ret;
	world_tell(e);
}

/* May the anchor carry stream bytes again, or an answer be given? */
static bool clear(struct end *e)
{
	if (world_rule(RULE_EXACT) && e->marker_due)
		return false;
	return !world_rule(RULE_TCP_RX) ||
	       (remote_seen(&e->r) && !e->tx->tcp_rx);
}

/*
 * What was sent by SDP since is not shown before the marker: it goes out
 * before the answer. Where nothing was sent the anchor has the whole stream.
 */
bool world_shown(struct end *e)
{
	if (!world_rule(RULE_SHOWN) || !e->ahead || e->at.sent == e->at.x)
		return true;
	if (world_full(&w.anchor[id(e)], MARKER))
		return false;
	marker_begin(e);
	put_marker_bytes(e);
	e->marker_due = false;
	e->confirmed = true; /* with the marker there is no way back to x */
	return true;
}

static void serve(struct end *e)
{
	switch (anc_state(e->tx)) {
	case ANC_RECALLED:
		if (source_back(e) && clear(e) && world_shown(e))
			anc_answer(e->tx, &e->at);
		break;
	case ANC_RESTORING:
		world_put_back(e);
		break;
	default:
		break;
	}
}

uint32_t world_due(const struct end *e)
{
	const struct end *other = &w.end[!id(e)];
	uint32_t turns;

	if (!e->turn)
		return e->total;
	turns = e->expect / other->turn + !id(e);
	return turns * e->turn < e->total ? turns * e->turn : e->total;
}

static void write_some(struct end *e)
{
	uint32_t n = 1 + rnd(4), most = world_due(e);
	struct pipe *p;

	if (e->lent && (rnd(8) || source_back(e)))
		return; /* inside that send */
	if (e->lent || (anc_state(e->tx) == ANC_LIFTED && !w.ends &&
			((rnd(4) && sink_write(e)) || source_begin(e))))
		return;

	if (e->holds && !w.severed && anc_state(e->tx) == ANC_TCP &&
	    e->at.sent && e->at.sent > e->tx->taken && !e->r.reader_busy)
		return;
	if (e->at.sent + n > most)
		n = (uint32_t)(most - e->at.sent);
	/* see resume.h */
	if (anc_state(e->tx) == ANC_DRAINING && !remote_seen(&e->r) &&
	    world_rule(RULE_STAND))
		return;
	switch (anc_state(e->tx)) {
	case ANC_TCP:
	case ANC_DRAINING:
	case ANC_GONE:
		p = &w.anchor[id(e)];
		break;
	case ANC_SWITCHING:
	case ANC_LIFTED:
		p = &w.qp[id(e)];
		world_tell(e);
		break;
	default:
		return;
	}
	for (; n && !world_full(p, 1); n--) {
		if (p == &w.qp[id(e)])
			sink_spent(e);
		world_put(p, (uint32_t)e->at.sent);
		anc_sent(e->tx, &e->at, 1);
	}
}

static void ring_kick(struct end *e)
{
	if (!(anc_ring(e->tx) & ANC_ANCHOR) || e->marker_due ||
	    anc_state(e->tx) != ANC_LIFTED || !remote_seen(&e->r) ||
	    world_full(&w.anchor[id(e)], 1))
		return;
	world_put(&w.anchor[id(e)], KICK);
	anc_kick(e->tx, &e->at);
}

/* The reader has not passed x: the marker goes in front of what follows. */
static void spill_early(struct end *e)
{
	if (world_full(&w.anchor[id(e)], MARKER) || !clear(e))
		return;
	put_marker_bytes(e);
	e->at.kicks += MARKER;
	e->ahead = false;
	if (anc_stall(e->tx, &e->at, !world_rule(RULE_TCP_RX)))
		world_fault("no stall after the marker");
	w.early++;
}

static void stall(struct end *e)
{
	if (e->broke || !source_back(e))
		return;
	if (anc_state(e->tx) == ANC_SWITCHING)
		spill_early(e);
	else if (anc_state(e->tx) == ANC_LIFTED && clear(e) && !e->marker_due &&
		 !anc_stall(e->tx, &e->at, !world_rule(RULE_TCP_RX)))
		w.stalls++;
}

/* --- the reader -------------------------------------------------------- */

void world_deliver(struct end *e, uint32_t off)
{
	if (off == KICK)
		world_fault("a control byte reached the program");
	else if (off != e->expect)
		world_fault("bytes out of order");
	e->expect = off + 1;
}

void world_sink(struct end *e, uint64_t n)
{
	struct item *i;

	/* while it is broken these are parse()'s */
	if (e->broke && !e->mended && world_rule(RULE_JUDGE))
		return;
	for (; n && (i = world_next(&w.anchor[!id(e)])); n--) {
		if (i->off != KICK)
			world_fault("stream byte taken for a kick");
		w.anchor[!id(e)].got++;
		e->ar.kicks++;
	}
}

/* A receive in the kernel that began in TCP comes out. */
static void tcp_out(struct end *e)
{
	uint32_t n = 1 + rnd(6);
	struct pipe *p = &w.anchor[!id(e)];
	struct item *i = world_next(p);

	if (!i && (!p->fin || p->arrived != p->put))
		return;
	if (!anc_tcp_stream(e->rx, &e->ar)) {
		take_control(e, n);
	} else {
		for (; n && (i = world_next(&w.anchor[!id(e)])); n--) {
			world_deliver(e, i->off);
			w.anchor[!id(e)].got++;
			anc_taken(e->rx, &e->ar, 1);
		}
	}
	anc_tcp_leave(e->rx);
	e->in_tcp = false;
}

static void from_ring(struct end *e, uint64_t most)
{
	uint64_t n = most < e->ring_n ? most : e->ring_n;

	/* the marker lies in front of all else, in whatever state it comes */
	if (e->marker_wait && !e->broke && !e->in_tcp)
		take_control(e, e->marker_at + MARKER - e->ar.kicks);
	if (e->marker_wait)
		return;
	if (!e->ring_n)
		source_read(e, most);
	for (; n; n--) {
		world_deliver(e, e->ring[0]);
		memmove(e->ring, e->ring + 1, --e->ring_n * sizeof(uint32_t));
		anc_taken(e->rx, &e->ar, 1);
		if (anc_state(e->rx) != ANC_TCP)
			e->rx->wait = 0;
	}
}

/* In front of x, or behind y: not one byte more than there are. */
static void exactly(struct end *e, uint64_t n)
{
	struct item *i;
	uint32_t most = 1 + rnd(6);

	for (; n && most && e->ar.kept; n--, most--) {
		world_deliver(e, e->kept[0]);
		memmove(e->kept, e->kept + 1, --e->ar.kept * sizeof(uint32_t));
		anc_taken(e->rx, &e->ar, 1);
	}
	for (; n && !e->ar.kept && most && !e->in_tcp &&
	       (i = world_next(&w.anchor[!id(e)]));
	     n--, most--) {
		world_deliver(e, i->off);
		w.anchor[!id(e)].got++;
		anc_taken(e->rx, &e->ar, 1);
	}
}

void world_read_some(struct end *e)
{
	uint64_t n;

	if (e->in_tcp) {
		tcp_out(e);
		return;
	}
	switch (anc_where(e->rx, &e->ar, &n)) {
	case ANC_AT_ANCHOR:
		if (!e->tcp && anc_tcp_enter(e->rx, &e->ar))
			e->in_tcp = true;
		break;
	case ANC_AT_RING:
		from_ring(e, n < 4 ? n : 1 + rnd(4));
		if (anc_state(e->rx) == ANC_LIFTED && !e->marker_wait &&
		    !e->in_tcp && anc_kicks(e->rx, &e->ar) > 0)
			world_sink(e, (uint64_t)anc_kicks(e->rx, &e->ar));
		break;
	case ANC_AT_KICKS:
		if (e->marker_wait && !e->broke && !e->in_tcp)
			take_control(e, e->marker_at + MARKER - e->ar.kicks);
		else if (!e->in_tcp && !e->marker_wait && !e->ar.unsure)
			world_sink(e, n);
		break;
	case ANC_AT_QUEUE:
		exactly(e, n);
		break;
	default:
		world_fault("where?");
	}
}

/* Code the library does not see reads the descriptor. */
static void foreign(struct end *e)
{
	if (!e->tcp || !world_next(&w.anchor[!id(e)]))
		return;
	world_deliver(e, world_next(&w.anchor[!id(e)])->off);
	w.anchor[!id(e)].got++;
	e->ar.taken++; /* for the world's sake */
}

/* --- steps ------------------------------------------------------------- */

static void poll_qp(struct end *e)
{
	struct item *i = world_next(&w.qp[!id(e)]);
	enum anc_state was = anc_state(e->rx);
	int news;

	if (!i || e->mended || sink_waits(e, i))
		return;
	w.qp[!id(e)].got++;
	if (i->kind == ITEM_DISCONN) {
		e->dis_rcvd = true;
		return;
	}
	if (i->kind == ITEM_GIVEN) {
		if (!e->broke)
			world_came_back(e, i->off);
		return;
	}
	if (i->kind) {
		source_item(e, i);
		return;
	}
	if (!i->words) {
		/* of a lift it never knew of: the anchor brings it again */
		if (e->broke && anc_state(e->rx) == ANC_RESTORING)
			return;
		if (!e->broke)
			sink_takes(e);
		e->ring[e->ring_n++] = i->off;
		return;
	}
	if (e->broke || (end_silent(e) && world_rule(RULE_DEAF)))
		return; /* too late */
	news = remote_take(&e->r, i->w);
	if (news < 0) {
		world_fault("a sound peer's snapshot was refused");
		return;
	}
	if (news & REMOTE_VOID)
		e->pinned = false;
	if (was == ANC_RECALLED && (anc_state(e->rx) == ANC_DRAINING ||
				    anc_state(e->rx) == ANC_LIFTED))
		w.ties++;
	if ((was == ANC_TCP || was == ANC_RESTORING) &&
	    (anc_state(e->rx) == ANC_SWITCHING ||
	     anc_state(e->rx) == ANC_LIFTED ||
	     anc_state(e->rx) == ANC_DRAINING)) {
		e->marker_at = e->ar.kicks;
		e->marker_wait = true;
	}
	if (remote_seen(&e->r) && !e->ahead &&
	    (anc_state(e->tx) == ANC_LIFTED ||
	     anc_state(e->tx) == ANC_RECALLED))
		e->confirmed = true; /* as failover_seen() */
	if (!world_rule(RULE_UNSURE))
		e->ar.unsure = false;
	if (!world_rule(RULE_BOUNDED))
		e->rx->closing = 0;
}

void world_poll(struct end *e)
{
	while (!e->mended && world_next(&w.qp[!id(e)]))
		poll_qp(e);
}

static void arrive(struct pipe *p)
{
	uint32_t end = p->put < p->dead ? p->put : p->dead;
	uint32_t most = end - p->arrived;

	if (p->arrived < end)
		p->arrived += 1 + rnd(most < w.gust ? most : w.gust);
}

static void step(struct end *e, bool calm)
{
	struct anc_dir *tx = e->tx;

	if (w.may_break)
		break_step(e);
	if (e->ends)
		end_step(e);
	switch (rnd(14)) {
	case 0:
	case 1:
		world_tell(e);
		break;
	case 2:
	case 3:
		poll_qp(e);
		break;
	case 4:
		arrive(&w.qp[id(e)]);
		break;
	case 5:
		arrive(&w.anchor[id(e)]);
		break;
	case 6:
		if (!rnd(4))
			put_marker(e);
		ring_kick(e);
		serve(e);
		break;
	case 7:
		if (e->at.sent < world_due(e))
			write_some(e);
		break;
	case 8:
		if (e->r.peer->ready && anc_state(tx) == ANC_TCP &&
		    (e->turn || e->at.sent < e->total))
			lift(e);
		break;
	case 9:
		if (!calm && !rnd(3))
			stall(e);
		break;
	case 10:
		if (!calm && !rnd(8))
			anc_arm(e->rx, ANC_ANCHOR);
		break;
	case 11:
		if (e->home_at <= e->ar.taken && !e->tcp &&
		    (!w.ends || !rnd(10)) && (!calm || !e->turn))
			e->falling_back = true;
		if (e->falling_back)
			world_come_home(e);
		else
			foreign(e);
		break;
	default:
		if (!rnd(2) && !w.ends && (!calm || !e->turn))
			sink_offer(e);
		if (e->sink && !rnd(40) && sink_back(e))
			break_sink(e);
		/*
		 * what it does not read before it wants to fall back is unread
		 * then
		 */
		if (!e->tcp &&
		    (e->in_tcp || !w.ends || e->home_at > e->ar.taken))
			world_read_some(e);
	}
}

const char *play(uint64_t seed, uint32_t without, unsigned int kind)
{
	uint32_t turns;
	int i, k, steps;

	memset(&w, 0, sizeof(w));
	w.rnd = seed * 0x9e3779b97f4a7c15ull + 1;
	w.without = without;
	w.may_break = kind & PLAY_BREAKS;
	w.longer = kind & PLAY_LONG;
	w.ends = kind & PLAY_ENDS;
	steps = w.longer || w.ends || (kind & PLAY_TURNS) ? STEPS_LONG : STEPS;
	rnd(2);
	turns = kind & PLAY_TURNS ? 1 + rnd(8) : 0;
	w.gust = w.longer && rnd(2) ? 1 + rnd(8) : QUEUE;
	for (i = 0; i < 2; i++) {
		struct end *e = &w.end[i];

		remote_init(&e->r, &e->mirror, &e->at, &e->ar);
		e->tx = e->r.tx;
		e->rx = e->r.rx;
		e->r.own->ready = 1;
		e->total = 1 + rnd(w.longer ? 400 : 80);
		e->holds = rnd(4);
		e->runs_ahead = rnd(2);
		e->home_at = rnd(3) ? UINT32_MAX : rnd(w.longer ? 300 : 40);
		if (w.ends) {
			e->ends = rnd(8);
			e->home_at = rnd(4) ? rnd(80) : UINT32_MAX;
		}
		if (kind & PLAY_TURNS) {
			e->turn = 1 + rnd(12);
			e->total = e->turn * turns;
		}
		e->confirmed = true;
		w.qp[i].dead = w.anchor[i].dead = UINT32_MAX;
	}
	for (k = 0; k < steps && !w.fault && !w.lost; k++) {
		bool done = true;

		step(&w.end[rnd(2)],
		     k > steps / 2 || (w.end[0].turn && w.severed));
		if (w.ends)
			done = end_done();
		for (i = 0; i < 2; i++)
			done = done && w.end[i].expect == w.end[!i].total;
		if (done)
			return w.fault;
	}
	if (!w.fault && !w.lost)
		world_fault("bytes did not arrive");
	return w.fault;
}
