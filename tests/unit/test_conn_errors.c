/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The error table [6], row by row, and the must-fail vectors [8.4]. */
#include "conn_util.h"

#include <stdlib.h>

static const struct conn_advert BUF = { .vaddr = 0x1000, .len = 8192 };

/* A SrcAvail of `len` bytes in a mode of our receive half. */
static struct wire_msg src_avail(const struct conn *c, uint32_t len)
{
	struct wire_msg m = msg(c, WIRE_SRC_AVAIL);

	m.vaddr = 0x7f0000000000;
	m.buf_len = len;
	return m;
}

static struct wire_msg sink_avail(const struct conn *c, uint32_t len)
{
	struct wire_msg m = src_avail(c, len);

	m.mid = WIRE_SINK_AVAIL;
	m.nond = c->nond_sent;
	return m;
}

/* As if we had advertised: a SrcAvail, a SinkAvail of ours is out. */
static void own_src(struct conn *c)
{
	assert_int_equal(take(c, 10).mid, WIRE_DATA); /* uses the MSeq */
	c->src[c->src_count] = BUF;
	c->src[c->src_count].mseq = c->mseq_sent;
	c->src_mseq = c->mseq_sent;
	c->src_count++;
	state_settle(c);
}

static void own_sink(struct conn *c)
{
	c->sink[c->sink_count++] = BUF;
	state_settle(c);
}

static int raw(struct conn *c, const char *hex)
{
	uint8_t buf[CONN_HDR_MAX];
	struct conn_in in;
	uint32_t n = 0;
	char *end;

	for (; *hex; hex = end) {
		buf[n++] = (uint8_t)strtoul(hex, &end, 16);
		while (*end == ' ')
			end++;
	}
	return conn_on_recv(c, 1, buf, n, &in);
}

static void must_fail_vectors(void **state)
{
	static const char *const n[] = {
		"ff 00 00 40 00 00 00 18 00 00 00 01 00 00 00 00 41 42 43 44",
		"ff 00 00 40 00 00 00 0c 00 00 00 01",
		"10 00 00 40 00 00 00 10 00 00 00 01 00 00 00 00",
		"06 00 00 40 00 00 00 10 00 00 00 01 00 00 00 00",
		"fe 00 00 40 00 00 00 20 00 00 00 01 00 00 00 00 "
		"00 00 10 00 00 00 00 01 00 00 00 00 00 00 00 00",
		"fe 00 00 40 00 00 00 21 00 00 00 01 00 00 00 00 "
		"00 00 00 01 00 00 00 01 00 00 00 00 00 00 00 00 41",
		"07 00 00 40 00 00 00 14 00 00 00 01 00 00 00 00 10 00 00 00",
		"07 00 00 40 00 00 00 14 00 00 00 01 00 00 00 00 a0 00 00 00",
		"0a 00 00 40 00 00 00 10 00 00 00 01 00 00 00 00",
		"fd 00 00 40 00 00 00 24 00 00 00 01 00 00 00 00 "
		"00 01 00 00 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00 00",
		"ff 00 00 40 00 00 00 10 00 00 00 02 00 00 00 00",
		"04 00 00 40 00 00 00 10 00 00 00 01 00 00 00 05",
	};
	struct conn c;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(n) / sizeof(n[0]); i++) {
		up(&c);
		assert_int_equal(raw(&c, n[i]), -ECONNRESET);
		assert_int_equal(c.error, -ECONNRESET);
		assert_non_null(c.fault);
		disconnects(&c);
		assert_int_equal(raw(&c, n[i]), -ECONNRESET);
	}
	/* The same frames without their fault are taken. */
	up(&c);
	assert_int_equal(raw(&c, "ff 00 00 40 00 00 00 14 00 00 00 01 "
				 "00 00 00 00 41 42 43 44"),
			 0);
	assert_int_equal(raw(&c, "04 00 00 40 00 00 00 10 00 00 00 02 "
				 "00 00 00 00"),
			 0);
}

