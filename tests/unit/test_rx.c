/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/verbs/int.h"

/*
 * The receiving half under a made-up queue pair that uses receives up in the
 * order they were posted in: few at rest, more under load, and few again once
 * messages without bytes have used up what is posted.
 */

static struct vend end;
static struct ibv_context ctx;
static struct ibv_qp qp = { .context = &ctx };
static struct ibv_mr mr = { .lkey = 7 };
static uint8_t rest[REST_LEN];
static struct {
	uint8_t *mem;
	uint32_t slot;
} posted[256];
static unsigned int head, tail;
static unsigned int regions;

int region_new(struct vend *e, struct region *r, size_t len)
{
	r->mem = malloc(len);
	r->len = len;
	r->mr = &mr;
	e->registered += (uint32_t)len;
	regions++;
	return 0;
}

void region_free(struct vend *e, struct region *r)
{
	if (!r->mr)
		return;
	free(r->mem);
	e->registered -= (uint32_t)r->len;
	*r = (struct region){ 0 };
	regions--;
}

static bool dry;
static int sends_first; /* looks that find no receive, and then one does */

bool cq_next(struct vend *e)
{
	if (!sends_first)
		return false;
	if (!--sends_first)
		e->arrived(e, posted[head++ % 256].slot, 16);
	return true;
}

bool cq_dry(const struct vend *e)
{
	(void)e;
	return dry;
}

void cq_break(struct vend *e, int err)
{
	(void)e;
	(void)err;
	fail();
}

static int post_recv(struct ibv_qp *q, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad)
{
	(void)q;
	(void)bad;
	assert_true(tail - head < 256);
	posted[tail % 256].mem = (uint8_t *)(uintptr_t)wr->sg_list->addr;
	posted[tail++ % 256].slot = (uint32_t)wr->wr_id;
	return 0;
}

/* A message of `len` bytes arrives, and is polled. */
static struct fab_msg come_as(uint8_t mid, uint32_t len)
{
	struct fab_msg m;

	assert_true(head != tail);
	memset(posted[head % 256].mem, mid, len);
	end.arrived(&end, posted[head % 256].slot, len);
	head++;
	assert_int_equal(rx_poll(&end.end, &m), 1);
	assert_int_equal(m.len, len);
	return m;
}

/* The same, of Data. */
static struct fab_msg come(uint32_t len)
{
	return come_as(0xff, len);
}

/*
 * A program that takes it for the last does not ask again: there must have been
 * no more.
 */
static void only_what_was_looked_for_is_the_last(void **state)
{
	struct fab_msg m;

	(void)state;
	dry = false;
	assert_false(come(16).last);
	dry = true;
	assert_true(come(16).last);
	assert_true(come(17).last);
	end.arrived(&end, posted[head % 256].slot, 16);
	head++;
	assert_false(come(16).last);
	assert_int_equal(rx_poll(&end.end, &m), 1);
	assert_true(m.last);
	/* behind it comes the error */
	end.error = -ECONNRESET;
	assert_false(come_as(0xfe, 33).last);
}

static void a_send_that_is_done_does_not_hide_it(void **state)
{
	struct fab_msg m;

	(void)state;
	assert_int_equal(rx_poll(&end.end, &m), 0);
	sends_first = 3;
	assert_int_equal(rx_poll(&end.end, &m), 1);
	assert_int_equal(sends_first, 0);
}

static int begin(void **state)
{
	(void)state;
	memset(&end, 0, sizeof(end));
	head = tail = regions = 0;
	ctx.ops.post_recv = post_recv;
	end.qp = &qp;
	end.rest = (struct region){ rest, sizeof(rest), &mr };
	return rx_init(&end);
}

/* The machine counts on its receive at once [3.3], advertisements or not. */
static void adverts_without_bytes_come_back(void **state)
{
	(void)state;
	assert_false(come_as(0xfe, 32).held);
	assert_false(come_as(0xfd, 36).held);
	assert_int_equal(tail - head, VERBS_RCV_REST);
	assert_true(come_as(0xfe, 33).held);
	assert_int_equal(tail - head, VERBS_RCV_REST - 1);
}

