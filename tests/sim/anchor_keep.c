/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The library: what R takes off the anchor before its turn (keep.c), and what
 * W puts back from there and from its ring.
 */

#define SIM_ATOMS
#include "anchor_home.h"

static void only_stream(const struct sim_item *it, int n)
{
	int i;

	for (i = 0; i < n; i++)
		if (it[i].kick)
			sim_fault("kick kept as a stream byte");
}

bool keep_pull(struct sim_end *e)
{
	uint64_t n;
	int got;

	for (;;) {
		uint32_t end = e->kept_at + (uint32_t)e->ar.kept;

		switch (anc_keep(e->rx, &e->ar, &n)) {
		case ANC_AT_ANCHOR:
			return true;
		case ANC_AT_KICKS:
			if (home_kicks(e, n))
				return false;
			continue;
		case ANC_AT_QUEUE:
			break;
		default:
			sim_fault("anc_keep refuses");
			return false;
		}
		if (anc_state(e->rx) == ANC_RECALLED && !sim_on(RULE_KEEP))
			return false;
		if (__atomic_load_n(&e->rx->tcp_rx, __ATOMIC_SEQ_CST))
			return false;
		if (n > SIM_KEEP - end)
			n = SIM_KEEP - end;
		got = k_recv(e, e->keep + end, (uint32_t)n,
			     K_DONTWAIT | K_KEEP);
		if (got <= 0)
			return false;
		only_stream(e->keep + end, got);
		e->ar.kept += (uint64_t)got;
		sim.kept += (uint64_t)got;
	}
}

void keep_drop(struct sim_end *e)
{
	e->ar.kept = 0;
	e->kept_at = 0;
}

int keep_take(struct sim_end *e, struct sim_item *to, uint32_t n, bool peek)
{
	uint32_t i;

	if (n > e->ar.kept)
		n = (uint32_t)e->ar.kept;
	for (i = 0; i < n; i++)
		to[i] = e->keep[e->kept_at + i];
	if (peek)
		return (int)n;
	k_leaves(e, to, n);
	e->kept_at += n;
	e->ar.kept -= n;
	lib_taken(e, n);
	return (int)n;
}

int keep_queue(struct sim_end *e, struct sim_item *to, uint32_t n, uint64_t lim,
	       bool peek)
{
	int got;

	if (n > lim && (e->ar.kept || sim_on(RULE_BOUND)))
		n = (uint32_t)lim;
	if (e->ar.kept)
		return keep_take(e, to, n, peek);
	/* a thread inside takes these bytes, and a kick may follow them */
	if (__atomic_load_n(&e->rx->tcp_rx, __ATOMIC_SEQ_CST))
		return -EAGAIN;
	got = k_recv(e, to, n, K_DONTWAIT | (peek ? K_PEEK : 0));
	if (got <= 0)
		return got;
	only_stream(to, got);
	if (peek)
		return got;
	lib_taken(e, (uint32_t)got);
	/* x is passed: others may still be inside */
	if ((uint64_t)got == lim && anc_passed(e->rx, &e->ar))
		home_passed(e, e->rx);
	return got;
}

/* What of all this did not come by the anchor? */
int keep_salvage(struct sim_end *e, struct sim_item *to, uint32_t n, bool peek)
{
	struct sim_ring *r = &sim.ring[!e->id];

	while (e->ar.kept && e->keep[e->kept_at].off < e->ar.taken) {
		e->kept_at++;
		e->ar.kept--;
	}
	while (e->front != e->parsed) {
		struct sim_msg *m = &r->m[e->front % r->depth];
		uint64_t at = m->off + e->front_at;

		if (e->front_at == m->len) {
			e->front++;
			e->front_at = 0;
		} else if (at < e->ar.taken) {
			e->front_at++;
			e->rx_avail--;
		} else {
			break;
		}
	}
	/* in front of the ring, behind it, or not at all */
	if (e->ar.kept && e->keep[e->kept_at].off == e->ar.taken) {
		uint32_t run = 1;

		while (run < e->ar.kept &&
		       e->keep[e->kept_at + run].off == e->ar.taken + run)
			run++;
		return keep_take(e, to, n < run ? n : run, peek);
	}
	return (int)lib_pop(e, to, n, peek);
}

/* --- writer's part ----------------------------------------------------- */

/* As many bytes as can go, and where they are is where they should be. */
static uint32_t next_piece(struct sim_end *e)
{
	const struct sim_end *r = sim_peer(e);
	uint64_t at, n;
	uint32_t i;

	if (!anc_in_keep(&e->at, e->resume_from, e->resume_at, &at, &n))
		return (uint32_t)n;
	for (i = 0; i < n; i++)
		if (r->keep[e->resume_kept + at + i].off != e->resume_at + i)
			sim_fault("another byte in the keep area");
	sim.back += n;
	return (uint32_t)n;
}

static bool write_back(struct sim_end *e)
{
	while (e->resume_at < e->at.sent) {
		int n = k_send(e, (uint32_t)e->resume_at, next_piece(e),
			       K_DONTWAIT);

		if (n == -EAGAIN)
			return false;
		if (n < 0)
			return true;
		e->resume_at += (uint64_t)n;
	}
	return true;
}

void keep_put_back(struct sim_end *e)
{
	if (!e->resume_at) {
		if (anc_resume_from(e->tx, &e->at, SIM_KEEP, &e->resume_from,
				    &e->resume_kept)) {
			sim_fault("RESTORING from nowhere");
			return;
		}
		e->resume_at = e->resume_from;
	}
	if (!write_back(e)) {
		__atomic_store_n(&e->tx->brim, 1, __ATOMIC_SEQ_CST);
		return;
	}
	anc_resumed(e->tx);
	lib_note(e);
	sim.resumes++;
}
