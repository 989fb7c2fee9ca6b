/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Words: the anchor's news as a control message that nothing passes. */

#include <string.h>

#include "conn_util.h"

static struct conn c;
static uint8_t set0[CONN_WORDS], set1[CONN_WORDS];

static void up_words(unsigned int flags)
{
	struct conn_params mine = params(false);
	struct conn_params other = params(false);
	struct conn peer;

	mine.ext_flags |= CONN_EXT_WORDS;
	other.ext_flags |= (uint8_t)flags;
	join(&c, &mine, &peer, &other);
	memset(set0, 0xa0, sizeof(set0));
	memset(set1, 0xb1, sizeof(set1));
}

static void next(uint64_t bytes, struct conn_op *op)
{
	struct conn_offer offer = { .bytes = bytes };

	conn_next(&c, 1, &offer, RCV_SIZE, op);
}

static void is_words(const struct conn_op *op, const uint8_t *w)
{
	assert_int_equal(op->type, CONN_SEND);
	assert_int_equal(op->hdr[0], WIRE_WORDS);
	assert_int_equal(op->hdr_len, WIRE_HDR_MAX);
	assert_int_equal(op->payload, 0);
	assert_memory_equal(op->hdr + WIRE_BSDH, w, CONN_WORDS);
}

static void order(void **state)
{
	struct conn_op op;

	(void)state;
	up_words(CONN_EXT_WORDS);
	assert_int_equal(conn_words(&c, 1, set1), 0);
	assert_int_equal(conn_words(&c, 0, set1), 0);
	assert_int_equal(conn_words(&c, 0, set0), 0); /* replaces it */
	assert_true(conn_wants_send(&c));
	next(100, &op);
	is_words(&op, set0);
	next(100, &op);
	is_words(&op, set1);
	next(100, &op);
	assert_int_equal(op.hdr[0], WIRE_DATA);
	assert_int_equal(op.payload, 100);
	next(0, &op);
	assert_int_equal(op.type, CONN_NOTHING);
}

/* With the credits gone, stream bytes do not pass either; two are enough. */
static void credits(void **state)
{
	struct conn_op op;

	(void)state;
	up_words(CONN_EXT_WORDS);
	c.credits = 1;
	assert_int_equal(conn_words(&c, 0, set0), 0);
	next(100, &op);
	assert_int_equal(op.type, CONN_NOTHING);
	c.credits = 2;
	next(100, &op);
	is_words(&op, set0);
	assert_int_equal(c.credits, 1);
}

static void received(void **state)
{
	struct wire_msg m;
	struct conn_in in;
	uint8_t buf[WIRE_HDR_MAX];

	(void)state;
	up_words(CONN_EXT_WORDS);
	m = msg(&c, WIRE_WORDS);
	m.words = set1;
	m.len = WIRE_HDR_MAX;
	wire_encode(&m, buf);
	assert_int_equal(conn_on_recv(&c, 1, buf, m.len, &in), 0);
	assert_ptr_equal(in.words, buf + WIRE_BSDH);
	assert_memory_equal(in.words, set1, CONN_WORDS);
	assert_int_equal(in.len, 0);
	good(&c, WIRE_DATA);
}

/* A peer that did not promise to know them sends none and gets none. */
static void unasked(void **state)
{
	(void)state;
	up_words(0);
	assert_int_equal(conn_words(&c, 0, set0), -EOPNOTSUPP);
	bad(&c, msg(&c, WIRE_WORDS), 0);
}

/* There are two sets, and a receive of the peer has to hold one. */
static void bounds(void **state)
{
	struct conn_op op;

	(void)state;
	up_words(CONN_EXT_WORDS);
	assert_int_equal(conn_words(&c, CONN_WORDS_SETS, set0), -EINVAL);
	assert_false(conn_wants_send(&c));
	c.peer_rcv_size = WIRE_HDR_MAX - 1;
	assert_int_equal(conn_words(&c, 0, set0), -EOPNOTSUPP);
	assert_false(conn_wants_send(&c));
	c.peer_rcv_size = WIRE_HDR_MAX;
	assert_int_equal(conn_words(&c, 0, set0), 0);
	next(0, &op);
	is_words(&op, set0);
}

/*
 * Bytes that the peer sent and that were not read go back behind the words, and
 * are no part of either stream.
 */
