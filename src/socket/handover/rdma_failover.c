/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A broken queue pair: the stream goes on over the anchor (resume.h has the
 * rules), and is lifted again when the way is back.
 *
 * The transmit half begins at once and is written out by the next thread that
 * comes by. The receive half waits for what the peer writes: until then what
 * came by SDP is read as ever, and the old end polled, since what it has taken
 * in counts as arrived. Only the service thread reads control bytes then. What
 * is not read when the record comes moves to the bytebuf, and the end is let
 * go.
 */

#include "base/scratch.h"
#include "sdp_proto/wire.h"
#include "socket/handover/handover.h"

#define PEEKED	 4096
#define ALIVE_NS 20000000u /* a process takes less to end */
#define HOLD_NS	 500000000u /* and this thread less to see how */
#define LEAST_NS 10000000u /* for a failover, however late it is */

static int anchor_of(struct sock *s)
{
	return s->waits.orphan_fd >= 0 ? s->waits.orphan_fd : sock_fd(s);
}

/* --- the transmit half ---------------------------------------------------- */

/*
 * True: r->out is to be written. What is lent follows it, and counts as sent:
 * how much of it was read is not known.
 */
static bool recorded(struct sock *s, struct rdma *r)
{
	size_t n = failover_unacked(r, NULL);
	uint8_t *to;

	r->failover.out_from = clock_ns() + ALIVE_NS;
	r->mark.ahead = false;
	r->failover.out_len =
		r->mark.marker_due + RESUME_RECORD + n + zcr_left(s);
	r->failover.out = to = bytebuf_map(r->failover.out_len);
	if (!to)
		return false;
	memcpy(to, r->mark.marker_tx + RDMA_MARKER - r->mark.marker_due,
	       r->mark.marker_due);
	to += r->mark.marker_due;
	r->mark.marker_due = 0;
	resume_record(to, r->mark.secret_tx, s->at.sent - n);
	failover_unacked(r, to + RESUME_RECORD);
	return zcr_sent(s, to + RESUME_RECORD + n);
}

static bool taken_back(struct sock *s, struct rdma *r)
{
	size_t n = (size_t)(s->at.sent - s->at.x);

	r->mark.marker_due = 0;
	r->mark.ahead = false;
	r->failover.out_len = n;
	if (!n)
		return true;
	if (!r->failover.kept || r->failover.kept->len != n)
		return false;
	r->failover.out = bytebuf_map(n);
	r->failover.out_from = clock_ns() + ALIVE_NS;
	if (r->failover.out)
		memcpy(r->failover.out, r->failover.kept->mem, n);
	return r->failover.out != NULL;
}

/* From here on no thread of the program sends before r->out is out. */
static bool begin_tx(struct sock *s, struct rdma *r)
{
	enum anc_state st = anc_state(s->tx);
	bool ok = true, confirmed = st == ANC_DRAINING ? !s->fallback.stand :
							 r->failover.confirmed;

	r->failover.out_at = r->failover.out_from = 0;
	/* what was handed back goes on: rdma_put_back() */
	if (st == ANC_TCP || st == ANC_GONE ||
	    (st == ANC_RESTORING && rdma_put_whole(r)))
		return true;
	rdma_put_drop(r);
	if ((st == ANC_RECALLED || st == ANC_PAUSED) && s->at.y != ANC_OPEN) {
		st = ANC_DRAINING; /* asked behind it, by one that knew of it */
		confirmed = true;
	}
	switch (resume_tx(st, confirmed)) {
	case RESUME_RECORDED:
		ok = recorded(s, r);
		break;
	case RESUME_BACK:
		ok = taken_back(s, r);
		break;
	default:
		break;
	}
	ok = ok && !zcr_left(s);
	s->at.y = s->at.sent;
	__atomic_store_n(&s->tx->state, ANC_PAUSED, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->fallback.stand, 0, __ATOMIC_SEQ_CST);
	failover_confirmed(r);
	s->waits.full = false;
	return ok;
}

/*
 * Nothing for a process that is dying or dead: it would make its end a reset,
 * and in TCP what it had not taken would not be known any more. Where the
 * anchor has ended failover_step() has to see what comes in front of that.
 */
static bool holds(const struct sock *s, int fd)
{
	const struct rdma *r = s->rd;
	uint64_t now = clock_ns();

	if (!r->failover.out || r->failover.out_at || !r->failover.out_from)
		return false;
	return now < r->failover.out_from ||
	       (now < r->failover.out_from + HOLD_NS && !r->failover.mended &&
		!s->conn.dis_rcvd && resume_fatal(&r->failover.in) &&
		resume_turn(&r->failover.in, s->rx, &s->ar) &&
		rdma_fin_came(s, fd));
}

