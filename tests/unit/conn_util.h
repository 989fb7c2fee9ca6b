/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TESTS_CONN_UTIL_H
#define LIBSDP_TESTS_CONN_UTIL_H

/* One machine under test, its peer played by hand. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>

#include "sdp_proto/state.h"

#define BUFS	 64
#define RCV_SIZE 4096
#define EXT	 CONN_EXT_SINKAVAIL

static inline struct conn_params params(bool native)
{
	return (struct conn_params){
		.native = native,
		.rcv_size = RCV_SIZE,
		.posted = BUFS,
		.max_adverts = 4,
		.ext_flags = EXT,
	};
}

/* Both machines of a connection, established. */
static inline void join(struct conn *a, const struct conn_params *pa,
			struct conn *b, const struct conn_params *pb)
{
	struct conn_names n = { .ipv = 4, .local_port = 1, .remote_port = 2 };
	uint8_t buf[CONN_HELLO_ACK_LEN];
	struct conn_names got;
	size_t len;

	conn_init(a, pa);
	conn_init(b, pb);
	len = conn_hello(a, &n, buf);
	assert_int_equal(conn_on_hello(b, buf, len, &got), 0);
	conn_hello_ack(b, &n, buf);
	assert_int_equal(conn_on_hello_ack(a, buf, sizeof(buf), &got), 0);
	assert_int_equal(a->state, CONN_EST);
	assert_int_equal(b->state, CONN_EST);
}

static inline void up_kind(struct conn *c, bool active, bool native)
{
	struct conn_params mine = params(native), other = mine;
	struct conn peer;

	if (active)
		join(c, &mine, &peer, &other);
	else
		join(&peer, &other, c, &mine);
}

static inline void up(struct conn *c)
{
	up_kind(c, true, false);
}

/* The peer's next message of this kind, all it knows acknowledged. */
static inline struct wire_msg msg(const struct conn *c, uint8_t mid)
{
	return (struct wire_msg){
		.mid = mid,
		.bufs = BUFS,
		.mseq = c->mseq_rcvd + 1,
		.ack = c->mseq_sent,
	};
}

/* It arrives at time `now` with so many bytes behind its header. */
static inline int give_at(struct conn *c, uint64_t now, struct wire_msg m,
			  uint32_t payload, struct conn_in *in)
{
	uint8_t buf[CONN_HDR_MAX] = { 0 };
	struct conn_in unused;

	m.len = wire_hdr_len(m.mid) + payload;
	wire_encode(&m, buf);
	return conn_on_recv(c, now, buf, m.len, in ? in : &unused);
}

static inline int give(struct conn *c, struct wire_msg m, uint32_t payload,
		       struct conn_in *in)
{
	return give_at(c, 1, m, payload, in);
}

/* A message of this kind without anything special arrives well. */
static inline void good(struct conn *c, uint8_t mid)
{
	assert_int_equal(give(c, msg(c, mid), 0, NULL), 0);
}

static inline void bad(struct conn *c, struct wire_msg m, uint32_t payload)
{
	struct conn_op op;
	struct conn_offer none = { 0 };

	assert_int_equal(give(c, m, payload, NULL), -ECONNRESET);
	assert_int_equal(c->error, -ECONNRESET);
	assert_int_equal(c->state, CONN_CLOSED);
	assert_non_null(c->fault);
	conn_next(c, 1, &none, RCV_SIZE, &op);
	if (op.type == CONN_SEND) { /* after our DisConn only */
		assert_true(c->dis_sent);
		assert_int_equal(op.hdr[0], WIRE_ABORT);
		conn_next(c, 1, &none, RCV_SIZE, &op);
	}
	assert_int_equal(op.type, CONN_DISCONNECT);
	conn_next(c, 1, &none, RCV_SIZE, &op);
	assert_int_equal(op.type, CONN_NOTHING);
	assert_false(conn_wants_send(c));
}

/* What the machine sends now; mid 0 (Hello) when nothing. */
static inline struct wire_msg take_at(struct conn *c, uint64_t now,
				      uint64_t bytes, bool oob)
{
	struct conn_offer offer = { .bytes = bytes, .oob_last = oob };
	struct wire_msg m = { 0 };
	struct conn_op op;

	conn_next(c, now, &offer, RCV_SIZE, &op);
	if (op.type == CONN_NOTHING)
		return m;
	assert_int_equal(op.type, CONN_SEND);
	assert_int_equal(wire_decode(op.hdr, op.hdr_len + op.payload, &m),
			 WIRE_OK);
	assert_int_equal(m.hdr_len, op.hdr_len);
	return m;
}

static inline struct wire_msg take(struct conn *c, uint64_t bytes)
{
	return take_at(c, 1, bytes, false);
}

static inline void silent(struct conn *c, uint64_t bytes)
{
	assert_int_equal(take(c, bytes).mid, 0);
}

static inline void sends(struct conn *c, uint8_t mid)
{
	assert_int_equal(take(c, 0).mid, mid);
}

static inline void disconnects(struct conn *c)
{
	struct conn_offer none = { 0 };
	struct conn_op op;

	conn_next(c, 1, &none, RCV_SIZE, &op);
	assert_int_equal(op.type, CONN_DISCONNECT);
}

#endif
