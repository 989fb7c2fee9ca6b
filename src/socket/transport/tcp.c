/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The anchor carries the bytes: receives and sends that go to the kernel are
 * counted in and out, so that a direction is never switched, and never taken
 * back to the anchor, around a call that is still inside (anchor.md 4.2).
 *
 * Until the socket is paired the counters lie in the sock itself. Pairing
 * moves s->rx to the shared words while threads may still be inside: they
 * leave by the words they entered by, and the last one out takes the marker
 * (s->carry) that lift.c left for them in the new words.
 */

#include "socket/transport/transport.h"

static void leave(struct sock *s, struct anc_dir *d)
{
	anc_tcp_leave(d);
	if (d == &s->local[1] &&
	    __atomic_load_n(&s->in.carry, __ATOMIC_SEQ_CST) &&
	    !__atomic_load_n(&d->tcp_rx, __ATOMIC_SEQ_CST) &&
	    __atomic_exchange_n(&s->in.carry, 0, __ATOMIC_SEQ_CST))
		anc_tcp_leave(__atomic_load_n(&s->rx, __ATOMIC_SEQ_CST));
}

static enum holder_part part_of(const struct sock *s, const struct anc_dir *d)
{
	return d == &s->local[1] ? HOLDS_OLD_RX : HOLDS_RX;
}

/*
 * A call is over. True: taken for left, it was counted out, and it came back.
 */
static bool over(const void *c, bool noted)
{
	return unlikely(!inside_end(c)) && noted;
}

bool tcp_rx_enter(struct tcp_rx *c, struct sock *s)
{
	struct inside *in;

	tcp_jumped((uintptr_t)c);
	in = inside_begin(INSIDE_RX, c);
	c->noted = in != NULL;
	__atomic_add_fetch(&s->in.users, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		struct anc_dir *d = __atomic_load_n(&s->rx, __ATOMIC_SEQ_CST);

		if (!anc_tcp_enter(d, &s->ar))
			break;
		if (likely(d == __atomic_load_n(&s->rx, __ATOMIC_SEQ_CST))) {
			holder_in(s, part_of(s, d));
			sock_named(s);
			if (likely(in != NULL)) {
				in->rx.d = d;
				inside_set(in, s);
			}
			c->s = s;
			c->d = d;
			return true;
		}
		leave(s, d);
	}
	__atomic_sub_fetch(&s->in.users, 1, __ATOMIC_SEQ_CST);
	inside_end(c);
	return false;
}

bool tcp_rx_hold(struct tcp_rx *c)
{
	struct anc_dir *local = &c->s->local[1], *d;
	struct sock *s = c->s;
	struct inside *in;
	bool ret = true;

	if (sock_lock(s))
		return false;
	d = s->rx;
	if (!s->paired) {
		__atomic_add_fetch(&s->in.held, 1, __ATOMIC_RELAXED);
		c->held = local;
	} else if (d != local && !anc_busy(d)) {
		c->held = d;
	} else {
		/* not paired any more, or the writer has closed */
		ret = d == local || anc_state(d) == ANC_GONE;
	}
	sock_unlock(s);
	in = inside_of(c);
	if (in)
		in->rx.held = c->held;
	return ret;
}

void tcp_rx_leave(struct tcp_rx *c)
{
	struct sock *s = c->s;
	const struct link_ops *link;

	if (!s || over(c, c->noted)) {
		c->s = NULL;
		c->stays = false;
		return;
	}
	if (unlikely(c->held == &c->s->local[1]))
		__atomic_sub_fetch(&c->s->in.held, 1, __ATOMIC_RELAXED);
	else if (unlikely(c->held))
		anc_idle(c->held);
	c->held = NULL;
	if (unlikely(!c->back)) /* first: looked at once no thread is inside */
		__atomic_store_n(&c->s->in.strayed, true, __ATOMIC_SEQ_CST);
	holder_out(s, part_of(s, c->d));
	leave(c->s, c->d);
	if (unlikely(__atomic_load_n(&s->opt.bars, __ATOMIC_SEQ_CST) &
		     BAR_LEFT))
		reports.tcp_rx_over(s);
	/* it may have been a kick, and it was for others, too */
	if (unlikely(!c->back) && rx_state_seen(c->s) != ANC_TCP)
		ring_ask_kick(c->s);
	link = sock_link(s);
	if (unlikely(link))
		link->tcp_left(s);
	c->s = NULL;
	if (c->stays)
		return;
	sock_unnamed(s);
	__atomic_sub_fetch(&s->in.users, 1, __ATOMIC_SEQ_CST);
	/*
	 * it was the last, perhaps, of a closed socket; one that is back looks
	 */
	if (unlikely(!c->back) && sock_orphan_fd(s) >= 0)
		reports.left(s);
}