static void rows_1_to_5_framing(void **state)
{
	struct conn c;
	unsigned int mid;

	(void)state;
	for (mid = 0x0f; mid < 0xfd; mid++) { /* 4 */
		uint8_t buf[16] = { (uint8_t)mid, 0, 0, 64, 0, 0, 0,
				    16,		  0, 0, 0,  1 };
		struct conn_in in;

		up(&c);
		assert_int_equal(conn_on_recv(&c, 1, buf, 16, &in),
				 -ECONNRESET);
		up_kind(&c, true, true);
		assert_int_equal(conn_on_recv(&c, 1, buf, 16, &in), 0);
		assert_int_equal(c.mseq_rcvd, 1); /* it counts */
		assert_non_null(c.fault);
		good(&c, WIRE_DATA);
	}
	for (mid = 0; mid < 2; mid++) { /* 5 */
		uint8_t buf[WIRE_HELLO_ACK_LEN] = { (uint8_t)mid };
		struct conn_in in;

		up(&c);
		buf[3] = 64;
		buf[7] = mid ? 196 : 92;
		buf[11] = 1;
		assert_int_equal(conn_on_recv(&c, 1, buf, buf[7], &in),
				 -ECONNRESET);
	}
	for (mid = 2; mid < 0x0f; mid++) { /* 3 and 11 */
		up(&c);
		bad(&c, msg(&c, (uint8_t)mid), 1);
	}
}

static void rows_6_to_10_numbers(void **state)
{
	struct wire_msg m;
	struct conn c;

	(void)state;
	for (uint32_t d = 0; d < 4; d += 2) { /* 6: d = 1 is right */
		up(&c);
		m = msg(&c, WIRE_DATA);
		m.mseq = d;
		bad(&c, m, 5);
		up(&c);
		m = msg(&c, WIRE_DATA);
		m.mseq = d;
		bad(&c, m, 0);
		up_kind(&c, true, true);
		m = msg(&c, WIRE_DATA);
		m.mseq = d;
		assert_int_equal(give(&c, m, 5, NULL), 0);
		assert_int_equal(c.mseq_rcvd, d);
	}
	up(&c); /* 7 */
	take(&c, 1);
	m = msg(&c, WIRE_DATA);
	m.ack = 2;
	bad(&c, m, 5);
	up(&c); /* 7a */
	take(&c, 1);
	take(&c, 1);
	assert_int_equal(give(&c, msg(&c, WIRE_DATA), 1, NULL), 0);
	m = msg(&c, WIRE_DATA);
	m.ack = 1;
	assert_int_equal(give(&c, m, 1, NULL), 0);
	assert_int_equal(c.credits, BUFS - 1);
	up(&c); /* 8 */
	for (int i = 0; i < BUFS; i++)
		assert_int_equal(give(&c, msg(&c, WIRE_DATA), 1, NULL), 0);
	bad(&c, msg(&c, WIRE_DATA), 1);
	up(&c); /* 9 */
	take(&c, 1);
	take(&c, 1);
	m = msg(&c, WIRE_DATA);
	m.bufs = 1;
	m.ack = 0;
	assert_int_equal(give(&c, m, 1, NULL), 0);
	assert_int_equal(c.credits, 0);
	assert_non_null(c.fault);
	up(&c); /* 10 */
	m = msg(&c, WIRE_DATA);
	m.bufs = 65535;
	assert_int_equal(give(&c, m, 1, NULL), 0);
	assert_int_equal(c.credits, 65535);
	up(&c); /* longer than the receive buffer */
	assert_int_equal(give(&c, msg(&c, WIRE_DATA), RCV_SIZE - 16, NULL), 0);
	bad(&c, msg(&c, WIRE_DATA), RCV_SIZE - 15);
}

