/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Pure parts of readiness: masks, edges, data words, time arithmetic. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "preload/fd/deadline.h"
#include "preload/epoll/epedge.h"

#define ET   ((uint32_t)EPOLLET)
#define ONE  ((uint32_t)EPOLLONESHOT)
#define BOTH (EPOLLIN | EPOLLOUT)

static void kmask_raw(void **state)
{
	(void)state;
	assert_int_equal(ep_kmask(BOTH, 0), BOTH);
	assert_int_equal(ep_kmask(EPOLLIN | ONE, 0), EPOLLIN | ONE);
	assert_int_equal(ep_kmask(EPOLLIN | (uint32_t)EPOLLEXCLUSIVE, 0),
			 EPOLLIN | (uint32_t)EPOLLEXCLUSIVE);
}

static void kmask_narrow(void **state)
{
	uint32_t kick = EPOLLIN | EPOLLRDHUP | ET;

	(void)state;
	/* an idle anchor is always writable */
	assert_int_equal(ep_kmask(BOTH, BOTH), kick);
	assert_int_equal(ep_kmask(EPOLLOUT, BOTH), kick);
	assert_int_equal(ep_kmask(EPOLLOUT | EPOLLWRNORM, BOTH), kick);
	/* room is still the kernel's */
	assert_int_equal(ep_kmask(BOTH, EPOLLIN), kick | EPOLLOUT);
	/* data are still the kernel's: a level stays a level */
	assert_int_equal(ep_kmask(BOTH, EPOLLOUT), EPOLLIN | EPOLLRDHUP);
	assert_int_equal(ep_kmask(BOTH | ONE, EPOLLOUT), kick);
	/* flags that user space keeps */
	assert_int_equal(ep_kmask(EPOLLIN | ONE | ET, BOTH), kick);
	assert_int_equal(ep_kmask(EPOLLIN | (uint32_t)EPOLLEXCLUSIVE, BOTH),
			 kick);
	/* only hang-up was asked for: no kicks */
	assert_int_equal(ep_kmask(0, BOTH), ET);
}

static void edge_level(void **state)
{
	struct ep_edge e = { .fresh = true };
	struct sock_ready r = { .ours = BOTH, .now = EPOLLIN };
	int i;

	(void)state;
	for (i = 0; i < 3; i++)
		assert_int_equal(ep_edge_take(&e, BOTH, &r), EPOLLIN);
	assert_int_equal(ep_edge_take(&e, EPOLLOUT, &r), 0);
	assert_int_equal(ep_edge_take(&e, EPOLLRDNORM, &r), EPOLLRDNORM);
	r.now = EPOLLHUP;
	assert_int_equal(ep_edge_take(&e, 0, &r), EPOLLHUP);
}

static void edge_arrivals(void **state)
{
	struct ep_edge e = { .fresh = true };
	struct sock_ready r = { .ours = BOTH, .now = EPOLLIN, .in_gen = 7 };
	uint32_t mask = EPOLLIN | ET;

	(void)state;
	assert_int_equal(ep_edge_take(&e, mask, &r), EPOLLIN);
	assert_int_equal(ep_edge_take(&e, mask, &r), 0);
	r.in_gen++;
	assert_int_equal(ep_edge_take(&e, mask, &r), EPOLLIN);
	assert_int_equal(ep_edge_take(&e, mask, &r), 0);
	/* it came and was read before anything looked */
	r.in_gen++;
	r.now = 0;
	assert_int_equal(ep_edge_take(&e, mask, &r), 0);
	r.now = EPOLLIN;
	assert_int_equal(ep_edge_take(&e, mask, &r), 0);
	e.fresh = true; /* MOD */
	assert_int_equal(ep_edge_take(&e, mask, &r), EPOLLIN);
}

static void edge_both(void **state)
{
	struct ep_edge e = { .fresh = true };
	struct sock_ready r = { .ours = BOTH, .now = EPOLLOUT };
	uint32_t mask = BOTH | ET | EPOLLRDHUP;

	(void)state;
	assert_int_equal(ep_edge_take(&e, mask, &r), EPOLLOUT);
	assert_int_equal(ep_edge_take(&e, mask, &r), 0);
	/* an arrival reports everything that is true */
	r.now = BOTH;
	r.in_gen++;
	assert_int_equal(ep_edge_take(&e, mask, &r), BOTH);
	/* room is no edge for one that did not ask */
	r.out_gen++;
	assert_int_equal(ep_edge_take(&e, EPOLLIN | ET, &r), 0);
	r.out_gen++;
	assert_int_equal(ep_edge_take(&e, mask, &r), BOTH);
	/* the end is an edge by itself */
	r.now |= EPOLLRDHUP;
	assert_int_equal(ep_edge_take(&e, mask, &r), BOTH | EPOLLRDHUP);
	assert_int_equal(ep_edge_take(&e, mask, &r), 0);
}

