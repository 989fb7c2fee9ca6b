/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The codec against the golden messages of the protocol reference, section 8:
 * bytes give the fields, the fields give the bytes.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sdp_proto/wire.h"

#define MAX 256

/* "ff 00 ..." to bytes; returns how many. */
static size_t hex(const char *s, uint8_t buf[MAX])
{
	size_t n = 0;
	char *end;

	while (*s) {
		assert_true(n < MAX);
		buf[n++] = (uint8_t)strtoul(s, &end, 16);
		assert_ptr_not_equal(s, end);
		for (s = end; *s == ' '; s++)
			;
	}
	return n;
}

#define BSDH(m, f, b, l, s, a) \
	.mid = m, .flags = f, .bufs = b, .len = l, .mseq = s, .ack = a

static const struct vector {
	const char *name, *bytes;
	struct wire_msg m;
} vectors[] = {
	{ "T3",
	  "ff 00 00 40 00 00 00 22 00 00 00 01 00 00 00 00 "
	  "47 45 54 20 2f 20 48 54 54 50 2f 31 2e 30 0d 0a 0d 0a",
	  { BSDH(WIRE_DATA, 0, 64, 34, 1, 0) } },
	{ "T4",
	  "ff 00 00 40 00 00 00 10 00 00 00 01 00 00 00 01",
	  { BSDH(WIRE_DATA, 0, 64, 16, 1, 1) } },
	{ "T5",
	  "ff 03 00 3f 00 00 00 14 00 00 00 02 00 00 00 01 41 42 43 21",
	  { BSDH(WIRE_DATA, WIRE_OOB_PRES | WIRE_OOB_PEND, 63, 20, 2, 1) } },
	{ "T6",
	  "fe 00 00 3f 00 00 00 28 00 00 00 03 00 00 00 01 "
	  "00 10 00 00 00 a1 b2 c3 00 00 7f 00 12 34 50 00 "
	  "30 31 32 33 34 35 36 37",
	  { BSDH(WIRE_SRC_AVAIL, 0, 63, 40, 3, 1), .buf_len = 1048576,
	    .rkey = 0xa1b2c3, .vaddr = 0x7f0012345000 } },
	{ "T7",
	  "06 04 00 40 00 00 00 14 00 00 00 02 00 00 00 03 00 08 00 00",
	  { BSDH(WIRE_RD_COMPL, WIRE_REQ_PIPE, 64, 20, 2, 3),
	    .bytes = 524288 } },
	{ "T8",
	  "08 00 00 3e 00 00 00 10 00 00 00 04 00 00 00 02",
	  { BSDH(WIRE_SRC_CANCEL, 0, 62, 16, 4, 2) } },
	{ "T9",
	  "06 00 00 3f 00 00 00 14 00 00 00 03 00 00 00 03 00 02 00 00",
	  { BSDH(WIRE_RD_COMPL, 0, 63, 20, 3, 3), .bytes = 131072 } },
	{ "T10",
	  "04 00 00 40 00 00 00 10 00 00 00 04 00 00 00 04",
	  { BSDH(WIRE_SENDSM, 0, 64, 16, 4, 4) } },
	{ "T11",
	  "07 00 00 40 00 00 00 14 00 00 00 11 00 00 00 04 20 00 00 00",
	  { BSDH(WIRE_MODE, 0, 64, 20, 17, 4), .mode = WIRE_PIPELINED } },
	{ "T12",
	  "fe 00 00 40 00 00 00 20 00 00 00 12 00 00 00 04 "
	  "00 04 00 00 00 a1 b2 c4 00 00 7f 00 12 40 00 00",
	  { BSDH(WIRE_SRC_AVAIL, 0, 64, 32, 18, 4), .buf_len = 262144,
	    .rkey = 0xa1b2c4, .vaddr = 0x7f0012400000 } },
	{ "T13",
	  "fd 00 00 40 00 00 00 24 00 00 00 05 00 00 00 11 "
	  "00 02 00 00 00 d4 e5 f6 00 00 7f 80 aa bb 00 00 00 00 00 0f",
	  { BSDH(WIRE_SINK_AVAIL, 0, 64, 36, 5, 17), .buf_len = 131072,
	    .rkey = 0xd4e5f6, .vaddr = 0x7f80aabb0000, .nond = 15 } },
	{ "T14",
	  "05 00 00 40 00 00 00 14 00 00 00 13 00 00 00 05 00 02 00 00",
	  { BSDH(WIRE_WR_COMPL, 0, 64, 20, 19, 5), .bytes = 131072 } },
	{ "T15",
	  "fd 00 00 40 00 00 00 24 00 00 00 06 00 00 00 13 "
	  "00 02 00 00 00 d4 e5 f7 00 00 7f 80 aa bd 00 00 00 00 00 0f",
	  { BSDH(WIRE_SINK_AVAIL, 0, 64, 36, 6, 19), .buf_len = 131072,
	    .rkey = 0xd4e5f7, .vaddr = 0x7f80aabd0000, .nond = 15 } },
	{ "T16",
	  "09 00 00 40 00 00 00 10 00 00 00 07 00 00 00 13",
	  { BSDH(WIRE_SINK_CANCEL, 0, 64, 16, 7, 19) } },
	{ "T17",
	  "0a 00 00 40 00 00 00 10 00 00 00 14 00 00 00 07",
	  { BSDH(WIRE_SINK_ACK, 0, 64, 16, 20, 7) } },
	{ "T18",
	  "07 00 00 40 00 00 00 14 00 00 00 15 00 00 00 07 10 00 00 00",
	  { BSDH(WIRE_MODE, 0, 64, 20, 21, 7), .mode = WIRE_COMBINED } },
	{ "T19",
	  "0b 00 00 40 00 00 00 14 00 00 00 08 00 00 00 19 00 01 00 10",
	  { BSDH(WIRE_RCVBUF, 0, 64, 20, 8, 25), .bytes = 65552 } },
	{ "T20",
	  "0c 00 00 40 00 00 00 14 00 00 00 1a 00 00 00 08 00 01 00 10",
	  { BSDH(WIRE_RCVBUF_ACK, 0, 64, 20, 26, 8), .bytes = 65552 } },
	{ "T21",
	  "02 00 00 40 00 00 00 10 00 00 00 1b 00 00 00 08",
	  { BSDH(WIRE_DISCONN, 0, 64, 16, 27, 8) } },
	{ "T22",
	  "02 00 00 40 00 00 00 10 00 00 00 09 00 00 00 1b",
	  { BSDH(WIRE_DISCONN, 0, 64, 16, 9, 27) } },
	{ "X4",
	  "03 00 00 40 00 00 00 10 00 00 00 1c 00 00 00 08",
	  { BSDH(WIRE_ABORT, 0, 64, 16, 28, 8) } },
	{ "X5",
	  "0d 00 00 40 00 00 00 18 00 00 00 1e 00 00 00 0c "
	  "00 00 00 00 00 01 c3 cb",
	  { BSDH(WIRE_SUSP, 0, 64, 24, 30, 12), .service = 0x1c3cb } },
	{ "X6",
	  "0e 00 00 40 00 00 00 10 00 00 00 0d 00 00 00 1e",
	  { BSDH(WIRE_SUSP_ACK, 0, 64, 16, 13, 30) } },
};