static void rows_12_to_18_srcavail(void **state)
{
	struct wire_msg m;
	struct conn c;

	(void)state;
	up(&c); /* 12 */
	assert_int_equal(give(&c, src_avail(&c, 100), 8, NULL), 0);
	good(&c, WIRE_DATA);
	bad(&c, msg(&c, WIRE_DATA), 1);
	up(&c); /* 13 */
	c.rx_mode = WIRE_BUFFERED;
	bad(&c, src_avail(&c, 100), 8);
	up(&c); /* 14 */
	bad(&c, src_avail(&c, 100), 0);
	up(&c);
	bad(&c, src_avail(&c, 100), 100);
	up(&c);
	assert_int_equal(give(&c, src_avail(&c, 100), 99, NULL), 0);
	bad(&c, src_avail(&c, 100), 99);
	up(&c); /* 15 */
	c.rx_mode = WIRE_PIPELINED;
	bad(&c, src_avail(&c, 100), 1);
	up(&c);
	c.rx_mode = WIRE_PIPELINED;
	for (int i = 0; i < 4; i++)
		assert_int_equal(give(&c, src_avail(&c, 100), 0, NULL), 0);
	bad(&c, src_avail(&c, 100), 0);
	up(&c); /* 16 */
	c.rx_mode = WIRE_PIPELINED;
	assert_int_equal(give(&c, src_avail(&c, 100), 0, NULL), 0);
	good(&c, WIRE_SRC_CANCEL);
	bad(&c, src_avail(&c, 100), 0);
	up(&c); /* 17 */
	c.rx_mode = WIRE_PIPELINED;
	bad(&c, src_avail(&c, 0), 0);
	up(&c);
	m = src_avail(&c, 100);
	m.vaddr = UINT64_MAX - 99;
	assert_int_equal(give(&c, m, 8, NULL), -ECONNRESET);
	up(&c);
	m.vaddr--;
	assert_int_equal(give(&c, m, 8, NULL), 0);
	up(&c); /* 18 */
	c.rx_mode = WIRE_PIPELINED;
	own_sink(&c);
	assert_int_equal(give(&c, src_avail(&c, 100), 0, NULL), 0);
	assert_int_equal(c.peer_src_count, 0);
	silent(&c, 0);
}

static void rows_19_to_21_sinkavail(void **state)
{
	struct wire_msg m;
	struct conn c;

	(void)state;
	up(&c); /* 19 */
	bad(&c, sink_avail(&c, 8192), 0);
	up(&c);
	c.tx_mode = WIRE_BUFFERED;
	bad(&c, sink_avail(&c, 8192), 0);
	up(&c); /* its race: one that crossed ModeChange(Combined) */
	c.tx_mode = WIRE_PIPELINED;
	m = sink_avail(&c, 8192);
	assert_int_equal(conn_set_mode(&c, WIRE_COMBINED), 0);
	sends(&c, WIRE_MODE);
	assert_int_equal(give(&c, m, 0, NULL), 0);
	assert_int_equal(c.peer_sink_count, 0);
	bad(&c, sink_avail(&c, 8192), 0);
	up(&c); /* 20 */
	c.tx_mode = WIRE_PIPELINED;
	bad(&c, sink_avail(&c, RCV_SIZE - 17), 0);
	up(&c);
	c.tx_mode = WIRE_PIPELINED;
	for (int i = 0; i < 4; i++)
		assert_int_equal(
			give(&c, sink_avail(&c, RCV_SIZE - 16), 0, NULL), 0);
	assert_int_equal(c.peer_sink_count, 4);
	bad(&c, sink_avail(&c, 8192), 0);
	up(&c); /* 21 */
	c.tx_mode = WIRE_PIPELINED;
	assert_int_equal(take(&c, 10).mid, WIRE_DATA);
	m = sink_avail(&c, 8192);
	m.nond = 0;
	assert_int_equal(give(&c, m, 0, NULL), 0);
	assert_int_equal(c.peer_sink_count, 0);
	assert_int_equal(c.nond_sent, 0);
}

