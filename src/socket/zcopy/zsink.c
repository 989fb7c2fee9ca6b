/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Write Zcopy of the socket room (D10): a large receive that has to wait
 * offers its memory, and the peer's next large send writes into it; see
 * zcopy.h.
 *
 * The memory is the program's again before its receive returns, however that
 * comes: gate.h has how, and sigblock.h what becomes of signals meanwhile.
 */

#include "sdp_proto/wire.h"
#include "socket/zcopy/zcopy.h"

#define CHUNK	  262144u /* written at once */
#define WRITE_MIN 16384u /* not worth a system call */

/* --- the writer -------------------------------------------------------- */

void zc_prefer(struct sock *s)
{
	if (s->conn.tx_mode == WIRE_COMBINED && FAB(s)->sink && !s->zc.tx_off &&
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

/* One write of the cursor's next bytes, at most `left`; 0: not possible. */
static size_t write_some(struct sock *s, struct cursor *c, size_t left)
{
	uint8_t *at = (uint8_t *)c->iov->iov_base + c->at;
	size_t n = c->iov->iov_len - c->at;
	struct conn_zc zc = { 0 };
	struct conn_offer offer = { .bytes = left, .more = true, .zc = &zc };
	struct fab_done d = { 0 };
	struct conn_op op;

	if (n > left)
		n = left;
	if (n > CHUNK)
		n = CHUNK;
	zc.write = n;
	conn_next(&s->conn, clock_ns(), &offer, FAB(s)->room(END(s)), &op);
	if (op.type == CONN_SEND && !pump_post(s, c, &op))
		return op.payload;
	if (op.type != CONN_WRITE)
		return 0;
	s->shm.peer = s->waits.wake;
	FAB(s)->write(END(s), at, op.vaddr, op.rkey, op.len, 0);
	FAB(s)->done(END(s), &d);
	if (conn_on_done(&s->conn, CONN_WRITE, d.len))
		return 0;
	if (d.status && d.status != -ECANCELED && d.status != -EFAULT) {
		s->zc.tx_off = true;
		log_debug("fd %d: the peer's memory cannot be written: %d",
			  sock_fd(s), d.status);
	}
	cursor_skip(c, d.len);
	COUNT(s, zcopy, d.len);
	page_add(zcopy_tx, d.len);
	return d.len;
}

size_t zc_write(struct sock *s, int fd, struct cursor *c, size_t len)
{
	size_t done = 0, n;

	/* between hosts its memory is needed for longer: zcopy_rdma.c */
	if (s->rd || len < WRITE_MIN || s->zc.home != sock_pid ||
	    s->zc.tx_off || anc_state(s->tx) != ANC_LIFTED ||
	    __atomic_load_n(&s->tx->tcp_rx, __ATOMIC_SEQ_CST))
		return 0;
	pump_control(s);
	while (ring_put_begin(s) && done < len && !s->conn.error &&
	       conn_write_room(&s->conn)) {
		n = write_some(s, c, len - done);
		if (!n)
			break;
		done += n;
		anc_sent(s->tx, &s->at, n);
		COUNT(s, bytes_sdp_tx, n);
	}
	pump_control(s); /* says so */
	ring_put_end(s);
	ring_reader(s, fd);
	return done;
}

/* --- the reader -------------------------------------------------------- */

int zc_settle(struct sock *s, int64_t n)
{
	s->zc.sink = ZC_OVER;
	s->zc.got = 0;
	if (n < 0 || n > s->zc.sink_len)
		return -EPROTO;
	s->zc.got = (uint32_t)n;
	if (!n)
		return 0;
	anc_taken(s->rx, &s->ar, (uint64_t)n);
	__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
	COUNT(s, bytes_sdp_rx, n);
	COUNT(s, zcopy, n);
	page_add(zcopy_rx, n);
	return 0;
}

int zc_sunk(struct sock *s, const struct conn_freed *f)
{
	if (s->rd)
		return zcr_sunk(s, f);
	if (f->key != s->zc.sink_key || !s->zc.sink_asked)
		return -EPROTO;
	s->zc.sink_asked = false;
	if (s->zc.sink == ZC_OUT && zc_settle(s, FAB(s)->sunk(END(s), true)))
		return -EPROTO;
	return f->bytes == s->zc.got ? 0 : -EPROTO;
}

bool zc_would_sink(struct sock *s, const struct cursor *c)
{
	if (s->conn.rx_mode != WIRE_PIPELINED || !FAB(s)->sink ||
	    zc_barred(s) || (s->rd && !zcr_believes(s)) ||
	    s->zc.home != sock_pid || c->iov->iov_len - c->at < s->zc.least)
		return false;
	if (!s->zc.sink_skip)
		return true;
	s->zc.sink_skip--;
	return false;
}

bool zc_sink_mine(const struct sock *s)
{
	return s->zc.sink != ZC_NONE && s->zc.sink_owner == lock_tid();
}

/*
 * It comes back now, by the thread that offered it; between hosts, if that one
 * may `wait`, without the lock for a moment.
 */
static void take_back(struct sock *s, bool wait)
{
	if (s->zc.sink != ZC_OUT)
		return;
	if (s->rd) {
		zcr_take_back(s, wait);
		return;
	}
	if (zc_settle(s, FAB(s)->sunk(END(s), true))) {
		pump_fail(s, -EPROTO);
		return;
	}
	page_add(zcopy_cancelled, 1);
	if (s->conn.error)
		return;
	conn_cancel_sinks(&s->conn);
	pump_control(s);
}

/* Bytes that came; the program's receive has its memory back. */
size_t zc_sink_finish(struct sock *s, bool wait)
{
	size_t n;

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
