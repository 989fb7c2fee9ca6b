/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Receiving: the anchor's bytes, the ring's bytes, and what lies between. */

#include "base/scratch.h"
#include "base/sigdefer.h"
#include "socket/stream/stream.h"

/* Flags with which the kernel answers for itself. */
#define KERNEL_FLAGS (MSG_OOB | MSG_ERRQUEUE)
#define THROWN	     1024 /* bytes at a time, of what the program discards */

/* --- the ring ---------------------------------------------------------- */

/* The peer has ended and its ring is empty: what would TCP show? */
static ssize_t peer_gone_recv(struct sock *s, int fd, const struct want *w,
			      bool *tcp)
{
	bool lost = was_reset(s) && !peek_left(s, fd);
	/* by whatever: what was sent may be there, and cannot be read */
	bool broken = s->stats.why == WHY_PROTOCOL ||
		      (s->conn.error && !s->conn.dis_rcvd);

	if (w->done && (lost || broken))
		return 0; /* the next receive is told */
	if (broken)
		return told_reset(s) ? 0 : -ECONNRESET;
	if (lost && !s->eos.rst_told) {
		s->eos.rst_told = true;
		return -reset_errno(s);
	}
	if (lost)
		return 0;
	lift_unpaired(s, WHY_CLOSED);
	*tcp = true;
	return 0;
}

/* Something was taken: the writer may want to know. */
static void took(struct sock *s, size_t n)
{
	anc_taken_alone(s->rx, &s->ar, n);
	zc_took(s);
	if (__atomic_load_n(&s->rx->wait, __ATOMIC_RELAXED) || !s->got.avail)
		fab_publish(s);
	ring_writer(s);
	if (unlikely(s->eos.rx_eof) && !s->got.avail && !s->eos.fin_told) {
		s->eos.fin_told = true;
		ring_service(s);
	}
}

/* What MSG_PEEK finds now. */
static ssize_t look(struct sock *s, int fd, const struct want *w)
{
	return peek_around(s, fd, w->flags & MSG_TRUNC ? NULL : &w->c, w->len);
}

/* Does what a look finds now end the call? Then *ret is the answer. */
static bool seen(struct sock *s, int fd, struct want *w, ssize_t *ret)
{
	*ret = look(s, fd, w);
	if (*ret < 0)
		return true;
	w->done = (size_t)*ret;
	*ret = 0;
	return w->done > 0;
}

/* ANC_AT_QUEUE: as recv() of up to lim bytes, never asleep. */
static ssize_t queue_recv(struct sock *s, int fd, struct want *w, uint64_t lim)
{
	size_t n = w->len - w->done, room;
	int flags = MSG_DONTWAIT | (w->flags & MSG_TRUNC);
	ssize_t got;

	if (w->peek) {
		got = look(s, fd, w);
		return got ? got : peek_end(s, fd);
	}
	if (n > lim)
		n = lim;
	if (s->ar.kept)
		return keep_take(s, flags & MSG_TRUNC ? NULL : &w->c, 0, n,
				 false);
	/* a thread inside takes these bytes, and a kick may follow them */
	if (__atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST))
		return -EAGAIN;
	room = w->c.iov->iov_len - w->c.at;
	got = sys_recv(fd, (char *)w->c.iov->iov_base + w->c.at,
		       n < room ? n : room, flags);
	if (got > 0) {
		cursor_skip(&w->c, (size_t)got);
		COUNT(s, bytes_tcp_rx, got);
	}
	return got;
}

/*
 * One look at ANC_AT_QUEUE. 1: the answer is *ret; 0: look again. A writer
 * that asks, stalls or falls back meanwhile changes where to look.
 */
static bool from_queue(struct sock *s, int fd, struct want *w, uint64_t lim,
		       ssize_t *ret)
{
	ssize_t got = queue_recv(s, fd, w, lim);

	if (got > 0) {
		w->done += (size_t)got;
		*ret = 0;
		if (w->peek)
			return true;
		took(s, (size_t)got);
		/* others may still be inside */
		if ((uint64_t)got == lim && carrier_shared(s) &&
		    anc_passed(s->rx, &s->ar))
			tcp_passed(s, s->rx);
		return !want_goes_over(w);
	}
	*ret = w->done && (!w->all || got != -EAGAIN) ? 0 : got;
	if (got != -EAGAIN || (w->done && !w->all) || w->nonblock)
		return true;
	*ret = wait_queue(s, fd, want_deadline(s, w), want_part(w));
	return *ret != 0;
}

