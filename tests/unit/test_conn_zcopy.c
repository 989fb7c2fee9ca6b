/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Zero copy [4.3, 4.5] as zcopy.h promises it. */
#include "zcopy_util.h"

static int told(struct conn *c, struct conn *to)
{
	struct conn_offer none = { 0 };
	struct conn_op op = pass(c, to, &none, NULL);

	return op.type == CONN_SEND ? op.hdr[0] : -1;
}

static struct conn_op advertise(struct conn *c, struct conn *to, uint32_t len,
				uint64_t key)
{
	struct conn_zc zc = { .src = { 0x1000, key, 7, len }, .inl = 8 };
	struct conn_offer offer = { .bytes = len, .zc = &zc };

	return pass(c, to, &offer, NULL);
}

static struct conn_op sink(struct conn *c, struct conn *to, uint32_t len,
			   uint64_t key)
{
	struct conn_zc zc = { .sink = { 0x2000, key, 9, len } };
	struct conn_offer offer = { .zc = &zc };

	return pass(c, to, &offer, NULL);
}

static void reads(struct conn *c, uint64_t max, uint64_t vaddr, uint64_t len)
{
	struct conn_op op;

	assert_true(conn_read(c, max, &op));
	assert_int_equal(op.type, CONN_READ);
	assert_int_equal(op.vaddr, vaddr);
	assert_int_equal(op.len, len);
	assert_int_equal(op.rkey, 7);
}

/* In parts, several under way, and reported in one message at the end. */
static void read_source(void **state)
{
	struct conn_op op;

	(void)state;
	pair(WIRE_COMBINED);
	op = advertise(&a, &b, 1008, 5);
	assert_int_equal(op.took, CONN_TOOK_SRC);
	assert_int_equal(op.payload, 8);
	assert_int_equal(op.len, 1000);
	assert_int_equal(a.tx_stream, 8);
	assert_int_equal(conn_tx_at(&a), 1008);
	assert_int_equal(b.rx_stream, 8);
	assert_int_equal(conn_source(&b), 1000);
	reads(&b, 300, 0x1008, 300);
	reads(&b, 5000, 0x1134, 700);
	assert_int_equal(conn_source(&b), 0);
	assert_int_equal(told(&b, &a), -1);
	assert_int_equal(conn_on_done(&b, CONN_READ, 300), 0);
	assert_int_equal(told(&b, &a), -1); /* one is under way */
	assert_int_equal(conn_on_done(&b, CONN_READ, 700), 0);
	assert_int_equal(b.rx_stream, 1008);
	none_free(&a);
	assert_int_equal(told(&b, &a), WIRE_RD_COMPL);
	is_free(&a, 5, 8, 1000);
	none_free(&a);
	assert_int_equal(a.tx_stream, 1008);
	assert_int_equal(a.src_count + b.peer_src_count + b.reads, 0);
	assert_int_equal(conn_on_done(&b, CONN_READ, 1), -EINVAL);
}

/* Behind a failed read nothing counts; the rest is asked for as Data. */
static void failed_read(void **state)
{
	(void)state;
	pair(WIRE_PIPELINED);
	assert_int_equal(advertise(&a, &b, 1000, 5).len, 1000);
	assert_int_equal(advertise(&a, &b, 500, 6).len, 500);
	assert_int_equal(conn_tx_at(&a), 1500);
	reads(&b, 400, 0x1000, 400);
	reads(&b, 600, 0x1190, 600);
	reads(&b, 600, 0x1000, 500);
	assert_int_equal(conn_on_done(&b, CONN_READ, 100), 0);
	assert_int_equal(told(&b, &a), -1);
	assert_int_equal(conn_on_done(&b, CONN_READ, 600), -ECANCELED);
	assert_int_equal(conn_on_done(&b, CONN_READ, 500), -ECANCELED);
	assert_int_equal(b.rx_stream, 100);
	assert_int_equal(told(&b, &a), WIRE_RD_COMPL);
	none_free(&a);
	assert_int_equal(told(&b, &a), WIRE_SENDSM);
	is_free(&a, 5, 0, 100);
	is_free(&a, 6, 0, 0);
	assert_int_equal(conn_tx_at(&a), 100);
	assert_int_equal(advertise(&a, &b, 10, 7).took, CONN_TOOK_SRC);
	assert_int_equal(conn_source(&b), 10); /* it can be read again */
}

