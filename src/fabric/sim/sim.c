/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The simulated fabric; see sim.h. Never part of the library. */

#include <stdlib.h>

#include "fabric/sim/sim_int.h"

static struct packet *packet(struct way *w, uint32_t n)
{
	return &w->p[n % PACKETS];
}

uint32_t sim_rnd(struct sim *s, uint32_t n)
{
	s->rng ^= s->rng << 13;
	s->rng ^= s->rng >> 7;
	s->rng ^= s->rng << 17;
	return (uint32_t)(s->rng >> 32) % n;
}

uint64_t sim_arrival(struct sim *s, struct way *w)
{
	uint64_t at = s->now + sim_rnd(s, (uint32_t)s->par.delay_ns + 1);

	if (s->par.stall && !sim_rnd(s, s->par.stall))
		at += sim_rnd(s, (uint32_t)s->par.stall_ns + 1);
	if (at < w->last)
		at = w->last;
	w->last = at;
	return at;
}

/* --- sending ----------------------------------------------------------- */

static uint32_t op_room(struct end *end)
{
	struct sim_side *e = side_of(end);
	struct way *w = e->tx;
	uint32_t left = e->sim->par.ring - w->bytes;

	if (e->sim->cut || w->closed_at != UINT64_MAX ||
	    w->next - w->front >= PACKETS - SIM_LANE || left < FAB_CTRL)
		return 0;
	return left < end->max_msg ? left : end->max_msg;
}

static void *op_buf(struct end *end, uint32_t len)
{
	struct sim_side *e = side_of(end);

	e->buf_len = 0;
	if (!len || len > op_room(end))
		return NULL;
	e->buf_len = len;
	e->buf_ctrl = false;
	return packet(e->tx, e->tx->next)->mem;
}

static void *op_ctrl(struct end *end)
{
	struct sim_side *e = side_of(end);
	struct way *w = e->tx;

	if (op_room(end))
		return op_buf(end, FAB_CTRL);
	e->buf_len = 0;
	if (e->sim->cut || w->closed_at != UINT64_MAX || w->lane >= SIM_LANE ||
	    w->next - w->front >= PACKETS)
		return NULL;
	e->buf_len = FAB_CTRL;
	e->buf_ctrl = true;
	return packet(w, w->next)->mem;
}

static int op_send(struct end *end, uint32_t len, bool solicited)
{
	struct sim_side *e = side_of(end);
	struct way *w = e->tx;
	struct packet *p = packet(w, w->next);

	(void)solicited;
	if (e->sim->cut)
		return -ECONNRESET;
	if (!len || len > e->buf_len)
		return -EINVAL;
	if (w->deaf)
		return 0;
	p->len = len;
	p->ctrl = e->buf_ctrl;
	p->at = sim_arrival(e->sim, w);
	if (p->ctrl)
		w->lane++;
	else
		w->bytes += len;
	w->next++;
	e->buf_len = 0;
	return 0;
}

/* --- receiving --------------------------------------------------------- */

static bool arrived(const struct sim *s, struct way *w)
{
	return w->parse != w->next && packet(w, w->parse)->at <= s->now;
}

/* What came in the lane is not held; a front among them steps over. */
static void skip_ctrl(struct way *w)
{
	while (w->front != w->parse && packet(w, w->front)->ctrl)
		w->front++;
}

static int op_poll(struct end *end, struct fab_msg *m)
{
	struct sim_side *e = side_of(end);
	struct way *w = e->rx;
	struct packet *p = packet(w, w->parse);

	sim_rdma_run(e->sim);
	if (!arrived(e->sim, w))
		return sim_link(end) == SIM_UP ? 0 : -ECONNRESET;
	w->parse++;
	m->mem = p->mem;
	m->len = p->len;
	m->held = !p->ctrl;
	if (p->ctrl) {
		memcpy(e->ctrl, p->mem, FAB_CTRL);
		m->mem = e->ctrl;
		w->lane--;
		skip_ctrl(w);
	}
	return 1;
}

