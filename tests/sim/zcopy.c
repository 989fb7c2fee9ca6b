/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Zero copy of a world's programs; see world.h. */

#include <string.h>

#include "world.h"

#define PIECES (2 * CONN_ADVERTS)
#define SINK_REST \
	100000ull /* no new sink so soon after one in vain, longer each time */

/* Memory the other end is let at. */
struct piece {
	bool live, sink;
	uint32_t rkey, len;
	uint64_t at; /* source: stream offset of what is advertised */
	uint8_t mem[ZC_MAX];
};

/* Memory of our own RDMA operations, in their order. */
struct local {
	uint32_t len;
	uint8_t mem[ZC_MAX];
};

struct area {
	struct piece piece[PIECES];
	struct local read[CONN_RDMA], write[CONN_RDMA];
	uint32_t read_first, write_first;
	struct conn_zc zc; /* the present offer */
	struct piece *src, *sink; /* what it is made of */
};

/* Too large to be cleared for every world. */
static struct area areas[2];

static struct area *area(const struct side *s)
{
	return &areas[s->which];
}

void zc_start(struct world *w, struct side *s)
{
	struct area *a = area(s);
	int i;

	(void)w;
	for (i = 0; i < PIECES; i++)
		a->piece[i].live = false;
	a->read_first = a->write_first = 0;
	a->src = a->sink = NULL;
}

static void fill(const struct side *s, uint8_t *mem, uint64_t at, uint32_t len)
{
	uint32_t i;

	for (i = 0; i < len; i++)
		mem[i] = world_byte(s->which, at + i);
}

static void check(struct world *w, const struct side *s, const uint8_t *mem,
		  uint64_t at, uint64_t len)
{
	uint64_t i;

	for (i = 0; i < len; i++)
		if (mem[i] != world_byte(1 - s->which, at + i))
			world_fault(w, "%c: byte %llu by RDMA is wrong",
				    'a' + (int)s->which,
				    (unsigned long long)(at + i));
}

/* --- offers ------------------------------------------------------------ */

static struct piece *let_at(struct world *w, struct side *s,
			    struct conn_mem *mem, uint32_t len, bool sink)
{
	struct area *a = area(s);
	struct piece *p = a->piece;
	int i;

	while (p->live)
		if (++p == a->piece + PIECES)
			return NULL;
	i = (int)(p - a->piece);
	p->sink = sink;
	p->len = len;
	p->at = conn_tx_at(&s->c);
	mem->vaddr = sim_rnd(w->sim, 2) ? 0 : 0x7f0000000000 + (unsigned)i;
	p->rkey = sim_let(s->e, p->mem, mem->vaddr, len);
	mem->rkey = p->rkey;
	mem->len = len;
	mem->key = 0xabc00 + (uint64_t)i;
	if (sink)
		memset(p->mem, 0, len);
	else
		fill(s, p->mem, p->at, len);
	p->live = true;
	return p;
}

static uint32_t below(uint32_t a, uint64_t b)
{
	return a < b ? a : (uint32_t)b;
}

static bool one_in(struct world *w, uint32_t n)
{
	return n && !sim_rnd(w->sim, n);
}

const struct conn_zc *zc_offer(struct world *w, struct side *s, uint64_t bytes)
{
	struct area *a = area(s);
	struct plan *p = &s->plan;
	uint32_t len;

	if (!p->zc.src && !p->zc.sink && !p->zc.write)
		return NULL;
	memset(&a->zc, 0, sizeof(a->zc));
	a->zc.inl = sim_rnd(w->sim, p->zc.inl + 1);
	if (bytes && one_in(w, p->zc.write))
		a->zc.write = 1 + sim_rnd(w->sim, (uint32_t)bytes);
	if (bytes && conn_tx_at(&s->c) >= s->copy_until &&
	    one_in(w, p->zc.src)) {
		len = below(1 + sim_rnd(w->sim, p->zc.src_max), bytes);
		if (conn_src_wanted(&s->c, len))
			a->src = let_at(w, s, &a->zc.src, len, false);
	}
	if (s->first == s->last && !s->left && w->now >= s->read_at &&
	    w->now >= p->lazy_until && s->c.sink_count < p->zc.sinks &&
	    w->now >= s->sink_rest && one_in(w, p->zc.sink)) {
		len = s->c.rcv_size + sim_rnd(w->sim, p->zc.sink_max);
		if (conn_sink_wanted(&s->c, len))
			a->sink = let_at(w, s, &a->zc.sink, len, true);
	}
	return &a->zc;
}

