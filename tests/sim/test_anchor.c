/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The anchor machine in its simulated world (anchor.md sections 4 to 6 and 9):
 * every offset, every moment of death, many seeds; and for each rule that the
 * world fails without it.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "anchor_world.h"
#include "scale.h"

#define RANDOM_WORLDS  SIM_SEEDS(24000)
#define DEATH_PLANS    (4 + SIM_SEEDS(20))
#define CONTROL_WORLDS 60000
#define SMALL	       8 /* bytes of the streams taken apart by offset */

/* --- plans ------------------------------------------------------------- */

static void add(struct sim_plan *p, enum sim_kind kind, int end, uint32_t bytes,
		uint32_t at)
{
	unsigned int i = p->threads++;

	p->t[i].kind = kind;
	p->t[i].end = end;
	p->t[i].bytes = bytes;
	p->t[i].at = at;
	p->t[i].piece = 1 + sim_rand(6);
	p->t[i].pause = sim_rand(2) ? 1 + sim_rand(6) : 0;
}

static void begin(struct sim_plan *p, uint64_t seed)
{
	unsigned int i;

	memset(p, 0, sizeof(*p));
	sim.rnd = seed * 0x9e3779b97f4a7c15ull + 77;
	for (i = 0; i < 4; i++)
		sim_rand(1);
	p->seed = seed;
	p->sticky = sim_rand(4) * 30;
	p->pipe_cap = 2 + (sim_rand(2) ? sim_rand(30) : 0);
	p->ring_depth = 3 + sim_rand(6);
	p->msg_max = 1 + sim_rand(4);
	p->wake_cap = sim_rand(3) ? 278 : 2 + sim_rand(3);
	p->stalls = sim_rand(2);
	p->ahead = sim_rand(2);
	p->insist = sim_rand(2);
}

static const enum sim_kind readers[] = { KIND_RECV, KIND_PEEK, KIND_WAITALL,
					 KIND_NONBLOCK, KIND_POLL };

static void some_writer(struct sim_plan *p, int end)
{
	bool nb = !sim_rand(4);

	add(p, nb ? KIND_WRITER_NB : KIND_WRITER, end, 1 + sim_rand(30), 0);
}

static void any(struct sim_plan *p, uint64_t seed)
{
	unsigned int i, lazy;
	int k;

	begin(p, seed);
	lazy = sim_rand(8); /* an end may have no reader */
	for (k = 0; k < 2; k++) {
		unsigned int nr = 0, nw = 0;

		if (lazy != (unsigned int)k)
			nr = 1 + (sim_rand(2) ? sim_rand(3) : 0);
		if (!nr || !p->t[0].bytes || sim_rand(6))
			nw = 1 + !sim_rand(3);
		p->lift_at[k] = sim_rand(2) ? sim_rand(12) : 0;
		if (!sim_rand(8))
			p->lift_at[k] = UINT32_MAX;
		for (i = 0; i < nw; i++)
			some_writer(p, k);
		for (i = 0; i < nr; i++)
			add(p, readers[sim_rand(5)], k, 0, 0);
		for (i = sim_rand(3); i; i--)
			add(p, KIND_HOME, k, 0, sim_rand(25));
	}
}

static void any_death(struct sim_plan *p, uint64_t seed)
{
	any(p, seed);
	p->kill_step = 1 + sim_rand(600);
	p->kill_end = (int)sim_rand(2);
}

/* Threads in old receives while a short stream is lifted and ends. */
static void short_stream(struct sim_plan *p, uint64_t seed)
{
	begin(p, seed);
	add(p, KIND_WRITER, 0, 1 + sim_rand(3), 0);
	p->t[0].piece = 1;
	add(p, KIND_RECV, 1, 0, 0);
	add(p, sim_rand(2) ? KIND_RECV : KIND_PEEK, 1, 0, 0);
	add(p, KIND_NONBLOCK, 1, 0, 0);
	p->lift_at[1] = UINT32_MAX;
}

/* No room for kicks. */
static void tight(struct sim_plan *p, uint64_t seed)
{
	unsigned int i;

	begin(p, seed);
	p->pipe_cap = 1;
	p->ring_depth = 3;
	p->msg_max = 1;
	p->stalls = true;
	for (i = 0; i < 2; i++)
		add(p, KIND_WRITER, 0, 2 + sim_rand(4), 0);
	for (i = 1 + sim_rand(3); i; i--)
		add(p, KIND_RECV, 1, 0, 0);
	for (i = 1 + sim_rand(2); i; i--)
		add(p, KIND_POLL, 1, 0, 0);
	for (i = 1 + sim_rand(2); i; i--)
		add(p, KIND_HOME, 0, 0, 0);
	p->lift_at[1] = UINT32_MAX;
}