static void golden_messages(void **state)
{
	uint8_t want[MAX], made[MAX];
	struct wire_msg m;
	size_t i, n;

	(void)state;
	for (i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		const struct vector *v = &vectors[i];
		struct wire_msg full = v->m;

		n = hex(v->bytes, want);
		assert_int_equal(n, v->m.len);
		full.hdr_len = wire_hdr_len(full.mid);
		assert_int_equal(wire_decode(want, (uint32_t)n, &m), WIRE_OK);
		assert_int_equal(m.mid, full.mid);
		assert_int_equal(m.flags, full.flags);
		assert_int_equal(m.bufs, full.bufs);
		assert_int_equal(m.len, full.len);
		assert_int_equal(m.mseq, full.mseq);
		assert_int_equal(m.ack, full.ack);
		assert_int_equal(m.hdr_len, full.hdr_len);
		assert_int_equal(m.bytes, full.bytes);
		assert_int_equal(m.mode, full.mode);
		assert_true(m.service == full.service);
		assert_int_equal(m.buf_len, full.buf_len);
		assert_int_equal(m.rkey, full.rkey);
		assert_true(m.vaddr == full.vaddr);
		assert_int_equal(m.nond, full.nond);

		memcpy(made, want, n);
		memset(made, 0xee, full.hdr_len);
		assert_int_equal(wire_encode(&v->m, made), full.hdr_len);
		assert_memory_equal(made, want, n);
	}
}