static void bar(struct side *s, struct piece *p)
{
	if (!p)
		return;
	sim_bar(s->e, p->rkey);
	p->live = false;
}

void zc_took(struct world *w, struct side *s, const struct conn_op *op)
{
	struct area *a = area(s);

	if (op->type == CONN_SEND && op->took == CONN_TOOK_SRC) {
		if (!a->src || op->payload + op->len > a->src->len)
			world_fault(w, "a source nobody offered");
		else
			a->src->at += op->payload;
		if (!s->src_since)
			s->src_since = w->now;
		a->src = NULL;
	}
	if (op->type == CONN_SEND && op->took == CONN_TOOK_SINK) {
		if (!a->sink || op->len != a->sink->len)
			world_fault(w, "a sink nobody offered");
		if (!s->sink_since)
			s->sink_since = w->now;
		a->sink = NULL;
	}
	bar(s, a->src);
	bar(s, a->sink);
	a->src = a->sink = NULL;
}

/* --- RDMA -------------------------------------------------------------- */

bool zc_write(struct world *w, struct side *s, const struct conn_op *op)
{
	struct area *a = area(s);
	struct local *l = &a->write[(a->write_first + s->writes) % CONN_RDMA];

	if (s->writes == CONN_RDMA || op->len > ZC_MAX) {
		world_fault(w, "write of %llu bytes, %u under way",
			    (unsigned long long)op->len, s->writes);
		return false;
	}
	l->len = (uint32_t)op->len;
	fill(s, l->mem, s->c.tx_stream - op->len, l->len);
	s->writes++;
	world_tape(w, "%c>write:%u ", 'a' + (int)s->which, l->len);
	s->e->ops->write(s->e, l->mem, op->vaddr, op->rkey, l->len, CONN_WRITE);
	zc_step(w, s);
	return true;
}

bool zc_read(struct world *w, struct side *s)
{
	struct area *a = area(s);
	struct plan *p = &s->plan;
	struct local *l = &a->read[(a->read_first + s->reads) % CONN_RDMA];
	struct conn_op op;

	if (s->down || s->reads >= p->zc.reads || !conn_source(&s->c))
		return false;
	if (one_in(w, p->zc.refuse)) {
		conn_refuse_sources(&s->c);
		return true;
	}
	if (!conn_read(&s->c, 1 + sim_rnd(w->sim, p->zc.read_max), &op)) {
		world_fault(w, "no read of what there is");
		return false;
	}
	l->len = (uint32_t)op.len;
	s->reads++;
	world_tape(w, "%c<read:%u ", 'a' + (int)s->which, l->len);
	s->e->ops->read(s->e, l->mem, op.vaddr, op.rkey, l->len, CONN_READ);
	if (p->read_gap)
		s->read_at = w->now + sim_rnd(w->sim, (uint32_t)p->read_gap);
	zc_step(w, s);
	return true;
}

static void read_ended(struct world *w, struct side *s, uint64_t len)
{
	struct area *a = area(s);
	struct local *l = &a->read[a->read_first++ % CONN_RDMA];
	uint64_t at = s->c.rx_stream;
	int ret = conn_on_done(&s->c, CONN_READ, len);

	s->reads--;
	if (ret && ret != -ECANCELED)
		world_fault(w, "end of a read: %d", ret);
	if (ret)
		return;
	check(w, s, l->mem, at, len);
	s->got += len;
	s->zc_bytes += len;
}

