/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Set-up, credits and credit updates, urgent data, keep-alive. */
#include "conn_util.h"

#define MS 1000000ull

static void names_cross(void **state)
{
	struct conn_names mine = { .ipv = 4,
				   .local_port = 40000,
				   .remote_port = 5001,
				   .token = 0x1122334455667788,
				   .check = 0xcafe };
	struct conn_params p = params(false);
	uint8_t buf[CONN_HELLO_ACK_LEN];
	struct conn_names got;
	struct conn a, b;

	(void)state;
	conn_init(&a, &p);
	p.ext_flags = CONN_EXT_ANCHORED;
	conn_init(&b, &p);
	assert_int_equal(conn_hello(&a, &mine, buf), WIRE_COMPACT_LEN);
	assert_int_equal(a.state, CONN_HELLO_SENT);
	assert_int_equal(conn_on_hello(&b, buf, 56, &got), 0);
	assert_int_equal(b.state, CONN_HELLO_RCVD);
	assert_int_equal(got.ipv, 4);
	assert_int_equal(got.local_port, 40000);
	assert_int_equal(got.remote_port, 5001);
	assert_true(got.token == mine.token);
	assert_int_equal(got.check, 0xcafe);
	mine.token++;
	conn_hello_ack(&b, &mine, buf);
	assert_int_equal(b.state, CONN_EST);
	assert_int_equal(conn_on_hello_ack(&a, buf, 196, &got), 0);
	assert_true(got.token == mine.token);
	assert_int_equal(a.peer_ext_flags, CONN_EXT_ANCHORED);
	assert_int_equal(b.peer_ext_flags, EXT);
	assert_int_equal(a.credits, BUFS);
	assert_int_equal(b.credits, BUFS);
	assert_int_equal(a.peer_max_adverts, 4);
	assert_int_equal(conn_tx_room(&a), RCV_SIZE - 16);
}

/* The machine's own native Hello is T1, its HelloAck T2 [8.1]. */
static void native_names(void **state)
{
	struct conn_names n = { .ipv = 4,
				.local_port = 40000,
				.src = { [12] = 192, 168, 7, 1 },
				.dst = { [12] = 192, 168, 7, 2 } };
	static const uint8_t start[32] = { 0,	 0,    0,	    0x40, 0, 0,
					   0,	 0x5c, [16] = 0x22, 0x40, 0, 1,
					   0,	 0,    0x80,	    0x10, 0, 0,
					   0x80, 0x10, 0x9c,	    0x40 };
	static const uint8_t ack[196] = { 1, 0,	   0,		0x40, 0, 0,
					  0, 0xc4, [16] = 0x22, 0,    0, 1,
					  0, 0,	   0x80,	0x10 };
	struct conn_params p = params(true);
	uint8_t buf[CONN_HELLO_ACK_LEN];
	struct conn_names got;
	struct conn a, b;

	(void)state;
	p.rcv_size = 32784;
	conn_init(&a, &p);
	conn_init(&b, &p);
	assert_int_equal(conn_hello(&a, &n, buf), WIRE_HELLO_LEN);
	assert_memory_equal(buf, start, 32);
	assert_memory_equal(buf + 32, n.src, 16);
	assert_memory_equal(buf + 48, n.dst, 16);
	assert_int_equal(conn_on_hello(&b, buf, 92, &got), 0);
	assert_memory_equal(got.src, n.src, 16);
	assert_memory_equal(got.dst, n.dst, 16);
	conn_hello_ack(&b, &n, buf);
	assert_memory_equal(buf, ack, 196);
	assert_int_equal(conn_on_hello_ack(&a, buf, 196, &got), 0);
	assert_int_equal(a.peer_ext_flags, 0);
}

