/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/verbs/int.h"

/*
 * The sending half on a device that is made up: what goes inline, what asks for
 * a completion, and what is known to be under way.
 */

static struct vend end;
static struct ibv_context ctx;
static struct ibv_qp qp = { .context = &ctx };
static struct ibv_mr mr = { .lkey = 7 };
static uint8_t rest[REST_LEN];
static struct ibv_send_wr last;
static uint32_t last_len, posted, signalled;
static int refuse;
static size_t memory, most_memory; /* registered beside `rest`; may be */

static int take(struct ibv_qp *of, struct ibv_send_wr *wr,
		struct ibv_send_wr **bad)
{
	(void)of;
	(void)bad;
	pthread_testcancel(); /* it writes to a file, on rxe */
	if (refuse)
		return refuse;
	last = *wr;
	last_len = wr->num_sge ? wr->sg_list->length : 0;
	posted++;
	if (wr->send_flags & IBV_SEND_SIGNALED)
		signalled++;
	return 0;
}

void cq_reap(struct vend *e)
{
	(void)e;
}

void cq_break(struct vend *e, int err)
{
	e->error = err;
}

void rdma_op_note(struct vend *e, const struct sent *s, int status)
{
	(void)e;
	(void)s;
	(void)status;
	fail();
}

int region_new(struct vend *e, struct region *r, size_t len)
{
	(void)e;
	if (memory + len > most_memory)
		return -ENOMEM;
	*r = (struct region){ malloc(len), len, &mr };
	assert_non_null(r->mem);
	memory += len;
	return 0;
}

void region_free(struct vend *e, struct region *r)
{
	(void)e;
	free(r->mem);
	memory -= r->len;
	*r = (struct region){ 0 };
}

static int begin(void **state)
{
	(void)state;
	memset(&end, 0, sizeof(end));
	ctx.ops.post_send = take;
	end.end.max_msg = VERBS_RCV_MAX;
	end.qp = &qp;
	end.inline_max = VERBS_INLINE;
	end.rest = (struct region){ rest, REST_LEN, &mr };
	posted = signalled = 0;
	refuse = 0;
	memory = most_memory = 0;
	tx_init(&end);
	return 0;
}

static int end_it(void **state)
{
	unsigned int i;

	(void)state;
	for (i = 0; i < SENT_BULK; i++)
		region_free(&end, &end.tx.larger[i]);
	assert_int_equal(memory, 0);
	return 0;
}

static void message(uint32_t len)
{
	assert_non_null(tx_buf(&end.end, len));
	assert_int_equal(tx_send(&end.end, len, true), 0);
	assert_int_equal(last_len, len);
	assert_true(last.send_flags & IBV_SEND_SOLICITED);
}

static void small_ones_go_inline(void **state)
{
	(void)state;
	message(VERBS_INLINE);
	assert_true(last.send_flags & IBV_SEND_INLINE);
	message(VERBS_INLINE + 1);
	assert_false(last.send_flags & IBV_SEND_INLINE);
	/* as much as the device takes */
	end.inline_max = 16;
	message(16);
	assert_true(last.send_flags & IBV_SEND_INLINE);
	message(17);
	assert_false(last.send_flags & IBV_SEND_INLINE);
}

static void one_of_many_asks_for_its_completion(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < 2 * QUIET_MAX; i++) {
		message(64);
		assert_int_equal(signalled, (i + 1) / QUIET_MAX);
	}
	/* it tells of all before it */
	end.completed(&end, 2 * QUIET_MAX - 1, 0);
	assert_int_equal(end.tx.acked, 2 * QUIET_MAX);
	assert_int_equal(verbs_flushed(&end.end), 1);
	assert_int_equal(posted, 2 * QUIET_MAX);
}

/* Or the ring would be full before it was known to be empty. */
static void half_a_ring_asks_for_one(void **state)
{
	uint32_t cap = end.tx.ring[SENT_REST].cap, n = 0;

	(void)state;
	while (!signalled) {
		message(4096);
		assert_true(++n * 4096 <= cap);
	}
	assert_true(n < QUIET_MAX);
}

static size_t tx_unacked_len(void)
{
	struct fab_msg m;
	uint32_t pos = 0;
	size_t n = 0;

	while (verbs_unacked(&end.end, &pos, &m))
		n += m.len;
	return n;
}

/* As long as there is room; so many bytes. */
static size_t fill(void)
{
	uint32_t len;
	size_t n = 0;

	for (; (len = tx_room(&end.end)); n += len) {
		len = len < 65536 ? len : 65536;
		message(len);
	}
	return n;
}

static void all_completes(void)
{
	end.completed(&end, end.tx.seq - 1, 0);
	assert_int_equal(tx_unacked_len(), 0);
}

/* All of what a ring takes goes through it again and again, as of a stream. */
static size_t stream_through(uint8_t ring)
{
	size_t sum = 0;

	do {
		all_completes();
		sum += fill();
	} while (end.tx.cur == ring && sum < 4u * BULK_FROM);
	return sum;
}

