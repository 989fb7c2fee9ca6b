/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Advertisements [4.3, 4.5], modes [4.6], receive buffers [5.6]. */
#include "conn_util.h"

static struct wire_msg avail(const struct conn *c, uint8_t mid, uint32_t len)
{
	struct wire_msg m = msg(c, mid);

	m.vaddr = 0x7f0000001000;
	m.buf_len = len;
	m.rkey = 77;
	m.nond = c->nond_sent;
	return m;
}

/* As sink: inline bytes are taken, the rest is asked for by SendSm. */
static void src_avail_answered(void **state)
{
	struct conn_in in;
	struct wire_msg m;
	struct conn c;

	(void)state;
	for (int native = 0; native < 2; native++) {
		up_kind(&c, true, native);
		assert_int_equal(
			give(&c, avail(&c, WIRE_SRC_AVAIL, 1000), 8, &in), 0);
		assert_int_equal(in.off, 32);
		assert_int_equal(in.len, 8);
		assert_int_equal(c.peer_src_count, 1);
		assert_true(c.peer_src[0].vaddr == 0x7f0000001008);
		assert_int_equal(c.peer_src[0].len, 992);
		assert_true(conn_wants_send(&c));
		m = take(&c, 500); /* before our own bytes */
		assert_int_equal(m.mid, WIRE_SENDSM);
		assert_int_equal(m.ack, 1);
		assert_int_equal(c.peer_src_count, 0);
		assert_int_equal(take(&c, 500).mid, WIRE_DATA);
		assert_int_equal(give(&c, msg(&c, WIRE_DATA), 992, &in), 0);
		assert_int_equal(in.len, 992);
		assert_int_equal(c.nond_recv, 2);
	}
	/* SendSm needs two credits, and does not get lost without. */
	up(&c);
	assert_int_equal(give(&c, avail(&c, WIRE_SRC_AVAIL, 1000), 8, NULL), 0);
	c.credits = 0;
	silent(&c, 500);
	good(&c, WIRE_DATA);
	assert_int_equal(take(&c, 500).mid, WIRE_SENDSM);
}

/* MSeqAck stays below a cancel until SendSm ends it [3.1]. */
static void src_cancel(void **state)
{
	struct wire_msg m;
	struct conn c;

	(void)state;
	up(&c);
	assert_int_equal(give(&c, avail(&c, WIRE_SRC_AVAIL, 1000), 8, NULL), 0);
	good(&c, WIRE_SRC_CANCEL);
	good(&c, WIRE_SRC_CANCEL);
	assert_true(c.cancel_rx);
	assert_false(c.tx_fast);
	m = take(&c, 500);
	assert_int_equal(m.mid, WIRE_SENDSM);
	assert_int_equal(m.ack, 3);
	assert_false(c.cancel_rx);
	silent(&c, 0);
	/* What leaves before it is held back. */
	up(&c);
	assert_int_equal(give(&c, avail(&c, WIRE_SRC_AVAIL, 1000), 8, NULL), 0);
	good(&c, WIRE_SRC_CANCEL);
	c.want &= (uint16_t)~CONN_WANT_SENDSM; /* a read is under way */
	m = take(&c, 500);
	assert_int_equal(m.mid, WIRE_DATA);
	assert_int_equal(m.ack, 1);
	assert_int_equal(m.bufs, BUFS - 2 + 1); /* the cancel is here */
	assert_int_equal(conn_peer_view(&c), BUFS - 2);
}

/* Pipelined: one SendSm voids what crosses it [4.4]. */
static void send_sm_crossing(void **state)
{
	struct wire_msg second;
	struct conn c;

	(void)state;
	up(&c);
	c.rx_mode = WIRE_PIPELINED;
	assert_int_equal(give(&c, avail(&c, WIRE_SRC_AVAIL, 1000), 0, NULL), 0);
	second = avail(&c, WIRE_SRC_AVAIL, 2000);
	sends(&c, WIRE_SENDSM);
	assert_int_equal(give(&c, second, 0, NULL), 0);
	assert_int_equal(c.peer_src_count, 0);
	silent(&c, 0);
	assert_int_equal(give(&c, avail(&c, WIRE_SRC_AVAIL, 3000), 0, NULL), 0);
	assert_int_equal(c.peer_src_count, 1);
	sends(&c, WIRE_SENDSM);
}

