/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How much a receive reads at once from another host's memory; by a clock of
 * its own. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "socket/rdma.h"

#define KIB 1024u
#define MIB (1u << 20)

static uint64_t now_us = 1000000;
static uint64_t done_at, read_id; /* of the read under way */
static uint64_t takes_us;
static unsigned int regions, looks;
static unsigned int look_us;
static bool stuck, down;

int clock_gettime(clockid_t id, struct timespec *ts)
{
	(void)id;
	ts->tv_sec = (time_t)(now_us / 1000000);
	ts->tv_nsec = (long)(now_us % 1000000) * 1000;
	return 0;
}

static int read_begins(struct end *e, void *to, uint64_t vaddr, uint32_t rkey,
		       size_t len, uint64_t id)
{
	(void)e;
	(void)to;
	(void)vaddr;
	(void)rkey;
	(void)len;
	assert_int_equal(regions, 1);
	done_at = now_us + takes_us;
	read_id = id;
	return 0;
}

/* Each look takes its time. */
static int read_done(struct end *e, struct fab_done *d)
{
	(void)e;
	looks++;
	now_us += look_us;
	if (stuck || now_us < done_at)
		return 0;
	*d = (struct fab_done){ .id = read_id, .len = 1 };
	return 1;
}

static int reg(struct end *e, void *mem, size_t len, bool remote_read,
	       bool remote_write, struct verbs_region *r)
{
	(void)e;
	(void)mem;
	(void)len;
	assert_false(remote_read || remote_write);
	r->mr = r;
	regions++;
	return 0;
}

static void dereg(struct end *e, struct verbs_region *r)
{
	(void)e;
	(void)r;
	regions--;
}

static void disconnect(struct end *e)
{
	(void)e;
	down = true;
}

static const struct fabric_ops ops = { .read = read_begins, .done = read_done };
static const struct verbs_api api = { .reg = reg,
				      .dereg = dereg,
				      .disconnect = disconnect };

static void setup_one(struct sock *s, struct rdma *r, struct end *e)
{
	memset(s, 0, sizeof(*s));
	memset(r, 0, sizeof(*r));
	*e = (struct end){ .ops = &ops };
	r->state = RDMA_UP;
	r->owner = sock_pid;
	r->end = e;
	s->rd = r;
	s->end = e;
	s->end_pid = sock_pid;
	rdma_api = &api;
	settings.zcopy_wait_ms = 40;
	stuck = down = false;
	looks = 0;
	look_us = 100;
}

/* One piece of that size, which takes so long. */
static int reads(struct sock *s, uint32_t len, uint64_t us)
{
	struct conn_op op = { .len = len };
	struct fab_done d;

	takes_us = us;
	zcr_read(s, NULL, &op, &d);
	assert_int_equal(regions, 0);
	return d.status;
}

static void test_grows(void **state)
{
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	assert_int_equal(zcr_read_most(&s), 256 * KIB);
	/* 64 MiB/s: 20 ms are more than the most */
	assert_int_equal(reads(&s, 256 * KIB, 4000), 0);
	assert_int_equal(zcr_read_most(&s), MIB);
	assert_int_equal(reads(&s, MIB, 16000), 0);
	assert_int_equal(zcr_read_most(&s), MIB);
	/* 25 MiB/s: about half a MiB */
	assert_int_equal(reads(&s, MIB, 40000), 0);
	assert_in_range(zcr_read_most(&s), 448 * KIB, 512 * KIB);
}

/* The writer does not wait longer for a report, and would go on by copy. */
static void test_in_time(void **state)
{
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	settings.zcopy_wait_ms = 1;
	/* 100 MiB/s: half a MiB in 5 ms */
	assert_int_equal(reads(&s, 256 * KIB, 2400), 0);
	assert_in_range(zcr_read_most(&s), 480 * KIB, 540 * KIB);
	settings.zcopy_wait_ms = 1000;
	assert_int_equal(zcr_read_most(&s), MIB);
}

static void test_shrinks(void **state)
{
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	assert_int_equal(reads(&s, 256 * KIB, 100), 0);
	assert_int_equal(zcr_read_most(&s), MIB);
	/* 1 MiB/s, all of a sudden */
	assert_int_equal(reads(&s, 256 * KIB, 250000), 0);
	assert_int_equal(zcr_read_most(&s), 256 * KIB);
	/* what is small shows how far it is, not how fast */
	assert_int_equal(reads(&s, 256 * KIB, 100), 0);
	assert_int_equal(reads(&s, 16 * KIB, 250000), 0);
	assert_int_equal(zcr_read_most(&s), MIB);
}

static uint64_t real_ms(void)
{
	struct timespec ts;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* What takes long is not looked for all the time; what does not is. */
static void test_rests(void **state)
{
	unsigned int i, n;
	uint64_t begun;
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	assert_int_equal(reads(&s, MIB, 16000), 0);
	begun = real_ms();
	assert_int_equal(reads(&s, MIB, 16000), 0);
	assert_true(real_ms() - begun >= 7);
	/* however slow it was, no more than half of what a piece may take */
	assert_int_equal(reads(&s, 256 * KIB, 900000), 0);
	begun = real_ms();
	assert_int_equal(reads(&s, 256 * KIB, 100), 0);
	assert_true(real_ms() - begun >= 9);
	/* that was too long: it is not done again soon, and then later */
	for (n = 4; n <= 16; n *= 2) {
		assert_int_equal(s.zc.awake, n);
		s.zc.pace = 1000000;
		begun = real_ms();
		looks = 0;
		for (i = 0; i < n; i++) {
			assert_int_equal(reads(&s, 256 * KIB, 2000), 0);
			s.zc.pace = 1000000;
		}
		assert_int_equal(looks, 20 * n);
		assert_int_equal(s.zc.awake, 0);
		assert_int_equal(reads(&s, 256 * KIB, 100), 0);
		assert_true(real_ms() - begun >= 9);
	}
	/* until it paid once */
	s.zc.awake = 0;
	s.zc.pace = 1000000;
	assert_int_equal(reads(&s, 256 * KIB, 30000), 0);
	assert_int_equal(s.zc.awakes, 0);
}

/* A read that does not end gives the queue pair up, however fast the last was. */
static void test_gives_up(void **state)
{
	uint64_t begun;
	struct rdma r;
	struct sock s;
	struct end e;

	(void)state;
	setup_one(&s, &r, &e);
	assert_int_equal(reads(&s, MIB, 10000), 0);
	assert_false(down);
	begun = now_us;
	stuck = true;
	look_us = 2000;
	assert_int_equal(reads(&s, MIB, 0), -ETIMEDOUT);
	assert_true(down);
	assert_int_equal(s.zc.broke, -ETIMEDOUT);
	assert_in_range(now_us - begun, 1000000, 1004000);
	/* and one begins small again */
	assert_int_equal(zcr_read_most(&s), 256 * KIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grows),	 cmocka_unit_test(test_in_time),
		cmocka_unit_test(test_shrinks),	 cmocka_unit_test(test_rests),
		cmocka_unit_test(test_gives_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