/* Every shorter length, and one byte more, of each message fails. */
static void lengths(void **state)
{
	uint8_t buf[MAX];
	struct wire_msg m;
	uint32_t len;
	size_t i, n;

	(void)state;
	for (i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
		uint8_t mid = vectors[i].m.mid;

		memset(buf, 0, sizeof(buf));
		n = hex(vectors[i].bytes, buf);
		for (len = 0; len < n; len++)
			assert_int_equal(wire_decode(buf, len, &m),
					 len < 16 ? WIRE_SHORT : WIRE_BAD_LEN);
		assert_int_equal(wire_decode(buf, (uint32_t)n + 1, &m),
				 WIRE_BAD_LEN);
		for (len = 16; len < wire_hdr_len(mid); len++) {
			wire_put32(buf + 4, len);
			assert_int_equal(wire_decode(buf, len, &m),
					 WIRE_BAD_HDR);
		}
		len = wire_hdr_len(mid) + 1;
		wire_put32(buf + 4, len);
		assert_int_equal(wire_decode(buf, len, &m),
				 wire_has_payload(mid) ? WIRE_OK :
							 WIRE_BAD_HDR);
	}
}

static void all_mids(void **state)
{
	uint8_t buf[WIRE_BSDH] = { [7] = WIRE_BSDH };
	struct wire_msg m;
	unsigned int mid, known = 0;

	(void)state;
	for (mid = 0; mid < 256; mid++) {
		bool named = wire_hdr_len(mid);

		known += named;
		assert_int_equal(named, mid <= 0x0e || mid == 0x40 ||
						mid == 0x41 || mid >= 0xfd);
		buf[0] = (uint8_t)mid;
		if (!named)
			assert_int_equal(wire_decode(buf, 16, &m),
					 WIRE_UNKNOWN);
	}
	assert_int_equal(known, 20);
}

/* --- Hello ------------------------------------------------------------ */

static const char t1[] = "00 00 00 40 00 00 00 5c 00 00 00 00 00 00 00 00 "
			 "22 40 00 01 00 00 80 10 00 00 80 10 9c 40 00 00 "
			 "00 00 00 00 00 00 00 00 00 00 00 00 c0 a8 07 01 "
			 "00 00 00 00 00 00 00 00 00 00 00 00 c0 a8 07 02 "
			 "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 "
			 "00 00 00 00 00 00 00 00 00 00 00 00";
static const char x1[] = "00 00 00 40 00 00 00 5c 00 00 00 00 00 00 00 00 "
			 "22 63 00 ff 00 01 00 10 00 01 00 10 9c 41 00 00 "
			 "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01 "
			 "fd 00 00 00 00 00 00 00 00 00 00 00 00 00 00 02 "
			 "00 00 02 00 00 00 00 00 00 00 00 00 00 00 00 00 "
			 "00 00 00 00 00 00 00 00 00 00 00 00";
static const char x2[] = "00 00 00 40 00 00 00 38 00 00 00 00 00 00 00 00 "
			 "22 40 00 01 00 00 80 10 00 00 80 10 9c 40 00 00 "
			 "75 53 44 50 01 00 00 01 00 00 00 00 00 00 00 00 "
			 "00 00 00 00 00 00 00 00";
