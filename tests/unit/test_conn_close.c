/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The close state table [5.3], row by row, and hand-over [5.7]. */
#include "conn_util.h"

#define S 1000000000ull

/* Bring a fresh connection into a state. */
static void bring(struct conn *c, enum conn_state to)
{
	up(c);
	switch (to) {
	case CONN_RCVD:
	case CONN_LAST:
		good(c, WIRE_DISCONN);
		if (to == CONN_LAST)
			conn_shutdown(c, 1, false);
		break;
	case CONN_SEND1:
	case CONN_SENT1:
	case CONN_BOTH:
		conn_shutdown(c, 1, false);
		if (to == CONN_SENT1)
			sends(c, WIRE_DISCONN);
		else if (to == CONN_BOTH)
			good(c, WIRE_DISCONN);
		break;
	case CONN_TW:
		conn_shutdown(c, 1, false);
		sends(c, WIRE_DISCONN);
		good(c, WIRE_DISCONN);
		disconnects(c);
		break;
	default:
		break;
	}
	assert_int_equal(c->state, to);
}

static void est_shutdown(void **state)
{
	struct conn c;

	(void)state;
	up(&c);
	conn_shutdown(&c, 1, false);
	assert_int_equal(c.state, CONN_SEND1);
	/* The program's bytes go first. */
	assert_int_equal(take(&c, 10000).mid, WIRE_DATA);
	assert_int_equal(take(&c, 5904).mid, WIRE_DATA);
	assert_int_equal(c.state, CONN_SEND1);
	sends(&c, WIRE_DISCONN);
	assert_int_equal(c.state, CONN_SENT1);
	silent(&c, 100); /* nothing follows a DisConn */
	assert_int_equal(conn_tx_room(&c), 0);
	assert_true(conn_deadline(&c) ==
		    UINT64_MAX); /* half-closed: no limit */
}

/* Half-closed: the other direction and its credit updates go on. */
static void half_close(void **state)
{
	struct conn_in in;
	struct conn c;

	(void)state;
	bring(&c, CONN_SENT1);
	for (int i = 0; i < 60; i++) {
		assert_int_equal(give(&c, msg(&c, WIRE_DATA), 7, &in), 0);
		assert_int_equal(in.len, 7);
		conn_reposted(&c, 1);
		if (conn_wants_send(&c))
			assert_int_equal(take(&c, 0).len, 16);
	}
	assert_true(c.mseq_sent > 2); /* DisConn and two updates */
	bring(&c, CONN_RCVD);
	for (int i = 0; i < 10; i++)
		assert_int_equal(take(&c, 7).len, 23);
}

static void received_first(void **state)
{
	struct conn_in in;
	struct conn c;

	(void)state;
	up(&c); /* EST -> RCVD -> LAST -> TW */
	assert_int_equal(give(&c, msg(&c, WIRE_DISCONN), 0, &in), 0);
	assert_true(in.eof);
	assert_int_equal(c.state, CONN_RCVD);
	conn_shutdown(&c, 1, false);
	assert_int_equal(c.state, CONN_LAST);
	assert_int_equal(take(&c, 5).mid, WIRE_DATA);
	assert_int_equal(take_at(&c, 2 * S, 0, false).mid, WIRE_DISCONN);
	assert_int_equal(c.state, CONN_LAST);
	assert_false(conn_wants_send(&c));
	assert_true(conn_deadline(&c) == 62 * S);
	assert_int_equal(conn_on_disconnected(&c, 3 * S), 0);
	assert_int_equal(c.state, CONN_TW);
	assert_int_equal(c.error, 0);
	assert_true(conn_deadline(&c) == 153 * S);
	assert_int_equal(conn_on_timer(&c, 153 * S), 0);
	assert_int_equal(c.state, CONN_CLOSED);
	assert_int_equal(c.error, 0);
}

/* LAST: no DREQ in 60 s, so we send it. */
static void last_limit(void **state)
{
	struct conn c;

	(void)state;
	bring(&c, CONN_LAST);
	assert_int_equal(take_at(&c, S, 0, false).mid, WIRE_DISCONN);
	assert_int_equal(conn_on_timer(&c, 61 * S - 1), 0);
	assert_int_equal(c.state, CONN_LAST);
	assert_int_equal(conn_on_timer(&c, 61 * S), 0);
	assert_int_equal(c.state, CONN_TW);
	disconnects(&c);
	assert_int_equal(c.error, 0);
}