static void refused_source(void **state)
{
	(void)state;
	pair(WIRE_COMBINED);
	advertise(&a, &b, 1000, 5);
	reads(&b, 100, 0x1008, 100);
	conn_refuse_sources(&b);
	assert_int_equal(conn_source(&b), 0);
	assert_int_equal(told(&b, &a), -1); /* not before the read ends */
	assert_int_equal(conn_on_done(&b, CONN_READ, 100), 0);
	assert_int_equal(told(&b, &a), WIRE_RD_COMPL);
	assert_int_equal(told(&b, &a), WIRE_SENDSM);
	is_free(&a, 5, 8, 100);
	assert_int_equal(a.tx_stream, 108);
}

/* A cancel is answered whatever is under way; without sources never. */
static void cancelled_source(void **state)
{
	(void)state;
	pair(WIRE_COMBINED);
	conn_cancel_sources(&a);
	assert_int_equal(told(&a, &b), -1);
	advertise(&a, &b, 1000, 5);
	reads(&b, 2000, 0x1008, 992);
	conn_cancel_sources(&a);
	assert_int_equal(told(&a, &b), WIRE_SRC_CANCEL);
	conn_cancel_sources(&a);
	assert_int_equal(told(&a, &b), -1);
	assert_int_equal(advertise(&a, &b, 50, 6).type, CONN_NOTHING);
	assert_int_equal(conn_on_done(&b, CONN_READ, 992), 0);
	assert_int_equal(told(&b, &a), WIRE_RD_COMPL); /* all of it */
	is_free(&a, 5, 8, 992);
	assert_false(a.cancel_tx || b.cancel_rx);
	assert_int_equal(told(&b, &a), -1);
	assert_int_equal(advertise(&a, &b, 50, 6).took, CONN_TOOK_SRC);
}

/* Urgent bytes: never in a source, and they end what is out. */
static void urgent_cancels(void **state)
{
	struct conn_zc zc = { .src = { 0x1000, 6, 7, 100 } };
	struct conn_offer offer = { .bytes = 100, .oob_last = true, .zc = &zc };
	struct conn_in in;
	struct conn_op op;

	(void)state;
	pair(WIRE_PIPELINED);
	advertise(&a, &b, 1000, 5);
	op = pass(&a, &b, &offer, &in);
	assert_int_equal(op.hdr[0], WIRE_SRC_CANCEL);
	assert_int_equal(op.hdr[1], WIRE_OOB_PEND);
	assert_true(in.oob_pending);
	assert_int_equal(pass(&a, &b, &offer, NULL).type, CONN_NOTHING);
	assert_int_equal(told(&b, &a), WIRE_SENDSM);
	is_free(&a, 5, 0, 0);
	op = pass(&a, &b, &offer, &in);
	assert_int_equal(op.hdr[0], WIRE_DATA);
	assert_true(in.oob && !in.oob_pending);
}

/* Combined, both ways: neither is kept waiting by the other [4.3]. */
static void crossing_sources(void **state)
{
	struct conn_offer none = { 0 };
	struct wire_msg m;

	(void)state;
	pair(WIRE_COMBINED);
	advertise(&a, &b, 1000, 5);
	assert_false(conn_src_wanted(&b, 1000));
	m = msg(&a, WIRE_SRC_AVAIL);
	m.ack = 0; /* the peer's crossed it */
	m.buf_len = 100;
	assert_int_equal(give(&a, m, 8, NULL), 0);
	b.mseq_sent++;
	assert_int_equal(pass(&a, &b, &none, NULL).hdr[0], WIRE_SRC_CANCEL);
}