/* As source: our advertisement stops our bytes until it is over. */
static void own_src_avail(void **state)
{
	struct wire_msg m;
	struct conn_in in;
	struct conn c;

	(void)state;
	for (int how = 0; how < 3; how++) {
		up(&c);
		take(&c, 10); /* stands for the SrcAvail: MSeq 1 */
		c.src[0] = (struct conn_advert){ .len = 900, .mseq = 1 };
		c.src_count = 1;
		c.src_mseq = 1;
		state_settle(&c);
		silent(&c, 500);
		assert_int_equal(conn_tx_room(&c), 0);
		m = msg(&c, WIRE_SENDSM); /* of an earlier one */
		m.ack = 0;
		assert_int_equal(give(&c, m, 0, &in), 0);
		assert_int_equal(c.src_count, 1);
		m = msg(&c, WIRE_RD_COMPL);
		m.bytes = 400;
		assert_int_equal(give(&c, m, 0, &in), 0);
		assert_int_equal(c.src[0].done, 400);
		conn_shutdown(&c, 1, false);
		silent(&c, 0); /* DisConn comes after it */
		if (how == 0) {
			m = msg(&c, WIRE_RD_COMPL);
			m.bytes = 500;
			assert_int_equal(give(&c, m, 0, &in), 0);
		} else if (how == 1) {
			assert_int_equal(give(&c, msg(&c, WIRE_SENDSM), 0, &in),
					 0);
		} else {
			c.tx_mode = WIRE_PIPELINED; /* or a SinkAvail voids */
			assert_int_equal(give(&c,
					      avail(&c, WIRE_SINK_AVAIL, 8192),
					      0, &in),
					 0);
		}
		assert_true(in.credits); /* writers wake up */
		assert_int_equal(c.src_count, 0);
		assert_int_equal(take(&c, 500).mid, WIRE_DATA);
		sends(&c, WIRE_DISCONN);
	}
}

/* As source: Data spends a SinkAvail and does not count as non-discard. */
static void sink_avail_held(void **state)
{
	struct conn c;

	(void)state;
	up(&c);
	assert_int_equal(take(&c, 1).mid, WIRE_DATA);
	assert_int_equal(c.nond_sent, 1);
	c.tx_mode = WIRE_PIPELINED;
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			give(&c, avail(&c, WIRE_SINK_AVAIL, 8192), 0, NULL), 0);
	assert_int_equal(c.peer_sink_count, 2);
	assert_int_equal(take(&c, 1).mid, WIRE_DATA);
	assert_int_equal(c.peer_sink_count, 1);
	assert_int_equal(c.nond_sent, 1);
	/* A cancel with one still held is answered; with none it is not. */
	good(&c, WIRE_SINK_CANCEL);
	assert_int_equal(c.peer_sink_count, 0);
	assert_int_equal(take(&c, 1).mid, WIRE_SINK_ACK);
	good(&c, WIRE_SINK_CANCEL);
	silent(&c, 0);
	assert_int_equal(take(&c, 1).mid, WIRE_DATA);
	assert_int_equal(c.nond_sent, 2);
}

/* The request of a transaction: its bytes are the peer's stream [1.3]. */
static void sink_avail_payload(void **state)
{
	struct conn_in in;
	struct conn c;

	(void)state;
	up(&c);
	c.tx_mode = WIRE_PIPELINED;
	assert_int_equal(give(&c, avail(&c, WIRE_SINK_AVAIL, 8192), 20, &in),
			 0);
	assert_int_equal(in.off, 36);
	assert_int_equal(in.len, 20);
	assert_int_equal(c.peer_sink_count, 1);
	conn_shut_read(&c);
	assert_int_equal(give(&c, avail(&c, WIRE_SINK_AVAIL, 8192), 20, &in),
			 -ECONNRESET);
}

