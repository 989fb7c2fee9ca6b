/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Stories of zero copy in the simulated world, and what ends it at any step. */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "world.h"

#define SEEDS 40
#define STEPS 24

static struct world w;

/* Both ends alike, with room for all they write; messages take no time. */
static void scene(uint64_t seed, uint64_t delay, bool sync)
{
	struct conn_params a = {
		.rcv_size = 1000,
		.posted = 64,
		.max_adverts = 4,
		.ext_flags = CONN_EXT_SINKAVAIL,
		.reads = true,
	}, b = a;
	struct sim_params fab = {
		.seed = seed,
		.delay_ns = delay,
		.ring = 1 << 20,
		.max_msg = SIM_MSG_MAX,
		.depth = 64,
		.sync = sync,
	};
	int i;

	world_start(&w, &fab, &a, &b);
	for (i = 0; i < 2; i++) {
		w.s[i].plan.chunk = 100000;
		w.s[i].plan.gulp = 100000;
		w.s[i].plan.patient = true;
		w.s[i].plan.zc.read_max = 100000;
		w.s[i].plan.zc.reads = 1;
		w.s[i].plan.zc.patience = WORLD_MS;
	}
}

static void source(int who, uint64_t bytes, uint32_t piece)
{
	w.s[who].plan.total = w.s[who].written = bytes;
	w.s[who].plan.zc.src = 1;
	w.s[who].plan.zc.src_max = piece;
}

static void run(void)
{
	if (!world_run(&w))
		fail_msg("%s (%s)", w.fault, w.tape);
}

/* A step, or time passes until `limit`. */
static void go_on(uint64_t limit)
{
	const struct conn *c = &w.s[0].c, *d = &w.s[1].c;

	if ((world_step(&w) || world_wait(&w)) && w.now < limit && !w.fault[0])
		return;
	fail_msg("%s at %llu: a sent %llu credits %u sources %u want %x, "
		 "b sent %llu credits %u sources %u want %x (%s)",
		 w.fault, (unsigned long long)w.now,
		 (unsigned long long)c->tx_stream, c->credits, c->src_count,
		 c->want, (unsigned long long)d->tx_stream, d->credits,
		 d->src_count, d->want, w.tape);
}

static void settle(void)
{
	while (world_step(&w))
		assert_string_equal(w.fault, "");
}

static void story(const char *tape)
{
	w.s[0].plan.patient = false;
	run();
	assert_string_equal(w.tape, tape);
}

static int start(void **state)
{
	(void)state;
	w.sim = sim_new();
	return w.sim ? 0 : -1;
}

static int stop(void **state)
{
	(void)state;
	sim_free(w.sim);
	return 0;
}

/* One source, one byte inside, read whole. */
static void test_combined(void **state)
{
	uint64_t seed = 1;

	(void)state;
	do {
		scene(seed++, 0, true); /* until a piece is both bytes */
		source(0, 2, 2);
		settle();
	} while (!strstr(w.tape, "SrcAvail") && seed < 50);
	story("a>SrcAvail:1 b<read:1 b>RdmaRdCompl a>DisConn b>DisConn "
	      "a.0 b.0 ");
}

/* A writer meets the reader's sink. */
static void test_sink(void **state)
{
	(void)state;
	scene(3, 0, true);
	assert_int_equal(conn_set_mode(&w.s[0].c, WIRE_PIPELINED), 0);
	w.s[1].plan.zc.sink = 1;
	w.s[1].plan.zc.sink_max = 1;
	w.s[1].plan.zc.sinks = 1;
	settle();
	assert_string_equal(w.tape, "a>ModeChange b>SinkAvail ");
	w.s[0].plan.zc.write = 1;
	w.s[0].plan.total = w.s[0].written = 1;
	w.s[1].plan.zc.sink = 0;
	story("a>ModeChange b>SinkAvail a>write:1 a>RdmaWrCompl "
	      "a>DisConn b>DisConn a.0 b.0 ");
}

/* Both write all they have before either reads, as on TCP. */
static void test_both_write_first(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 4; i++) {
		scene(5 + (uint64_t)i, 1000, i & 1);
		if (i & 2) {
			conn_set_mode(&w.s[0].c, WIRE_PIPELINED);
			conn_set_mode(&w.s[1].c, WIRE_PIPELINED);
		}
		source(0, 30000, 16000);
		source(1, 30000, 16000);
		w.s[0].plan.lazy_until = w.s[1].plan.lazy_until =
			900 * WORLD_MS;
		while (w.s[0].c.tx_stream < 30000 || w.s[1].c.tx_stream < 30000)
			go_on(900 * WORLD_MS);
		assert_int_equal(w.s[0].got + w.s[1].got, 0);
		w.s[0].plan.patient = false;
		run();
	}
}

/* A reader that never comes: the writer has its memory back in time. */
static void test_never_read(void **state)
{
	(void)state;
	scene(9, 1000, false);
	conn_set_mode(&w.s[0].c, WIRE_PIPELINED);
	source(0, 16000, 16000);
	w.s[1].plan.lazy_until = UINT64_MAX;
	while (w.s[0].c.tx_stream < 16000)
		go_on(20 * WORLD_MS);
	assert_int_equal(w.s[0].c.src_count, 0);
	w.clean = false;
	conn_abort(&w.s[0].c);
	w.s[1].plan.lazy_until = 0;
	run();
}