/* W runs ahead of R, stalls, and R wants to fall back from behind it. */
static void behind(struct sim_plan *p, uint64_t seed)
{
	unsigned int i;

	begin(p, seed);
	p->ring_depth = 3;
	p->pipe_cap = 2 + sim_rand(12);
	p->stalls = p->ahead = true;
	for (i = 1 + !sim_rand(3); i; i--)
		add(p, KIND_WRITER, 0, 10 + sim_rand(40), 0);
	p->insist = sim_rand(2);
	if (sim_rand(2)) /* so that the writers' end is half-closed */
		add(p, KIND_RECV, 0, 0, 0);
	if (!p->insist || sim_rand(2))
		for (i = 1 + !sim_rand(3); i; i--)
			add(p, readers[sim_rand(5)], 1, 0, 0);
	for (i = 1 + sim_rand(3); i; i--)
		add(p, KIND_HOME, 1, 0, sim_rand(30));
	p->lift_at[0] = sim_rand(20);
	p->lift_at[1] = UINT32_MAX;
}

static void behind_death(struct sim_plan *p, uint64_t seed)
{
	behind(p, seed);
	p->kill_step = 1 + sim_rand(900);
	p->kill_end = (int)sim_rand(2);
}

/* Pollers that a kick has to bring out, while R wants to fall back. */
static void polled(struct sim_plan *p, uint64_t seed)
{
	unsigned int i;

	begin(p, seed);
	p->ahead = true;
	p->pipe_cap = 4 + sim_rand(12);
	add(p, KIND_WRITER_NB, 0, 2 + sim_rand(12), 0);
	for (i = 1 + sim_rand(2); i; i--)
		add(p, KIND_POLL, 1, 0, 0);
	add(p, KIND_NONBLOCK, 1, 0, 0);
	for (i = 1 + sim_rand(2); i; i--)
		add(p, KIND_HOME, 1, 0, sim_rand(12));
	p->lift_at[0] = sim_rand(6);
	p->lift_at[1] = UINT32_MAX;
}

/* First in each test: what cannot be played here is skipped. */
static void playable(void)
{
#ifdef SIM_TSAN
	print_message("skipped: ThreadSanitizer cannot follow coroutines\n");
	skip();
#endif
}

/* --- sound worlds ------------------------------------------------------ */

static void sound(const struct sim_plan *p)
{
	const char *f = sim_run(p, 0);

	if (f)
		fail_msg("seed %llu, death %u of %d, step %llu: %s;%s",
			 (unsigned long long)p->seed, p->kill_step, p->kill_end,
			 (unsigned long long)sim.steps, f, sim.where);
}

/* Both directions at once, lifted and brought back to TCP at every offset. */
static void test_offsets(void **state)
{
	uint64_t homes = 0, lifts = 0;
	uint32_t l0, l1, h0, h1;
	struct sim_plan p;

	(void)state;
	playable();
	for (l0 = 0; l0 <= SMALL; l0++)
		for (l1 = 0; l1 <= SMALL; l1++)
			for (h0 = l0; h0 <= SMALL; h0++)
				for (h1 = l1; h1 <= SMALL; h1++) {
					begin(&p, (l0 << 9) + (l1 << 6) +
							  (h0 << 3) + h1);
					p.lift_at[0] = l0;
					p.lift_at[1] = l1;
					add(&p, KIND_WRITER, 0, SMALL, 0);
					add(&p, KIND_WRITER, 1, SMALL, 0);
					add(&p, readers[sim_rand(5)], 0, 0, 0);
					add(&p, readers[sim_rand(5)], 1, 0, 0);
					add(&p, KIND_HOME, 1, 0, h0);
					add(&p, KIND_HOME, 0, 0, h1);
					p.t[0].piece = p.t[1].piece = 1;
					sound(&p);
					homes += sim.homes;
					lifts += sim.lifts;
				}
	assert_true(homes > 3000);
	assert_true(lifts > 3000);
}

static void test_random(void **state)
{
	uint64_t lifts = 0, stalls = 0, homes = 0, resumes = 0, seed;
	uint64_t rises = 0, kept = 0, back = 0, known = 0;
	struct sim_plan p;

	(void)state;
	playable();
	for (seed = 1; seed <= RANDOM_WORLDS; seed++) {
		if (!(seed % 8))
			tight(&p, seed);
		else if (seed % 8 == 1)
			short_stream(&p, seed);
		else if (seed % 8 < 4)
			behind(&p, seed);
		else if (seed % 8 == 5)
			polled(&p, seed);
		else
			any(&p, seed);
		sound(&p);
		lifts += sim.lifts;
		stalls += sim.stalled;
		homes += sim.homes;
		resumes += sim.resumes;
		rises += sim.rises;
		kept += sim.kept;
		back += sim.back;
		known += sim.known;
	}
	/* the worlds are not empty */
	assert_true(lifts > RANDOM_WORLDS / 2);
	assert_true(stalls > RANDOM_WORLDS / 4);
	assert_true(homes > RANDOM_WORLDS / 2);
	assert_true(resumes > RANDOM_WORLDS / 40);
	assert_true(rises > RANDOM_WORLDS / 8);
	assert_true(kept > RANDOM_WORLDS / 8);
	assert_true(back > RANDOM_WORLDS / 8);
	assert_true(known > RANDOM_WORLDS / 80);
}

