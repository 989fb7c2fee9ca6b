/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel of the simulated world. A sleeper comes out only if what woke it
 * is still there when it gets to run, as in Linux.
 */

#include <string.h>

#include "anchor_world.h"

static struct sim_pipe *in(const struct sim_end *e)
{
	return &sim.pipe[!e->id];
}

static struct sim_pipe *out(const struct sim_end *e)
{
	return &sim.pipe[e->id];
}

/* --- TCP --------------------------------------------------------------- */

bool k_readable(const struct sim_end *e)
{
	const struct sim_pipe *p = in(e);

	return p->n || p->fin || p->rst;
}

static bool readable(struct sim_thread *t)
{
	return k_readable(t->e);
}

static bool writable(struct sim_thread *t)
{
	return out(t->e)->gone || out(t->e)->n < out(t->e)->cap;
}

/* Stream bytes leave the kernel: in order, each once. */
void k_leaves(struct sim_end *e, const struct sim_item *it, uint32_t n)
{
	struct sim_truth *d = &sim.truth[!e->id];
	uint32_t i;

	for (i = 0; i < n; i++) {
		if (it[i].kick)
			continue;
		if (it[i].off != d->expect)
			sim_fault(it[i].off < d->expect ? "byte repeated" :
							  "bytes reordered");
		d->expect++;
	}
}

int k_recv(struct sim_end *e, struct sim_item *to, uint32_t n, int flags)
{
	struct sim_pipe *p = in(e);

	sim_step();
	while (!k_readable(e)) {
		if (flags & K_DONTWAIT)
			return -EAGAIN;
		sim_block(readable, SIM_NEVER, SLEEP_DATA);
	}
	if (!p->n) {
		if (!p->rst)
			return 0;
		if (!(flags & K_PEEK)) {
			p->rst = false;
			p->fin = true;
		}
		return -ECONNRESET;
	}
	if (n > p->n)
		n = p->n;
	memcpy(to, p->q, n * sizeof(*to));
	if (flags & K_PEEK)
		return (int)n;
	p->n -= n;
	p->drawn += n;
	memmove(p->q, p->q + n, p->n * sizeof(*to));
	if (!(flags & K_KEEP))
		k_leaves(e, to, n);
	return (int)n;
}

static uint32_t put(struct sim_end *e, uint32_t off, uint32_t n, bool kick)
{
	struct sim_pipe *p = out(e);
	uint32_t i;

	if (n > p->cap - p->n)
		n = p->cap - p->n;
	if (n > 1 && !sim_rand(4))
		n = 1 + sim_rand(n);
	for (i = 0; i < n; i++) {
		p->q[p->n].off = off + i;
		p->q[p->n++].kick = kick;
	}
	return n;
}

int k_send(struct sim_end *e, uint32_t off, uint32_t n, int flags)
{
	struct sim_pipe *p = out(e);

	sim_step();
	for (;;) {
		if (p->gone || p->shut)
			return -EPIPE;
		if (p->n < p->cap)
			return (int)put(e, off, n, false);
		if (flags & K_DONTWAIT)
			return -EAGAIN;
		sim_block(writable, SIM_NEVER, SLEEP_ROOM);
	}
}

int k_stream(struct sim_end *e, uint32_t n, int flags)
{
	struct sim_truth *d = &sim.truth[e->id];
	struct sim_pipe *p = out(e);

	/* offsets are given out where the bytes enter: two threads may ask */
	sim_step();
	for (;;) {
		if (p->gone || p->shut)
			return -EPIPE;
		if (p->n < p->cap) {
			n = put(e, d->wrote, n, false);
			d->wrote += n;
			return (int)n;
		}
		if (flags & K_DONTWAIT)
			return -EAGAIN;
		sim_block(writable, SIM_NEVER, SLEEP_ROOM);
	}
}

int k_kick(struct sim_end *e)
{
	struct sim_pipe *p = out(e);

	sim_step();
	if (p->gone || p->shut)
		return -EPIPE;
	if (p->n >= p->cap)
		return -EAGAIN;
	return (int)put(e, 0, 1, true);
}

void k_shutdown(struct sim_end *e)
{
	sim_step();
	out(e)->fin = out(e)->shut = true;
}

/* close(), or the death of the process: the anchor and the wake-up socket. */
void k_close(struct sim_end *e)
{
	sim_step();
	if (e->closed)
		return;
	e->closed = true;
	if (in(e)->n && !out(e)->fin)
		out(e)->rst = true;
	else
		out(e)->fin = true;
	out(e)->shut = true;
	in(e)->gone = true;
	in(e)->n = 0;
	sim_step();
	sim_peer(e)->hup = true;
}

/* --- wake-up sockets --------------------------------------------------- */

bool k_wake_send(struct sim_end *e)
{
	struct sim_end *to = sim_peer(e);

	sim_step();
	if (to->wake >= sim.plan.wake_cap || to->closed)
		return false;
	to->wake++;
	return true;
}

int k_wake_eat(struct sim_end *e, uint32_t n)
{
	sim_step();
	if (!e->wake)
		return e->hup ? 0 : -EAGAIN;
	if (n > e->wake)
		n = e->wake;
	e->wake -= n;
	return (int)n;
}

static bool rung(struct sim_thread *t)
{
	return t->e->wake || t->e->hup;
}

int k_wake_sleep(struct sim_end *e, uint64_t deadline, enum sim_sleep why)
{
	sim_step();
	if (!e->wake && !e->hup && sim_block(rung, deadline, why) && !e->wake &&
	    !e->hup)
		return -EAGAIN;
	return e->wake ? 1 : 0;
}

static bool never(struct sim_thread *t)
{
	(void)t;
	return false;
}

void k_nap(uint64_t span)
{
	sim_block(never, sim.now + span, SLEEP_LIB);
}