/* --- at every step ------------------------------------------------------ */

/* Everything in use, both ways; `steps` of it have been done. */
static void busy(uint64_t seed, int steps)
{
	int i;

	scene(seed, seed % 3 ? 2000 : 0, seed & 1);
	for (i = 0; i < 2; i++) {
		struct plan *p = &w.s[i].plan;

		source(i, 40000, 3000);
		p->chunk = 9000;
		p->read_gap = 3000;
		p->zc.src = 2;
		p->zc.overlap = true;
		p->zc.sink = 2;
		p->zc.sink_max = 3000;
		p->zc.sinks = 2;
		p->zc.write = 2;
		p->zc.reads = 3;
		p->zc.read_max = 2000;
		p->zc.patience = 20000;
		if (seed & 2 || i)
			conn_set_mode(&w.s[i].c, WIRE_PIPELINED);
	}
	while (steps--)
		go_on(UINT64_MAX);
}

typedef void at_step(int step);

static void every_step(at_step *fn)
{
	uint64_t seed;
	int step;

	for (seed = 1; seed <= SEEDS; seed++) {
		for (step = 0; step < STEPS; step++) {
			busy(seed, step + (int)(seed % 4) * STEPS / 2);
			fn(step);
			if (w.fault[0])
				fail_msg("seed %llu step %d: %s",
					 (unsigned long long)seed, step,
					 w.fault);
		}
	}
}

static void same_offsets(void)
{
	assert_int_equal(w.s[0].c.tx_stream, w.s[1].c.rx_stream);
	assert_int_equal(w.s[1].c.tx_stream, w.s[0].c.rx_stream);
}

static uint32_t out(void)
{
	return w.s[0].c.src_count + w.s[0].c.sink_count + w.s[1].c.src_count +
	       w.s[1].c.sink_count;
}

/*
 * Each takes back what it has let the other at, or will not read what it was
 * let at. Nothing reads meanwhile and nothing advertises anew: memory is free
 * in a few round trips. Then all goes on.
 */
static void take_back(int step)
{
	uint64_t until = w.now + WORLD_MS;
	struct plan was[2] = { w.s[0].plan, w.s[1].plan };
	int i;

	for (i = 0; i < 2; i++) {
		w.s[i].plan.lazy_until = w.now + 500 * WORLD_MS;
		w.s[i].plan.zc.src = w.s[i].plan.zc.sink = 0;
		w.s[i].plan.zc.patience = 500 * WORLD_MS;
		conn_cancel_sinks(&w.s[i].c);
		if (step % 3 == 0 || (step % 3 == 1 && !i))
			conn_cancel_sources(&w.s[i].c);
	}
	while (out() || w.s[0].c.peer_src_count || w.s[1].c.peer_src_count) {
		/* what is under way to one that refuses, too */
		for (i = 0; i < 2; i++)
			if (step % 3 == 2 || (step % 3 == 1 && !i))
				conn_refuse_sources(&w.s[i].c);
		go_on(until);
	}
	for (i = 0; i < 2; i++) {
		w.s[i].plan.zc = was[i].zc;
		w.s[i].plan.lazy_until = was[i].lazy_until;
	}
	w.s[0].plan.patient = false;
	run();
	same_offsets();
}

static void test_take_back(void **state)
{
	(void)state;
	every_step(take_back);
}

/*
 * A program that writes from a thousand pieces of a few bytes, in messages of
 * a few bytes, and one that reads as little at a time.
 */
static void test_crumbs(void **state)
{
	uint64_t seed;
	int i;

	(void)state;
	for (seed = 1; seed <= SEEDS; seed++) {
		scene(seed, seed & 1 ? 500 : 0, seed & 2);
		for (i = 0; i < 2; i++) {
			source(i, 4000, 5);
			w.s[i].plan.gulp = 7;
			w.s[i].plan.zc.overlap = seed & 4;
			w.s[i].plan.zc.read_max = 3;
			w.s[i].plan.zc.reads = 4;
			w.s[i].c.peer_rcv_size = w.s[1 - i].c.rcv_size = 40;
			if (seed & 8)
				conn_set_mode(&w.s[i].c, WIRE_PIPELINED);
		}
		w.s[0].plan.patient = false;
		run();
		same_offsets();
	}
}

/* Memory comes back when nothing can be at it, and is left alone after. */
static void abort_or_cut(int step)
{
	w.clean = false;
	if (step & 1)
		conn_abort(&w.s[step >> 1 & 1].c);
	else
		sim_cut(w.sim);
	run();
}

static void test_death(void **state)
{
	(void)state;
	every_step(abort_or_cut);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_combined),
		cmocka_unit_test(test_sink),
		cmocka_unit_test(test_both_write_first),
		cmocka_unit_test(test_never_read),
		cmocka_unit_test(test_take_back),
		cmocka_unit_test(test_crumbs),
		cmocka_unit_test(test_death),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