static void write_sink(void **state)
{
	struct conn_op op;

	(void)state;
	pair(WIRE_PIPELINED);
	assert_false(conn_sink_wanted(&b, RCV_SIZE - 17));
	assert_int_equal(sink(&b, &a, 8192, 5).took, CONN_TOOK_SINK);
	assert_int_equal(sink(&b, &a, 8192, 6).took, CONN_TOOK_SINK);
	assert_int_equal(conn_write_room(&a), 8192);
	assert_false(conn_src_wanted(&a, 1000));
	op = writes(&a, 3000);
	assert_int_equal(op.type, CONN_WRITE);
	assert_int_equal(op.vaddr, 0x2000);
	assert_int_equal(op.len, 3000);
	op = writes(&a, 9000);
	assert_int_equal(op.vaddr, 0x2000 + 3000);
	assert_int_equal(op.len, 5192);
	assert_int_equal(a.tx_stream, 8192);
	/* Full: the report comes before the next is begun. */
	assert_int_equal(writes(&a, 3808).hdr[0], WIRE_WR_COMPL);
	pair(WIRE_PIPELINED);
	sink(&b, &a, 8192, 5);
	assert_int_equal(writes(&a, 3000).len, 3000);
	none_free(&b);
	assert_int_equal(conn_on_done(&a, CONN_WRITE, 3000), 0);
	assert_int_equal(told(&a, &b), WIRE_WR_COMPL); /* nothing more */
	is_free(&b, 5, 0, 3000);
	assert_int_equal(b.rx_stream, 3000);
	assert_int_equal(conn_write_room(&a), 0);
}

/* It may fail at once, and then says so; not when it may be reported. */
static void failed_write(void **state)
{
	struct conn_offer offer = { .bytes = 500 };

	(void)state;
	pair(WIRE_PIPELINED);
	sink(&b, &a, 8192, 5);
	assert_int_equal(writes(&a, 3000).len, 3000);
	assert_int_equal(conn_on_done(&a, CONN_WRITE, 1000), 0);
	assert_int_equal(a.tx_stream, 1000);
	assert_int_equal(conn_write_room(&a), 0);
	assert_int_equal(pass(&a, &b, &offer, NULL).hdr[0], WIRE_WR_COMPL);
	is_free(&b, 5, 0, 1000);
	assert_int_equal(pass(&a, &b, &offer, NULL).hdr[0], WIRE_DATA);
	assert_int_equal(b.rx_stream, 1500);
	sink(&b, &a, 8192, 6);
	writes(&a, 3000);
	told(&a, &b);
	assert_int_equal(conn_on_done(&a, CONN_WRITE, 1000), -ECONNRESET);
}

/*
 * Where what was written may be lost: nothing of the stream follows its report
 * before a message says that the peer has heard of it.
 */
static void unheard_write(void **state)
{
	struct conn_offer offer = { .bytes = 500 }, none = { 0 };
	struct conn_params pa = params(false), pb = params(false);
	uint8_t report[CONN_HDR_MAX] = { 0 };
	struct conn_in in;
	struct conn_op op;

	(void)state;
	pa.writes_wait = true;
	join(&a, &pa, &b, &pb);
	a.tx_mode = b.rx_mode = WIRE_PIPELINED;
	sink(&b, &a, 8192, 5);
	assert_true(conn_write_heard(&a));
	writes(&a, 3000);
	assert_false(conn_write_heard(&a));
	conn_next(&a, 1, &none, 1 << 20, &op);
	assert_int_equal(op.hdr[0], WIRE_WR_COMPL);
	memcpy(report, op.hdr, op.hdr_len);
	assert_int_equal(conn_on_done(&a, CONN_WRITE, 3000), 0);
	assert_int_equal(conn_tx_room(&a), 0);
	assert_false(conn_src_wanted(&a, 1000));
	assert_int_equal(pass(&a, &b, &offer, NULL).type, CONN_NOTHING);
	conn_shutdown(&a, 1, false);
	assert_int_equal(pass(&a, &b, &none, NULL).type, CONN_NOTHING);
	/* what the peer said before it heard of it does not count */
	assert_int_equal(pass(&b, &a, &offer, &in).hdr[0], WIRE_DATA);
	assert_false(conn_write_heard(&a));
	assert_int_equal(conn_on_recv(&b, 1, report, op.hdr_len, &in), 0);
	conn_reposted(&b, 1);
	is_free(&b, 5, 0, 3000);
	assert_int_equal(pass(&b, &a, &offer, &in).hdr[0], WIRE_DATA);
	assert_true(in.credits);
	assert_true(conn_write_heard(&a));
	assert_int_equal(pass(&a, &b, &offer, NULL).hdr[0], WIRE_DATA);
	assert_int_equal(pass(&a, &b, &none, NULL).hdr[0], WIRE_DISCONN);
	/* a sink that ends with nothing in it keeps no call waiting */
	join(&a, &pa, &b, &pb);
	a.tx_mode = b.rx_mode = WIRE_PIPELINED;
	sink(&b, &a, 8192, 5);
	writes(&a, 3000);
	assert_int_equal(conn_on_done(&a, CONN_WRITE, 0), 0);
	assert_int_equal(told(&a, &b), WIRE_WR_COMPL);
	assert_true(conn_write_heard(&a));
	/*
	 * nor does a connection that is lost keep bytes that are not reported
	 */
	sink(&b, &a, 8192, 6);
	writes(&a, 3000);
	told(&a, &b);
	conn_on_lost(&a, -ECONNRESET);
	assert_false(conn_write_heard(&a));
}