/*
 * MSG_PEEK | MSG_WAITALL. 1: the answer is *ret or what w->done says; 0: not
 * all is there yet, look again; -1: nothing is.
 */
static int peek_all(struct sock *s, int fd, struct want *w, enum anc_state was,
		    ssize_t *ret)
{
	pump_poll(s); /* behind unread bytes, too; an error is final */
	if (!seen(s, fd, w, ret))
		return -1;
	if (*ret || w->done == w->len || peek_final(s, fd, w->len, w->done))
		return 1;
	if (zc_here(s))
		zc_refuse(s);
	*ret = wait_rx(s, fd, want_deadline(s, w), was, true);
	if (*ret)
		return 1;
	w->done = 0;
	return 0;
}

/*
 * The writer has not said that it knows of the stall, or not brought back what
 * was handed back to it. Behind its DisConn it may never say. True: the answer is
 * *ret, or the peer is gone; false: look again.
 */
static bool await_word(struct sock *s, int fd, struct want *w, ssize_t *ret)
{
	*ret = 0;
	if (pump_poll(s) || s->peer_gone)
		return true;
	rdma_marker_read(s, fd); /* the DisConn may be hidden by it */
	if (!s->ar.unsure)
		return false;
	if ((w->done && !w->all) || (s->eos.rx_eof && !carrier_comes_again(s)))
		return true;
	*ret = w->nonblock ?
		       -EAGAIN :
		       wait_queue(s, fd, want_deadline(s, w), want_part(w));
	if (!*ret)
		return false;
	*ret = w->done ? 0 : *ret;
	return true;
}

/* No place to take from. True: the answer is *ret; false: look again. */
static bool astray(struct sock *s, int fd, struct want *w, int where, bool *tcp,
		   ssize_t *ret)
{
	*ret = 0;
	if (where == -EALREADY)
		return w->done && !w->all;
	if (where == -EAGAIN || (where == -EBUSY && !await_word(s, fd, w, ret)))
		return false;
	if (where != -EBUSY || s->conn.error || s->peer_gone)
		*ret = peer_gone_recv(s, fd, w, tcp);
	return true;
}

/*
 * Lock held. As anc_where(); -EAGAIN: look again; -EALREADY: the same, a moment
 * was waited. `was`: the state seen; *at: the anchor's number, now.
 */
static int next_at(struct sock *s, int *at, struct want *w, enum anc_state *was,
		   uint64_t *lim)
{
	int where = ANC_AT_ANCHOR, fd = *at = sock_at(s, *at);

	fallback_serve(s, fd);
	fallback_abandoned(s, fd);
	*was = anc_state(s->rx);
	w->between = w->between || *was != ANC_LIFTED;
	if (s->paired)
		where = tcp_where(s, lim);
	if (where < 0) {
		pump_fail(s, where);
	} else if (where == ANC_AT_KICKS && unlikely(s->ar.unsure)) {
		return -EBUSY;
	} else if (where == ANC_AT_KICKS) {
		return ring_take_kicks(s, fd, *lim) ? -EAGAIN : -EALREADY;
	} else if (unlikely(w->peek) &&
		   peek_starves(s, w->len, w->peek_all, &w->starved)) {
		return ANC_AT_ANCHOR; /* once receive() brought it back to TCP */
	} else if (where == ANC_AT_ANCHOR && *was == ANC_DRAINING) {
		zc_answer(s, fd); /* what it took back before it left */
	} else if (where == ANC_AT_ANCHOR && w->peek && *was == ANC_SWITCHING) {
		return ANC_AT_QUEUE; /* to look around the switch */
	}
	return where;
}

/* Nothing is there. Bytes that came straight into the memory, 0, or why not. */
static ssize_t await(struct sock *s, int fd, struct want *w, uint64_t lim,
		     enum anc_state was)
{
	uint32_t ran = sigdefer_handlers();
	ssize_t n;

	if (likely(!zc_may_sink(s, &w->c, lim)) || was != ANC_LIFTED ||
	    w->peek || w->torn || (w->flags & MSG_TRUNC))
		n = wait_rx(s, fd, want_deadline(s, w), was, want_part(w));
	else
		n = zc_wait(s, fd, &w->c, lim, want_deadline(s, w),
			    want_part(w));
	if (n > 0) {
		w->done += (size_t)n;
		took(s, 0);
	}
	if (n >= 0 && unlikely(ran != sigdefer_handlers())) {
		if (want_part(w))
			return -EINTR;
		begin_again(s, w);
	}
	return n;
}

