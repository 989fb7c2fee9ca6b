/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TESTS_ZCOPY_UTIL_H
#define LIBSDP_TESTS_ZCOPY_UTIL_H

/* Two machines and what passes between them. */

#include "conn_util.h"

static struct conn a, b; /* a writes, b reads */

static inline void pair(unsigned int mode)
{
	struct conn_params pa = params(false), pb = params(false);

	pa.reads = pb.reads = true;
	join(&a, &pa, &b, &pb);
	a.tx_mode = b.rx_mode = (uint8_t)mode;
}

/* What `c` is asked to send goes to `to` at once. */
static inline struct conn_op pass(struct conn *c, struct conn *to,
				  const struct conn_offer *offer,
				  struct conn_in *in)
{
	uint8_t buf[CONN_HDR_MAX] = { 0 };
	struct conn_in unused;
	struct conn_op op;

	conn_next(c, 1, offer, 1 << 20, &op);
	if (op.type != CONN_SEND)
		return op;
	memcpy(buf, op.hdr, op.hdr_len);
	assert_int_equal(conn_on_recv(to, 1, buf, op.hdr_len + op.payload,
				      in ? in : &unused),
			 0);
	conn_reposted(to, 1);
	return op;
}

static inline struct conn_op writes(struct conn *c, uint64_t bytes)
{
	struct conn_zc zc = { .write = bytes };
	struct conn_offer offer = { .bytes = bytes, .zc = &zc };
	struct conn_op op;

	conn_next(c, 1, &offer, 1 << 20, &op);
	return op;
}

static inline void is_free(struct conn *c, uint64_t key, uint64_t at,
			   uint32_t bytes)
{
	struct conn_freed f;

	assert_true(conn_freed(c, &f));
	assert_int_equal(f.key, key);
	assert_int_equal(f.bytes, bytes);
	if (bytes)
		assert_int_equal(f.at, at);
}

static inline void none_free(struct conn *c)
{
	struct conn_freed f;

	assert_false(conn_freed(c, &f));
}

#endif
