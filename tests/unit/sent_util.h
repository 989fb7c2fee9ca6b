/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TEST_SENT_UTIL_H
#define TEST_SENT_UTIL_H

/*
 * A lifted sock on a fabric that keeps what is sent.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <unistd.h>

#include "conn_util.h"
#include "fabric/nowhere.h"
#include "sdp_proto/wire.h"
#include "socket/life/life.h"

#define ROOM 300u /* bytes of the largest message */
#define MSGS 8u

static uint8_t sent[MSGS][ROOM];
static uint32_t sent_len[MSGS], nsent, given;
static uint32_t most; /* messages that there is memory for */
static uint32_t late; /* looks that find none yet */

static uint32_t room(struct end *e)
{
	(void)e;
	if (late && late--)
		return 0;
	return nsent < most ? ROOM : 0;
}

static void *buf(struct end *e, uint32_t len)
{
	(void)e;
	given = len;
	return nsent < most && len <= ROOM ? sent[nsent] : NULL;
}

static int put(struct end *e, uint32_t len, bool solicited)
{
	(void)e;
	(void)solicited;
	assert_true(len <= given);
	sent_len[nsent++] = len;
	return 0;
}

static const struct fabric_ops ops = {
	.name = "test",
	.room = room,
	.buf = buf,
	.ctrl = nowhere_ctrl,
	.send = put,
	.poll = nowhere_msg,
	.front = nowhere_msg,
	.release = nowhere_nothing,
	.next = nowhere_next,
	.pending = nowhere_pending,
	.trim = nowhere_nothing,
	.destroy = nowhere_nothing,
};

static struct sock sock;
static struct rdma rd;
static struct end end;
static struct anc_side side[2];

static void lifted_sock(void)
{
	memset(&sock, 0, sizeof(sock));
	memset(&rd, 0, sizeof(rd));
	sock_pid = getpid();
	nsent = 0;
	most = MSGS;
	late = 0;
	up(&sock.conn);
	end = (struct end){ &ops, ROOM, BUFS };
	sock.end = &end;
	sock.stats.row = &sock_spare;
	sock.waits.wake = sock.waits.orphan_fd = -1;
	sock.tx = &sock.local[0];
	sock.rx = &sock.local[1];
	sock.own = &side[0];
	sock.peer = &side[1];
	sock.tx->state = ANC_LIFTED;
}

/* Between hosts, and the reader has not seen the lift yet. */
static inline void unconfirmed(void)
{
	sock.rd = &rd;
	sock.link = &rdma_link;
	rd.sock = &sock;
	rd.end = &end;
	rd.state = RDMA_UP;
	rd.owner = sock_pid;
	assert_true(failover_keep(&sock));
}

/* The messages from the i-th on are just these bytes. */
static void holds(uint32_t i, const uint8_t *bytes, size_t n)
{
	struct wire_msg m;
	size_t len;

	for (; i < nsent; i++, bytes += len, n -= len) {
		assert_int_equal(wire_decode(sent[i], sent_len[i], &m), 0);
		assert_int_equal(m.mid, WIRE_DATA);
		len = sent_len[i] - WIRE_BSDH;
		assert_true(len <= n);
		assert_memory_equal(sent[i] + WIRE_BSDH, bytes, len);
	}
	assert_int_equal(n, 0);
}

#endif