static void first_messages(void **state)
{
	struct conn_in in;
	struct wire_msg m;
	struct conn c;

	(void)state;
	up(&c);
	m = take(&c, 100);
	assert_int_equal(m.mid, WIRE_DATA);
	assert_int_equal(m.len, 116);
	assert_int_equal(m.mseq, 1);
	assert_int_equal(m.ack, 0);
	assert_int_equal(m.bufs, BUFS);
	m = take(&c, 1000000); /* cut to the peer's receive size */
	assert_int_equal(m.len, RCV_SIZE);
	assert_int_equal(m.mseq, 2);
	assert_int_equal(give(&c, msg(&c, WIRE_DATA), 30, &in), 0);
	assert_int_equal(in.off, 16);
	assert_int_equal(in.len, 30);
	assert_true(in.credits);
	m = take(&c, 1);
	assert_int_equal(m.ack, 1);
	assert_int_equal(m.bufs, BUFS - 1); /* not reposted yet */
	conn_reposted(&c, 1);
	assert_int_equal(take(&c, 1).bufs, BUFS);
	assert_true(c.tx_stream == 100 + RCV_SIZE - 16 + 2);
	assert_true(c.rx_stream == 30);
}

/* The fabric's room limits a message, down to none. */
static void little_room(void **state)
{
	struct conn_offer offer = { .bytes = 100 };
	struct conn_op op;
	struct conn c;

	(void)state;
	up(&c);
	for (uint32_t room = 0; room < 17; room++) {
		conn_next(&c, 1, &offer, room, &op);
		assert_int_equal(op.type, CONN_NOTHING);
	}
	conn_next(&c, 1, &offer, 17, &op);
	assert_int_equal(op.type, CONN_SEND);
	assert_int_equal(op.payload, 1);
	conn_next(&c, 1, &offer, 60, &op);
	assert_int_equal(op.payload, 44);
}

static void credit_arithmetic(void **state)
{
	static const struct {
		uint16_t bufs;
		uint32_t ack, sent, credits;
	} rows[] = {
		{ 64, 0, 0, 64 }, { 64, 3, 5, 62 },	     { 2, 10, 12, 0 },
		{ 1, 10, 12, 0 }, { 64, 0xfffffffe, 1, 61 }, { 62, 2, 2, 62 },
	};
	struct wire_msg m;
	struct conn c;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (uint32_t payload = 0; payload < 2; payload++) {
			up(&c);
			c.mseq_sent = rows[i].sent;
			m = msg(&c, WIRE_DATA);
			m.bufs = rows[i].bufs;
			m.ack = rows[i].ack;
			assert_int_equal(give(&c, m, payload, NULL), 0);
			assert_int_equal(c.credits, rows[i].credits);
			assert_int_equal(c.fault != NULL, i == 3);
		}
	}
	/* Our own numbers wrap as well. */
	up(&c);
	c.mseq_sent = c.mseq_rcvd = UINT32_MAX;
	c.ack_told = UINT32_MAX;
	assert_int_equal(take(&c, 5).mseq, 0);
	assert_int_equal(give(&c, msg(&c, WIRE_DATA), 4, NULL), 0);
	assert_int_equal(take(&c, 5).ack, 0);
	assert_int_equal(conn_peer_view(&c), BUFS - 1);
}

/* What may use the last credits [3.3]. */
static void last_credits(void **state)
{
	struct wire_msg m;
	struct conn c;

	(void)state;
	up(&c);
	c.credits = 3;
	assert_int_equal(take(&c, 5).len, 21);
	assert_int_equal(c.credits, 2);
	assert_int_equal(conn_tx_room(&c), 0);
	silent(&c, 5); /* 2: no data */
	conn_shutdown(&c, 1, false);
	sends(&c, WIRE_DISCONN); /* but control */

	up(&c);
	c.credits = 1;
	silent(&c, 5);
	conn_shutdown(&c, 1, false);
	silent(&c, 0); /* 1: not without new credits */
	assert_int_equal(give(&c, msg(&c, WIRE_DATA), 5, NULL), 0);
	c.credits = 1;
	silent(&c, 0); /* the receive is not back yet */
	conn_reposted(&c, 1);
	m = take(&c, 0); /* with them */
	assert_int_equal(m.mid, WIRE_DISCONN);
	assert_int_equal(m.bufs, BUFS);

	up(&c);
	c.credits = 0;
	c.bufs_told = 1;
	conn_shutdown(&c, 1, false);
	assert_true(conn_wants_send(&c));
	silent(&c, 0);
	m = msg(&c, WIRE_DATA); /* credits come, and are told of */
	m.bufs = 3;
	struct conn_in in;
	assert_int_equal(give(&c, m, 0, &in), 0);
	assert_true(in.credits);
	sends(&c, WIRE_DISCONN);
}