/* Looks at the ring where that may bring something. 0 or a negative errno. */
static int what_came(struct sock *s, const struct want *w)
{
	if (!s->got.avail || s->got.stale)
		return pump_poll(s);
	/* a look again and again is all that some programs do */
	if (unlikely(w->peek) && s->got.avail < w->len)
		pump_poll(s); /* an error comes behind what is there */
	return 0;
}

/*
 * Lock held. A count, 0 for the end, a negative errno; *tcp: go on at the
 * anchor.
 */
static ssize_t ring_recv(struct sock *s, int fd, struct want *w, bool *tcp)
{
	enum anc_state was;
	int where, err;
	uint64_t lim;
	ssize_t got;

	for (;;) {
		where = next_at(s, &fd, w, &was, &lim);
		if (unlikely(where < 0)) {
			if (astray(s, fd, w, where, tcp, &got))
				return got;
			continue;
		}
		if (where == ANC_AT_ANCHOR) {
			if (s->paired)
				rdma_passed(s);
			*tcp = true;
			return 0;
		}
		if (what_came(s, w))
			return peer_gone_recv(s, fd, w, tcp);
		if (unlikely(w->torn) && !w->done && s->got.avail > w->len)
			return -EFAULT;
		err = w->peek_all ? peek_all(s, fd, w, was, &got) : -1;
		if (err > 0)
			return got;
		if (!err)
			continue;
		if (where == ANC_AT_QUEUE) {
			if (from_queue(s, fd, w, lim, &got))
				return got;
			continue;
		}
		if (w->peek && was == ANC_DRAINING && seen(s, fd, w, &got))
			return got;
		if (lim > w->len - w->done)
			lim = w->len - w->done;
		got = zc_recv(s, &w->c, lim, w->flags);
		if (got < 0)
			return got == -EFAULT ? got :
						peer_gone_recv(s, fd, w, tcp);
		if (got) {
			w->done += (size_t)got;
			if (w->peek)
				return 0;
			took(s, (size_t)got);
			if (w->done < w->len && !s->got.avail)
				pump_poll(s);
			if (w->done < w->len && (s->got.avail || zc_here(s)))
				continue;
			if (unlikely(anc_kicks(s->rx, &s->ar) > 0))
				ring_kicks(s, fd);
			if (!want_goes_over(w))
				return 0;
			continue;
		}
		if ((w->done && !w->all) || s->eos.rx_eof || s->eos.shut_rd)
			return 0;
		if (s->peer_gone && ring_marker(s, fd))
			continue;
		if (s->peer_gone)
			return peer_gone_recv(s, fd, w, tcp);
		err = ring_kicks(s, fd);
		if (err)
			return pump_fail(s, err);
		if (unlikely(s->got.avail || s->eos.rx_eof) && !s->got.stale)
			continue; /* what was behind the marker */
		if (w->nonblock) {
			if (s->waits.sleepers || s->waits.watched > 1) {
				anc_arm(s->rx, ANC_WAKE);
				if (fab_pending(s) || anc_state(s->rx) != was)
					continue;
			}
			return -EAGAIN;
		}
		got = await(s, fd, w, lim, was);
		if (got < 0 || (got && (!w->all || w->done == w->len)))
			return got < 0 ? got : 0;
	}
}

/* --- the anchor -------------------------------------------------------- */

/* Of the program's flags, those for a receive on the anchor; -1: lifted. */
static int tcp_flags(struct tcp_rx *in, const struct want *w)
{
	if (likely(!w->all && !w->peek_all))
		return w->flags;
	/* it would swallow a kick and sleep on (5.2) */
	if ((w->all && !option_lowat(in->s)) || !tcp_holds(in->s))
		return w->flags & ~MSG_WAITALL;
	in->back = !tcp_rx_hold(in);
	return in->back ? -1 : w->flags;
}

static int user_first(struct sock *s, struct want *w)
{
	return user_comes(s, w->nonblock ? 0 : want_deadline(s, w),
			  want_part(w));
}

static __attribute__((noinline)) ssize_t
tcp_recv(struct sock *s, int fd, struct want *w, struct msghdr *m, bool *lifted,
	 struct sock **stays)
{
	__attribute__((cleanup(tcp_rx_leave))) struct tcp_rx in = { 0 };
	struct cursor seen = w->c;
	struct msghdr rest = { 0 };
	struct iovec one;
	SCRATCH(thrown);
	int flags;
	ssize_t n;