static void rows_22_to_28_answers(void **state)
{
	struct wire_msg m;
	struct conn c;

	(void)state;
	up(&c); /* 22 */
	bad(&c, msg(&c, WIRE_RD_COMPL), 0);
	up(&c);
	own_src(&c);
	m = msg(&c, WIRE_RD_COMPL);
	m.bytes = 8192;
	assert_int_equal(give(&c, m, 0, NULL), 0);
	assert_int_equal(c.src_count, 0);
	m = msg(&c, WIRE_RD_COMPL);
	m.ack = c.src_mseq - 1;
	assert_int_equal(give(&c, m, 0, NULL), 0); /* stale */
	bad(&c, msg(&c, WIRE_RD_COMPL), 0);
	up(&c);
	c.cancel_tx = true;
	assert_int_equal(give(&c, msg(&c, WIRE_RD_COMPL), 0, NULL), 0);
	up(&c); /* 23 */
	own_src(&c);
	m = msg(&c, WIRE_RD_COMPL);
	m.bytes = 8000;
	assert_int_equal(give(&c, m, 0, NULL), 0);
	m.mseq++;
	m.bytes = 193;
	bad(&c, m, 0);
	up(&c); /* 24 */
	bad(&c, msg(&c, WIRE_WR_COMPL), 0);
	up(&c);
	own_sink(&c);
	m = msg(&c, WIRE_WR_COMPL);
	m.bytes = 8193;
	bad(&c, m, 0);
	up(&c);
	own_sink(&c);
	m.bytes = 1; /* ends it all the same */
	assert_int_equal(give(&c, m, 0, NULL), 0);
	assert_int_equal(c.sink_count, 0);
	up(&c); /* 25, 26 */
	good(&c, WIRE_SENDSM);
	good(&c, WIRE_SRC_CANCEL);
	good(&c, WIRE_SINK_CANCEL);
	silent(&c, 0);
	assert_int_equal(take(&c, 1).mid, WIRE_DATA);
	up(&c); /* 27 */
	own_sink(&c);
	bad(&c, msg(&c, WIRE_SINK_ACK), 0);
	up(&c);
	own_sink(&c);
	c.sink_cancel = true;
	good(&c, WIRE_SINK_ACK);
	assert_int_equal(c.sink_count, 0);
	bad(&c, msg(&c, WIRE_SINK_ACK), 0);
}

/* 28: every code in every mode of the half it names. */
static void row_28_modes(void **state)
{
	(void)state;
	for (unsigned int code = 0; code < 16; code++) {
		for (unsigned int mode = 0; mode < 3; mode++) {
			bool legal = (code == 0 && mode == WIRE_COMBINED) ||
				     (code == 1 && mode == WIRE_PIPELINED) ||
				     (code == 2 && mode == WIRE_COMBINED) ||
				     (code == 9 && mode == WIRE_BUFFERED);
			struct wire_msg m;
			struct conn c;

			up(&c);
			c.rx_mode = c.tx_mode = (uint8_t)mode;
			m = msg(&c, WIRE_MODE);
			m.mode = (uint8_t)code;
			if (!legal) {
				bad(&c, m, 0);
				continue;
			}
			assert_int_equal(give(&c, m, 0, NULL), 0);
			assert_int_equal(code & 8 ? c.tx_mode : c.rx_mode,
					 code & 7);
			assert_int_equal(code & 8 ? c.rx_mode : c.tx_mode,
					 mode);
		}
	}
}

