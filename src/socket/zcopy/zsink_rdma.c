/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Write Zcopy between hosts (D10): a receive that waits offers its memory,
 * registered for as long, and the other end's device writes there.
 *
 * The writes are seen by messages only. The writer's own memory is the only
 * place where what it wrote can be had once more, so its send stays until the
 * reader has heard of it (conn_write_heard()), and nothing of that direction
 * passes it: to the rest it is a source, read whole when it is heard of. What
 * breaks before that is copied behind the record of rdma_failover.c and counts
 * as sent; the reader drops what it has of it already.
 *
 * The reader counts what it hears of while the sink is out, and nothing later.
 * It takes the sink back by asking, and after BACK_NS without an answer gives
 * the queue pair up: then no word of it reaches the writer any more, so what
 * was not counted here is not counted there. With the end of the region nothing
 * writes into the memory.
 *
 * How much that is the writer says, and whether it is true is not seen: bytes
 * that it never wrote would be what the program's buffer held before, and an
 * echo server sends those out. So memory is offered to trusted hosts only, or
 * where a setting insists.
 */

#include "sdp_proto/wire.h"
#include "socket/zcopy/zcopy.h"

#define BACK_NS	  500000000u /* for the answer of a writer */
#define NAP_MIN	  20000
#define NAP_MAX	  1000000
#define PIECE_MAX (1u << 20) /* registered at once, written in BACK_NS */

/* --- the writer -------------------------------------------------------- */

void zc_prefer(struct sock *s)
{
	if (s->conn.tx_mode == WIRE_COMBINED && FAB(s)->sink &&
	    s->zc.home == sock_pid && !(s->conn.want & CONN_WANT_MODE))
		conn_set_mode(&s->conn, WIRE_PIPELINED);
	if (fab_pending(s))
		pump_poll(s);
}

/* For some sends only, that would cost more than it spares. */
void zc_decline(struct sock *s)
{
	if (unlikely(s->conn.tx_mode == WIRE_PIPELINED) &&
	    !(s->conn.want & CONN_WANT_MODE))
		conn_set_mode(&s->conn, WIRE_COMBINED);
}

static void unregister(struct sock *s)
{
	if (s->rd->from.mr)
		rdma_api->dereg(END(s), &s->rd->from);
}

void zcw_over(struct sock *s)
{
	unregister(s);
	s->zc.wrote = false;
	s->zc.writing = 0;
}

int zcw_heard(struct sock *s)
{
	if (s->zc.done == s->zc.len || !conn_write_heard(&s->conn))
		return 0;
	if (zc_count(s, s->zc.len))
		return -EPROTO;
	rdma_wake(s);
	return 0;
}

/* The device has done with the memory, or will never. */
void zcw_done(struct sock *s)
{
	struct fab_done d;

	if (s->zc.done < s->zc.len)
		return;
	if (s->zc.writing)
		zcr_completion(s, s->zc.writing, &d);
	conn_on_done(&s->conn, CONN_WRITE, s->zc.len);
	zcr_over(s);
}

/* The next bytes of the cursor, `len` at most, are on their way: op.len. */
static uint32_t write_some(struct sock *s, const uint8_t *at, uint32_t len)
{
	struct conn_zc zc = { .write = len };
	struct conn_offer offer = { .bytes = len, .more = true, .zc = &zc };
	struct conn_op op;

	conn_next(&s->conn, clock_ns(), &offer, FAB(s)->room(END(s)), &op);
	if (op.type == CONN_SEND)
		pump_post(s, NULL, &op); /* a message without bytes was due */
	if (op.type != CONN_WRITE)
		return 0;
	s->zc.writing = ++s->zc.reads;
	if (!FAB(s)->write(END(s), at, op.vaddr, op.rkey, op.len,
			   s->zc.writing))
		return (uint32_t)op.len;
	s->zc.writing = 0;
	conn_on_done(&s->conn, CONN_WRITE, 0);
	pump_control(s); /* that sink is of no use */
	return 0;
}

bool zcw_left(const struct sock *s)
{
	return !s->conn.peer_sink_count || !zc_live(s);
}

bool zcw_put(struct sock *s, const uint8_t *at, size_t len)
{
	uint32_t n;
	int ret;

	pump_control(s);
	n = conn_write_room(&s->conn);
	if (s->conn.error || s->rd->state != RDMA_UP || !n || s->conn.writes ||
	    conn_wants_send(&s->conn) || !FAB(s)->room(END(s)))
		return false;
	if (n > len)
		n = (uint32_t)len;
	if (n > PIECE_MAX)
		n = PIECE_MAX;
	ret = rdma_api->reg_from(END(s), at, n, &s->rd->from);
	if (ret) {
		zc_unregistered(s, ret);
		return false;
	}
	n = write_some(s, at, n);
	if (!n) {
		unregister(s);
		return false;
	}
	s->zc.mem = at;
	s->zc.len = n;
	s->zc.done = 0;
	s->zc.back_at = 0;
	s->zc.owner = lock_tid();
	s->zc.wrote = true;
	s->zc.out = ZC_OUT;
	pump_control(s); /* says so */
	return true;
}