	if (unlikely(s->in.strayed) && s->paired)
		tcp_strayed(s, fd);
	if (unlikely(s->fallback.apart))
		user_rests(s);
	n = unlikely(tx_lifted_elsewhere(s)) ? user_first(s, w) : 0;
	if (unlikely(n))
		return n;
	if (unlikely(w->peek && rx_state_seen(s) == ANC_SWITCHING) ||
	    !tcp_rx_enter(&in, s) || (flags = tcp_flags(&in, w)) == -1)
		return 0;
	if (unlikely(fd < 0))
		fd = -EBADF; /* another thread has closed it */
	else if (unlikely(want_part(w) && !w->nonblock))
		fd = wait_next(s, fd, want_deadline(s, w), w->done);
	if (unlikely(fd < 0)) {
		n = fd;
	} else if (carrier_looks_at_tcp(s) && (flags & MSG_TRUNC) && !w->peek) {
		/* thrown away by us: what it was has to be looked at */
		one.iov_len = w->len - w->done < THROWN ? w->len - w->done :
							  THROWN;
		one.iov_base = scratch_take(&thrown, one.iov_len);
		seen = (struct cursor){ .iov = &one, .left = 1 };
		/* without memory: EFAULT */
		n = want_recv(w, fd, one.iov_base, one.iov_len,
			      flags & ~MSG_TRUNC);
		if (m && !w->done)
			m->msg_controllen = (size_t)(m->msg_flags = 0);
	} else if (m && !w->done) {
		n = want_recvmsg(w, fd, m, flags);
	} else if (w->c.left > 1 && !w->c.at) {
		rest.msg_iov = (struct iovec *)w->c.iov;
		rest.msg_iovlen = w->c.left;
		n = want_recvmsg(w, fd, &rest, flags);
	} else { /* a vector half filled: one piece at a time */
		n = want_piece(w, fd, flags);
	}
	in.back = true;
	if (carrier_looks_at_tcp(s) && n > 0 && !w->peek) {
		if (s->paired &&
		    rdma_tcp_took(s, seen.iov, seen.left, seen.at, (size_t)n)) {
			tcp_rx_stay(&in, stays, true);
			return 0;
		}
	}
	if (!tcp_took(s, in.d, n, w->peek)) {
		*lifted = n != -EINTR;
		if (!*lifted)
			return n;
		tcp_rx_stay(&in, stays, n > 0);
		return 0;
	}
	*lifted = false;
	if (rdma_seeks(s) && n > 0 && !w->peek)
		rdma_remember(s, false, seen.iov, seen.left, seen.at,
			      (size_t)n);
	return n;
}

/*
 * A program that reads on edges takes a receive that brought less than it asked
 * for as the last one before a new edge. Where the stream changes carriers
 * there may be more at once: that is the edge. (One too many reports nothing.)
 */
static void cut_short(struct sock *s, const struct want *w)
{
	if (likely(!w->between || w->peek || !w->done || w->done == w->len))
		return;
	__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
	sock_changed(s);
}

/*
 * A receive that can take nothing waits for something, as on TCP, and answers
 * `then` when it is there: 0, or -EFAULT where there is no memory at all.
 */
static ssize_t nothing(struct sock *s, int fd, int flags, ssize_t then)
{
	char byte;
	ssize_t n =
		sock_recv(s, fd, &byte, 1, (flags & ~MSG_WAITALL) | MSG_PEEK);

	return n > 0 ? then : n;
}

/* The anchor gave nothing (n), and yet the stream may go on. */
static bool more_behind(struct sock *s, int fd, const struct want *w, ssize_t n,
			bool stale, bool *put_back)
{
	return (stale && keep_revived(s, fd, n)) || carrier_overtook(s, n) ||
	       (n == -EAGAIN && w->nonblock && stream_handed(s) &&
		peer_writes_back(s, fd, put_back));
}

