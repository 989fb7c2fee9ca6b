/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* RDMA of the simulated fabric; see sim.h. */

#include "fabric/sim/sim_int.h"

uint32_t sim_let(struct end *end, void *mem, uint64_t vaddr, uint32_t len)
{
	struct sim_side *e = side_of(end);
	int i;

	for (i = 0; i < SIM_MEMS; i++) {
		if (e->mems[i].mem)
			continue;
		e->mems[i] =
			(struct sim_mem){ mem, vaddr, len, ++e->sim->keys };
		return e->mems[i].rkey;
	}
	return 0;
}

void sim_bar(struct end *end, uint32_t rkey)
{
	struct sim_side *e = side_of(end);
	int i;

	for (i = 0; i < SIM_MEMS; i++)
		if (e->mems[i].rkey == rkey)
			e->mems[i].mem = NULL;
}

uint32_t sim_trespasses(const struct sim *s)
{
	return s->trespasses;
}

/* The other end's memory at that place, or NULL: it is none of ours. */
static uint8_t *reach(struct sim_side *other, const struct rdma *r)
{
	int i;

	for (i = 0; i < SIM_MEMS; i++) {
		struct sim_mem *m = &other->mems[i];

		if (m->mem && m->rkey == r->rkey && r->vaddr >= m->vaddr &&
		    r->vaddr - m->vaddr + r->len <= m->len)
			return m->mem + (r->vaddr - m->vaddr);
	}
	other->sim->trespasses++;
	return NULL;
}

/* Take effect, and be over. */
static void end_rdma(struct sim_side *e, struct rdma *r)
{
	struct sim *s = e->sim;
	struct sim_side *other = &s->side[e == &s->side[0]];
	size_t len = r->len;
	uint8_t *mem;

	r->ended = true;
	r->done = (struct fab_done){ .id = r->id, .status = -ECONNRESET };
	if (s->cut || (e->down && !r->write) || (other->down && !s->par.sync))
		return;
	mem = reach(other, r);
	if (s->par.fail && (s->par.sync || !r->write) &&
	    !sim_rnd(s, s->par.fail))
		len = sim_rnd(s, (uint32_t)len);
	if (!mem)
		len = 0;
	r->done.len = len;
	r->done.status = len == r->len ? 0 : -EFAULT;
	if (!len)
		return;
	if (r->write)
		memcpy(mem, r->local, len);
	else
		memcpy(r->local, mem, len);
}

void sim_rdma_run(struct sim *s)
{
	uint32_t n;
	int i;

	for (i = 0; i < 2; i++) {
		struct sim_side *e = &s->side[i];

		for (n = e->rdma_first; n != e->rdma_next; n++) {
			struct rdma *r = &e->rdma[n % SIM_RDMA];

			if (r->ended)
				continue;
			/* A hang-up comes behind writes posted before. */
			if (r->at > s->now && !s->cut && (!e->down || r->write))
				continue;
			end_rdma(e, r);
		}
	}
}

uint64_t sim_rdma_next(const struct sim *s)
{
	uint64_t at = UINT64_MAX;
	uint32_t n;
	int i;

	for (i = 0; i < 2; i++) {
		const struct sim_side *e = &s->side[i];

		for (n = e->rdma_first; n != e->rdma_next; n++)
			if (!e->rdma[n % SIM_RDMA].ended &&
			    e->rdma[n % SIM_RDMA].at < at)
				at = e->rdma[n % SIM_RDMA].at;
	}
	return at;
}

static int begin(struct sim_side *e, bool write, uint8_t *local, uint64_t vaddr,
		 uint32_t rkey, size_t len, uint64_t id)
{
	struct sim *s = e->sim;
	struct rdma *r = &e->rdma[e->rdma_next % SIM_RDMA], *last;

	if (e->rdma_next - e->rdma_first == SIM_RDMA)
		return -EAGAIN;
	*r = (struct rdma){
		.write = write,
		.local = local,
		.vaddr = vaddr,
		.id = id,
		.rkey = rkey,
		.len = len,
		.at = s->now,
	};
	e->rdma_next++;
	if (s->par.sync) {
		end_rdma(e, r);
		return 0;
	}
	r->at = sim_arrival(s, e->tx);
	if (!write)
		r->at += sim_rnd(s, (uint32_t)s->par.delay_ns + 1);
	last = &e->rdma[(e->rdma_next - 2) % SIM_RDMA];
	if (e->rdma_next - e->rdma_first > 1 && r->at < last->at)
		r->at = last->at; /* operations end in their order */
	if (write && e->tx->last < r->at)
		e->tx->last = r->at; /* no later message comes sooner */
	return 0;
}

int sim_read(struct end *end, void *to, uint64_t vaddr, uint32_t rkey,
	     size_t len, uint64_t id)
{
	return begin(side_of(end), false, to, vaddr, rkey, len, id);
}

int sim_write(struct end *end, const void *from, uint64_t vaddr, uint32_t rkey,
	      size_t len, uint64_t id)
{
	/* Only read from there, as write says. */
	return begin(side_of(end), true, (uint8_t *)(uintptr_t)from, vaddr,
		     rkey, len, id);
}

int sim_done(struct end *end, struct fab_done *d)
{
	struct sim_side *e = side_of(end);

	sim_rdma_run(e->sim);
	if (e->rdma_first == e->rdma_next ||
	    !e->rdma[e->rdma_first % SIM_RDMA].ended)
		return 0;
	*d = e->rdma[e->rdma_first++ % SIM_RDMA].done;
	return 1;
}