static void a_stream_gets_a_larger_ring(void **state)
{
	const struct tx *t = &end.tx;
	const uint8_t *first;
	uint32_t pos = 0;
	struct fab_msg m;

	(void)state;
	most_memory = 2 * (LOAD_TX + BULK_TX);
	message(64);
	assert_int_equal(memory, 0);
	fill();
	assert_int_equal(t->cur, SENT_LOAD);
	assert_int_equal(memory, LOAD_TX);
	assert_in_range(stream_through(SENT_LOAD), BULK_FROM,
			BULK_FROM + LOAD_TX + BULK_TX);
	assert_int_equal(t->cur, SENT_BULK);
	/* what lies in the smaller one is under way, and it stays for that */
	assert_int_equal(memory, LOAD_TX + BULK_TX);
	assert_int_equal(verbs_unacked(&end.end, &pos, &m), 1);
	first = t->larger[0].mem;
	assert_in_range((uintptr_t)m.mem, (uintptr_t)first,
			(uintptr_t)first + LOAD_TX);
	assert_true(tx_unacked_len() > LOAD_TX + BULK_TX / 2);
	all_completes();
	fill();
	assert_int_equal(memory, BULK_TX);
	/* and at rest it has none of both */
	all_completes();
	tx_trim(&end);
	assert_int_equal(memory, 0);
	fill();
	assert_int_equal(t->cur, SENT_LOAD);
}

static void without_memory_it_goes_on_with_what_it_has(void **state)
{
	(void)state;
	fill();
	assert_int_equal(end.tx.cur, SENT_REST);
	all_completes();
	tx_trim(&end);
	most_memory = LOAD_TX + BULK_TX - 1;
	assert_true(stream_through(SENT_REST) > LOAD_TX / 2);
	assert_true(stream_through(SENT_LOAD) >= 4u * BULK_FROM);
	assert_int_equal(end.tx.cur, SENT_LOAD);
	assert_int_equal(memory, LOAD_TX);
}

/* A caller that wants to know sooner posts one mark, and not one more. */
static void a_mark_is_posted_once(void **state)
{
	uint32_t pos = 0;
	struct fab_msg m;

	(void)state;
	message(64);
	assert_int_equal(verbs_flushed(&end.end), 0);
	assert_int_equal(posted, 2);
	assert_int_equal(last.opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(last_len, 0);
	assert_true(last.send_flags & IBV_SEND_SIGNALED);
	assert_int_equal(verbs_flushed(&end.end), 0);
	assert_int_equal(posted, 2);
	/* it is no message that would have to go elsewhere */
	assert_int_equal(verbs_unacked(&end.end, &pos, &m), 1);
	assert_int_equal(m.len, 64);
	assert_int_equal(verbs_unacked(&end.end, &pos, &m), 0);
	end.completed(&end, 1, 0);
	assert_int_equal(verbs_flushed(&end.end), 1);
}

static void what_cannot_be_posted_is_not_lost(void **state)
{
	uint32_t pos = 0;
	struct fab_msg m;

	(void)state;
	message(64);
	refuse = EACCES;
	assert_non_null(tx_buf(&end.end, 100));
	assert_int_equal(tx_send(&end.end, 100, true), -EACCES);
	assert_int_equal(end.error, -EACCES);
	assert_int_equal(verbs_unacked(&end.end, &pos, &m), 1);
	assert_int_equal(m.len, 64);
	assert_int_equal(verbs_unacked(&end.end, &pos, &m), 1);
	assert_int_equal(m.len, 100);
	assert_int_equal(verbs_unacked(&end.end, &pos, &m), 0);
	assert_int_equal(tx_room(&end.end), 0);
	assert_int_equal(verbs_flushed(&end.end), -ECONNRESET);
}

/* Cancelled while it sends: its caller holds a lock. */
static void *cancelled(void *arg)
{
	bool *sent = arg;

	pthread_cancel(pthread_self());
	message(64);
	*sent = true;
	pthread_testcancel();
	return NULL;
}

static void nobody_is_cancelled_in_the_middle(void **state)
{
	bool sent = false;
	pthread_t thread;
	void *how;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, cancelled, &sent), 0);
	pthread_join(thread, &how);
	assert_true(sent);
	assert_ptr_equal(how, PTHREAD_CANCELED);
	assert_int_equal(posted, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(small_ones_go_inline, begin),
		cmocka_unit_test_setup(one_of_many_asks_for_its_completion,
				       begin),
		cmocka_unit_test_setup(half_a_ring_asks_for_one, begin),
		cmocka_unit_test_setup_teardown(a_stream_gets_a_larger_ring,
						begin, end_it),
		cmocka_unit_test_setup_teardown(
			without_memory_it_goes_on_with_what_it_has, begin,
			end_it),
		cmocka_unit_test_setup(a_mark_is_posted_once, begin),
		cmocka_unit_test_setup(what_cannot_be_posted_is_not_lost,
				       begin),
		cmocka_unit_test_setup(nobody_is_cancelled_in_the_middle,
				       begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