/* m: the program's msghdr, or NULL when only w counts. */
static ssize_t receive(struct sock *s, int fd, struct want *w, struct msghdr *m)
{
	__attribute__((cleanup(tcp_rx_stayed))) struct sock *stays = NULL;
	size_t room = m ? m->msg_controllen : 0;
	bool lifted = false, ours = false, put_back = false, tcp, stale;
	ssize_t n;

	if (unlikely(s->id.use == USE_SDP) && !s->paired && !w->nonblock) {
		n = lift_demand(s, fd, false);
		if (n)
			return n;
	}
	for (;;) {
		stale = __atomic_load_n(&s->got.stale, __ATOMIC_RELAXED);
		want_asks(w, s);
		n = tcp_passed_by(&lifted, &s->stats.rx_shown, &lifted) ?
			    0 :
			    tcp_recv(s, fd, w, m, &lifted, &stays);
		fd = sock_at(s, fd);
		if (!lifted) {
			if (unlikely(w->peek_all) && !tcp_holds(s) && n > 0 &&
			    peek_wait(s, fd, w->len, (size_t)n,
				      want_deadline(s, w)))
				continue;
			lift_count(s, fd, n, false);
			if (n <= 0 &&
			    more_behind(s, fd, w, n, stale, &put_back))
				continue;
			if (n <= 0) {
				n = tcp_ended(s, w->done, n);
				break;
			}
			/* a vector half filled comes in pieces */
			w->between = w->done ||
				     (s->paired && rx_state_seen(s) != ANC_TCP);
			w->done += (size_t)n;
			if (!want_goes_over(w) || sock_atmark(s, fd) == 1 ||
			    want_overtaken(w, s, (size_t)n))
				break;
			cursor_skip(&w->c, (size_t)n);
			ours = true;
			continue;
		}
		ours = true;
		tcp = false;
		if (unlikely(!want_whole(w)) && !want_torn(w)) {
			n = w->done ? 0 : nothing(s, fd, w->flags, -EFAULT);
			break;
		}
		n = unlikely(user_other(s)) ? user_first(s, w) : 0;
		if (unlikely(n))
			break;
		n = -EDEADLK;
		if (sock_lock(s))
			break;
		tcp_rx_stayed(&stays);
		n = ring_recv(s, fd, w, &tcp);
		sock_unlock(s);
		fd = sock_at(s, fd);
		if (unlikely(n == -EFAULT) && want_faulted(w))
			continue;
		if (unlikely(w->starved) && tcp) {
			peek_fallback(s, fd);
			w->starved = false;
		}
		if (!tcp || (w->done && !want_goes_over(w)))
			break;
		if (w->done && sock_atmark(s, fd) == 1)
			break; /* the urgent mark ends a read, WAITALL too */
	}
	tcp_rx_stayed(&stays);
	cut_short(s, w);
	if (sock_orphan_fd(s) >= 0)
		reports.left(s);
	if (m && ours && (w->done || n >= 0)) {
		want_header(m, w->flags);
		if (unlikely(s->opt.inq) && s->paired && room)
			option_inq(s, fd, m, room);
	}
	return w->done ? (ssize_t)w->done : n;
}

ssize_t sock_recv(struct sock *s, int fd, void *buf, size_t len, int flags)
{
	struct iovec iov = { buf, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct want w;

	if (unlikely(len > SSIZE_MAX))
		iov.iov_len = len = SSIZE_MAX;
	if (unlikely(!len) && s->paired && !(flags & KERNEL_FLAGS))
		return nothing(s, fd, flags, 0);
	if (unlikely(!len || (flags & KERNEL_FLAGS)) || !sock_up(s, fd))
		return tcp_answer(fd, &m, flags);
	want_set(&w, s, &iov, 1, len, flags);
	return receive(s, fd, &w, NULL);
}

static ssize_t recv_message(struct sock *s, int fd, struct msghdr *m, int flags,
			    bool begun)
{
	struct want w;
	ssize_t len;

	if ((flags & KERNEL_FLAGS) || !sock_up(s, fd) ||
	    unlikely(!iov_message(m)))
		return tcp_answer(fd, m, flags);
	len = iov_sum(m->msg_iov, m->msg_iovlen);
	if (!len && s->paired) {
		len = nothing(s, fd, flags, 0);
		if (!len)
			want_header(m, flags);
		return len;
	}
	if (len <= 0)
		return tcp_answer(fd, m, flags);
	/* no time is no error: the kernel's own bytes may have none, too */
	if (unlikely(s->opt.stamps) && m->msg_controllen)
		option_shown(s, fd);
	want_set(&w, s, m->msg_iov, m->msg_iovlen, (size_t)len, flags);
	w.control = m->msg_controllen;
	w.begun = begun;
	return receive(s, fd, &w, m);
}

ssize_t sock_recvmsg(struct sock *s, int fd, struct msghdr *m, int flags)
{
	return recv_message(s, fd, m, flags, false);
}

ssize_t sock_recvmsg_next(struct sock *s, int fd, struct msghdr *m, int flags)
{
	return sock_tells_later(s, recv_message(s, fd, m, flags, true));
}
