/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The seeded search: thousands of random worlds in which no byte may be lost,
 * reordered or stuck. A failing world prints its seed; `test_worlds SEED` runs
 * that one alone with a trace, `test_worlds FIRST COUNT` a range. With
 * SDP_WORLDS=50000 in the environment it searches so many, half a minute of
 * work, instead of what is enough for every day.
 */

#include <stdlib.h>
#include <string.h>

#include "world.h"

#define WORLDS 20000

static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)(rng >> 32) % n;
}

/* One of a few orders of magnitude. */
static uint32_t rnd_scale(uint32_t n)
{
	return 1 + rnd(n >> (rnd(4) * 3) | 1);
}

static struct conn_params random_params(bool native)
{
	uint32_t size = rnd(4) ? 64 + rnd(1000) : 40 + rnd(30);

	return (struct conn_params){
		.native = native,
		.rcv_size = size,
		.posted = (uint16_t)(rnd(3) ? 4 + rnd(4) : 4 + rnd(60)),
		.max_adverts = (uint16_t)(1 + rnd(8)),
		.ext_flags = (rnd(4) ? CONN_EXT_SINKAVAIL : 0) |
			     (rnd(4) ? CONN_EXT_SIZES : 0),
		.reads = rnd(4),
	};
}

/* Zero copy of a plan that is made: often, seldom or never. */
static void random_zcopy(struct plan *p)
{
	static const uint32_t often[] = { 0, 1, 1, 2, 10 };
	static const uint64_t patience[] = { 0, 2000, 1000000, 40000000 };

	p->zc.src = often[rnd(5)];
	p->zc.src_max = rnd_scale(ZC_MAX - 1);
	p->zc.inl = rnd(3) ? 0 : rnd(300);
	p->zc.overlap = rnd(2);
	p->zc.patience = patience[rnd(4)];
	p->zc.sink = often[rnd(5)];
	p->zc.sink_max = rnd_scale(8000);
	p->zc.sinks = 1 + rnd(4);
	p->zc.write = often[rnd(5)];
	p->zc.read_max = rnd_scale(8000);
	p->zc.reads = 1 + rnd(6);
	p->zc.refuse = rnd(3) ? 0 : 1 + rnd(8);
	p->zc.pipelined = rnd(3);
	if (rnd(2))
		p->total *= 1 + rnd(5);
}

static struct plan random_plan(bool tricks)
{
	static const uint64_t gaps[] = { 0, 0, 300, 100000, 20000000 };
	struct plan p = {
		.total = rnd(10) ? rnd_scale(6000) : 0,
		.chunk = rnd_scale(4000),
		.write_gap = gaps[rnd(5)],
		.gulp = rnd_scale(2000),
		.read_gap = gaps[rnd(5)],
		.lazy_until = rnd(4) ? 0 : rnd(50) * WORLD_MS,
		.close = rnd(2),
		.patient = !rnd(3),
		.tricks = tricks ? 1 + rnd(12) : 0,
	};
	uint64_t at = 0;

	while (p.total && !rnd(3) && p.urgents < WORLD_URGENTS) {
		at += rnd((uint32_t)p.total);
		if (at >= p.total)
			break;
		p.urgent[p.urgents++] = at++;
	}
	if (rnd(4))
		random_zcopy(&p);
	p.zc.reads = p.zc.reads ? p.zc.reads : 1;
	p.zc.read_max = p.zc.read_max ? p.zc.read_max : 1000;
	return p;
}

/* Something breaks, in one of the ways the plan knows. */
static void random_end(struct world *w)
{
	uint64_t at = 1 + (rnd(2) ? rnd(60000) : rnd(60) * WORLD_MS);
	struct plan *p = &w->s[rnd(2)].plan;

	w->clean = false;
	switch (rnd(4)) {
	case 0:
		w->cut_at = at;
		break;
	case 1:
		w->s[rnd(2)].plan.abort_at = at;
		break;
	case 2: /* and it never reads */
		p->lazy_until = at;
		/* fall through */
	default:
		p->leave_at = at;
	}
}

static bool random_world(struct world *w, uint64_t seed)
{
	static const uint32_t delays[] = { 0, 100, 5000, 1000000 };
	struct conn_params a, b;
	struct sim_params fab;
	bool native;
	int i;

	rng = seed * 0x9e3779b97f4a7c15ull ^ 0x2545f4914f6cdd1dull;
	rnd(1);
	native = !rnd(8);
	a = random_params(native);
	b = random_params(native);
	fab = (struct sim_params){
		.seed = rng,
		.delay_ns = delays[rnd(4)],
		.stall = rnd(3) ? 0 : 5 + rnd(50),
		.stall_ns = 30 * WORLD_MS,
		.ring = rnd(2) ? 1u << 20 : SIM_MSG_MAX + rnd(8000),
		.max_msg = SIM_MSG_MAX,
		.depth = 64,
		.sync = rnd(2),
	};
	if (!rnd(3))
		fab.fail = 1 + rnd(10);
	world_start(w, &fab, &a, &b);
	w->s[0].plan = random_plan(!native);
	w->s[1].plan = random_plan(!native);
	for (i = 0; i < 2; i++)
		if (w->s[i].plan.zc.pipelined)
			conn_set_mode(&w->s[i].c, WIRE_PIPELINED);
	/* One end has to close first. */
	if (w->s[0].plan.patient && w->s[1].plan.patient)
		w->s[0].plan.patient = false;
	if (!rnd(4))
		random_end(w);
	return world_run(w);
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1, seed;
	const char *env = getenv("SDP_WORLDS");
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 0) :
			 argc > 1 ? 1 :
			 env	  ? strtoull(env, NULL, 0) :
				    WORLDS;
	static struct world w;
	int bad = 0;

	w.sim = sim_new();
	w.trace = argc == 2 ? stdout : NULL;
	for (seed = first; w.sim && seed < first + count && bad < 10; seed++) {
		if (random_world(&w, seed))
			continue;
		printf("world %llu: %s\n", (unsigned long long)seed, w.fault);
		bad++;
	}
	if (!w.sim)
		bad++;
	if (argc == 1 && !bad && seen_report(false)) {
		printf("no world went through these\n");
		bad++;
	}
	if (argc > 1)
		seen_report(true);
	sim_free(w.sim);
	printf("%llu worlds, %d failed\n", (unsigned long long)(seed - first),
	       bad);
	return bad != 0;
}