/* More waits than is offered: neither a report nor DisConn may go yet. */
static void more_to_come(void **state)
{
	struct conn_offer more = { .more = true };

	(void)state;
	pair(WIRE_PIPELINED);
	sink(&b, &a, 8192, 5);
	writes(&a, 3000);
	conn_shutdown(&a, 1, false);
	assert_int_equal(pass(&a, &b, &more, NULL).type, CONN_NOTHING);
	assert_int_equal(told(&a, &b), WIRE_WR_COMPL);
	assert_int_equal(pass(&a, &b, &more, NULL).type, CONN_NOTHING);
	assert_int_equal(told(&a, &b), WIRE_DISCONN);
}

static void cancelled_sinks(void **state)
{
	(void)state;
	pair(WIRE_PIPELINED);
	sink(&b, &a, 8192, 5);
	sink(&b, &a, 8192, 6);
	writes(&a, 100);
	conn_cancel_sinks(&b);
	assert_int_equal(told(&b, &a), WIRE_SINK_CANCEL);
	assert_int_equal(conn_write_room(&a), 0);
	assert_int_equal(sink(&b, &a, 8192, 7).type, CONN_NOTHING);
	assert_int_equal(told(&a, &b), WIRE_WR_COMPL); /* this first */
	is_free(&b, 5, 0, 100);
	none_free(&b);
	assert_int_equal(told(&a, &b), WIRE_SINK_ACK);
	is_free(&b, 6, 100, 0);
	assert_int_equal(sink(&b, &a, 8192, 7).took, CONN_TOOK_SINK);
}

/* After death memory is the caller's to forget, when nothing can be at it. */
static void dead(void **state)
{
	struct conn_op op;

	(void)state;
	for (int how = 0; how < 3; how++) {
		pair(WIRE_PIPELINED);
		advertise(&a, &b, 1000, 5);
		reads(&b, 100, 0x1000, 100);
		if (how == 0)
			conn_abort(&a);
		else if (how == 1)
			conn_on_lost(&a, EIO);
		else
			assert_int_equal(conn_on_disconnected(&a, 1),
					 -ECONNRESET);
		none_free(&a);
		assert_int_equal(a.src_count, 1);
		conn_abort(&b);
		assert_false(conn_read(&b, 100, &op));
		assert_int_equal(conn_on_done(&b, CONN_READ, 100), -ECANCELED);
	}
	pair(WIRE_PIPELINED);
	sink(&b, &a, 8192, 6);
	conn_on_lost(&b, EIO);
	none_free(&b);
	assert_int_equal(b.sink_count, 1);
}

/* Answers that are not fetched leave no room for advertisements. */
static void unfetched(void **state)
{
	unsigned int n = 0, i;

	(void)state;
	pair(WIRE_PIPELINED);
	while (advertise(&a, &b, 10, n).took == CONN_TOOK_SRC) {
		n++;
		conn_refuse_sources(&b);
		assert_int_equal(told(&b, &a), WIRE_SENDSM);
		assert_true(n <= 2 * CONN_ADVERTS);
	}
	assert_int_equal(n, 2 * CONN_ADVERTS);
	for (i = 0; i < n; i++)
		is_free(&a, i, 0, 0);
	assert_true(conn_src_wanted(&a, 10));
}

