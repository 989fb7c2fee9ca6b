/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What lies on the anchor after a queue pair broke (resume.h). */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "handover_proto/resume.h"

static const uint8_t marker[RESUME_MARKER] = "sixteen bytes!!";
static const uint8_t secret[RESUME_SECRET] = "sixteen others!";

static uint8_t wire[256];
static size_t len;

static void put(const void *p, size_t n)
{
	memcpy(wire + len, p, n);
	len += n;
}

static void put_record(uint64_t from)
{
	resume_record(wire + len, secret, from);
	len += RESUME_RECORD;
}

/*
 * All that was put arrives piece by piece; the offset at which the stream
 * begins, or an errno; -EAGAIN: it does not.
 */
static int play(enum anc_state st, bool marker_wait, bool sure, uint64_t kicks,
		uint64_t arrived, size_t piece, struct resume *r)
{
	size_t at = 0, there = 0, eat;
	int ret = 0;

	*r = (struct resume){ .marker = marker,
			      .secret = secret,
			      .kicks = kicks };
	r->marker_got = marker_wait ? 0 : RESUME_MARKER;
	resume_begin(r, st, marker_wait, sure);
	while (!ret && there < len) {
		there += piece;
		if (there > len)
			there = len;
		do {
			ret = resume_look(r, wire + at, there - at, arrived,
					  &eat);
			at += eat;
		} while (!ret && eat);
	}
	return ret == 1 ? (int)at : ret ? ret : -EAGAIN;
}

static void test_ways(void **state)
{
	struct resume r;
	size_t piece;

	(void)state;
	for (piece = 1; piece < 80; piece++) {
		/* confirmed: marker, kicks, record, what came already */
		len = 0;
		put(marker, sizeof(marker));
		put("\0\0\0", 3);
		put_record(100);
		put("repeated", 8);
		put("news", 4);
		assert_int_equal(play(ANC_LIFTED, true, false, 0, 108, piece,
				      &r),
				 (int)len - 4);
		assert_false(r.back);
		/* not confirmed: the stream, and no marker at all */
		len = 0;
		put("sixteen birds", 13);
		assert_int_equal(
			play(ANC_LIFTED, true, false, 0, 108, piece, &r), 0);
		assert_true(r.back);
		/* behind a stall: two kicks, a record or none */
		len = 0;
		put("\0\0", 2);
		put_record(108);
		put("news", 4);
		assert_int_equal(play(ANC_DRAINING, false, false, 2, 108, piece,
				      &r),
				 (int)len - 4);
		len = 0;
		put("\0\0\1stream", 9);
		assert_int_equal(
			play(ANC_DRAINING, false, false, 2, 108, piece, &r), 2);
		/* one that both know of, but the marker is not here yet */
		len = 0;
		put(marker, sizeof(marker));
		put("\1stream", 7);
		assert_int_equal(
			play(ANC_DRAINING, true, true, 16, 108, piece, &r), 16);
		/* what both know is the stream's at once */
		assert_int_equal(play(ANC_TCP, false, true, 0, 108, piece, &r),
				 0);
	}
}

static void test_unsound(void **state)
{
	struct resume r;

	(void)state;
	len = 0;
	put_record(109); /* bytes between would be lost */
	assert_int_equal(play(ANC_LIFTED, false, false, 0, 108, 80, &r),
			 -EPROTO);
	len = 0;
	put_record(100);
	wire[25] ^= 1; /* its check fails */
	assert_int_equal(play(ANC_LIFTED, false, false, 0, 108, 80, &r),
			 -EPROTO);
	len = 0;
	put("stream", 6); /* where only kicks and a record may be */
	assert_int_equal(play(ANC_PAUSED, false, false, 0, 108, 80, &r),
			 -EPROTO);
	len = 0;
	put("\0\0", 2);
	assert_int_equal(play(ANC_LIFTED, false, false, 0, 108, 80, &r),
			 -EAGAIN);
	assert_false(resume_ended(&r));
}

/* A peer that has heard nothing is called by the record alone. */
static void test_called(void **state)
{
	struct resume r = { .marker = marker,
			    .secret = secret,
			    .marker_got = RESUME_MARKER };

	(void)state;
	resume_begin(&r, ANC_LIFTED, false, false);
	len = 0;
	put("\0\0", 2);
	assert_false(resume_called(&r, wire, len));
	put_record(0);
	assert_false(resume_called(&r, wire, 10));
	assert_true(resume_called(&r, wire, len));
	r.marker_got = 0;
	resume_begin(&r, ANC_LIFTED, true, false);
	assert_false(resume_called(&r, wire, len));
}

/* In front of x the anchor is the program's, but not falling back. */
static void test_turn(void **state)
{
	struct anc_dir rx = { .x = 100 };
	struct anc_rx ar = { .taken = 90 };
	struct resume r;

	(void)state;
	len = 0;
	put_record(100);
	put("repe", 4); /* the rest has not arrived */
	assert_int_equal(play(ANC_RESTORING, false, false, 0, 108, 80, &r),
			 -EAGAIN);
	assert_true(resume_turn(&r, &rx, &ar));
	resume_begin(&r, ANC_LIFTED, false, false);
	assert_false(resume_turn(&r, &rx, &ar));
	ar.taken = 100;
	assert_true(resume_turn(&r, &rx, &ar));
	rx.tcp_rx = 1;
	assert_false(resume_turn(&r, &rx, &ar));
}

static void test_writer(void **state)
{
	(void)state;
	assert_int_equal(resume_tx(ANC_TCP, true), RESUME_NOTHING);
	assert_int_equal(resume_tx(ANC_SWITCHING, true), RESUME_BACK);
	assert_int_equal(resume_tx(ANC_RECALLED, false), RESUME_BACK);
	assert_int_equal(resume_tx(ANC_LIFTED, false), RESUME_BACK);
	assert_int_equal(resume_tx(ANC_LIFTED, true), RESUME_RECORDED);
	assert_int_equal(resume_tx(ANC_DRAINING, false), RESUME_RECORDED);
	assert_int_equal(resume_tx(ANC_DRAINING, true), RESUME_NOTHING);
	assert_int_equal(resume_tx(ANC_PAUSED, true), RESUME_RECORDED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ways),   cmocka_unit_test(test_unsound),
		cmocka_unit_test(test_called), cmocka_unit_test(test_turn),
		cmocka_unit_test(test_writer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