static const char x3[] = "00 40 9c 40 00 00 00 00 00 00 00 00 00 00 00 00 "
			 "c0 a8 07 01 00 00 00 00 00 00 00 00 00 00 00 00 "
			 "c0 a8 07 02 00 00 00 40 00 00 00 38 00 00 00 00 "
			 "00 00 00 00 22 40 00 01 00 00 80 10 00 00 80 10 "
			 "9c 40 00 00 75 53 44 50 01 00 00 01 00 00 00 00 "
			 "00 00 00 00 00 00 00 00 00 00 00 00";

static void same_ext(const struct wire_ext *x, const struct wire_ext *y)
{
	assert_int_equal(x->version, y->version);
	assert_int_equal(x->flags, y->flags);
	assert_int_equal(x->max_adverts, y->max_adverts);
	assert_int_equal(x->remote_port, y->remote_port);
	assert_true(x->token == y->token);
	assert_int_equal(x->check, y->check);
}

static void hello_is(const char *bytes, size_t skip, struct wire_hello want)
{
	uint8_t buf[MAX], made[MAX];
	struct wire_hello h;
	size_t n = hex(bytes, buf);

	assert_int_equal(wire_hello_decode(buf + skip, n - skip, &h), 0);
	assert_int_equal(h.bufs, want.bufs);
	assert_int_equal(h.version, want.version);
	assert_int_equal(h.ipv, want.ipv);
	assert_int_equal(h.cap, want.cap);
	assert_int_equal(h.max_adverts, want.max_adverts);
	assert_int_equal(h.ext_max_adverts, want.ext_max_adverts);
	assert_int_equal(h.des_rcv_size, want.des_rcv_size);
	assert_int_equal(h.rcv_size, want.rcv_size);
	assert_int_equal(h.local_port, want.local_port);
	assert_memory_equal(h.src, want.src, 16);
	assert_memory_equal(h.dst, want.dst, 16);
	same_ext(&h.ext, &want.ext);
	memset(made, 0xee, sizeof(made));
	assert_int_equal(wire_hello_encode(&want, made), n - skip);
	assert_memory_equal(made, buf + skip, n - skip);
}

static const struct wire_hello t1_fields = {
	.bufs = 64,
	.version = 0x22,
	.ipv = 4,
	.max_adverts = 1,
	.des_rcv_size = 32784,
	.rcv_size = 32784,
	.local_port = 40000,
};

static void golden_hellos(void **state)
{
	struct wire_hello h = t1_fields;

	(void)state;
	memcpy(h.src + 12, "\xc0\xa8\x07\x01", 4);
	memcpy(h.dst + 12, "\xc0\xa8\x07\x02", 4);
	hello_is(t1, 0, h);
	h = (struct wire_hello){
		.bufs = 64,
		.version = 0x22,
		.ipv = 6,
		.cap = WIRE_CAP_INVALIDATE | WIRE_CAP_EXT_ADVERTS,
		.max_adverts = 255,
		.ext_max_adverts = 512,
		.des_rcv_size = 65552,
		.rcv_size = 65552,
		.local_port = 40001,
		.src = { 0xfd, [15] = 1 },
		.dst = { 0xfd, [15] = 2 },
	};
	hello_is(x1, 0, h);
	h = t1_fields;
	h.ext.version = 1;
	h.ext.max_adverts = 1;
	hello_is(x2, 0, h);
	hello_is(x3, 36, h); /* behind the kernel's header */
}