void tcp_rx_stay(struct tcp_rx *c, struct sock **stays, bool kick)
{
	*stays = c->s;
	c->stays = true;
	tcp_rx_leave(c);
	if (unlikely(!c->stays))
		*stays = NULL; /* counted out already */
	else if (kick)
		ring_ask_kick(*stays);
}

void tcp_rx_stayed(struct sock **stays)
{
	struct sock *s = *stays;

	*stays = NULL;
	if (likely(!s))
		return;
	sock_unnamed(s);
	__atomic_sub_fetch(&s->in.users, 1, __ATOMIC_SEQ_CST);
}

static void tx_leave(struct tcp_tx *c)
{
	holder_out(c->s, HOLDS_TX);
	__atomic_sub_fetch(&c->s->in.tcp_tx, 1, __ATOMIC_SEQ_CST);
	__atomic_sub_fetch(&c->s->in.users, 1, __ATOMIC_SEQ_CST);
	c->s = NULL;
}

/* Is the direction the anchor's, for a thread that has counted itself in? */
static bool tx_by_tcp(struct sock *s)
{
	/* first this, then the state: see switch_tx() */
	if (__atomic_load_n(&s->in.switching, __ATOMIC_SEQ_CST))
		return false;
	switch (tx_state_seen(s)) {
	case ANC_DRAINING:
		return likely(
			!__atomic_load_n(&s->fallback.stand, __ATOMIC_SEQ_CST));
	case ANC_TCP:
	case ANC_GONE:
		return true;
	default:
		return false;
	}
}

bool tcp_tx_enter(struct tcp_tx *c, struct sock *s)
{
	struct inside *in;

	tcp_jumped((uintptr_t)c);
	in = inside_begin(INSIDE_TX, c);
	c->noted = in != NULL;
	__atomic_add_fetch(&s->in.users, 1, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&s->in.tcp_tx, 1, __ATOMIC_SEQ_CST);
	holder_in(s, HOLDS_TX);
	c->s = s;
	if (!tx_by_tcp(s)) {
		tx_leave(c);
		inside_end(c);
		return false;
	}
	if (likely(in != NULL))
		inside_set(in, s);
	return true;
}

/*
 * May the other end still be found, or the direction switched? A time limit is
 * one for the whole call: that call stays in one piece.
 */
static bool to_be_lifted(const struct sock *s)
{
	if (s->opt.sndtimeo || never_lift(s))
		return false;
	return s->paired ? tx_state_seen(s) == ANC_TCP && !s->peer_gone :
			   s->seek.look != LOOK_NEVER;
}

size_t tcp_tx_piece(const struct sock *s, size_t n, bool nonblock)
{
	const size_t piece = 128 * 1024;

	if (likely(n <= piece || nonblock))
		return n;
	return tx_state_seen(s) == ANC_DRAINING || to_be_lifted(s) ? piece : n;
}

/* In vain. A thread that asks twice in a row does not wait in between. */
static void dry(struct sock *s)
{
	s->seek.busy = s->seek.dry;
	s->seek.dry = true;
}

void tcp_tx_done(struct tcp_tx *c, struct sock *s, ssize_t n)
{
	if (unlikely(n == -EAGAIN && !s->seek.busy))
		dry(s);
	if (n > 0) {
		s->seek.dry = false;
		order_sent(s);
		anc_sent(__atomic_load_n(&s->tx, __ATOMIC_SEQ_CST), &s->at,
			 (uint64_t)n);
		if (unlikely(s->stats.row_pid != sock_pid))
			row_miss(s);
		COUNT(s, bytes_tcp_tx, n);
		if (unlikely(s->stats.tx_shown))
			row_refresh(s);
	}
	if (c->s && !over(c, c->noted))
		tx_leave(c);
}

/* What of a send went is not known. */
static void tx_lost(struct sock *s)
{
	s->fallback.pinned =
		true; /* before the others see that no thread is inside */
	s->in.unsent = true;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	sock_why(s, WHY_FOREIGN_IO);
}