/* What no honest peer says ends the connection, and frees nothing. */
static void lies(void **state)
{
	struct wire_msg m;
	int how;

	(void)state;
	for (how = 0; how < 7; how++) {
		pair(WIRE_PIPELINED);
		a.rx_mode = b.tx_mode = WIRE_PIPELINED;
		m = msg(&a, WIRE_DATA);
		switch (how) {
		case 0: /* more than was left */
			advertise(&a, &b, 1000, 5);
			m = msg(&a, WIRE_RD_COMPL);
			m.bytes = 1001;
			break;
		case 1:
			sink(&a, &b, 8192, 5);
			m = msg(&a, WIRE_WR_COMPL);
			m.bytes = 8193;
			break;
		case 2: /* bytes for a program that reads no more */
			sink(&a, &b, 8192, 5);
			conn_shut_read(&a);
			m = msg(&a, WIRE_WR_COMPL);
			m.bytes = 1;
			break;
		case 3: /* an ack before the cancel has left */
			sink(&a, &b, 8192, 5);
			conn_cancel_sinks(&a);
			m = msg(&a, WIRE_SINK_ACK);
			break;
		case 4: /* Combined while its sources are unread */
			advertise(&b, &a, 1000, 5);
			m = msg(&a, WIRE_MODE);
			m.mode = WIRE_COMBINED;
			break;
		case 5: /* its end before its source is read */
			advertise(&b, &a, 1000, 5);
			m = msg(&a, WIRE_DISCONN);
			break;
		default: /* a source it has just cancelled, again */
			advertise(&b, &a, 1000, 5);
			conn_cancel_sources(&b);
			assert_int_equal(told(&b, &a), WIRE_SRC_CANCEL);
			m = msg(&a, WIRE_SRC_AVAIL);
			m.buf_len = 1000;
		}
		bad(&a, m, 0);
		none_free(&a);
	}
}

/* A kernel peer is let at no memory of ours, whatever is offered [7]. */
static void native_none(void **state)
{
	struct conn_mem mem = { .vaddr = 4096, .key = 1, .len = 50000 };
	struct conn_zc zc = { .src = mem, .sink = mem };
	struct conn_offer offer = { .bytes = 50000, .zc = &zc };
	struct wire_msg m;
	struct conn_op op;
	struct conn c;

	(void)state;
	up_kind(&c, true, true);
	assert_false(conn_src_wanted(&c, 50000));
	conn_next(&c, 1, &offer, 1 << 20, &op);
	assert_int_equal(op.hdr[0], WIRE_DATA);
	m = msg(&c, WIRE_MODE); /* of no kernel that is known */
	m.mode = WIRE_PIPELINED;
	assert_int_equal(give(&c, m, 0, NULL), 0);
	assert_false(conn_sink_wanted(&c, 50000));
	conn_next(&c, 1, &offer, 1 << 20, &op);
	assert_int_equal(op.hdr[0], WIRE_DATA);
}

/*
 * Behind our DisConn a kernel tells of receives only with its own messages,
 * and has two at worst: one answer is all that its source can count on.
 */
static void native_half_close(void **state)
{
	struct conn_params p = params(true), q = params(true);
	struct conn_in in;
	struct wire_msg m;
	struct conn_op op;
	struct conn c, d;

	(void)state;
	p.reads = true;
	join(&c, &p, &d, &q);
	m = msg(&c, WIRE_SRC_AVAIL);
	m.buf_len = 1000;
	assert_int_equal(give(&c, m, 8, &in), 0);
	assert_true(conn_read(&c, 100, &op));
	conn_shutdown(&c, 1, false);
	silent(&c, 0); /* DisConn waits */
	assert_int_equal(conn_on_done(&c, CONN_READ, 100), 0);
	assert_int_equal(take(&c, 0).bytes, 100);
	silent(&c, 0);
	assert_true(conn_read(&c, 1000, &op));
	assert_int_equal(conn_on_done(&c, CONN_READ, 892), 0);
	sends(&c, WIRE_RD_COMPL);
	sends(&c, WIRE_DISCONN);
	m = msg(&c, WIRE_SRC_AVAIL);
	m.buf_len = 1000;
	assert_int_equal(give(&c, m, 8, &in), 0);
	assert_false(in.source);
	sends(&c, WIRE_SENDSM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_source),
		cmocka_unit_test(failed_read),
		cmocka_unit_test(refused_source),
		cmocka_unit_test(cancelled_source),
		cmocka_unit_test(urgent_cancels),
		cmocka_unit_test(crossing_sources),
		cmocka_unit_test(write_sink),
		cmocka_unit_test(failed_write),
		cmocka_unit_test(unheard_write),
		cmocka_unit_test(more_to_come),
		cmocka_unit_test(cancelled_sinks),
		cmocka_unit_test(dead),
		cmocka_unit_test(unfetched),
		cmocka_unit_test(lies),
		cmocka_unit_test(native_none),
		cmocka_unit_test(native_half_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
