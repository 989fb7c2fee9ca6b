/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lending memory and reading what was lent; see zcopy.h. */

#include "sdp_proto/wire.h"
#include "sdp_proto/zcopy.h"
#include "socket/hush.h"
#include "socket/impl.h"

#define LINE	   64
#define PIECE_MAX  (1u << 30) /* lent at once */
#define PIECE_RDMA (4u << 20) /* the same, registered */
#define READ_MAX   (1u << 20) /* read under the lock at once */
#define READ_MIN   (16u << 10) /* not worth a system call */

static size_t least(const struct sock *s)
{
	int64_t wish = s->zc.asked ? s->zc.wish : settings.zcopy_threshold;

	if (!wish || settings.zcopy == SET_ZCOPY_NO || !FAB(s)->lend)
		return SIZE_MAX;
	return zcr_least(s, (uint32_t)wish);
}

void zc_paired(struct sock *s)
{
	s->zc.home = sock_pid;
	s->zc.least = least(s);
}

void zc_threshold(struct sock *s, int wish)
{
	s->zc.asked = wish >= 0;
	s->zc.wish = (uint32_t)wish;
	if (s->paired)
		s->zc.least = least(s);
}

/* --- the writer -------------------------------------------------------- */

int zc_count(struct sock *s, int64_t n)
{
	uint64_t more = (uint64_t)n - s->zc.done;

	if (n < s->zc.done || n > s->zc.len)
		return -EPROTO;
	if (!more)
		return 0;
	s->zc.done = (uint32_t)n;
	anc_sent(s->tx, &s->at, more);
	COUNT(s, bytes_sdp_tx, more);
	COUNT(s, zcopy, more);
	page_add(zcopy_tx, more);
	return 0;
}

bool zc_recall_slow(struct sock *s)
{
	int64_t n;

	if (unlikely(s->rd))
		return zcr_recall(s);
	n = FAB(s)->lent(END(s), true);
	s->zc.out = ZC_OVER;
	if (n < 0 || zc_count(s, n)) {
		pump_fail(s, -EPROTO);
		return true;
	}
	if (s->zc.done < s->zc.len)
		page_add(zcopy_cancelled, 1);
	if (s->conn.error)
		return true;
	conn_cancel_sources(&s->conn);
	pump_control(s);
	/* its program may be busy with other things */
	if (s->conn.src_count)
		ring_service(s);
	return true;
}

bool zc_settled(struct sock *s)
{
	if (likely(!s->conn.src_count) || s->conn.error || pump_poll(s) ||
	    !s->conn.src_count)
		return true;
	pump_control(s);
	ring_service(s);
	return false;
}

int zc_freed(struct sock *s)
{
	struct conn_freed f;
	int64_t n;

	if (unlikely(s->rd))
		return zcr_freed(s);
	while (conn_freed(&s->conn, &f)) {
		if (f.sink && zc_sunk(s, &f))
			return -EPROTO;
		if (f.sink)
			continue;
		n = FAB(s)->lent(END(s), true);
		if (n < 0 || f.key != s->zc.rkey || f.bytes != n ||
		    (s->zc.out == ZC_OUT && zc_count(s, n)))
			return -EPROTO;
		if (s->zc.out == ZC_OUT)
			s->zc.out = ZC_OVER;
		FAB(s)->unlend(END(s));
	}
	return 0;
}

/* The reader did not come for it, or did not want it: not so soon again. */
static void disappointed(struct sock *s)
{
	if (settings.zcopy == SET_ZCOPY_ALWAYS)
		return;
	s->zc.skips = s->zc.skips ? 2 * s->zc.skips : 4;
	if (s->zc.skips > 4096)
		s->zc.skips = 4096;
	s->zc.skip = s->zc.skips;
}

/*
 * Advertise. *n: bytes that went inside the message, or by copy because that
 * was what the machine preferred. False: nothing was sent.
 */
static bool lend(struct sock *s, struct cursor *c, uint32_t len, size_t *n)
{
	uint8_t *at = (uint8_t *)c->iov->iov_base + c->at;
	struct conn_zc zc = { .inl = LINE - (uint32_t)((uintptr_t)at % LINE) };
	struct conn_offer offer = { .bytes = len, .more = true, .zc = &zc };
	uint32_t room = FAB(s)->room(END(s));
	struct conn_op op;
	int ret;

	/* in front of it goes what is due */
	pump_control(s);
	if (!room || conn_wants_send(&s->conn) ||
	    !conn_src_wanted(&s->conn, len))
		return false;
	ret = FAB(s)->lend(END(s), at, len, &zc.src.rkey);
	if (ret) {
		if (s->rd)
			zc_unregistered(s, ret);
		disappointed(s);
		return false;
	}
	zc.src.vaddr = (uintptr_t)at;
	zc.src.key = zc.src.rkey;
	zc.src.len = len;
	conn_next(&s->conn, clock_ns(), &offer, room, &op);
	if (op.took == CONN_TOOK_SRC) {
		s->zc.rkey = zc.src.rkey;
		s->zc.len = (uint32_t)op.len;
		s->zc.mem = at + op.payload;
		s->zc.done = 0;
		s->zc.back_at = 0;
		s->zc.owner = lock_tid();
		s->zc.out = ZC_OUT;
	} else {
		FAB(s)->unlend(END(s));
	}
	if (op.type != CONN_SEND || pump_post(s, c, &op))
		return false;
	if (op.payload) {
		anc_sent(s->tx, &s->at, op.payload);
		COUNT(s, bytes_sdp_tx, op.payload);
	}
	*n = op.payload;
	return true;
}