void failover_flush(struct sock *s, int fd)
{
	struct rdma *r = s->rd;
	ssize_t n = 0;

	if (likely(!r) || r->state != RDMA_FAILOVER ||
	    anc_state(s->tx) != ANC_PAUSED || fd < 0 || holds(s, fd))
		return;
	while (r->failover.out && r->failover.out_at < r->failover.out_len &&
	       n >= 0) {
		n = sys_send(fd, r->failover.out + r->failover.out_at,
			     r->failover.out_len - r->failover.out_at,
			     MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0)
			r->failover.out_at += (size_t)n;
	}
	if (n == -EAGAIN || n == -EINTR || n == -ENOMEM || n == -ENOBUFS)
		return;
	/* out, or the program will meet the error */
	sock_eats(s, n);
	bytebuf_unmap(r->failover.out, r->failover.out_len);
	r->failover.out = NULL;
	__atomic_store_n(&s->tx->state, ANC_TCP, __ATOMIC_SEQ_CST);
	lift_left(s, fd);
	r->due.changed = true;
	rdma_wake(s);
}

/* --- beginning ------------------------------------------------------------ */

static void end_it(struct sock *s)
{
	struct rdma *r = s->rd;

	r->state = RDMA_ENDED;
	r->due.changed = true;
	zcr_over(s);
	zcr_sink_over(s);
	if (r->far >= 0)
		sys_shutdown(r->far, SHUT_WR);
	lift_peer_gone(s);
}

/* Asked or answered behind a stall, of which the writer knew. */
static bool behind_stall(const struct sock *s)
{
	enum anc_state st = anc_state(s->rx);

	return (st == ANC_RECALLED || st == ANC_PAUSED) &&
	       __atomic_load_n(&s->rx->y, __ATOMIC_ACQUIRE) != ANC_OPEN;
}

/* The end is of no use any more: what is unread lies in the bytebuf. */
static void let_go(struct sock *s)
{
	struct rdma *r = s->rd;

	if (!r->end)
		return;
	s->end = s->got.avail ? &r->failover.bytebuf.end : &rdma_nowhere;
	s->end_pid = 0;
	s->got.front_at = 0;
	r->old = r->end;
	r->end = NULL;
}

/*
 * In RESTORING, and the writer cannot have all of it: the program may have it.
 */