static void sink_avail_crosses_disconn(void **state)
{
	struct wire_msg m;
	struct conn c;

	(void)state;
	up(&c);
	c.tx_mode = WIRE_PIPELINED;
	m = avail(&c, WIRE_SINK_AVAIL, 8192);
	conn_shutdown(&c, 1, false);
	sends(&c, WIRE_DISCONN);
	assert_int_equal(give(&c, m, 0, NULL), 0);
	assert_int_equal(c.peer_sink_count, 0);
}

/* As sink: what ends our SinkAvails. */
static void own_sink_avail(void **state)
{
	struct conn_in in;
	struct wire_msg m;
	struct conn c;

	(void)state;
	for (int how = 0; how < 5; how++) {
		up(&c);
		c.rx_mode = WIRE_PIPELINED;
		c.sink[0].len = c.sink[1].len = 8192;
		c.sink_count = 2;
		c.sink_cancel = true;
		state_settle(&c);
		assert_int_equal(give(&c, msg(&c, WIRE_DATA), 5, &in), 0);
		assert_int_equal(in.len, 5);
		assert_int_equal(c.sink_count, 1);
		assert_int_equal(c.nond_recv, 0);
		m = msg(&c, how == 0 ? WIRE_DATA :
			    how == 1 ? WIRE_WR_COMPL :
			    how == 2 ? WIRE_SINK_ACK :
			    how == 3 ? WIRE_DISCONN :
				       WIRE_MODE);
		m.bytes = 100;
		m.mode = WIRE_COMBINED;
		assert_int_equal(give(&c, m, how == 0, &in), 0);
		assert_int_equal(c.sink_count, 0);
		assert_false(c.sink_cancel);
		if (how == 3)
			continue;
		assert_int_equal(give(&c, msg(&c, WIRE_DATA), 5, &in), 0);
		assert_int_equal(c.nond_recv, 1);
	}
}

static void mode_changes(void **state)
{
	struct wire_msg m;
	struct conn c;

	(void)state;
	up(&c);
	assert_int_equal(conn_set_mode(&c, WIRE_COMBINED), -EINVAL);
	assert_int_equal(conn_set_mode(&c, 3), -EINVAL);
	assert_int_equal(conn_set_mode(&c, WIRE_PIPELINED), 0);
	assert_int_equal(conn_set_mode(&c, WIRE_BUFFERED), -EBUSY);
	assert_int_equal(c.tx_mode, WIRE_COMBINED); /* until posted */
	m = take(&c, 10);
	assert_int_equal(m.mid, WIRE_MODE);
	assert_int_equal(m.mode, 2);
	assert_int_equal(c.tx_mode, WIRE_PIPELINED);
	assert_int_equal(conn_set_mode(&c, WIRE_BUFFERED), -EINVAL);
	assert_int_equal(conn_set_mode(&c, WIRE_COMBINED), 0);
	assert_int_equal(take(&c, 10).mode, 1);
	assert_int_equal(conn_set_mode(&c, WIRE_BUFFERED), 0);
	assert_int_equal(take(&c, 10).mode, 0);
	assert_int_equal(take(&c, 10).mid, WIRE_DATA);
	assert_int_equal(conn_set_mode(&c, WIRE_COMBINED), -EINVAL);
	c.peer_ext_flags = 0;
	assert_int_equal(conn_set_mode(&c, WIRE_COMBINED), -EOPNOTSUPP);
	up_kind(&c, true, true);
	assert_int_equal(conn_set_mode(&c, WIRE_PIPELINED), -EOPNOTSUPP);
}

/* NonDiscards stay equal when SinkAvails cross Data and a ModeChange. */
static void mode_crossing(void **state)
{
	struct wire_msg one, two;
	struct conn c;

	(void)state;
	up(&c);
	c.tx_mode = WIRE_PIPELINED;
	one = avail(&c, WIRE_SINK_AVAIL, 8192); /* both under way */
	two = one;
	two.mseq++;
	take(&c, 10);
	assert_int_equal(conn_set_mode(&c, WIRE_COMBINED), 0);
	sends(&c, WIRE_MODE);
	take(&c, 10);
	assert_int_equal(c.nond_sent, 2);
	assert_int_equal(give(&c, one, 0, NULL), 0);
	assert_int_equal(c.nond_sent, 1); /* the first Data took its place */
	assert_int_equal(give(&c, two, 0, NULL), 0);
	assert_int_equal(c.peer_sink_count, 0);
}