/* --- the reader -------------------------------------------------------- */

void zcr_sink_over(struct sock *s)
{
	if (!rdma_here(s))
		return;
	s->zc.sink_asked = false;
	if (s->zc.sink == ZC_NONE)
		return;
	if (FAB(s)->unsink) /* else the end was let go, and this with it */
		FAB(s)->unsink(END(s));
	if (s->zc.sink != ZC_OUT)
		return; /* its thread has not come for it yet */
	s->zc.sink = ZC_OVER;
	s->zc.got = 0;
}

/* The sink is over; n bytes of the stream lie in it, for its thread to take. */
static int settle(struct sock *s, uint32_t n)
{
	s->zc.sink = ZC_OVER;
	s->zc.got = 0;
	if (n > s->zc.sink_len)
		return -EPROTO;
	s->zc.got = n;
	if (!n)
		return 0;
	anc_taken(s->rx, &s->ar, n);
	__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
	COUNT(s, bytes_sdp_rx, n);
	COUNT(s, zcopy, n);
	page_add(zcopy_rx, n);
	return 0;
}

int zcr_sunk(struct sock *s, const struct conn_freed *f)
{
	if (!zc_live(s))
		return 0; /* late: the queue pair was given up */
	if (f->key != s->zc.sink_key || s->zc.sink != ZC_OUT)
		return -EPROTO;
	s->zc.sink_asked = false;
	if (settle(s, f->bytes))
		return -EPROTO;
	if (f->bytes)
		rdma_tell(s, true); /* its writer waits for any message */
	/* its thread ends the region, before its receive returns */
	rdma_wake(s);
	return 0;
}

uint32_t zcr_sink_piece(size_t len)
{
	return len < PIECE_MAX ? (uint32_t)len : PIECE_MAX;
}

/* Is the writer's word enough for what it wrote? */
static bool believes(const struct sock *s)
{
	return settings.zcopy_write != SET_ZCOPY_NO &&
	       (s->rd->seek.trusted || s->zc.asked ||
		settings.zcopy == SET_ZCOPY_ALWAYS);
}

bool zc_would_sink(struct sock *s, const struct cursor *c)
{
	if (s->conn.rx_mode != WIRE_PIPELINED || !s->rd || !FAB(s)->sink ||
	    zc_barred(s) || !believes(s) || s->zc.home != sock_pid ||
	    c->iov->iov_len - c->at < s->zc.least)
		return false;
	if (!s->zc.sink_skip)
		return true;
	s->zc.sink_skip--;
	return false;
}

bool zcr_may_sink(struct sock *s)
{
	return zc_shown(s) && s->rd->state == RDMA_UP && !s->ar.unsure;
}

bool zc_sink_mine(const struct sock *s)
{
	return s->zc.sink != ZC_NONE && s->zc.sink_owner == lock_tid();
}

/* By the thread that offered it. */
static void take_back(struct sock *s, bool wait)
{
	uint64_t until = clock_ns() + (wait ? BACK_NS : 0);
	struct timespec nap = { 0, NAP_MIN };

	if (rdma_here(s) && !s->conn.error) {
		page_add(zcopy_cancelled, 1);
		conn_cancel_sinks(&s->conn);
	}
	for (;;) {
		if (rdma_here(s) && s->rd->state == RDMA_UP) {
			pump_control(s);
			if (!s->conn.error)
				pump_poll(s);
		}
		if (s->zc.sink != ZC_OUT)
			return;
		if (!rdma_here(s) || s->rd->state != RDMA_UP || s->conn.error ||
		    clock_ns() >= until)
			break;
		sock_unlock(s);
		sys_ppoll(NULL, 0, &nap, NULL);
		if (nap.tv_nsec < NAP_MAX)
			nap.tv_nsec *= 2;
		lock_take(&s->lock);
	}
	if (!s->conn.error)
		reports.broke(s, -ECANCELED);
	zcr_sink_over(s);
}

/* Bytes that came; the program's receive has its memory back. */
size_t zc_sink_finish(struct sock *s, bool wait)
{
	size_t n;

	if (s->zc.sink == ZC_OUT)
		take_back(s, wait);
	n = s->zc.got;
	s->zc.sink = ZC_NONE;
	s->zc.sink_owner = 0;
	if (FAB(s)->unsink)
		FAB(s)->unsink(END(s));
	return n;
}

void zc_abandon_sink(struct sock *s)
{
	if (zc_sink_mine(s))
		zc_sink_finish(s, false);
}