static void keep_early(struct sock *s)
{
	bytebuf_again(s);
	let_go(s);
	__atomic_store_n(&s->rx->kicks, s->ar.kicks, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->rx->x, s->ar.taken, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->rx->y, s->ar.taken + s->got.avail,
			 __ATOMIC_SEQ_CST);
	s->fallback.pins &= (uint8_t)~2u;
	__atomic_store_n(&s->rx->state, ANC_DRAINING, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
}

static void begin_rx(struct sock *s, struct rdma *r)
{
	bool sure = remote_sure(&r->words);
	enum anc_state st = anc_state(s->rx);

	if (behind_stall(s)) {
		st = ANC_DRAINING;
		sure = true;
	} else if (st == ANC_RESTORING) {
		sure = !s->ar.unsure;
	}
	r->failover.in.from = s->ar.from;
	if (st == ANC_RESTORING && s->ar.unsure && !remote_sure(&r->words))
		keep_early(s);
	r->failover.in.marker = r->mark.marker_rx;
	r->failover.in.secret = r->mark.secret_rx;
	r->failover.in.marker_got = RDMA_MARKER;
	if (r->mark.marker_wait)
		r->failover.in.marker_got =
			(uint8_t)(s->ar.kicks - r->mark.marker_at);
	r->failover.in.kicks =
		st == ANC_DRAINING ? (uint64_t)anc_kicks(s->rx, &s->ar) : 0;
	resume_begin(&r->failover.in, st, r->mark.marker_wait, sure);
}

/*
 * It closed: there is no peer left to go on with. But if it has got all that was
 * handed back, the record in front of that may be on its way, and is nothing for
 * the program.
 */
static bool alone(const struct sock *s)
{
	const struct rdma_given *g = &s->rd->failover.give;

	return (__atomic_load_n(&s->peer->reset, __ATOMIC_ACQUIRE) ||
		anc_state(s->tx) == ANC_GONE) &&
	       !(anc_state(s->rx) == ANC_RESTORING && s->ar.unsure &&
		 g->at == g->len);
}

void failover_begin(struct sock *s, int error)
{
	struct rdma *r = s->rd;

	if (!rdma_here(s) || r->state != RDMA_UP)
		return;
	if (alone(s)) {
		/* in RESTORING what was handed back is here, and counts */
		if (anc_state(s->rx) != ANC_RESTORING)
			s->ar.unsure = false;
		end_it(s);
		return;
	}
	rdma_lost(s, error);
	r->state = RDMA_FAILOVER;
	r->due.changed = r->due.restless = true;
	r->failover.mended = false;
	__atomic_store_n(&r->words.peer->ready, 0, __ATOMIC_RELEASE);
	s->waits.full = false;
	if (!begin_tx(s, r)) {
		s->conn.fault = "no memory or no way to go on";
		end_it(s);
		return;
	}
	zcr_over(s);
	zcr_sink_over(s);
	if (!error)
		r->failover.out_from = 0;
	/* it may hear of it by nothing else, for a long time */
	rdma_api->disconnect(r->end);
	begin_rx(s, r);
	failover_flush(s, anchor_of(s));
	rdma_wake(s);
	rdma_owe(s);
}

/* --- the receive half, service thread ------------------------------------- */

static void marker_came(struct sock *s, struct rdma *r)
{
	r->mark.marker_wait = false;
	s->ar.kicks = r->mark.marker_at + RDMA_MARKER;
	remote_kicks_ahead(&r->words);
	s->got.avail += r->mark.hidden;
	s->eos.rx_eof |= r->mark.eof_hidden;
	r->mark.hidden = 0;
	r->mark.eof_hidden = false;
	__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
	/* the record may be long in coming: its writer may wait for ours */
	r->due.changed = true;
	rdma_wake(s);
}

void failover_strayed(struct sock *s, uint64_t n)
{
	struct rdma *r = s->rd;

	resume_lost(&r->failover.in, n);
	if (r->mark.marker_wait && r->failover.in.marker_got == RDMA_MARKER)
		marker_came(s, r);
}

static void drop_hidden(struct rdma *r)
{
	r->mark.marker_wait = r->mark.eof_hidden = false;
	r->mark.hidden = 0;
}

/* Is nothing of the stream missing where that `part` of a record is the last? */
static bool whole_without(const struct rdma *r, size_t part)
{
	if (!part)
		return resume_ended(&r->failover.in);
	return (r->mark.marker_wait && r->mark.hidden >= part) ||
	       r->failover.in.phase == RESUME_AT_GIVEN; /* its own copy is */
}

/*
 * Nothing more comes. A writer that is no more has neither gone back to x nor
 * written its marker, but a `part` of it: what came behind it is in order. Nor
 * is anything missing behind its DisConn, and it may still read.
 */
static int stream_ended(struct sock *s, size_t part)
{
	struct rdma *r = s->rd;

	if (!whole_without(r, part) && !s->conn.dis_rcvd)
		return -ECONNRESET;
	if (r->mark.marker_wait && !r->failover.in.back)
		marker_came(s, r);
	return 1;
}

/*
 * What lies in front of x is the program's to read. Where its thread waits for
 * the anchor instead, as in fork(), it is kept: true when all of it is.
 */
static bool keep_front(struct sock *s, int fd)
{
	uint64_t front = bytebuf_front_unread(s);
	ssize_t n = 1;

	if (!front || __atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST))
		return false;
	while (s->fallback.falling_back && n > 0 && s->ar.kept < front)
		n = bytebuf_pull(s, fd, front - s->ar.kept);
	return s->ar.kept >= front;
}

/* 1: what follows is the stream; 0: not yet; -EPROTO, -ECONNRESET. */
static int parse(struct sock *s, int fd)
{
	struct rdma *r = s->rd;
	SCRATCH(room);
	uint8_t *buf = scratch_take(&room, PEEKED);
	size_t eat;
	ssize_t n;
	int ret;

	lift_strayed(s, fd, 0);
	if (r->failover.in.phase == RESUME_PLAIN)
		return 1;
	if (!buf ||
	    !(resume_turn(&r->failover.in, s->rx, &s->ar) || keep_front(s, fd)))
		return 0;
	do {
		n = bytebuf_glance(s, fd, buf, PEEKED);
		if (n == -EAGAIN)
			return 0;
		sock_eats(s, n);
		if (!n && s->eos.shut_rd && !rdma_fin_came(s, fd))
			return 0; /* our own SHUT_RD */
		if (n <= 0)
			return stream_ended(s, 0);
		/* what W counts as arrived has, by the time of its record */
		if (pump_poll(s))
			return -EPROTO;
		ret = resume_look(&r->failover.in, buf, (size_t)n,
				  s->ar.taken + bytebuf_front_unread(s) +
					  s->got.avail + r->mark.hidden +
					  r->failover.give.len,
				  &eat);
		if (eat && !bytebuf_swallow(s, fd, buf, eat))
			return -EPROTO;
		if (r->mark.marker_wait &&
		    r->failover.in.marker_got == RDMA_MARKER)
			marker_came(s, r);
	} while (!ret && eat);
	if (!ret && rdma_cut_short(s, fd, (size_t)n))
		return stream_ended(s, (size_t)n);
	return ret;
}