/* A peer that asks for larger ones is told of what there is. */
static void receive_buffers(void **state)
{
	struct wire_msg m;
	struct conn c;

	(void)state;
	up(&c);
	m = msg(&c, WIRE_RCVBUF_ACK); /* we never ask: not an answer */
	m.bytes = 3 * RCV_SIZE;
	assert_int_equal(give(&c, m, 0, NULL), 0);
	assert_int_equal(conn_tx_room(&c), RCV_SIZE - 16);
	m = msg(&c, WIRE_RCVBUF);
	m.bytes = 100 * RCV_SIZE;
	assert_int_equal(give(&c, m, 0, NULL), 0);
	m = take(&c, 0);
	assert_int_equal(m.mid, WIRE_RCVBUF_ACK);
	assert_int_equal(m.bytes, RCV_SIZE);
	bad(&c, msg(&c, WIRE_DATA), RCV_SIZE - 15); /* it is not filled */
}

static void both_say_sizes(struct conn *c)
{
	struct conn_params p = params(false), q = params(false);
	struct conn peer;

	p.ext_flags |= CONN_EXT_SIZES;
	q.ext_flags |= CONN_EXT_SIZES;
	join(c, &p, &peer, &q);
}

/* The receiver says what it has, and takes it back when that is heard of. */
static void receives_said(void **state)
{
	struct wire_msg m;
	struct conn c;

	(void)state;
	up(&c);
	assert_int_equal(conn_say_rcvbuf(&c, 2 * RCV_SIZE), -EOPNOTSUPP);
	both_say_sizes(&c);
	assert_int_equal(conn_say_rcvbuf(&c, RCV_SIZE - 1), -EINVAL);
	assert_int_equal(conn_say_rcvbuf(&c, RCV_SIZE), 0);
	silent(&c, 0); /* nothing new */
	assert_int_equal(conn_say_rcvbuf(&c, 2 * RCV_SIZE), 0);
	assert_false(conn_rcvbuf_heard(&c));
	m = take(&c, 0);
	assert_int_equal(m.mid, WIRE_RCVBUF_ACK);
	assert_int_equal(m.bytes, 2 * RCV_SIZE);
	assert_false(conn_rcvbuf_heard(&c));
	assert_int_equal(give(&c, msg(&c, WIRE_DATA), 2 * RCV_SIZE - 16, NULL),
			 0);
	assert_true(conn_rcvbuf_heard(&c));
	/* less: what the peer sent before it knew is larger */
	assert_int_equal(conn_say_rcvbuf(&c, RCV_SIZE + 1), 0);
	m = msg(&c, WIRE_DATA); /* it has crossed the word */
	assert_int_equal(take(&c, 0).bytes, RCV_SIZE + 1);
	assert_int_equal(give(&c, m, 2 * RCV_SIZE - 16, NULL), 0);
	assert_false(conn_rcvbuf_heard(&c));
	assert_int_equal(give(&c, msg(&c, WIRE_DATA), 1, NULL), 0);
	assert_true(conn_rcvbuf_heard(&c));
	bad(&c, msg(&c, WIRE_DATA), RCV_SIZE + 1 - 15);
}