static void sent_first(void **state)
{
	struct conn_in in;
	struct conn c;

	(void)state;
	bring(&c, CONN_SENT1);
	assert_int_equal(give(&c, msg(&c, WIRE_DISCONN), 0, &in), 0);
	assert_true(in.eof);
	assert_int_equal(c.state, CONN_TW);
	assert_true(conn_wants_send(&c));
	disconnects(&c);
	silent(&c, 100);
	assert_false(conn_wants_send(&c));
	assert_int_equal(conn_on_disconnected(&c, 5), 0);
	assert_int_equal(c.state, CONN_CLOSED);
}

static void simultaneous(void **state)
{
	struct conn c;

	(void)state;
	bring(&c, CONN_BOTH);
	assert_int_equal(take(&c, 5).mid, WIRE_DATA);
	sends(&c, WIRE_DISCONN);
	assert_int_equal(c.state, CONN_TW);
	disconnects(&c);
	assert_int_equal(conn_on_disconnected(&c, 5), 0);
}

/* SENT1: 60 s only when the program has closed [7, 14]. */
static void sent1_limit(void **state)
{
	struct conn c;

	(void)state;
	up(&c);
	conn_shutdown(&c, S, true);
	assert_int_equal(take_at(&c, 2 * S, 0, false).mid, WIRE_DISCONN);
	assert_true(conn_deadline(&c) == 62 * S);
	assert_int_equal(conn_on_timer(&c, 62 * S), -ETIMEDOUT);
	disconnects(&c);
	bring(&c, CONN_SENT1); /* shut down first, closed later */
	assert_int_equal(conn_on_timer(&c, 1000 * S), 0);
	conn_shutdown(&c, 1000 * S, true);
	assert_true(conn_deadline(&c) == 1060 * S);
	conn_shutdown(&c, 1001 * S, true);
	assert_true(conn_deadline(&c) == 1060 * S);
	bad(&c, msg(&c, WIRE_DATA), 1); /* and reads no more */
}

static void abort_received(void **state)
{
	static const struct {
		enum conn_state in;
		bool legal;
	} rows[] = {
		{ CONN_EST, false },   { CONN_SEND1, false },
		{ CONN_SENT1, false }, { CONN_RCVD, true },
		{ CONN_BOTH, true },   { CONN_LAST, true },
	};
	struct conn_in in;
	struct conn c;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bring(&c, rows[i].in);
		assert_int_equal(give(&c, msg(&c, WIRE_ABORT), 0, &in),
				 rows[i].legal ? 0 : -ECONNRESET);
		assert_true(in.reset);
		assert_int_equal(c.state, CONN_CLOSED);
		assert_int_equal(c.error, -ECONNRESET);
		disconnects(&c); /* no AbortConn against an AbortConn */
	}
}

static void disconnected_early(void **state)
{
	static const struct {
		enum conn_state in;
		int result;
	} rows[] = {
		{ CONN_EST, -ECONNRESET },
		{ CONN_SEND1, -ECONNRESET },
		{ CONN_SENT1, -ECONNRESET },
		{ CONN_RCVD, -EPIPE },
		{ CONN_BOTH, -ECONNRESET },
		{ CONN_LAST, -ECONNRESET },
		{ CONN_TW, 0 },
	};
	struct conn_params p = params(false);
	struct conn c;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bring(&c, rows[i].in);
		assert_int_equal(conn_on_disconnected(&c, 1), rows[i].result);
		assert_int_equal(c.state, CONN_CLOSED);
		assert_int_equal(c.error, rows[i].result);
		assert_int_equal(conn_on_disconnected(&c, 1), rows[i].result);
	}
	conn_init(&c, &p);
	assert_int_equal(conn_on_disconnected(&c, 1), -ECONNREFUSED);
}

/* DisConn where it is not listed; TW tolerates late messages. */
static void disconn_where(void **state)
{
	static const enum conn_state illegal[] = { CONN_RCVD, CONN_BOTH,
						   CONN_LAST };
	struct conn_in in;
	struct conn c;
	size_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		bring(&c, illegal[i]);
		bad(&c, msg(&c, WIRE_DISCONN), 0);
	}
	bring(&c, CONN_TW);
	assert_int_equal(give(&c, msg(&c, WIRE_DISCONN), 0, &in), 0);
	assert_false(in.eof);
	assert_int_equal(give(&c, msg(&c, WIRE_DATA), 0, &in), 0);
	assert_int_equal(c.state, CONN_TW);
	conn_on_lost(&c, ECONNRESET);
	assert_int_equal(c.error, 0);
	up(&c); /* not while an advertisement waits for our answer */
	struct wire_msg m = msg(&c, WIRE_SRC_AVAIL);

	m.buf_len = 100;
	assert_int_equal(give(&c, m, 1, NULL), 0);
	bad(&c, msg(&c, WIRE_DISCONN), 0);
}

