/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Single stories in the simulated world, with the messages they must cause. */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "world.h"

#define US 1000ull

static struct world w;

/* Both ends alike, messages under way for a microsecond at most. */
static void scene(uint16_t posted, uint32_t rcv_size, uint32_t ring)
{
	struct conn_params a = {
		.rcv_size = rcv_size,
		.posted = posted,
		.max_adverts = 4,
		.ext_flags = CONN_EXT_SINKAVAIL,
	}, b = a;
	struct sim_params fab = {
		.seed = 7,
		.delay_ns = 0,
		.ring = ring,
		.max_msg = SIM_MSG_MAX,
		.depth = posted,
	};
	int i;

	world_start(&w, &fab, &a, &b);
	for (i = 0; i < 2; i++) {
		w.s[i].plan.chunk = 1;
		w.s[i].plan.gulp = 100000;
		w.s[i].plan.patient = true;
	}
}

/* `bytes` written at once: the next write of the program is all of them. */
static void writes(int who, uint64_t bytes)
{
	w.s[who].plan.total = w.s[who].written = bytes;
}

static void run(void)
{
	if (!world_run(&w))
		fail_msg("%s (%s)", w.fault, w.tape);
}

static void settle(void)
{
	while (world_step(&w))
		assert_string_equal(w.fault, "");
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

/* One byte each way and an end in good order; the first to close hangs up. */
static void test_hello_world(void **state)
{
	(void)state;
	scene(64, 1000, 1 << 20);
	writes(0, 12);
	writes(1, 30);
	w.s[0].plan.patient = false;
	run();
	assert_string_equal(w.tape,
			    "b>Data:30 a>Data:12 a>DisConn b>DisConn a.0 b.0 ");
}

/* Half-close: the other direction carries on. */
static void test_half_close(void **state)
{
	(void)state;
	scene(64, 1000, 1 << 20);
	w.s[0].plan.patient = false; /* ends at once, writes nothing */
	w.s[1].plan.write_gap = 10 * US;
	w.s[1].plan.total = 3;
	run();
	assert_string_equal(
		w.tape,
		"b>Data:1 a>DisConn b>Data:1 b>Data:1 b>DisConn a.0 b.0 ");
}

static void test_both_close(void **state)
{
	(void)state;
	scene(64, 1000, 1 << 20);
	w.s[0].plan.patient = w.s[1].plan.patient = false;
	run();
	assert_string_equal(w.tape, "b>DisConn a>DisConn b.0 a.0 ");
}

/* Four receives and a program that does not read: two credits stay. */
static void test_lazy_reader(void **state)
{
	(void)state;
	scene(4, 100, 1 << 20);
	writes(0, 84 * 6);
	w.s[1].plan.lazy_until = 50 * WORLD_MS;
	settle();
	assert_int_equal(w.s[0].c.tx_stream, 84 * 2);
	assert_int_equal(w.s[0].c.credits, 2);
	/* Its own bytes get out and the credits for them come back. */
	w.s[1].plan.total = w.s[1].written = 84 * 20;
	settle();
	assert_int_equal(w.s[1].c.tx_stream, 84 * 20);
	assert_int_equal(w.s[0].got, 84 * 20);
	w.s[0].plan.patient = false;
	run();
	assert_true(w.now >= 50 * WORLD_MS);
}

/* The ring is full of unread bytes both ways; control still passes. */
static void test_full_rings(void **state)
{
	(void)state;
	scene(64, 400, 4096);
	w.s[0].plan.lazy_until = w.s[1].plan.lazy_until = 5 * WORLD_MS;
	writes(0, 100000);
	writes(1, 100000);
	settle();
	assert_int_equal(w.s[0].e->ops->room(w.s[0].e), 0);
	assert_int_equal(w.s[1].e->ops->room(w.s[1].e), 0);
	assert_int_equal(conn_set_mode(&w.s[0].c, WIRE_PIPELINED), 0);
	settle();
	assert_int_equal(w.s[1].c.rx_mode, WIRE_PIPELINED);
	assert_int_equal(w.s[0].got, 0);
	w.s[0].plan.patient = false;
	run();
}

static void test_urgent(void **state)
{
	(void)state;
	scene(64, 40, 1 << 20);
	w.s[0].plan.total = 60;
	w.s[0].plan.urgents = 1;
	w.s[0].plan.urgent[0] = 49;
	w.s[0].written = 50;
	w.s[0].plan.patient = false;
	run();
	/* Announced with the first bytes, present at the end of the last. */
	assert_memory_equal(w.tape, "a>Data:24/2 a>Data:24 a>Data:2/3 ", 33);
}

static void test_abort(void **state)
{
	(void)state;
	scene(64, 1000, 1 << 20);
	w.clean = false;
	writes(0, 100);
	settle();
	conn_abort(&w.s[1].c);
	run();
	assert_string_equal(w.tape, "a>Data:100 b.-104 a.-104 ");
}

static void test_lost(void **state)
{
	(void)state;
	scene(64, 1000, 1 << 20);
	w.clean = false;
	writes(0, 100);
	w.cut_at = 10;
	run();
	assert_int_equal(w.s[1].got, 100);
	assert_string_equal(w.tape, "a>Data:100 b.-100 a.-100 ");
}

/* Bytes for a program that has closed: a reset, not silence. */
static void test_gone_reader(void **state)
{
	(void)state;
	scene(64, 1000, 1 << 20);
	w.clean = false;
	w.s[1].plan.leave_at = 5 * US;
	w.s[0].plan.write_gap = 10 * US;
	w.s[0].plan.total = 10;
	run();
	assert_int_not_equal(w.s[0].error, 0);
	assert_int_not_equal(w.s[1].error, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello_world),
		cmocka_unit_test(test_half_close),
		cmocka_unit_test(test_both_close),
		cmocka_unit_test(test_lazy_reader),
		cmocka_unit_test(test_full_rings),
		cmocka_unit_test(test_urgent),
		cmocka_unit_test(test_abort),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_gone_reader),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
