/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Zero copy in the conversation of the reference [8.1], byte by byte. */
#include "zcopy_util.h"

#include <stdlib.h>
#include <string.h>

/* The message is this one; its Bufs may differ, and `hex` names no payload. */
static void is_hex(const struct conn_op *op, const char *hex)
{
	uint32_t n = 0;
	char *end;

	assert_int_equal(op->type, CONN_SEND);
	for (; *hex; hex = end, n++) {
		uint8_t byte = (uint8_t)strtoul(hex, &end, 16);

		while (*end == ' ')
			end++;
		if (n != 2 && n != 3)
			assert_int_equal(op->hdr[n], byte);
	}
	assert_int_equal(n, op->hdr_len);
}

static struct conn_op next(struct conn *c, const struct conn_offer *offer)
{
	struct conn_op op;

	conn_next(c, 1, offer, 1 << 20, &op);
	return op;
}

static void arrives(struct conn *c, const struct conn_op *op)
{
	uint8_t buf[CONN_HDR_MAX] = { 0 };
	struct conn_in in;

	memcpy(buf, op->hdr, op->hdr_len);
	assert_int_equal(
		conn_on_recv(c, 1, buf, op->hdr_len + op->payload, &in), 0);
	conn_reposted(c, 1);
}

static void data(uint64_t bytes, unsigned int messages)
{
	while (messages--) {
		struct conn_offer offer = { .bytes = bytes };
		struct conn_op op = next(&a, &offer);

		assert_int_equal(op.hdr[0], WIRE_DATA);
		bytes -= op.payload;
		arrives(&b, &op);
	}
	assert_int_equal(bytes, 0);
}

static void t6_to_t10(void)
{
	struct conn_zc zc = { .src = { 0x7f0012345000, 1, 0xa1b2c3, 1048576 },
			      .inl = 8 };
	struct conn_offer none = { 0 }, offer = { .bytes = 1048576, .zc = &zc };
	struct conn_op op = next(&a, &offer), rd;

	is_hex(&op, "fe 00 00 3f 00 00 00 28 00 00 00 03 00 00 00 01 "
		    "00 10 00 00 00 a1 b2 c3 00 00 7f 00 12 34 50 00");
	arrives(&b, &op);
	assert_true(conn_read(&b, 524288, &rd));
	assert_int_equal(rd.vaddr, 0x7f0012345008);
	assert_int_equal(conn_on_done(&b, CONN_READ, 524288), 0);
	op = next(&b, &none);
	is_hex(&op, "06 00 00 40 00 00 00 14 00 00 00 02 00 00 00 03 "
		    "00 08 00 00");
	op.hdr[1] = 0x04; /* REQ_PIPE is a wish: of no effect */
	arrives(&a, &op);
	assert_true(conn_read(&b, 131072, &rd));
	conn_cancel_sources(&a);
	op = next(&a, &none);
	is_hex(&op, "08 00 00 3e 00 00 00 10 00 00 00 04 00 00 00 02");
	arrives(&b, &op);
	assert_int_equal(conn_on_done(&b, CONN_READ, 131072), 0);
	op = next(&b, &none);
	is_hex(&op, "06 00 00 3f 00 00 00 14 00 00 00 03 00 00 00 03 "
		    "00 02 00 00");
	arrives(&a, &op);
	op = next(&b, &none);
	is_hex(&op, "04 00 00 40 00 00 00 10 00 00 00 04 00 00 00 04");
	arrives(&a, &op);
	is_free(&a, 1, 18 + 4 + 8, 655360);
	data(393208, 12);
}