static void rows_29_to_35(void **state)
{
	struct wire_msg m;
	struct conn_in in;
	struct conn c;

	(void)state;
	for (int shut = 0; shut < 2; shut++) { /* 29, 30 */
		for (int kind = 0; kind < 3; kind++) {
			up(&c);
			if (shut)
				conn_shut_read(&c);
			else
				good(&c, WIRE_DISCONN);
			good(&c, WIRE_DATA); /* a credit update */
			if (kind == 0)
				bad(&c, msg(&c, WIRE_DATA), 1);
			else if (kind == 1)
				bad(&c, src_avail(&c, 10), 1);
			else if (!shut)
				bad(&c, msg(&c, WIRE_DISCONN), 0);
			else
				good(&c, WIRE_DISCONN);
		}
	}
	up(&c); /* 32 */
	m = msg(&c, WIRE_DATA);
	m.flags = WIRE_OOB_PRES;
	assert_int_equal(give(&c, m, 0, &in), 0);
	assert_false(in.oob || in.oob_pending);
	m = src_avail(&c, 100);
	m.flags = WIRE_OOB_PRES;
	assert_int_equal(give(&c, m, 4, &in), 0);
	assert_false(in.oob || in.oob_pending);
	up(&c); /* 33 */
	m = msg(&c, WIRE_RCVBUF_ACK);
	m.bytes = 100000;
	assert_int_equal(give(&c, m, 0, NULL), 0);
	assert_int_equal(c.peer_rcv_size, RCV_SIZE);
	for (uint32_t size = 0; size <= RCV_SIZE; size += RCV_SIZE / 2) {
		up(&c); /* 34 */
		m = msg(&c, WIRE_RCVBUF);
		m.bytes = size;
		assert_int_equal(give(&c, m, 0, NULL), 0);
		m = take(&c, 0);
		assert_int_equal(m.mid, WIRE_RCVBUF_ACK);
		assert_int_equal(m.bytes, RCV_SIZE);
	}
	/* 35: in every state, from a kernel or not, also from one that offers it */
	for (int how = 0; how < 8; how++) {
		up_kind(&c, how & 1, how & 2);
		c.peer_ext_flags |= how & 1 ? 0x02 : 0;
		if (how & 4) {
			conn_shutdown(&c, 1, false);
			sends(&c, WIRE_DISCONN);
		}
		m = msg(&c, WIRE_SUSP);
		m.service = UINT64_MAX;
		assert_int_equal(give(&c, m, 0, NULL), 0);
		assert_int_equal(give(&c, msg(&c, WIRE_SUSP_ACK), 0, NULL), 0);
		assert_int_equal(give(&c, msg(&c, WIRE_SUSP_ACK), 0, NULL), 0);
		assert_true(conn_deadline(&c) == UINT64_MAX);
		silent(&c, 0);
		if (!(how & 4))
			assert_int_equal(take(&c, 1).mid, WIRE_DATA);
		good(&c, WIRE_DISCONN);
	}
}