/* What is unread lies between `taken` and y from now on, if anywhere. */
static void settle_words(struct sock *s, enum anc_state st)
{
	struct rdma *r = s->rd;

	if (st == ANC_DRAINING) {
		if (r->failover.in.marker_got == RDMA_MARKER &&
		    !r->failover.in.kicks)
			s->ar.kicks = __atomic_load_n(&s->rx->kicks,
						      __ATOMIC_ACQUIRE);
		return;
	}
	if (st == ANC_RESTORING && !s->got.avail) {
		anc_resumed(s->rx); /* with the calls that hold it */
		return;
	}
	s->ar.kicks = r->failover.in.back ? r->mark.marker_at : s->ar.kicks;
	__atomic_store_n(&s->rx->kicks, s->ar.kicks, __ATOMIC_SEQ_CST);
	/* none of it in front of x */
	if (st == ANC_RESTORING ||
	    s->ar.taken < __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE))
		__atomic_store_n(&s->rx->x, s->ar.taken, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->rx->y, s->ar.taken + s->got.avail,
			 __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->rx->state, s->got.avail ? ANC_DRAINING : ANC_TCP,
			 __ATOMIC_SEQ_CST);
}

/* Asked behind a stall, and not all kicks are taken: as before. */
static bool stalled_again(struct sock *s)
{
	if (!behind_stall(s) || s->ar.kept || anc_kicks(s->rx, &s->ar) <= 0)
		return false;
	__atomic_store_n(&s->rx->state, ANC_DRAINING, __ATOMIC_SEQ_CST);
	return true;
}

/* The end is let go; false: no memory, nothing has changed. */
static bool settle(struct sock *s)
{
	struct rdma *r = s->rd;
	bool stalled = stalled_again(s);
	enum anc_state st = anc_state(s->rx);

	if (r->failover.in.back)
		drop_hidden(r);
	if (st == ANC_RESTORING && s->ar.unsure && !r->failover.in.given)
		bytebuf_again(s);
	else if (r->end && !bytebuf_store(s))
		return false;
	rdma_give_end(r);
	let_go(s);
	s->ar.based = false;
	if (!stalled && st != ANC_TCP && st != ANC_GONE)
		settle_words(s, st);
	__atomic_store_n(&s->ar.unsure, false, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
	r->failover.mended = r->due.changed = true;
	rdma_anchor_watch(s, -1);
	rdma_wake(s);
	return true;
}

void failover_step(struct sock *s)
{
	struct rdma *r = s->rd;
	int fd = anchor_of(s), ret;

	r->due.restless = true;
	fallback_serve(s, fd);
	if (!r->failover.mended && !s->conn.error && !pump_poll(s)) {
		ret = fd < 0 ? 0 : parse(s, fd);
		if (ret == 1)
			settle(s); /* without memory at the next step */
		if (ret == -EPROTO)
			pump_fail(s, ret);
		if (ret < 0)
			end_it(s);
	} else if (s->conn.error) {
		end_it(s);
	}
	if (r->state == RDMA_FAILOVER && r->failover.mended &&
	    anc_state(s->tx) != ANC_PAUSED && anc_state(s->tx) != ANC_RESTORING)
		rdma_again(s);
}

/* --- the end ------------------------------------------------------------- */

/* The writer is gone for good: what it was to put back is still here. */
void failover_revive(struct sock *s)
{
	struct rdma *r = s->rd;

	if (!rdma_here(s) || anc_state(s->rx) != ANC_RESTORING ||
	    !s->ar.unsure || !r->end)
		return;
	r->failover.in = (struct resume){ 0 };
	settle(s);
}

int failover_now(struct sock *s, int fd, uint64_t until)
{
	struct timespec ms = { 0, 1000000 };
	uint64_t least = clock_ns() + LEAST_NS;
	bool done, over;

	if (sock_lock(s))
		return -EAGAIN;
	s->fallback.falling_back++;
	if (rdma_here(s) && s->rd->state == RDMA_UP && !s->conn.error) {
		pump_poll(s);
		rdma_api->disconnect(s->rd->end);
		failover_begin(s, 0);
	}
	for (;;) {
		if (s->rd && s->rd->state == RDMA_FAILOVER)
			failover_flush(s, fd);
		done = !s->rd || s->rd->state != RDMA_FAILOVER;
		over = done || clock_ns() > (until < least ? least : until);
		s->fallback.falling_back -= over;
		sock_unlock(s);
		if (over)
			return done ? 0 : -EAGAIN;
		sys_ppoll(NULL, 0, &ms, NULL);
		if (sock_lock(s))
			return -EAGAIN;
	}
}
