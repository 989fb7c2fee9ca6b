/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Receives are used up by messages for nothing else, and not posted again. */

#include "conn_util.h"

#define KEEP 5 /* receives at rest */

static struct conn a, b;

static void both_up(void)
{
	struct conn_params pa = params(false);
	struct conn_params pb = params(false);

	pa.posted = KEEP;
	join(&a, &pa, &b, &pb);
}

/* What `from` has to say without bytes; messages that went. */
static unsigned int speak(struct conn *from, struct conn *to, bool sheds)
{
	struct conn_offer offer = { .bytes = 0 };
	unsigned int n = 0;
	struct conn_op op;
	struct conn_in in;

	while (conn_wants_send(from)) {
		conn_next(from, 1, &offer, RCV_SIZE, &op);
		if (op.type != CONN_SEND)
			break;
		assert_int_equal(op.hdr[0], WIRE_DATA);
		assert_int_equal(op.payload, 0);
		assert_int_equal(conn_on_recv(to, 1, op.hdr, op.hdr_len, &in),
				 0);
		if (sheds && to->posted >= KEEP)
			conn_shed(to, 1);
		else
			conn_reposted(to, 1);
		n++;
	}
	return n;
}

static void all_are_used_up(void **state)
{
	unsigned int burnt, answers, rounds;

	(void)state;
	both_up();
	assert_int_equal(b.posted, BUFS);
	conn_burn(&a, BUFS);
	burnt = speak(&a, &b, true);
	/* the last credits stay for bytes */
	assert_int_equal(burnt, BUFS - CONN_BURN_LEAVES);
	assert_int_equal(a.credits, CONN_BURN_LEAVES);
	assert_int_equal(b.posted, KEEP);
	assert_false(b.ctl_held);
	for (rounds = 0; rounds < 20; rounds++) {
		answers = speak(&b, &a, false);
		burnt += speak(&a, &b, true);
		if (!answers && !a.burn)
			break;
	}
	assert_true(rounds < 20);
	assert_true(burnt >= BUFS); /* those beyond are updates */
	assert_true(burnt <= BUFS + 4);
	assert_int_equal(a.burn, 0);
	assert_int_equal(b.posted, KEEP);
	assert_true(a.credits >= 3 && a.credits <= KEEP);
	assert_int_equal(a.error | b.error, 0);
	/* and it is quiet at last */
	assert_int_equal(speak(&a, &b, true) + speak(&b, &a, false), 0);
}

static void bytes_go_first(void **state)
{
	struct conn_offer offer = { .bytes = 100 };
	struct conn_op op;

	(void)state;
	both_up();
	conn_burn(&a, 2);
	conn_next(&a, 1, &offer, RCV_SIZE, &op);
	assert_int_equal(op.payload, 100);
	assert_int_equal(a.burn, 2);
}

static void no_more_than_a_byte_counts(void **state)
{
	(void)state;
	both_up();
	conn_burn(&a, 200);
	conn_burn(&a, UINT32_MAX - 100);
	assert_int_equal(a.burn, UINT8_MAX);
}

/*
 * An end that reads much says so, and the peer, which has credits, does not
 * look: three credits are left as long as the peer can send bytes. Then it is
 * told, and can.
 */
static void reports_leave_room(void **state)
{
	struct conn_offer some = { .bytes = 100 }, none = { .bytes = 0 };
	struct conn_op op, said[KEEP];
	unsigned int i, n = 0, sent;
	struct conn_in in;

	(void)state;
	both_up();
	a.posted = 4;
	for (sent = 0; a.credits >= 3; sent++) {
		conn_next(&a, 1, &some, RCV_SIZE, &op);
		assert_int_equal(op.payload, 100);
		assert_int_equal(conn_on_recv(&b, 1, op.hdr,
					      op.hdr_len + op.payload, &in),
				 0);
		conn_reposted(&b, 1);
		while (conn_wants_send(&b)) {
			assert_true(n < KEEP);
			conn_next(&b, 1, &none, RCV_SIZE, &said[n]);
			assert_int_equal(said[n++].type, CONN_SEND);
		}
		if (conn_peer_view(&b) > CONN_SPARE)
			assert_true(conn_tx_room(&b));
	}
	assert_true(n);
	for (i = 0; i < n; i++) {
		assert_int_equal(conn_on_recv(&a, 1, said[i].hdr,
					      said[i].hdr_len, &in),
				 0);
		conn_reposted(&a, 1);
	}
	assert_true(conn_tx_room(&a));
}

/*
 * No end has more credits than bytes need, and a lift needs one more: the ends
 * do not wait for each other.
 */
static void one_more_for_a_lift(void **state)
{
	(void)state;
	both_up();
	a.posted = b.posted = a.bufs_told = b.bufs_told = 5;
	a.mseq_rcvd = b.mseq_rcvd = a.mseq_sent = b.mseq_sent = 2;
	a.credits = b.credits = CONN_SPARE;
	assert_int_equal(conn_peer_view(&a), CONN_SPARE);
	assert_true(conn_wants_send(&a));
	assert_true(conn_wants_send(&b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reports_leave_room),
		cmocka_unit_test(one_more_for_a_lift),
		cmocka_unit_test(all_are_used_up),
		cmocka_unit_test(bytes_go_first),
		cmocka_unit_test(no_more_than_a_byte_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