/* The rule of [3.4], the table of [8.3]: 64 posted, the peer sees `view`. */
static void update_rule(void **state)
{
	static const struct {
		uint32_t view;
		bool due;
	} rows[] = { { 64, false }, { 43, false }, { 42, true }, { 4, true },
		     { 3, true },   { 2, true },   { 1, true },	 { 0, true } };
	struct wire_msg m;
	struct conn c;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		up(&c);
		c.bufs_told = rows[i].view;
		assert_int_equal(conn_peer_view(&c), rows[i].view);
		assert_int_equal(conn_wants_send(&c), rows[i].due);
		c.credits = 0;
		silent(&c, 0);
		c.credits = 1;
		if (rows[i].due && rows[i].view > CONN_SPARE) {
			c.credits = CONN_SPARE; /* left to bytes */
			silent(&c, 0);
			c.credits++;
		}
		m = take(&c, 0);
		assert_int_equal(m.mid, rows[i].due ? WIRE_DATA : 0);
		if (!rows[i].due)
			continue;
		assert_int_equal(m.len, 16);
		assert_int_equal(m.bufs, 64);
		assert_false(conn_wants_send(&c));
		silent(&c, 0);
	}
	/* By messages that come: the 22nd of 64 makes it due. */
	up(&c);
	for (i = 1; i <= 22; i++) {
		assert_int_equal(give(&c, msg(&c, WIRE_DATA), 1, NULL), 0);
		conn_reposted(&c, 1);
		assert_int_equal(conn_wants_send(&c), i == 22);
	}
}

/* Two ends throttled to two receives do not bounce updates [3.4]. */
static void late_update(void **state)
{
	uint64_t now = 1000 * MS, wait = 2 * MS;
	struct conn c;

	(void)state;
	up(&c);
	c.posted = c.bufs_told = 2;
	for (int i = 0; i < 9; i++) {
		assert_int_equal(give_at(&c, now, msg(&c, WIRE_DATA), 0, NULL),
				 0);
		conn_reposted(&c, 1);
		assert_int_equal(conn_peer_view(&c), 1);
		assert_false(conn_wants_send(&c));
		assert_true(conn_deadline(&c) == now + wait);
		assert_int_equal(take_at(&c, now + wait - 1, 0, false).mid, 0);
		assert_int_equal(conn_on_timer(&c, now + wait - 1), 0);
		assert_false(conn_wants_send(&c));
		now += wait;
		assert_int_equal(conn_on_timer(&c, now), 0);
		assert_true(conn_wants_send(&c));
		assert_int_equal(take_at(&c, now, 0, false).mid, WIRE_DATA);
		assert_true(conn_deadline(&c) == UINT64_MAX);
		if (wait < 256 * MS)
			wait *= 2;
	}
	/* Any other message, and reading, end the lateness. */
	for (int i = 0; i < 2; i++) {
		up(&c);
		c.posted = c.bufs_told = 3;
		assert_int_equal(give(&c, msg(&c, WIRE_DATA), 1, NULL), 0);
		good(&c, WIRE_DATA);
		conn_reposted(&c, 1);
		assert_false(conn_wants_send(&c));
		if (i == 0)
			conn_reposted(&c, 1); /* the first: it was read */
		else
			good(&c, WIRE_SENDSM);
		assert_true(conn_wants_send(&c));
	}
	/* With four or more no update waits. */
	up(&c);
	c.posted = c.bufs_told = 4;
	good(&c, WIRE_DATA);
	conn_reposted(&c, 1);
	assert_false(conn_wants_send(&c));
	good(&c, WIRE_DATA);
	conn_reposted(&c, 1);
	assert_true(conn_wants_send(&c));
	/* A peer that has nothing left is told at once. */
	up(&c);
	c.posted = c.bufs_told = 1;
	good(&c, WIRE_DATA);
	conn_reposted(&c, 1);
	assert_true(conn_wants_send(&c));
	sends(&c, WIRE_DATA);
}