/* The extension block of version 2, in both messages. */
static void extension(void **state)
{
	static const char block[] = "75 53 44 50 02 0b 00 04 13 89 00 00 "
				    "01 23 45 67 89 ab cd ef de ad be ef";
	struct wire_hello h = t1_fields, got;
	struct wire_hello_ack a = { .bufs = 64, .version = 0x22 }, back;
	uint8_t buf[MAX], want[MAX];

	(void)state;
	h.ext = (struct wire_ext){ .version = 2,
				   .flags = 0x0b,
				   .max_adverts = 4,
				   .remote_port = 5001,
				   .token = 0x0123456789abcdef,
				   .check = 0xdeadbeef };
	a.ext = h.ext;
	a.max_adverts = 1;
	a.rcv_size = 100;
	hex(block, want);
	assert_int_equal(wire_hello_encode(&h, buf), 56);
	assert_memory_equal(buf + 32, want, 24);
	assert_int_equal(wire_hello_decode(buf, 56, &got), 0);
	same_ext(&got.ext, &h.ext);
	assert_int_equal(wire_hello_ack_encode(&a, buf), 196);
	assert_memory_equal(buf + 32, want, 24);
	assert_int_equal(wire_hello_ack_decode(buf, 196, &back), 0);
	same_ext(&back.ext, &h.ext);
	assert_int_equal(back.rcv_size, 100);
	/* No magic, or a version of the future: a peer without extensions. */
	buf[36] = 3;
	assert_int_equal(wire_hello_ack_decode(buf, 196, &back), 0);
	assert_int_equal(back.ext.version, 0);
	assert_int_equal(back.ext.flags, 0);
	/* An iWARP peer's message may end early. */
	wire_put32(buf + 4, 24);
	assert_int_equal(wire_hello_ack_decode(buf, 24, &back), 0);
}

static void golden_ack(void **state)
{
	static const char t2[] =
		"01 00 00 40 00 00 00 c4 00 00 00 00 00 00 00 00 "
		"22 00 00 01 00 00 80 10";
	struct wire_hello_ack want = {
		.bufs = 64, .version = 0x22, .max_adverts = 1, .rcv_size = 32784
	};
	uint8_t buf[MAX] = { 0 }, made[MAX];
	struct wire_hello_ack h;

	(void)state;
	hex(t2, buf);
	assert_int_equal(wire_hello_ack_decode(buf, 196, &h), 0);
	assert_int_equal(h.bufs, 64);
	assert_int_equal(h.version, 0x22);
	assert_int_equal(h.ipv, 0);
	assert_int_equal(h.cap, 0);
	assert_int_equal(h.max_adverts, 1);
	assert_int_equal(h.rcv_size, 32784);
	assert_int_equal(h.ext.version, 0);
	memset(made, 0xee, sizeof(made));
	assert_int_equal(wire_hello_ack_encode(&want, made), 196);
	assert_memory_equal(made, buf, 196);
}

static void bad_hellos(void **state)
{
	struct wire_hello_ack a;
	struct wire_hello h;
	uint8_t buf[MAX];
	size_t n;

	(void)state;
	n = hex(t1, buf);
	for (size_t len = 0; len < n; len++)
		assert_int_equal(wire_hello_decode(buf, len, &h), -EBADMSG);
	for (uint32_t len = 0; len < 256; len++) {
		wire_put32(buf + 4, len);
		assert_int_equal(wire_hello_decode(buf, n, &h),
				 len < 64 || len > 92 ? -EBADMSG : 0);
	}
	n = hex(x2, buf);
	assert_int_equal(wire_hello_decode(buf, 92, &h), 0);
	assert_int_equal(wire_hello_decode(buf, 55, &h), -EBADMSG);
	buf[32] ^= 1; /* magic */
	assert_int_equal(wire_hello_decode(buf, n, &h), -EBADMSG);
	buf[32] ^= 1;
	buf[36] = 3; /* extension version */
	assert_int_equal(wire_hello_decode(buf, n, &h), -EBADMSG);
	buf[36] = 0;
	assert_int_equal(wire_hello_decode(buf, n, &h), -EBADMSG);
	buf[36] = 1;
	buf[0] = 1; /* MID */
	assert_int_equal(wire_hello_decode(buf, n, &h), -EBADMSG);

	memset(buf, 0, sizeof(buf));
	buf[0] = 1;
	for (uint32_t len = 0; len < 256; len++) {
		wire_put32(buf + 4, len);
		assert_int_equal(wire_hello_ack_decode(buf, 196, &a),
				 len < 24 || len > 196 ? -EBADMSG : 0);
		assert_int_equal(wire_hello_ack_decode(buf, 23, &a), -EBADMSG);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_messages),
		cmocka_unit_test(lengths),
		cmocka_unit_test(all_mids),
		cmocka_unit_test(golden_hellos),
		cmocka_unit_test(extension),
		cmocka_unit_test(golden_ack),
		cmocka_unit_test(bad_hellos),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