/* One of the two ends dies before each step in turn. */
static void test_deaths(void **state)
{
	struct sim_plan p;
	uint64_t seed, last;
	unsigned int k;
	int end;

	(void)state;
	playable();
	for (seed = 1; seed <= DEATH_PLANS; seed++) {
		if (seed % 3)
			any(&p, seed);
		else
			behind(&p, seed);
		for (k = 0; k < p.threads; k++)
			if (p.t[k].bytes > SMALL)
				p.t[k].bytes = SMALL;
		sound(&p);
		last = sim.steps < 900 ? sim.steps : 900;
		for (end = 0; end < 2; end++)
			for (k = 1; k <= last; k++) {
				p.kill_end = end;
				p.kill_step = k;
				sound(&p);
			}
	}
	for (seed = 1; seed <= RANDOM_WORLDS / 2; seed++) {
		if (seed % 4)
			any_death(&p, seed);
		else
			behind_death(&p, seed);
		sound(&p);
	}
}

/* --- controls: each rule is needed ------------------------------------- */

struct control {
	const char *name;
	enum sim_rule rule;
	void (*plan)(struct sim_plan *p, uint64_t seed);
	uint64_t first; /* tried first: it went wrong there once */
};

static void test_control(void **state)
{
	const struct control *c = *state;
	struct sim_plan p;
	uint64_t seed, i;

	playable();
	for (i = 0; i <= CONTROL_WORLDS; i++) {
		seed = i ? i : c->first;
		c->plan(&p, seed);
		if (!sim_run(&p, 1u << c->rule))
			continue;
		print_message("seed %llu: %s\n", (unsigned long long)seed,
			      sim.fault);
		c->plan(&p, seed);
		sound(&p); /* it is the rule and nothing else */
		return;
	}
	fail_msg("nothing goes wrong without this rule");
}

static struct control controls[] = {
	{ "switch only when drained", RULE_DRAINED, any, 7 },
	{ "no stall around an old receive", RULE_TCP_RX, any, 12 },
	{ "TCP use only after PAUSED", RULE_PAUSED, any, 8 },
	{ "kicks stay for sleepers", RULE_KICKS, any, 11 },
	{ "wake-up bytes are eaten last", RULE_EAT_LAST, any, 31242 },
	{ "no switch around a TCP send", RULE_TCP_TX, any, 73 },
	{ "DRAINING ends after old receives", RULE_FIN, short_stream, 1208 },
	{ "what was written back is dropped", RULE_STALE, any, 7 },
	{ "sleep only where the state was seen", RULE_SEEN, any, 44 },
	{ "the others' wake-up bytes stay", RULE_OTHERS, any, 8744 },
	{ "a kick for everybody inside", RULE_CHAIN, any, 12 },
	{ "a fallback given up is ended", RULE_ALONE, any, 176 },
	{ "counts are published upwards", RULE_UPWARDS, any, 7 },
	{ "no FIN falling back", RULE_SHUT, any, 78 },
	{ "the ring of the dead is read", RULE_SALVAGE, any_death, 203 },
	{ "no end waits for the dead", RULE_WIDOW, any_death, 121 },
	{ "a full wake-up socket keeps a byte", RULE_FULL, any, 4723 },
	{ "no kick in front of stream bytes", RULE_AHEAD, any, 20 },
	{ "a reader that passes the switch asks for a kick", RULE_PASSED, any,
	  124 },
	{ "no receive beyond the switch", RULE_BOUND, behind, 10 },
	{ "no answer around a send", RULE_INSIDE, behind, 23 },
	{ "a writer in the kernel can come out", RULE_KEEP, behind, 8 },
	{ "no FIN before bytes asked for", RULE_DUE, behind, 47 },
	{ "no answer for a writer that puts", RULE_PUT, any, 729 },
	{ "a writer shows it before it looks", RULE_PUT_FIRST, any, 4607 },
	{ "no answer in front of a kick", RULE_PUT_KICK, any, 986 },
	{ "readers asleep come out by the writer", RULE_PUT_ASLEEP, any, 110 },
	{ "kicks are counted when none is put", RULE_PUT_OVER, polled, 23741 },
};

#define CONTROLS (sizeof(controls) / sizeof(controls[0]))

int main(void)
{
	struct CMUnitTest tests[3 + CONTROLS] = {
		cmocka_unit_test(test_offsets),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_deaths),
	};
	size_t i;

	for (i = 0; i < CONTROLS; i++)
		tests[3 + i] = (struct CMUnitTest){
			.name = controls[i].name,
			.test_func = test_control,
			.initial_state = &controls[i],
		};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
