/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sends and receives that lend memory, and wait until it is done with. */

#include "base/ucopy.h"
#include "sdp_proto/wire.h"
#include "socket/wait/wait.h"

#define LINE	 64
#define BACK_NS	 500000000u /* for the answer of a reader */
#define MOVES_NS 5000000000u /* that this limit moves by */

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
static __attribute__((noinline)) bool lend(struct sock *s, struct cursor *c,
					   uint32_t len, size_t *n)
{
	uint8_t *at = (uint8_t *)c->iov->iov_base + c->at;
	struct conn_zc zc = { .inl = LINE - (uint32_t)((uintptr_t)at % LINE) };
	struct conn_offer offer = { .bytes = len, .more = true, .zc = &zc };
	uint32_t room = FAB(s)->room(END(s));
	uint8_t inl[LINE];
	struct iovec iov = { inl, LINE };
	struct cursor first;
	struct conn_op op;
	int ret;

	/* in front of it goes what is due */
	pump_control(s);
	if (!room || conn_wants_send(&s->conn) ||
	    !conn_src_wanted(&s->conn, len))
		return false;
	/* an advertisement cannot do without what goes with it */
	if (!ucopy(inl, at, zc.inl < len ? zc.inl : len))
		return false;
	ret = FAB(s)->lend(END(s), at, len, &zc.src.rkey);
	if (ret) {
		if (carrier_registers(s))
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
	if (op.type != CONN_SEND)
		return false;
	if (op.took == CONN_TOOK_SRC) {
		cursor_set(&first, &iov, 1);
		cursor_skip(c, op.payload);
		c = &first;
	}
	if (pump_post(s, c, &op))
		return false;
	if (op.payload) {
		anc_sent(s->tx, &s->at, op.payload);
		COUNT(s, bytes_sdp_tx, op.payload);
	}
	*n = op.payload;
	return true;
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

		/* a report makes an end that need not be asked for */
		if (fab_pending(s) && (pump_poll(s) || s->zc.out != ZC_OUT))
			break;
		n = FAB(s)->lent(END(s), false);
		if (n > s->zc.done && !zc_count(s, n))
			until = clock_ns() + patience;
		fallback_serve(s, fd);
		if (!s->paired || s->eos.shut_wr || s->peer_gone ||
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
 * send, or interrupted it and sends as well. The memory is not looked at
 * then. Which it was cannot be known, so the count stays for one that may come
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
static bool may_stall(struct sock *s)
{
	return zc_may_lose(s) && anc_state(s->tx) == ANC_LIFTED &&
	       !__atomic_load_n(&s->tx->tcp_rx, __ATOMIC_SEQ_CST);
}

/*
 * No reader came for the last source, so none will for another, until the
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
	s->zc.alone = settings.zcopy == SET_ZCOPY_ALWAYS && carrier_shared(s);
	s->zc.alone_at = __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);
}

/* The source ends here, if it has not: *n counts what went. True: all of it. */
static bool over(struct sock *s, struct cursor *c, size_t *n, int err)
{
	bool late = s->zc.out == ZC_OUT;

	zc_recall(s);
	s->zc.out = ZC_NONE;
	ring_put_end(s);
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
	if (!s->conn.peer_sink_count)
		disappointed(s);
	return false;
}

/* The handlers run, now that nothing is lent: why the send ends, or 0. */
static int heed(struct sock *s, struct sigblock *h, uint64_t deadline,
		bool part)
{
	bool restarts;
	int err = sigblock_heed(s, h, &restarts);

	if (err == -EINTR && deadline == UINT64_MAX && restarts && !part)
		return 0;
	return err;
}

bool zc_send(struct sock *s, int fd, struct cursor *c, struct zc_send *z,
	     uint64_t deadline, size_t *n, int *err)
{
	struct sigblock h
		__attribute__((cleanup(sigblock_drop))) = { .fd = -1 };
	size_t len = c->iov->iov_len - c->at;
	size_t most = zc_most(s);

	*n = 0;
	*err = 0;
	tidy(s);
	if (unlikely(z->passed)) {
		z->passed = false;
		return false;
	}
	if (len < s->zc.least || s->zc.home != sock_pid ||
	    s->zc.out != ZC_NONE || s->conn.src_count || !may_stall(s) ||
	    alone(s))
		return false;
	z->lend = sigblock_begin(&h);
	if (!z->lend)
		return false;
	if (ring_put_begin(s) &&
	    ((zc_into_sinks(s) && s->conn.peer_sink_count &&
	      zcw_put(s, (uint8_t *)c->iov->iov_base + c->at, len)) ||
	     lend(s, c, (uint32_t)(len < most ? len : most), n)))
		ring_reader(s, fd);
	ring_put_end(s);
	if (s->zc.out == ZC_NONE) {
		/* handlers run now, and may not find the lock held */
		z->passed = !*n;
		sigblock_end(s, &h);
		return true;
	}
	*err = carrier_reads_later(s) ? zcr_await(s, fd, deadline, h.fd) :
					await(s, fd, deadline, h.fd);
	/* its reader does not come: the rest of this send by copy */
	z->lend = over(s, c, n, *err) || s->conn.peer_sink_count;
	if (*err == -EINTR)
		*err = heed(s, &h, deadline, z->part || *n);
	sigblock_end(s, &h);
	return true;
}

/*
 * Both lend and wait for one another. In Combined mode the machine takes ours
 * back by itself; in Pipelined mode it is for us to do.
 */
static bool crossed(const struct sock *s)
{
	return !s->zc.wrote && s->conn.peer_src_count &&
	       s->conn.tx_mode == WIRE_PIPELINED;
}

/* Is the wait over? What ends it, 0: go on. */
static int impatient(struct sock *s, uint64_t until, uint64_t deadline)
{
	uint64_t now = clock_ns();

	if (!s->paired || s->eos.shut_wr || s->peer_gone || s->conn.error ||
	    anc_state(s->tx) != ANC_LIFTED || crossed(s) || now >= until)
		return 1;
	return now >= deadline ? -EAGAIN : 0;
}

/* It goes on: more than was `seen` is read, or the device is writing yet. */
static bool goes_on(struct sock *s, uint32_t seen)
{
	bool on = s->zc.done != seen;
	struct fab_done d;

	if (s->zc.out != ZC_OUT || !s->zc.writing || !rdma_here(s))
		return on;
	while (FAB(s)->done(END(s), &d) == 1)
		if (d.id == s->zc.writing)
			s->zc.writing = 0;
	return true;
}

/* A peer asked to give back has time for as long as it goes on. */
static void move_limit(struct sock *s, uint64_t *since)
{
	uint64_t now = clock_ns();

	if (!s->zc.back_at)
		return;
	if (!*since)
		*since = s->zc.back_at;
	if (now < *since + MOVES_NS)
		s->zc.back_at = now;
}

int zcr_await(struct sock *s, int fd, uint64_t deadline, int signals)
{
	uint64_t now = clock_ns(), patience = zcr_patience_ns();
	uint64_t left = deadline > now ? deadline - now : 0;
	uint64_t until, since = 0;
	uint32_t seen = 0;
	int err = 0, ret = 0;

	/* the rest is for the copy, which TCP would take at once */
	patience = patience < left / 2 ? patience : left / 2;
	until = now + patience;
	while (s->zc.out == ZC_OUT) {
		if (s->zc.done != seen)
			until = clock_ns() + patience;
		if (goes_on(s, seen))
			move_limit(s, &since);
		seen = s->zc.done;
		if (s->zc.wrote)
			zcw_done(s);
		fallback_serve(s, fd);
		if (!ret)
			ret = err ? err : impatient(s, until, deadline);
		if (s->zc.out != ZC_OUT || (ret && zc_recall(s)))
			break;
		if (s->zc.back_at && clock_ns() >= s->zc.back_at + BACK_NS) {
			zc_seize(s);
			break;
		}
		err = wait_lent(s,
				s->zc.back_at	 ? s->zc.back_at + BACK_NS :
				until < deadline ? until :
						   deadline,
				signals);
		if (err == -EAGAIN)
			err = 0;
		if (err == -EINTR)
			signals = -1; /* they wait, until the memory is back */
	}
	if (!ret)
		ret = err;
	return ret > 0 || s->zc.done == s->zc.len ? 0 : ret;
}

/* Does what must be looked at elsewhere leave the sink where it is? */
static bool undisturbed(struct sock *s)
{
	return wait_idle(s) && zc_into_sinks(s) && zcr_may_sink(s);
}

static __attribute__((noinline)) void
offer_sink(struct sock *s, const struct cursor *c, size_t len)
{
	uint8_t *at = (uint8_t *)c->iov->iov_base + c->at;
	struct conn_zc zc = { .sink.len = zcr_sink_piece(len) };
	struct conn_offer offer = { .zc = &zc };
	uint32_t room = FAB(s)->room(END(s)), rkey;
	struct conn_op op;

	pump_control(s);
	if (s->zc.sink != ZC_NONE || s->zc.sink_asked || !room ||
	    conn_wants_send(&s->conn) || !undisturbed(s) ||
	    !conn_sink_wanted(&s->conn, zc.sink.len) ||
	    FAB(s)->sink(END(s), at, zc.sink.len, &rkey))
		return;
	zc.sink.vaddr = (uintptr_t)at;
	zc.sink.key = zc.sink.rkey = rkey;
	conn_next(&s->conn, clock_ns(), &offer, room, &op);
	if (op.took == CONN_TOOK_SINK) {
		s->zc.sink = ZC_OUT;
		s->zc.sink_asked = true;
		s->zc.sink_owner = lock_tid();
		s->zc.sink_key = rkey;
		s->zc.sink_len = zc.sink.len;
	} else {
		FAB(s)->unsink(END(s));
	}
	/*
	 * a reader there need not wake up for it; a lender has lent in vain
	 */
	if (op.type == CONN_SEND && !pump_post(s, NULL, &op))
		ring_writer(s);
}

/* It was not written into: not so soon again. */
static void paid(struct sock *s, bool well)
{
	struct zc *z = &s->zc;

	if (settings.zcopy == SET_ZCOPY_ALWAYS || well) {
		z->sink_skips = 0;
		return;
	}
	z->sink_skips = z->sink_skips ? 2 * z->sink_skips : 4;
	if (z->sink_skips > 4096)
		z->sink_skips = 4096;
	z->sink_skip = z->sink_skips;
}

/* 0: there is something to look at; else why the receive ends. */
static int wait_out(struct sock *s, int fd, uint64_t until, struct sigblock *h)
{
	int err = 0;

	do {
		err = wait_sink(s, fd, until, h->fd);
		if (!err && s->paired && !s->conn.error && fab_pending(s))
			pump_poll(s);
	} while (!err && s->zc.sink == ZC_OUT && zc_sink_mine(s) &&
		 undisturbed(s));
	return err;
}

ssize_t zc_wait(struct sock *s, int fd, struct cursor *c, size_t len,
		uint64_t until, bool part)
{
	struct sigblock h
		__attribute__((cleanup(sigblock_drop))) = { .fd = -1 };
	size_t room = c->iov->iov_len - c->at, n = 0;
	bool offered = false, restarts;
	int err;

	/*
	 * in time for a writer that sends on and on; else it would be crossed
	 */
	if (spin_rx(s, ANC_LIFTED, until, SPIN_BRIEF))
		return 0;
	if (!sigblock_begin(&h))
		return wait_rx(s, fd, until, ANC_LIFTED, part);
	do {
		offer_sink(s, c, len < room ? len : room);
		offered |= zc_sink_mine(s);
		err = wait_out(s, fd, until, &h);
		if (zc_sink_mine(s))
			n = zc_sink_finish(s, true);
		if (n || err != -EINTR)
			break;
		err = sigblock_heed(s, &h, &restarts);
		if (err == -EINTR && until == UINT64_MAX && restarts && !part)
			err = 0;
	} while (!err && undisturbed(s));
	cursor_skip(c, n);
	/* a writer that is to be read from now on has voided it */
	if (offered && (n || s->conn.rx_mode == WIRE_PIPELINED))
		paid(s, n > 0);
	sigblock_end(s, &h);
	return n ? (ssize_t)n : err;
}