static void back(void **state)
{
	struct conn_offer offer = { .back = RCV_SIZE };
	uint8_t buf[WIRE_BSDH + 5] = { 0 };
	struct conn_in in;
	struct conn_op op;
	struct wire_msg m;

	(void)state;
	up_words(CONN_EXT_WORDS);
	assert_int_equal(conn_words(&c, 0, set0), 0);
	conn_next(&c, 1, &offer, RCV_SIZE, &op);
	is_words(&op, set0);
	conn_next(&c, 1, &offer, RCV_SIZE, &op);
	assert_int_equal(op.hdr[0], WIRE_BACK);
	assert_int_equal(op.hdr_len, WIRE_BSDH);
	assert_int_equal(op.payload, c.peer_rcv_size - WIRE_BSDH);
	assert_int_equal(c.tx_stream, 0);
	c.credits = 2; /* as words */
	conn_next(&c, 1, &offer, RCV_SIZE, &op);
	assert_int_equal(op.hdr[0], WIRE_BACK);
	conn_next(&c, 1, &offer, RCV_SIZE, &op);
	assert_int_equal(op.type, CONN_NOTHING);
	m = msg(&c, WIRE_BACK);
	m.len = sizeof(buf);
	wire_encode(&m, buf);
	assert_int_equal(conn_on_recv(&c, 1, buf, m.len, &in), 0);
	assert_int_equal(in.back_off, WIRE_BSDH);
	assert_int_equal(in.back, 5);
	assert_int_equal(in.len, 0);
	assert_int_equal(c.rx_stream, 0);
	up_words(0);
	conn_next(&c, 1, &offer, RCV_SIZE, &op);
	assert_int_equal(op.type, CONN_NOTHING);
	bad(&c, msg(&c, WIRE_BACK), 0);
}

/*
 * The last credits are for bytes that the program was told it can send, but not
 * while the peer waits for bytes handed back, or for a report on what it lent.
 */
static void spared(void **state)
{
	struct conn_params mine = params(false);
	struct conn_params other = params(false);
	struct conn_offer offer = { .bytes = 100, .back = 100 };
	struct conn_op op;
	struct conn peer;
	struct wire_msg m;

	(void)state;
	up_words(CONN_EXT_WORDS);
	c.credits = CONN_SPARE;
	conn_spare(&c, true);
	conn_next(&c, 1, &offer, RCV_SIZE, &op);
	assert_int_equal(op.hdr[0], WIRE_BACK);
	mine.reads = true;
	join(&c, &mine, &peer, &other);
	m = msg(&c, WIRE_SRC_AVAIL);
	m.buf_len = 1000;
	assert_int_equal(give(&c, m, 8, NULL), 0);
	assert_true(conn_read(&c, 1000, &op));
	assert_int_equal(conn_on_done(&c, CONN_READ, 992), 0);
	c.credits = CONN_SPARE;
	conn_spare(&c, true);
	next(100, &op);
	assert_int_equal(op.hdr[0], WIRE_RD_COMPL);
	c.credits = CONN_SPARE;
	next(100, &op);
	assert_int_equal(op.hdr[0], WIRE_DATA);
	assert_int_equal(op.payload, 100);
}

static void at_the_end(void **state)
{
	struct conn_op op;

	(void)state;
	up_words(CONN_EXT_WORDS);
	conn_shutdown(&c, 1, false);
	assert_int_equal(conn_words(&c, 0, set0), 0);
	next(0, &op);
	is_words(&op, set0);
	next(0, &op);
	assert_int_equal(op.hdr[0], WIRE_DISCONN);
	assert_int_equal(conn_words(&c, 1, set1), 0);
	next(0, &op);
	is_words(&op, set1);
	good(&c, WIRE_DISCONN);
	assert_int_equal(c.state, CONN_TW);
	assert_int_equal(conn_words(&c, 1, set1), 0); /* and forgotten */
	next(0, &op);
	assert_int_equal(op.type, CONN_DISCONNECT);
	next(0, &op);
	assert_int_equal(op.type, CONN_NOTHING);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order),    cmocka_unit_test(credits),
		cmocka_unit_test(received), cmocka_unit_test(back),
		cmocka_unit_test(unasked),  cmocka_unit_test(bounds),
		cmocka_unit_test(spared),   cmocka_unit_test(at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