/* A byte of a good set-up message changed: refused, or taken. */
static void rows_37_38_set_up(void **state)
{
	static const struct {
		uint8_t at, value;
		int active, native, result;
	} cases[] = {
		/* 37: Hello, native */
		{ 0, 0x01, 0, 1, -EPROTO }, /* MID */
		{ 7, 0x38, 0, 1, -EPROTO }, /* Len */
		{ 16, 0x11, 0, 1, -EPROTO }, /* N14 */
		{ 16, 0x2f, 0, 1, 0 }, /* any minor version */
		{ 17, 0x50, 0, 1, -EPROTO }, /* IPV */
		{ 17, 0x4f, 0, 1, 0 }, /* unknown capabilities */
		{ 19, 0, 0, 1, -EPROTO }, /* N13 */
		{ 3, 2, 0, 1, -EPROTO }, /* Bufs */
		{ 3, 3, 0, 1, 0 },
		/* compact */
		{ 7, 0x5c, 0, 0, -EPROTO },
		{ 16, 0x11, 0, 0, -EPROTO },
		{ 17, 0x60, 0, 0, 0 },
		{ 17, 0, 0, 0, -EPROTO },
		{ 19, 0, 0, 0, -EPROTO },
		{ 32, 0, 0, 0, -EPROTO }, /* magic */
		{ 36, 3, 0, 0, -EPROTO }, /* extension version */
		{ 36, 1, 0, 0, 0 },
		{ 3, 2, 0, 0, -EPROTO },
		/* 38: HelloAck */
		{ 0, 0x00, 1, 0, -EPROTO },
		{ 7, 23, 1, 0, -EPROTO },
		{ 7, 197, 1, 0, -EPROTO },
		{ 16, 0x11, 1, 0, -EPROTO },
		{ 3, 2, 1, 0, -ECONNREFUSED },
		{ 3, 3, 1, 0, 0 },
		{ 32, 0, 1, 0, 0 }, /* a peer without extensions */
	};
	struct conn_names n = { .ipv = 4 }, got;
	struct conn_params p;
	struct conn a, b;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint8_t buf[CONN_HELLO_ACK_LEN] = { 0 };
		size_t len;

		p = params(cases[i].native);
		conn_init(&a, &p);
		conn_init(&b, &p);
		len = conn_hello(&a, &n, buf);
		if (!cases[i].active) {
			buf[cases[i].at] = cases[i].value;
			assert_int_equal(conn_on_hello(&b, buf, len, &got),
					 cases[i].result);
			assert_int_equal(b.error, cases[i].result);
			continue;
		}
		assert_int_equal(conn_on_hello(&b, buf, len, &got), 0);
		conn_hello_ack(&b, &n, buf);
		buf[cases[i].at] = cases[i].value;
		assert_int_equal(conn_on_hello_ack(&a, buf, 196, &got),
				 cases[i].result);
		if (cases[i].result)
			disconnects(&a);
	}
}

static void receive_sizes(void **state)
{
	struct conn_names n = { .ipv = 4 }, got;
	struct conn_params p = params(false);
	uint8_t buf[CONN_HELLO_ACK_LEN];
	struct conn a, b;

	(void)state;
	for (uint32_t size = 15; size < 19; size++) {
		size_t len;

		conn_init(&a, &p);
		conn_init(&b, &p);
		len = conn_hello(&a, &n, buf);
		wire_put32(buf + 24, size);
		assert_int_equal(conn_on_hello(&b, buf, len, &got),
				 size < 17 ? -EPROTO : 0);
		if (b.error)
			continue;
		assert_int_equal(conn_tx_room(&b), 0); /* not yet */
		conn_hello_ack(&b, &n, buf);
		assert_int_equal(conn_tx_room(&b), size - 16);
		wire_put32(buf + 20, size - 2);
		assert_int_equal(conn_on_hello_ack(&a, buf, 196, &got),
				 size - 2 < 17 ? -EPROTO : 0);
	}
}

static void before_set_up(void **state)
{
	struct conn_params p = params(false);
	struct conn_offer offer = { .bytes = 10 };
	struct conn_names got;
	uint8_t junk[200] = { 0 };
	struct conn_op op;
	struct conn c;

	(void)state;
	conn_init(&c, &p);
	conn_next(&c, 1, &offer, RCV_SIZE, &op);
	assert_int_equal(op.type, CONN_NOTHING);
	assert_int_equal(give(&c, msg(&c, WIRE_DATA), 1, NULL), -EPROTO);
	conn_init(&c, &p);
	assert_int_equal(conn_on_hello_ack(&c, junk, 196, &got), -EPROTO);
	up(&c);
	assert_int_equal(conn_on_hello(&c, junk, 92, &got), -EPROTO);
	disconnects(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(must_fail_vectors),
		cmocka_unit_test(rows_1_to_5_framing),
		cmocka_unit_test(rows_6_to_10_numbers),
		cmocka_unit_test(rows_12_to_18_srcavail),
		cmocka_unit_test(rows_19_to_21_sinkavail),
		cmocka_unit_test(rows_22_to_28_answers),
		cmocka_unit_test(row_28_modes),
		cmocka_unit_test(rows_29_to_35),
		cmocka_unit_test(rows_37_38_set_up),
		cmocka_unit_test(receive_sizes),
		cmocka_unit_test(before_set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