/* Words that follow each other: the last one counts. */
static void receives_said_again(void **state)
{
	struct wire_msg m;
	struct conn c;

	(void)state;
	both_say_sizes(&c);
	assert_int_equal(conn_say_rcvbuf(&c, 3 * RCV_SIZE), 0);
	sends(&c, WIRE_RCVBUF_ACK);
	good(&c, WIRE_DATA);
	assert_int_equal(conn_say_rcvbuf(&c, RCV_SIZE), 0);
	sends(&c, WIRE_RCVBUF_ACK);
	m = msg(&c, WIRE_DATA); /* knows of that one */
	assert_int_equal(conn_say_rcvbuf(&c, 2 * RCV_SIZE), 0);
	assert_int_equal(give(&c, m, RCV_SIZE - 16, NULL), 0);
	assert_false(conn_rcvbuf_heard(&c));
	assert_int_equal(take(&c, 0).bytes, 2 * RCV_SIZE);
	assert_int_equal(give(&c, msg(&c, WIRE_DATA), 2 * RCV_SIZE - 16, NULL),
			 0);
	assert_true(conn_rcvbuf_heard(&c));
	bad(&c, msg(&c, WIRE_DATA), 2 * RCV_SIZE);
}

/* The peer's: filled when they are larger, and no more when they are not. */
static void receives_heard_of(void **state)
{
	struct conn_in in;
	struct wire_msg m;
	struct conn c;

	(void)state;
	both_say_sizes(&c);
	m = msg(&c, WIRE_RCVBUF_ACK);
	m.bytes = 3 * RCV_SIZE;
	assert_int_equal(give(&c, m, 0, &in), 0);
	assert_true(in.credits);
	assert_int_equal(conn_tx_room(&c), 3 * RCV_SIZE - 16);
	m = msg(&c, WIRE_RCVBUF_ACK);
	m.bytes = RCV_SIZE;
	assert_int_equal(give(&c, m, 0, &in), 0);
	assert_int_equal(conn_tx_room(&c), RCV_SIZE - 16);
	assert_int_equal(take(&c, 50000).len, RCV_SIZE);
	m = msg(&c, WIRE_RCVBUF_ACK);
	m.bytes = RCV_SIZE - 1; /* what fitted once fits for ever */
	bad(&c, m, 0);
}

/* Kernel peers count stream bytes alone [5.6]. */
static void native_receive_buffers(void **state)
{
	static const uint32_t asks[] = { 0, RCV_SIZE - WIRE_BSDH, 2 * RCV_SIZE,
					 UINT32_MAX };
	struct wire_msg m;
	struct conn c;

	(void)state;
	up_kind(&c, false, true);
	for (unsigned int i = 0; i < 4; i++) {
		m = msg(&c, WIRE_RCVBUF);
		m.bytes = asks[i];
		assert_int_equal(give(&c, m, 0, NULL), 0);
		m = take(&c, 0);
		assert_int_equal(m.mid, WIRE_RCVBUF_ACK);
		assert_int_equal(m.bytes, RCV_SIZE - WIRE_BSDH);
	}
}

/* A peer that takes 17 bytes at a time gets the stream, and no more. */
static void tiny_peer(void **state)
{
	struct conn_params p = params(false), q = p;
	struct wire_msg m;
	struct conn c, d;

	(void)state;
	q.rcv_size = 17;
	q.max_adverts = 100;
	join(&c, &p, &d, &q);
	assert_int_equal(d.max_adverts, CONN_ADVERTS);
	m = msg(&c, WIRE_RCVBUF);
	assert_int_equal(give(&c, m, 0, NULL), 0);
	assert_int_equal(take(&c, 10).len, 17);
	assert_int_equal(c.want, 0);
	conn_shutdown(&c, 1, false);
	sends(&c, WIRE_DISCONN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(src_avail_answered),
		cmocka_unit_test(src_cancel),
		cmocka_unit_test(send_sm_crossing),
		cmocka_unit_test(own_src_avail),
		cmocka_unit_test(sink_avail_held),
		cmocka_unit_test(sink_avail_payload),
		cmocka_unit_test(sink_avail_crosses_disconn),
		cmocka_unit_test(own_sink_avail),
		cmocka_unit_test(mode_changes),
		cmocka_unit_test(mode_crossing),
		cmocka_unit_test(receive_buffers),
		cmocka_unit_test(receives_said),
		cmocka_unit_test(receives_said_again),
		cmocka_unit_test(receives_heard_of),
		cmocka_unit_test(native_receive_buffers),
		cmocka_unit_test(tiny_peer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