/* conn_abort(): AbortConn only behind our DisConn, never to kernel peers. */
static void aborting(void **state)
{
	static const struct {
		enum conn_state in;
		bool says;
	} rows[] = {
		{ CONN_EST, false },  { CONN_SEND1, false },
		{ CONN_SENT1, true }, { CONN_RCVD, false },
		{ CONN_BOTH, false },
	};
	struct conn_offer none = { 0 };
	struct conn_op op;
	struct conn c;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bring(&c, rows[i].in);
		conn_abort(&c);
		assert_int_equal(c.state, CONN_CLOSED);
		assert_int_equal(c.error, -ECONNRESET);
		if (rows[i].says)
			sends(&c, WIRE_ABORT);
		disconnects(&c);
		silent(&c, 100);
	}
	bring(&c, CONN_LAST);
	sends(&c, WIRE_DISCONN);
	conn_abort(&c);
	sends(&c, WIRE_ABORT);
	disconnects(&c);
	bring(&c, CONN_SENT1); /* no room, no credit: DREQ says it */
	conn_abort(&c);
	conn_next(&c, 1, &none, 15, &op);
	assert_int_equal(op.type, CONN_DISCONNECT);
	bring(&c, CONN_SENT1);
	c.credits = 1;
	conn_abort(&c);
	disconnects(&c);
	up_kind(&c, true, true);
	conn_shutdown(&c, 1, false);
	sends(&c, WIRE_DISCONN);
	conn_abort(&c);
	disconnects(&c);
	bring(&c, CONN_TW); /* over is over */
	conn_abort(&c);
	assert_int_equal(c.error, 0);
	silent(&c, 0);
}

static void lost(void **state)
{
	struct conn c;

	(void)state;
	for (int sign = -1; sign < 2; sign += 2) {
		bring(&c, CONN_SENT1);
		conn_on_lost(&c, sign * ENODEV);
		assert_int_equal(c.error, -ENODEV);
		assert_int_equal(c.state, CONN_CLOSED);
		assert_int_equal(give(&c, msg(&c, WIRE_DATA), 1, NULL),
				 -ENODEV);
		assert_int_equal(conn_on_timer(&c, 1), -ENODEV);
		assert_int_equal(conn_set_mode(&c, WIRE_BUFFERED), -ENODEV);
		disconnects(&c);
		assert_true(conn_deadline(&c) == UINT64_MAX);
	}
}

/* shutdown() between Hello and HelloAck takes effect afterwards. */
static void early_shutdown(void **state)
{
	struct conn_params p = params(false);
	struct conn_names n = { .ipv = 6 }, got;
	uint8_t buf[CONN_HELLO_ACK_LEN];
	struct conn a, b;
	size_t len;

	(void)state;
	conn_init(&a, &p);
	conn_init(&b, &p);
	len = conn_hello(&a, &n, buf);
	conn_shutdown(&a, 1, false);
	assert_int_equal(conn_on_hello(&b, buf, len, &got), 0);
	conn_shutdown(&b, 1, true);
	conn_hello_ack(&b, &n, buf);
	assert_int_equal(conn_on_hello_ack(&a, buf, 196, &got), 0);
	assert_int_equal(a.state, CONN_SEND1);
	assert_int_equal(b.state, CONN_SEND1);
	assert_int_equal(take(&a, 5).mid, WIRE_DATA);
	sends(&a, WIRE_DISCONN);
}

/* Behind DisConn a kernel is told of three receives by the last credit. */
static void native_last_credit(void **state)
{
	struct conn c;

	(void)state;
	up_kind(&c, true, true);
	conn_shutdown(&c, 1, false);
	c.credits = 1;
	c.posted++; /* news, but DisConn is not for the last credit */
	silent(&c, 0);
	c.credits = 2;
	sends(&c, WIRE_DISCONN);
	assert_int_equal(c.credits, 1);
	c.bufs_told = 2;
	c.posted = 4;
	silent(&c, 0);
	assert_false(conn_wants_send(&c));
	conn_reposted(&c, 1);
	assert_true(conn_wants_send(&c));
	sends(&c, WIRE_DATA);
	assert_int_equal(c.credits, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(est_shutdown),
		cmocka_unit_test(half_close),
		cmocka_unit_test(received_first),
		cmocka_unit_test(last_limit),
		cmocka_unit_test(sent_first),
		cmocka_unit_test(simultaneous),
		cmocka_unit_test(sent1_limit),
		cmocka_unit_test(abort_received),
		cmocka_unit_test(disconnected_early),
		cmocka_unit_test(disconn_where),
		cmocka_unit_test(aborting),
		cmocka_unit_test(lost),
		cmocka_unit_test(early_shutdown),
		cmocka_unit_test(native_last_credit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