static void at_rest_each_comes_back(void **state)
{
	unsigned int i;

	(void)state;
	assert_int_equal(tail - head, VERBS_RCV_REST);
	for (i = 0; i < 20; i++) {
		struct fab_msg m = come(16);

		assert_false(m.held);
		assert_false(m.shed);
		assert_int_equal(tail - head, VERBS_RCV_REST);
	}
	assert_true(come(17).held);
	assert_int_equal(tail - head, VERBS_RCV_REST - 1);
	/* the count is of those held, too */
	assert_false(come(16).shed);
	assert_int_equal(tail - head, VERBS_RCV_REST - 1);
	rx_release(&end.end);
	assert_int_equal(tail - head, VERBS_RCV_REST);
}

static void a_look_changes_nothing(void **state)
{
	struct fab_walk w = { 0 };
	struct fab_msg m;
	uint32_t i;

	(void)state;
	assert_int_equal(rx_next(&end.end, false, &w, &m), 0);
	for (i = 0; i < 10; i++) {
		assert_true(come(100 + i).held);
		if (i < 8)
			rx_release(&end.end);
	}
	for (i = 8; i < 10; i++) {
		assert_int_equal(rx_next(&end.end, false, &w, &m), 1);
		assert_int_equal(m.len, 100 + i);
		assert_int_equal(m.mem[0], 0xff);
	}
	assert_int_equal(rx_next(&end.end, false, &w, &m), 0);
	assert_int_equal(rx_front(&end.end, &m), 1);
	assert_int_equal(m.len, 108);
	w = (struct fab_walk){ 0 };
	assert_int_equal(rx_next(&end.end, true, &w, &m), -EOPNOTSUPP);
}

/* Not of the stream, and taken from behind: what is in front stays. */
static void what_is_dropped_comes_back(void **state)
{
	struct fab_msg m;
	unsigned int i;

	(void)state;
	assert_true(come(100).held);
	for (i = 0; i < 20; i++) {
		assert_true(come(1000).held);
		verbs_drop(&end.end);
		assert_int_equal(tail - head, VERBS_RCV_REST - 1);
		assert_false(come(16).shed);
		assert_int_equal(tail - head, VERBS_RCV_REST - 1);
	}
	assert_int_equal(rx_front(&end.end, &m), 1);
	assert_int_equal(m.len, 100);
	rx_release(&end.end);
	assert_int_equal(tail - head, VERBS_RCV_REST);
	assert_int_equal(rx_front(&end.end, &m), 0);
}

static void what_load_brought_goes(void **state)
{
	unsigned int i, n, shed = 0;

	(void)state;
	assert_int_equal(verbs_resize(&end.end, VERBS_RCV_SIZE, 32),
			 32 - VERBS_RCV_REST);
	assert_int_equal(regions, 1);
	/* load: places change, so that the last posted are of the second */
	for (i = 0; i < 100; i++) {
		assert_true(come(1000).held);
		assert_false(come(16).shed);
		rx_release(&end.end);
	}
	assert_int_equal(tail - head, 32);
	assert_int_equal(verbs_resize(&end.end, VERBS_RCV_SIZE, VERBS_RCV_REST),
			 0);
	rx_trim(&end);
	assert_int_equal(regions, 1);
	/* as many messages as are posted now, and it is as it was */
	n = tail - head;
	for (i = 0; i < n; i++)
		shed += come(16).shed;
	assert_int_equal(shed, 32 - VERBS_RCV_REST);
	assert_int_equal(tail - head, VERBS_RCV_REST);
	rx_trim(&end);
	assert_int_equal(regions, 0);
	assert_int_equal(end.registered, 0);
	/* and grows again */
	assert_int_equal(verbs_resize(&end.end, VERBS_RCV_SIZE, 32),
			 32 - VERBS_RCV_REST);
	assert_false(come(16).shed);
	region_free(&end, &end.rx.load);
}

/* All that are posted are used up, and posted again. */
static void turn_over(unsigned int n)
{
	while (n--) {
		assert_true(come(1000).held);
		rx_release(&end.end);
	}
}