static bool rdma_ended(struct world *w, struct side *s)
{
	struct fab_done d;
	bool any = false;

	while (s->e->ops->done(s->e, &d)) {
		any = true;
		if (d.id == CONN_READ) {
			read_ended(w, s, d.len);
			continue;
		}
		area(s)->write_first++;
		s->writes--;
		/* The queue pair breaks, or the write may end short. */
		if (d.status && d.status != -EFAULT)
			d.len = UINT64_MAX;
		if (conn_on_done(&s->c, CONN_WRITE, d.len) && w->clean)
			world_fault(w, "end of a write");
	}
	return any;
}

/* --- memory that comes free -------------------------------------------- */

static void freed(struct world *w, struct side *s, const struct conn_freed *f)
{
	struct piece *p = &area(s)->piece[(f->key - 0xabc00) % PIECES];

	if (!p->live || p->sink != f->sink)
		world_fault(w, "free, but nobody had it");
	bar(s, p);
	if (!f->sink) {
		if (f->bytes && f->at != p->at)
			world_fault(w, "source at the wrong offset");
		if (p->at + p->len > s->copy_until &&
		    f->at + f->bytes < p->at + p->len)
			s->copy_until = p->at + p->len;
		return;
	}
	if (f->bytes > p->len) {
		world_fault(w, "more than the sink holds");
		return;
	}
	check(w, s, p->mem, f->at, f->bytes);
	s->got += f->bytes;
	s->zc_bytes += f->bytes;
	s->vain = f->bytes ? 0 : s->vain + (s->vain < 12);
	if (s->vain)
		s->sink_rest = w->now + (SINK_REST << s->vain);
}

bool zc_step(struct world *w, struct side *s)
{
	uint64_t wait = s->plan.zc.patience;
	bool any = rdma_ended(w, s);
	struct conn_freed f;

	while (conn_freed(&s->c, &f)) {
		freed(w, s, &f);
		any = true;
		if (f.sink)
			s->sink_since = s->c.sink_count ? w->now : 0;
		else
			s->src_since = s->c.src_count ? w->now : 0;
	}
	if (s->src_since && w->now >= s->src_since + wait) {
		s->src_since = 0;
		conn_cancel_sources(&s->c);
		any = true;
	}
	if (s->sink_since && w->now >= s->sink_since + wait) {
		s->sink_since = 0;
		conn_cancel_sinks(&s->c);
		any = true;
	}
	return any;
}

uint64_t zc_next(const struct world *w, const struct side *s)
{
	uint64_t at = UINT64_MAX;
	uint64_t ready = s->read_at > s->plan.lazy_until ? s->read_at :
							   s->plan.lazy_until;

	if (s->src_since)
		at = s->src_since + s->plan.zc.patience;
	if (s->sink_since && s->sink_since + s->plan.zc.patience < at)
		at = s->sink_since + s->plan.zc.patience;
	if (s->sink_rest > w->now && s->sink_rest < at)
		at = s->sink_rest;
	/* A source to read, or a sink to offer, when the program reads. */
	if (!s->left && ready > w->now && ready < at &&
	    (conn_source(&s->c) || s->plan.zc.sink))
		at = ready;
	return at;
}

static void forget(struct side *s, const struct conn_advert *list, uint32_t n)
{
	while (n--)
		bar(s, &area(s)->piece[(list[n].key - 0xabc00) % PIECES]);
}

/* The connection is over, and nothing is at the memory any more. */
void zc_fence(struct world *w, struct side *s)
{
	if (!s->down || s->fenced || (w->sync && !w->s[1 - s->which].down))
		return;
	s->fenced = true;
	rdma_ended(w, s);
	zc_step(w, s);
	forget(s, s->c.src, s->c.src_count);
	forget(s, s->c.sink, s->c.sink_count);
	s->src_since = s->sink_since = 0;
}

void zc_check_end(struct world *w, struct side *s)
{
	int i;

	for (i = 0; i < PIECES; i++)
		if (area(s)->piece[i].live)
			world_fault(w, "%c: memory never came free",
				    'a' + (int)s->which);
	if (s->reads || s->writes || s->c.reads || s->c.writes)
		world_fault(w, "%c: RDMA never ended", 'a' + (int)s->which);
}