void zc_abandon(struct sock *s)
{
	if (s->zc.out == ZC_NONE || s->zc.owner != lock_tid())
		return;
	zc_seize(s);
	s->zc.out = ZC_NONE;
}

/*
 * Both lend and wait for one another. In Combined mode the machine takes ours
 * back by itself; in Pipelined mode it is for us to do.
 */
static bool crossed(const struct sock *s)
{
	return s->conn.peer_src_count && s->conn.tx_mode == WIRE_PIPELINED;
}

/*
 * Until it is over, or the direction leaves the ring; or too late. -EINTR when
 * the signalfd `signals` is readable.
 */
static int await(struct sock *s, int fd, uint64_t deadline, int signals)
{
	uint64_t patience = (uint64_t)settings.zcopy_wait_ms * 1000000u;
	uint64_t until = clock_ns() + patience;
	int err = 0;

	while (!err && s->zc.out == ZC_OUT) {
		int64_t n;

		/* a report makes an end that nobody has to be asked for */
		if (fab_pending(s) && (pump_poll(s) || s->zc.out != ZC_OUT))
			break;
		n = FAB(s)->lent(END(s), false);
		if (n > s->zc.done && !zc_count(s, n))
			until = clock_ns() + patience;
		home_serve(s, fd);
		if (crossed(s))
			break;
		if (!s->paired || s->eos.shut_wr || s->orphan ||
		    s->conn.error || anc_state(s->tx) != ANC_LIFTED ||
		    clock_ns() >= until)
			break;
		err = wait_lent(s, until < deadline ? until : deadline,
				signals);
		if (err == -EAGAIN && clock_ns() < deadline)
			err = 0;
	}
	return err;
}

/*
 * This thread has lent before and not come back: a handler jumped out of that
 * send, or interrupted it and sends as well. The memory is nobody's business
 * then. Which it was cannot be known, so the count stays for who may come
 * back, and the connection goes on by copy.
 */
static void tidy(struct sock *s)
{
	if (s->zc.out == ZC_OUT && s->zc.owner == lock_tid())
		zc_seize(s);
}

/*
 * Until the reader has answered a recall the ring is closed, and if it is
 * stopped the anchor has to do. So it must have left the anchor.
 */
static bool may_spill(struct sock *s)
{
	if (unlikely(s->rd) && !zcr_may(s))
		return false;
	return anc_state(s->tx) == ANC_LIFTED &&
	       !__atomic_load_n(&s->tx->rawrx, __ATOMIC_SEQ_CST);
}

/*
 * Nobody came for the last loan, and so nobody will for another, until the
 * reader is seen at the stream again: it has taken something, or sleeps
 * because there is nothing.
 */
static bool alone(struct sock *s)
{
	if (s->zc.alone &&
	    (__atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE) !=
		     s->zc.alone_at ||
	     (__atomic_load_n(&s->tx->armed, __ATOMIC_ACQUIRE) & ANC_WAKE)))
		s->zc.alone = false;
	return s->zc.alone;
}

static void left_alone(struct sock *s)
{
	s->zc.alone = settings.zcopy == SET_ZCOPY_ALWAYS && !s->rd;
	s->zc.alone_at = __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);
}

bool zc_torn(struct zc_send *z, const struct cursor *c, size_t done,
	     size_t *len, int *err)
{
	if (settings.zcopy != SET_ZCOPY_ALWAYS || z->whole)
		return false;
	z->whole = true;
	*err = iov_still(c, done, len);
	return *err != 0;
}

static bool sink_there(const struct sock *s)
{
	return s->conn.peer_sink_count && !s->zc.tx_off;
}

/* The loan ends here, if it has not: *n counts what went. True: all of it. */
static bool over(struct sock *s, struct cursor *c, size_t *n, int err)
{
	bool late = s->zc.out == ZC_OUT;

	zc_recall(s);
	s->zc.out = ZC_NONE;
	cursor_skip(c, s->zc.done);
	*n += s->zc.done;
	if (s->zc.done == s->zc.len) {
		s->zc.skips = 0;
		return *n > 0;
	}
	if (err == -EINTR)
		return false;
	if (late)
		left_alone(s);
	/* a sink that crossed it is as good */
	if (!sink_there(s))
		disappointed(s);
	return false;
}

/* The handlers run, now that nothing is lent: why the send ends, or 0. */
static int heed(struct sock *s, struct hush *h, uint64_t deadline, bool part)
{
	bool restarts;
	int err = hush_heed(s, h, &restarts);

	if (err == -EINTR && deadline == UINT64_MAX && restarts && !part)
		return 0;
	return err;
}