static void large_ones_come_and_go(void **state)
{
	unsigned int i, n, shed = 0;
	uint32_t sum;

	(void)state;
	assert_int_equal(verbs_resize(&end.end, VERBS_RCV_BULK, 64),
			 64 - VERBS_RCV_REST);
	sum = end.registered;
	assert_int_equal(sum, 64 * VERBS_RCV_BULK);
	/* the small ones are in front */
	for (i = 0; i < VERBS_RCV_REST; i++) {
		assert_int_equal(rx_smallest(&end), VERBS_RCV_SIZE);
		turn_over(1);
	}
	assert_int_equal(rx_smallest(&end), VERBS_RCV_BULK);
	turn_over(200);
	assert_int_equal(come(VERBS_RCV_BULK).len, VERBS_RCV_BULK);
	rx_release(&end.end);
	assert_int_equal(rx_smallest(&end), VERBS_RCV_BULK);
	/* fewer of the same size: the peer fills them still */
	assert_int_equal(verbs_resize(&end.end, VERBS_RCV_BULK, VERBS_RCV_REST),
			 0);
	n = tail - head;
	for (i = 0; i < n; i++)
		shed += come(16).shed;
	assert_int_equal(shed, 64 - VERBS_RCV_REST);
	assert_int_equal(rx_smallest(&end), VERBS_RCV_BULK);
	rx_trim(&end);
	assert_int_equal(regions, 1);
	/* and small ones, once it does not */
	assert_int_equal(verbs_resize(&end.end, VERBS_RCV_SIZE, VERBS_RCV_REST),
			 0);
	turn_over(VERBS_RCV_REST - 1);
	rx_trim(&end);
	assert_int_equal(end.registered, sum);
	turn_over(1);
	rx_trim(&end);
	assert_int_equal(end.registered, 0);
	assert_int_equal(tail - head, VERBS_RCV_REST);
	assert_int_equal(rx_smallest(&end), VERBS_RCV_SIZE);
}

/* One region: what is in use of another size stays. */
static void two_sizes_at_a_time_are_not_had(void **state)
{
	(void)state;
	assert_int_equal(verbs_resize(&end.end, VERBS_RCV_SIZE, 64),
			 64 - VERBS_RCV_REST);
	assert_int_equal(verbs_resize(&end.end, VERBS_RCV_BULK, 64), -EBUSY);
	turn_over(100);
	assert_int_equal(tail - head, 64);
	assert_int_equal(verbs_resize(&end.end, VERBS_RCV_SIZE - 1, 64),
			 -EINVAL);
	assert_int_equal(verbs_resize(&end.end, VERBS_RCV_MAX + 1, 64),
			 -EINVAL);
	region_free(&end, &end.rx.load);
	begin(NULL);
	/* of one that is not used any more the place is taken */
	assert_int_equal(verbs_resize(&end.end, VERBS_RCV_SIZE, 8), 3);
	assert_int_equal(verbs_resize(&end.end, VERBS_RCV_SIZE, VERBS_RCV_REST),
			 0);
	while (tail - head > VERBS_RCV_REST)
		come(16);
	turn_over(VERBS_RCV_REST);
	if (end.rx.free[1] != 0xff)
		turn_over(VERBS_RCV_REST);
	assert_int_equal(verbs_resize(&end.end, VERBS_RCV_BULK, 64),
			 64 - VERBS_RCV_REST);
	assert_int_equal(regions, 1);
	region_free(&end, &end.rx.load);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(at_rest_each_comes_back, begin),
		cmocka_unit_test_setup(adverts_without_bytes_come_back, begin),
		cmocka_unit_test_setup(a_look_changes_nothing, begin),
		cmocka_unit_test_setup(what_is_dropped_comes_back, begin),
		cmocka_unit_test_setup(what_load_brought_goes, begin),
		cmocka_unit_test_setup(large_ones_come_and_go, begin),
		cmocka_unit_test_setup(two_sizes_at_a_time_are_not_had, begin),
		cmocka_unit_test_setup(only_what_was_looked_for_is_the_last,
				       begin),
		cmocka_unit_test_setup(a_send_that_is_done_does_not_hide_it,
				       begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