static void t11_to_t14(void)
{
	struct conn_zc zc = { .src = { 0x7f0012400000, 2, 0xa1b2c4, 262144 } };
	struct conn_zc snk = { .sink = { 0x7f80aabb0000, 3, 0xd4e5f6,
					 131072 } };
	struct conn_offer none = { 0 }, offer = { .bytes = 262144, .zc = &zc };
	struct conn_offer waits = { .zc = &snk };
	struct conn_op op, crossing;

	assert_int_equal(conn_set_mode(&a, WIRE_PIPELINED), 0);
	op = next(&a, &none);
	is_hex(&op, "07 00 00 40 00 00 00 14 00 00 00 11 00 00 00 04 "
		    "20 00 00 00");
	arrives(&b, &op);
	crossing = next(&b, &waits);
	is_hex(&crossing, "fd 00 00 40 00 00 00 24 00 00 00 05 00 00 00 11 "
			  "00 02 00 00 00 d4 e5 f6 00 00 7f 80 aa bb 00 00 "
			  "00 00 00 0f");
	op = next(&a, &offer);
	is_hex(&op, "fe 00 00 40 00 00 00 20 00 00 00 12 00 00 00 04 "
		    "00 04 00 00 00 a1 b2 c4 00 00 7f 00 12 40 00 00");
	arrives(&b, &op);
	arrives(&a, &crossing);
	assert_int_equal(conn_source(&b), 0);
	is_free(&a, 2, 0, 0);
	op = writes(&a, 262144);
	assert_int_equal(op.type, CONN_WRITE);
	assert_int_equal(op.vaddr, 0x7f80aabb0000);
	assert_int_equal(op.len, 131072);
	op = writes(&a, 131072);
	is_hex(&op, "05 00 00 40 00 00 00 14 00 00 00 13 00 00 00 05 "
		    "00 02 00 00");
	arrives(&b, &op);
	is_free(&b, 3, 18 + 4 + 1048576, 131072);
}

static void t15_to_t18(void)
{
	struct conn_zc snk = { .sink = { 0x7f80aabd0000, 4, 0xd4e5f7,
					 131072 } };
	struct conn_offer none = { 0 }, waits = { .zc = &snk };
	struct conn_op op = next(&b, &waits);

	is_hex(&op, "fd 00 00 40 00 00 00 24 00 00 00 06 00 00 00 13 "
		    "00 02 00 00 00 d4 e5 f7 00 00 7f 80 aa bd 00 00 "
		    "00 00 00 0f");
	arrives(&a, &op);
	conn_cancel_sinks(&b);
	op = next(&b, &none);
	is_hex(&op, "09 00 00 40 00 00 00 10 00 00 00 07 00 00 00 13");
	arrives(&a, &op);
	op = next(&a, &none);
	is_hex(&op, "0a 00 00 40 00 00 00 10 00 00 00 14 00 00 00 07");
	arrives(&b, &op);
	is_free(&b, 4, 0, 0);
	assert_int_equal(conn_set_mode(&a, WIRE_COMBINED), 0);
	op = next(&a, &none);
	is_hex(&op, "07 00 00 40 00 00 00 14 00 00 00 15 00 00 00 07 "
		    "10 00 00 00");
	arrives(&b, &op);
	data(131072, 4);
	assert_int_equal(a.tx_stream, 18 + 4 + 1048576 + 262144);
	assert_int_equal(b.rx_stream, a.tx_stream);
}

static void conversation(void **state)
{
	struct conn_params pa = params(false), pb = params(false);
	struct conn_offer plain = { .bytes = 18 };
	struct conn_offer urgent = { .bytes = 4, .oob_last = true };
	struct conn_op op;
	struct wire_msg m;

	(void)state;
	pa.rcv_size = pb.rcv_size = 32784;
	pb.reads = true;
	join(&a, &pa, &b, &pb);
	op = next(&a, &plain); /* T3 */
	arrives(&b, &op);
	m = msg(&a, WIRE_DATA); /* T4, an update it need not send */
	assert_int_equal(give(&a, m, 0, NULL), 0);
	conn_reposted(&a, 1);
	b.mseq_sent++;
	op = next(&a, &urgent); /* T5 */
	arrives(&b, &op);
	t6_to_t10();
	t11_to_t14();
	t15_to_t18();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conversation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