static int op_front(struct end *end, struct fab_msg *m)
{
	struct way *w = side_of(end)->rx;
	struct packet *p = packet(w, w->front);

	if (w->front == w->parse)
		return 0;
	m->mem = p->mem;
	m->len = p->len;
	m->held = true;
	return 1;
}

static void op_release(struct end *end)
{
	struct way *w = side_of(end)->rx;

	if (w->front == w->parse)
		return;
	w->bytes -= packet(w, w->front)->len;
	w->front++;
	skip_ctrl(w);
}

static bool op_pending(struct end *end)
{
	return arrived(side_of(end)->sim, side_of(end)->rx);
}

static void op_none(struct end *end)
{
	(void)end;
}

static const struct fabric_ops sim_ops = {
	.name = "sim",
	.room = op_room,
	.buf = op_buf,
	.ctrl = op_ctrl,
	.send = op_send,
	.poll = op_poll,
	.front = op_front,
	.release = op_release,
	.read = sim_read,
	.write = sim_write,
	.done = sim_done,
	.pending = op_pending,
	.trim = op_none,
	.destroy = op_none,
};

/* --- the world --------------------------------------------------------- */

struct sim *sim_new(void)
{
	return calloc(1, sizeof(struct sim));
}

void sim_free(struct sim *s)
{
	free(s);
}

void sim_start(struct sim *s, const struct sim_params *p)
{
	int i;

	s->par = *p;
	s->rng = p->seed;
	s->now = 0;
	s->cut = false;
	s->keys = s->trespasses = 0;
	for (i = 0; i < 2; i++) {
		struct way *w = &s->way[i];

		w->front = w->parse = w->next = w->bytes = w->lane = 0;
		w->last = 0;
		w->deaf = false;
		w->closed_at = UINT64_MAX;
		s->side[i] = (struct sim_side){
			.end = { &sim_ops, p->max_msg, p->depth },
			.sim = s,
			.tx = w,
			.rx = &s->way[1 - i],
		};
	}
}

struct end *sim_end(struct sim *s, unsigned int which)
{
	return &s->side[which].end;
}

void sim_time(struct sim *s, uint64_t ns)
{
	if (ns > s->now)
		s->now = ns;
	sim_rdma_run(s);
}

uint64_t sim_next(const struct sim *s)
{
	uint64_t at = sim_rdma_next(s);
	int i;

	for (i = 0; i < 2 && !s->cut; i++) {
		const struct way *w = &s->way[i];

		if (w->parse != w->next && w->p[w->parse % PACKETS].at < at)
			at = w->p[w->parse % PACKETS].at;
		if (!w->deaf && w->closed_at > s->now && w->closed_at < at)
			at = w->closed_at;
	}
	return at;
}

void sim_disconnect(struct end *end)
{
	struct sim_side *e = side_of(end);

	if (e->tx->closed_at == UINT64_MAX)
		e->tx->closed_at = sim_arrival(e->sim, e->tx);
	e->down = true;
	e->rx->deaf = true;
	e->rx->next = e->rx->parse;
}

void sim_cut(struct sim *s)
{
	int i;

	s->cut = true;
	for (i = 0; i < 2; i++)
		while (s->way[i].next != s->way[i].parse &&
		       packet(&s->way[i], s->way[i].next - 1)->at > s->now)
			s->way[i].next--;
}

enum sim_link sim_link(const struct end *end)
{
	const struct sim_side *e = (const struct sim_side *)end;

	if (e->sim->cut)
		return SIM_LOST;
	return e->rx->closed_at <= e->sim->now && e->rx->parse == e->rx->next ?
		       SIM_CLOSED :
		       SIM_UP;
}

bool sim_still(const struct end *end)
{
	const struct sim_side *e = (const struct sim_side *)end;

	return e->tx->parse == e->tx->next;
}