void tcp_tx_lost(struct tcp_tx *c)
{
	if (!c->s || over(c, c->noted))
		return;
	tx_lost(c->s);
	tx_leave(c);
}

void tcp_abandoned(struct sock *s, enum holder_part part)
{
	struct anc_dir *d = part == HOLDS_OLD_RX ?
				    &s->local[1] :
				    __atomic_load_n(&s->rx, __ATOMIC_SEQ_CST);

	if (part == HOLDS_SLEEP) {
		sock_awoken(s, s->waits.asleep_anchor_gen);
		return;
	}
	if (part == HOLDS_STAY) {
		__atomic_sub_fetch(&s->in.users, 1, __ATOMIC_SEQ_CST);
		return;
	}
	if (part == HOLDS_TX) {
		tx_lost(s);
		__atomic_sub_fetch(&s->in.tcp_tx, 1, __ATOMIC_SEQ_CST);
	} else {
		__atomic_store_n(&s->in.strayed, true, __ATOMIC_SEQ_CST);
		/* unpaired since, or given up for dead: not counted any more */
		if (d->tcp_rx)
			leave(s, d);
		/* it may have had a kick that was for others, too */
		if (rx_state_seen(s) != ANC_TCP)
			ring_ask_kick(s);
	}
	__atomic_sub_fetch(&s->in.users, 1, __ATOMIC_SEQ_CST);
}

/*
 * A writer that ended its direction in the ring leaves the ring before it sends
 * the kernel's FIN. What its DisConn says counts in between: the anchor is
 * empty and shows no end yet.
 */
static void behind_end(struct sock *s)
{
	/* a send that left the ring before DisConn may be under way there */
	uint64_t n = __atomic_load_n(&s->rx->y, __ATOMIC_ACQUIRE);

	if (!s->rd && !s->conn.error && fab_pending(s))
		pump_poll(s);
	s->eos.rx_ended = s->eos.rx_eof && !s->conn.error && !s->got.avail &&
			  s->ar.taken == n;
}

int tcp_where(struct sock *s, uint64_t *n)
{
	enum anc_state was = anc_state(s->rx);
	int where;

	if (unlikely(s->in.strayed))
		lift_strayed(s,
			     s->waits.orphan_fd >= 0 ? s->waits.orphan_fd :
						       sock_fd(s),
			     0);
	where = anc_where(s->rx, &s->ar, n);

	if (where == ANC_AT_ANCHOR &&
	    (was == ANC_DRAINING || was == ANC_RECALLED)) {
		ring_service(s); /* its FIN may wait for this */
		behind_end(s);
	}
	return where;
}

/*
 * Others may still sleep in the kernel where nothing will come any more: the
 * writer rings for them, and the sets have to look at the ring from now on.
 * They may have seen all that is in it, and with it only a part of what was in
 * front: the rest is news that an edge is due for.
 */
void tcp_passed(struct sock *s, struct anc_dir *d)
{
	uint64_t seen = __atomic_exchange_n(&s->fallback.queue_seen, 0,
					    __ATOMIC_RELAXED);

	if (seen && seen < __atomic_load_n(&d->x, __ATOMIC_ACQUIRE))
		__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
	anc_arm(d, ANC_ANCHOR);
	ring_service(s);
}

/*
 * W writes no kick before every byte in front of x was accounted here: what a
 * receive returns from there on can only be kicks.
 */
bool tcp_took(struct sock *s, struct anc_dir *d, ssize_t n, bool peek)
{
	const struct link_ops *link = sock_link(s);

	/* not d: a call from before the pairing entered by the local words */
	d = __atomic_load_n(&s->rx, __ATOMIC_SEQ_CST);
	if (!anc_tcp_stream(d, &s->ar)) {
		if (n > 0 && !peek)
			__atomic_add_fetch(&s->ar.kicks, (uint64_t)n,
					   __ATOMIC_RELAXED);
		return false;
	}
	if (unlikely(n == -EAGAIN && !s->seek.busy))
		dry(s);
	if (n <= 0 || peek)
		return true;
	order_read(s);
	s->seek.dry = false;
	anc_taken(d, &s->ar, (uint64_t)n);
	if (unlikely(d != __atomic_load_n(&s->rx, __ATOMIC_SEQ_CST)))
		anc_taken(s->rx, &s->ar, 0);
	if (unlikely(s->stats.row_pid != sock_pid))
		row_miss(s);
	COUNT(s, bytes_tcp_rx, n);
	if (unlikely(s->stats.rx_shown))
		row_refresh(s);
	if (unlikely(link)) {
		if (s->paired)
			link->tcp_took(s);
	} else if (s->paired) {
		if (unlikely(anc_passed(d, &s->ar))) {
			tcp_passed(s, d);
			sock_changed(s);
		}
		ring_writer(s);
	}
	return true;
}