static void edge_fresh_waits(void **state)
{
	struct ep_edge e = { .fresh = true };
	struct sock_ready r = { .ours = BOTH };

	(void)state;
	assert_int_equal(ep_edge_take(&e, EPOLLIN | ET, &r), 0);
	r.now = EPOLLIN;
	assert_int_equal(ep_edge_take(&e, EPOLLIN | ET, &r), EPOLLIN);
	assert_int_equal(ep_edge_take(&e, EPOLLIN | ET, &r), 0);
}

static void words(void **state)
{
	uint32_t tag = 0x2abcdef, idx = (1u << EP_IDX_BITS) - 1;
	uint64_t w = ep_word(tag, false, 0x1ff, 0xff, idx);

	(void)state;
	assert_int_equal(ep_word_tag(w), tag);
	assert_int_equal(ep_word_idx(w), idx);
	assert_false(w & EP_WAKE);
	assert_true(ep_word_used(w, 0x1ff));
	assert_true(ep_word_used(w, 0xfff)); /* counts modulo its width */
	assert_false(ep_word_used(w, 0x1fe));
	assert_true(ep_word_modded(w, 0x1ff));
	assert_false(ep_word_modded(w, 0));
	w = ep_word(tag, true, 0, 0, 0);
	assert_true(w & EP_WAKE);
	assert_int_equal(ep_word_tag(w), tag);
	assert_int_equal(ep_word_idx(w), 0);
	assert_true(ep_word_used(w, 512));
}

static void spans(void **state)
{
	struct timespec ts = { 1, 500 };

	(void)state;
	assert_true(dl_valid(&ts));
	assert_int_equal(dl_span(&ts), 1000000500);
	ts = (struct timespec){ INT64_MAX, 999999999 };
	assert_true(dl_valid(&ts));
	assert_true(dl_span(&ts) == DL_NEVER);
	ts = (struct timespec){ 0, 1000000000 };
	assert_false(dl_valid(&ts));
	ts = (struct timespec){ 0, -1 };
	assert_false(dl_valid(&ts));
	ts = (struct timespec){ -1, 0 };
	assert_false(dl_valid(&ts));
	assert_true(dl_span_ms(-1) == DL_NEVER);
	assert_true(dl_span_ms(INT_MIN) == DL_NEVER);
	assert_int_equal(dl_span_ms(0), 0);
	assert_true(dl_span_ms(INT_MAX) == 2147483647ull * 1000000);
}

static void deadlines(void **state)
{
	(void)state;
	assert_int_equal(dl_after(5, 6), 11);
	assert_true(dl_after(5, DL_NEVER) == DL_NEVER);
	assert_true(dl_after(DL_NEVER - 3, 4) == DL_NEVER);
	assert_int_equal(dl_left(5, 11), 6);
	assert_int_equal(dl_left(11, 11), 0);
	assert_int_equal(dl_left(12, 11), 0);
	assert_true(dl_left(12, DL_NEVER) == DL_NEVER);
}

/* Never less than asked for: a wait must not end before its time. */
static void rounding(void **state)
{
	struct timespec ts;

	(void)state;
	assert_int_equal(dl_ms(0), 0);
	assert_int_equal(dl_ms(1), 1);
	assert_int_equal(dl_ms(1000000), 1);
	assert_int_equal(dl_ms(1000001), 2);
	assert_int_equal(dl_ms(DL_NEVER), -1);
	assert_int_equal(dl_ms(DL_NEVER - 1), INT_MAX);
	ts = dl_ts(2000000003);
	assert_int_equal(ts.tv_sec, 2);
	assert_int_equal(ts.tv_nsec, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kmask_raw),
		cmocka_unit_test(kmask_narrow),
		cmocka_unit_test(edge_level),
		cmocka_unit_test(edge_arrivals),
		cmocka_unit_test(edge_both),
		cmocka_unit_test(edge_fresh_waits),
		cmocka_unit_test(words),
		cmocka_unit_test(spans),
		cmocka_unit_test(deadlines),
		cmocka_unit_test(rounding),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