bool zc_send(struct sock *s, int fd, struct cursor *c, struct zc_send *z,
	     uint64_t deadline, size_t *n, int *err)
{
	__attribute__((cleanup(hush_drop))) struct hush h = { .fd = -1 };
	size_t len = c->iov->iov_len - c->at;
	size_t most = s->rd ? PIECE_RDMA : PIECE_MAX;

	*n = 0;
	*err = 0;
	tidy(s);
	if (unlikely(z->passed)) {
		z->passed = false;
		return false;
	}
	if (len < s->zc.least || s->zc.home != sock_pid ||
	    s->zc.out != ZC_NONE || s->conn.src_count || !may_spill(s) ||
	    alone(s))
		return false;
	z->lend = hush_begin(&h);
	if (!z->lend)
		return false;
	if ((s->rd && s->conn.peer_sink_count &&
	     zcw_put(s, (uint8_t *)c->iov->iov_base + c->at, len)) ||
	    lend(s, c, (uint32_t)(len < most ? len : most), n))
		ring_reader(s, fd);
	if (s->zc.out == ZC_NONE) {
		/* handlers run now, and may not find the lock held */
		z->passed = !*n;
		hush_end(s, &h);
		return true;
	}
	*err = s->rd ? zcr_await(s, fd, deadline, h.fd) :
		       await(s, fd, deadline, h.fd);
	/* its reader does not come: the rest of this send by copy */
	z->lend = over(s, c, n, *err) || sink_there(s);
	if (*err == -EINTR)
		*err = heed(s, &h, deadline, z->part || *n);
	hush_end(s, &h);
	return true;
}

/* --- the reader -------------------------------------------------------- */

void zc_offered(struct sock *s)
{
	__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
	if (s->rd)
		zcr_offered(s);
}

void zc_tell(struct sock *s)
{
	s->zc.due = false;
	pump_control(s);
	fab_publish(s);
	ring_writer(s);
	/* it may be asleep for other things */
	if (zc_asked(s))
		ring_service(s);
}

void zc_refuse(struct sock *s)
{
	conn_refuse_sources(&s->conn);
	zc_tell(s);
}

bool zc_asked(const struct sock *s)
{
	return s->paired && FAB(s)->recalled && FAB(s)->recalled(END(s));
}

bool zc_unanswered(const struct sock *s)
{
	return s->paired && s->conn.src_count && s->zc.out != ZC_OUT &&
	       zc_live(s);
}

void zc_answer(struct sock *s, int fd)
{
	if ((!zc_asked(s) && !zc_unanswered(s)) || pump_poll(s))
		return;
	zc_tell(s);
	ring_reader(s, fd); /* DisConn may have waited for the answer */
}

/* Why a read brought less than it should have. */
static void failed(struct sock *s, int status)
{
	if (status == -ECANCELED || status == -EFAULT)
		return; /* taken back; a bad pointer of one of the two */
	s->zc.rx_off = true;
	log_debug("fd %d: the peer's memory cannot be read: %d", sock_fd(s),
		  status);
}

/* The next bytes of what is lent, n at most: how many came. */
static size_t fetch(struct sock *s, void *to, size_t n)
{
	struct fab_done d = { 0 };
	struct conn_op op;

	if (!conn_read(&s->conn, n < READ_MAX ? n : READ_MAX, &op))
		return 0;
	s->shm.peer = s->waits.wake;
	FAB(s)->read(END(s), to, op.vaddr, op.rkey, op.len, 0);
	FAB(s)->done(END(s), &d);
	if (conn_on_done(&s->conn, clock_ns(), CONN_READ, d.len))
		d.len = 0;
	if (d.status)
		failed(s, d.status);
	return d.len;
}

bool zc_next(struct sock *s, int flags, uint64_t n)
{
	bool peek = flags & MSG_PEEK;

	if ((flags & MSG_TRUNC) || (peek && n > s->got.avail) ||
	    (s->rd && (s->opt.nonblock || (flags & MSG_DONTWAIT)))) {
		zc_refuse(s);
		return false;
	}
	return !peek && !s->got.avail;
}

size_t zc_take(struct sock *s, struct cursor *c, size_t n)
{
	uint8_t *to = (uint8_t *)c->iov->iov_base + c->at;
	size_t room = c->iov->iov_len - c->at, most;
	uint64_t there = conn_source(&s->conn);

	if (n > there)
		n = (size_t)there;
	if (s->zc.rx_off || !FAB(s)->read || zc_barred(s) ||
	    (n < READ_MIN && n < there && settings.zcopy != SET_ZCOPY_ALWAYS)) {
		zc_refuse(s);
		return 0;
	}
	if (n > room)
		n = room;
	if (s->rd) {
		most = zcr_read_most(s);
		n = zcr_read(s, to, n < most ? n : most);
	} else {
		n = fetch(s, to, n);
	}
	if (!n) {
		zc_tell(s);
		zcr_broke(s);
		return 0;
	}
	s->zc.due = true;
	cursor_skip(c, n);
	COUNT(s, bytes_sdp_rx, n);
	COUNT(s, zcopy, n);
	page_add(zcopy_rx, n);
	return n;
}