void tcp_strayed(struct sock *s, int fd)
{
	if (sock_lock(s))
		return;
	lift_strayed(s, sock_at(s, fd), 0);
	sock_unlock(s);
}

ssize_t tcp_sink(struct sock *s, int fd, void *buf, size_t n)
{
	ssize_t got = sys_recv(fd, buf, n, MSG_DONTWAIT);

	if (unlikely(got < 0))
		sock_eats(s, got);
	return got;
}

/* No bytes of the stack's: chains of frames lead through the callers. */
ssize_t tcp_throw(struct sock *s, int fd, uint64_t n)
{
	static char nowhere[256]; /* written by all threads, read by none */

	return tcp_sink(s, fd, nowhere,
			n < sizeof(nowhere) ? (size_t)n : sizeof(nowhere));
}

void tcp_abort(int fd)
{
	static const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
	struct linger reset = { 1, 0 };

	/* refused while a thread sleeps at it: then the close resets */
	sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
	sys_connect(fd, &nowhere, sizeof(nowhere));
}

ssize_t tcp_answer(int fd, struct msghdr *m, int flags)
{
	int saved = errno;

	return tcp_said(hooks.recvmsg(fd, m, flags), saved);
}

ssize_t tcp_judged(struct sock *s, int fd, const struct msghdr *m)
{
	struct msghdr none = { .msg_control = m->msg_control,
			       .msg_controllen = m->msg_controllen };
	ssize_t ret = sock_eats(s, sys_sendmsg(fd, &none,
					       MSG_DONTWAIT | MSG_NOSIGNAL));

	/* what has become of the connection is not their affair */
	return ret == -EPIPE || ret == -EAGAIN || ret == -ECONNRESET ? 0 : ret;
}

/* Does the peer have less than was sent, as far as it said? */
static bool untaken(const struct sock *s)
{
	return s->at.sent > __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);
}

bool tcp_torn(const struct sock *s, short revents)
{
	/* told or not; where we have ended an end in order hangs up, too */
	return (revents & POLLHUP) &&
	       (!s->eos.shut_wr || (revents & POLLERR)) && untaken(s);
}

bool was_reset(const struct sock *s)
{
	const struct link_ops *link = sock_link(s);
	enum anc_state st = anc_state(s->tx);

	if (unlikely(link))
		return link->was_reset(s);
	if (__atomic_load_n(&s->peer->reset, __ATOMIC_ACQUIRE))
		return true;
	/*
	 * What went to the anchor is the kernel's to judge. An urgent byte is
	 * never counted as taken; the ring was left for good because of it.
	 */
	if (st == ANC_TCP ||
	    (st == ANC_GONE &&
	     __atomic_load_n(&s->own->urgent, __ATOMIC_RELAXED)))
		return false;
	return untaken(s);
}

bool tcp_kicks_left(const struct sock *s)
{
	enum anc_state st = anc_state(s->tx);

	return !sock_link(s) && s->at.kicks && !s->in.unsent &&
	       (st == ANC_LIFTED || st == ANC_DRAINING) && !untaken(s) &&
	       __atomic_load_n(&s->rx->sent, __ATOMIC_ACQUIRE) == s->ar.taken &&
	       !__atomic_load_n(&s->peer->reset, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&s->own->urgent, __ATOMIC_RELAXED);
}

bool tcp_overtaken(struct sock *s, ssize_t n)
{
	uint64_t lim;
	bool ret;

	if (n == -EAGAIN || n == -EINTR || !s->paired || sock_lock(s))
		return false;
	ret = s->paired && rdma_here(s) && !s->conn.error && !pump_poll(s) &&
	      tcp_where(s, &lim) != ANC_AT_ANCHOR;
	if (ret)
		sock_eats(s, n);
	sock_unlock(s);
	return ret;
}
