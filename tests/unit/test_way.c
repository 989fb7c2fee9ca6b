/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Between hosts: read, or written into what the reader offers? By a clock of
 * its own. */

#include "far_util.h"
#include "sdp_proto/wire.h"

#define FIRST 512 /* sends in front of a comparison */
#define RUN   7

static uint64_t read_us, sink_us;

static int sinks(struct end *e, void *mem, uint32_t len, uint32_t *rkey)
{
	(void)e;
	(void)mem;
	(void)len;
	(void)rkey;
	return -EBUSY;
}

static bool nothing(struct end *e)
{
	(void)e;
	return false;
}

static const struct fabric_ops ops = { .sink = sinks, .pending = nothing };

static void setup_one(struct sock *s, struct rdma *r, struct end *e)
{
	far_setup(s, r, e, &ops);
	s->zc.home = sock_pid;
	s->conn.tx_mode = WIRE_COMBINED;
	s->conn.peer_ext_flags = CONN_EXT_SINKAVAIL;
	settings.zcopy = SET_ZCOPY_ALWAYS;
	read_us = sink_us = 25000;
}

/* So many sends of that size; how many of them were for sinks. */
static unsigned int sends(struct sock *s, size_t len, unsigned int n)
{
	unsigned int into = 0;
	struct zc_send z;

	while (n--) {
		bool sink;

		zc_choose(s, len, &z);
		assert_true(z.lend);
		if (s->conn.want & CONN_WANT_MODE)
			s->conn.tx_mode = s->conn.mode_due;
		s->conn.want = 0;
		sink = s->conn.tx_mode == WIRE_PIPELINED;
		into += sink;
		now_us += sink ? sink_us : read_us;
		zc_chosen(&z, len, true);
	}
	return into;
}

/* One begins with reading, and is where it is quicker once that was seen. */
static void test_learns(void **state)
{
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	sink_us = 20000;
	assert_int_equal(sends(&s, MIB, FIRST - 1 + RUN), 0);
	assert_int_equal(sends(&s, MIB, RUN), RUN);
	assert_int_equal(sends(&s, MIB, FIRST - 1 + RUN), FIRST - 1 + RUN);
	/* then it is looked at seldom, and given up at once */
	assert_in_range(sends(&s, MIB, RUN), 0, RUN - 5);
	assert_int_equal(sends(&s, MIB, FIRST), FIRST);
	/* of other sizes nothing is known */
	assert_int_equal(sends(&s, 4 * MIB, 100), 0);
}

/* It changes back when that has become the quicker one. */
static void test_unlearns(void **state)
{
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	sink_us = 20000;
	sends(&s, MIB / 2, FIRST - 1 + 2 * RUN);
	assert_int_equal(sends(&s, MIB / 2, 1), 1);
	read_us = 10000;
	assert_int_equal(sends(&s, MIB / 2, FIRST - 2 + RUN), FIRST - 2 + RUN);
	assert_int_equal(sends(&s, MIB / 2, RUN), 0);
	assert_int_equal(sends(&s, MIB / 2, 100), 0);
}

/* A difference that is none moves nothing, and is looked for ever less. */
static void test_stays(void **state)
{
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	sink_us = 24000;
	assert_int_equal(sends(&s, MIB / 4, FIRST - 1 + RUN), 0);
	/* the two that do not count and three that are not clearly shorter */
	assert_int_equal(sends(&s, MIB / 4, RUN), 5);
	assert_int_equal(sends(&s, MIB / 4, 5000), 10);
	assert_in_range(sends(&s, MIB / 4, 100000), 5, 25);
}

/* What is set is not measured. */
static void test_is_told(void **state)
{
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	sink_us = 10000;
	settings.zcopy_write = SET_ZCOPY_NO;
	assert_int_equal(sends(&s, MIB / 8, 2000), 0);
	read_us = 5000;
	settings.zcopy_write = SET_ZCOPY_ALWAYS;
	assert_int_equal(sends(&s, MIB / 8, 2000), 2000);
	settings.zcopy_write = SET_ZCOPY_AUTO;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_learns),
		cmocka_unit_test(test_unlearns),
		cmocka_unit_test(test_stays),
		cmocka_unit_test(test_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