/* Flags of what is sent: PEND early, PRES with the byte [5.1]. */
static void urgent_sent(void **state)
{
	struct wire_msg m;
	struct conn c;

	(void)state;
	up(&c);
	m = take_at(&c, 1, 4, true);
	assert_int_equal(m.flags, WIRE_OOB_PRES | WIRE_OOB_PEND);
	assert_int_equal(m.len, 20);
	assert_int_equal(take(&c, 4).flags, 0);
	m = take_at(&c, 1, 2 * RCV_SIZE, true);
	assert_int_equal(m.flags, WIRE_OOB_PEND);
	assert_int_equal(take_at(&c, 1, RCV_SIZE + 16, true).flags, 0);
	m = take_at(&c, 1, 32, true);
	assert_int_equal(m.flags, WIRE_OOB_PRES | WIRE_OOB_PEND);
	/* Announced although no credit is left for the byte, once. */
	c.credits = 2;
	m = take_at(&c, 1, 1, true);
	assert_int_equal(m.mid, WIRE_DATA);
	assert_int_equal(m.len, 16);
	assert_int_equal(m.flags, WIRE_OOB_PEND);
	c.credits = 2;
	assert_int_equal(take_at(&c, 1, 1, true).mid, 0);
	c.credits = 3;
	m = take_at(&c, 1, 1, true);
	assert_int_equal(m.flags, WIRE_OOB_PRES | WIRE_OOB_PEND);
	/* Kernel peers get both in one message. */
	up_kind(&c, true, true);
	assert_int_equal(take_at(&c, 1, 2 * RCV_SIZE, true).flags, 0);
	c.credits = 2;
	assert_int_equal(take_at(&c, 1, 1, true).mid, 0);
}

static void urgent_taken(void **state)
{
	struct conn_in in;
	struct wire_msg m;
	struct conn c;

	(void)state;
	up(&c);
	m = msg(&c, WIRE_DATA);
	m.flags = WIRE_OOB_PRES | WIRE_OOB_PEND;
	assert_int_equal(give(&c, m, 4, &in), 0);
	assert_true(in.oob && in.oob_pending);
	assert_int_equal(in.len, 4);
	/* Announced first, by a message of any kind; signalled once. */
	m = msg(&c, WIRE_SENDSM);
	m.flags = WIRE_OOB_PEND;
	assert_int_equal(give(&c, m, 0, &in), 0);
	assert_true(in.oob_pending && !in.oob);
	m = msg(&c, WIRE_DATA);
	m.flags = WIRE_OOB_PEND;
	assert_int_equal(give(&c, m, 9, &in), 0);
	assert_false(in.oob_pending || in.oob);
	m = msg(&c, WIRE_DATA);
	m.flags = WIRE_OOB_PRES | WIRE_OOB_PEND;
	assert_int_equal(give(&c, m, 4, &in), 0);
	assert_true(in.oob && !in.oob_pending);
	/* PRES alone implies the rest; reserved flags are ignored. */
	m = msg(&c, WIRE_DATA);
	m.flags = WIRE_OOB_PRES | 0xf8;
	assert_int_equal(give(&c, m, 4, &in), 0);
	assert_true(in.oob && in.oob_pending);
	m = msg(&c, WIRE_DATA);
	m.flags = 0xf8;
	assert_int_equal(give(&c, m, 4, &in), 0);
	assert_false(in.oob || in.oob_pending);
	assert_int_equal(in.len, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_cross),
		cmocka_unit_test(native_names),
		cmocka_unit_test(first_messages),
		cmocka_unit_test(little_room),
		cmocka_unit_test(credit_arithmetic),
		cmocka_unit_test(last_credits),
		cmocka_unit_test(update_rule),
		cmocka_unit_test(late_update),
		cmocka_unit_test(urgent_sent),
		cmocka_unit_test(urgent_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
