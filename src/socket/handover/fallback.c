/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Home (D4): both directions back on the anchor, so that code libsdp does not
 * see reads and writes the true stream. Our transmit direction stalls by our
 * own decision; the receive direction is asked for, and what our program has
 * not consumed is written to the anchor by the peer (anchor.md 6.1).
 */

#include "socket/handover/handover.h"

/* --- writer's part ----------------------------------------------------- */

/*
 * A half-closed direction keeps its anchor open until the reader has the last
 * byte, so that it could still fall back; then the kernel's FIN follows.
 */
static void finish(struct sock *s, int fd)
{
	bool silent = !s->peer_gone && rdma_silent(s);

	switch (anc_state(s->tx)) {
	case ANC_SWITCHING:
	case ANC_LIFTED:
		/* the marker goes before anything else */
		if (!s->peer_gone && !carrier_may_end(s))
			return;
		if (!zc_recall(s))
			return;
		silent = !s->peer_gone && rdma_silent(s);
		if (silent && !rdma_last_word(s, fd))
			return;
		if (!s->peer_gone && !silent &&
		    s->at.sent !=
			    __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE))
			return;
		anc_risen(s->tx, &s->at);
		if (anc_stall(s->tx, &s->at, true))
			return; /* asked home this instant: after that */
		ring_note(s);
		break;
	case ANC_DRAINING: /* before y its reader may ask for bytes */
		if (silent ?
			    !rdma_last_word(s, fd) :
			    !s->peer_gone && !carrier_unserved(s) &&
				    __atomic_load_n(&s->tx->taken,
						    __ATOMIC_ACQUIRE) < s->at.y)
			return;
		break;
	case ANC_RESTORING:
		/* all of it first, wherever its reader has gone */
		if (carrier_puts_back(s))
			return;
		/* fallthrough */
	case ANC_RECALLED:
	case ANC_PAUSED:
		if (silent ? !rdma_last_word(s, fd) : !s->peer_gone)
			return;
		break;
	default:
		break;
	}
	s->eos.fin_due = false;
	sys_shutdown(fd, SHUT_WR);
}

/* The FIN is out: what its reader took off the anchor cannot be put back. */
static bool too_late(const struct sock *s)
{
	return s->eos.shut_wr && !s->eos.fin_due &&
	       __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE) < s->at.sent;
}

static void answer(struct sock *s, int fd)
{
	/* another process's bytes would be overtaken, or overtake */
	if (too_late(s) || (s->fallback.passed && carrier_shared(s)))
		return;
	if (__atomic_load_n(&s->tx->tcp_rx, __ATOMIC_SEQ_CST)) {
		/* its sleepers on the anchor come out first */
		ring_reader(s, fd);
		ring_note(s);
		return;
	}
	/* a send behind a stall: the reader makes room for it */
	if (__atomic_load_n(&s->in.tcp_tx, __ATOMIC_SEQ_CST))
		return;
	if (!zc_recall(s))
		return;
	if (unlikely(s->window.holdback))
		holdback_show(s);
	/* what is put back begins where it is said to end */
	if (unlikely(s->in.unsent || s->fallback.given) && !lift_sent(s, fd))
		return;
	if (anc_answer(s->tx, &s->at))
		return;
	s->fallback.resuming = false;
	ring_note(s);
	if (unlikely(s->own->leaves))
		ring_service(s); /* the next step is taken there */
}

void fallback_serve(struct sock *s, int fd)
{
	if (likely(anc_state(s->tx) <= ANC_DRAINING && !s->eos.fin_due) ||
	    !s->paired || fd < 0)
		return;
	failover_flush(s, fd);
	switch (anc_state(s->tx)) {
	case ANC_RECALLED:
		if (!carrier_may_answer(s, fd))
			break; /* the answer to our words comes first */
		answer(s, fd);
		break;
	case ANC_RESTORING:
		keep_put_back(s, fd);
		break;
	default:
		break;
	}
	if (s->eos.fin_due)
		finish(s, fd);
}

/* --- reader's part ----------------------------------------------------- */

bool fallback_executes;

void sock_executes(bool on)
{
	fallback_executes = on;
}

/* The peer's library has left, and its connection goes on. */
static bool lives_on(const struct sock *s, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	struct timespec now = { 0, 0 };

	return carrier_shared(s) && !s->conn.error &&
	       sys_ppoll(&p, 1, &now, NULL) == 0;
}

/*
 * A program that inherits the descriptor may only happen to: what is unread is
 * also for those that have it, and go on. A copy is for a process that has it no
 * more, or the child of a vfork().
 */
static int dead_exec(struct sock *s, int fd)
{
	bool child = sys_getpid() != sock_pid;
	bool goes = child || fallback_executes;

	if (!child && !holders_several(s) && (goes || !lives_on(s, fd)))
		return standin_take(s, fd);
	return goes ? standin_copy(s, fd) : -ENOTCONN;
}

/*
 * A stand-in ends behind what is unread: only where there is no other way. A
 * peer that closes lets its library go first: the anchor's end follows.
 */
static int dead_handed(struct sock *s, int fd, enum reason why)
{
	if (why == WHY_EXEC)
		return dead_exec(s, fd);
	return why != sock_off && lives_on(s, fd) ? -EAGAIN :
						    standin_take(s, fd);
}

/* The peer's process is gone: nothing can be put back by it. */
static int dead_fallback(struct sock *s, int fd, enum reason why)
{
	uint64_t x = __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);
	int ret;

	if (!s->conn.error)
		pump_poll(s);
	if (s->got.avail || s->ar.kept) {
		bool lifted = anc_state(s->rx) == ANC_LIFTED &&
			      s->ar.taken >= x;

		/* what is kept comes first, stand-in or not */
		if (!lifted)
			anc_ask(s->rx);
		/* it counts by the words what it took off the anchor */
		if (__atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST))
			return -EAGAIN;
		ret = lifted ? 0 : keep_rest(s, fd);
		if (ret)
			return ret;
		return dead_handed(s, fd, why);
	}
	/* what cannot be read any more is no end: receives say a reset */
	if (s->conn.error && !s->conn.dis_rcvd)
		return -ECONNRESET;
	lift_unpaired(s, WHY_CLOSED);
	return 0;
}

/*
 * Of what the writer has put nothing is unread but what lies on the anchor, and
 * it is not about to put anything: so its answer is known (anchor.h, rule 5).
 * It need not run, nor be told: it looks at the state before it puts anything.
 * But a reader of ours that sleeps comes out by its byte or by fallback_rouse()
 * alone, and an epoll set of another process that has the socket by its byte.
 */
static bool answer_known(struct sock *s)
{
	if (__atomic_load_n(&s->waits.watched, __ATOMIC_SEQ_CST) &&
	    holders_several(s))
		return false;
	return carrier_shared(s) && (!s->waits.readers || s->waits.deaf) &&
	       !s->conn.peer_src_count && !s->conn.sink_count &&
	       !anc_answer_for(s->rx, &s->ar);
}

void fallback_rouse(struct sock *s)
{
	if (!carrier_shared(s) || !s->waits.readers || s->waits.deaf ||
	    s->waits.wake < 0 || s->peer_gone ||
	    anc_state(s->rx) != ANC_RECALLED)
		return;
	s->waits.deaf = true;
	s->fallback.pinned = true;
	/* the writer, too, stays on TCP: by the ring no sleeper would hear of it */
	__atomic_store_n(&s->own->ready, 0, __ATOMIC_SEQ_CST);
	sys_shutdown(s->waits.wake, SHUT_RD);
}

static int paused_back(struct sock *s, int fd, bool told);

static int ask(struct sock *s, int fd)
{
	anc_ask(s->rx);
	if (answer_known(s))
		return paused_back(s, fd, false);
	ring_note(s);
	ring_service(s);
	return -EAGAIN;
}

bool fallback_leaver(const struct sock *s)
{
	const struct anc_side *peer = s->peer;
	enum anc_state rx = anc_state(s->rx);

	return s->paired && peer && !s->peer_gone && !user_other(s) &&
	       unlikely(__atomic_load_n(&peer->leaves, __ATOMIC_SEQ_CST) ==
			ANC_LEAVES) &&
	       (rx == ANC_RECALLED || rx == ANC_PAUSED ||
		(rx == ANC_DRAINING &&
		 __atomic_load_n(&s->ar.taken, __ATOMIC_RELAXED) <
			 __atomic_load_n(&s->rx->y, __ATOMIC_ACQUIRE)));
}

void fallback_take_back(struct sock *s, int fd)
{
	if (fd < 0 || s->fallback.falling_back || !fallback_leaver(s))
		return;
	if (anc_state(s->rx) != ANC_DRAINING)
		fallback_abandoned(s, fd);
	else if (!s->conn.error &&
		 !__atomic_load_n(&s->peer->urgent, __ATOMIC_SEQ_CST))
		ask(s, fd);
}

/* Its peer has given the connection away: it puts nothing back. */
static bool has_left(const struct sock *s)
{
	return carrier_shared(s) &&
	       unlikely(__atomic_load_n(&s->peer->leaves, __ATOMIC_SEQ_CST) ==
			ANC_LEFT);
}

/* Behind a stall: on TCP when the ring is passed, else it is asked for. */
static int stalled_back(struct sock *s, int fd, enum reason why)
{
	uint64_t n;
	int where;

	if (pump_poll(s))
		return -ECONNRESET;
	where = tcp_where(s, &n);
	if (where == ANC_AT_ANCHOR)
		return 0;
	if (where == ANC_AT_KICKS &&
	    __atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST))
		return -EAGAIN;
	if (where == ANC_AT_KICKS)
		return keep_kicks(s, fd) < 0 ? -EPROTO : -EAGAIN;
	if (where < 0)
		return -EPROTO;
	if (s->peer_gone)
		return dead_fallback(s, fd, why);
	if (wake_hung_up(s)) {
		lift_peer_gone(s);
		return -EAGAIN;
	}
	/* the writer knows of the stall, or it is not there any more */
	if (!carrier_hears(s))
		return -EBUSY;
	/* the place of urgent data could not be kept */
	if (__atomic_load_n(&s->peer->urgent, __ATOMIC_SEQ_CST) || has_left(s))
		return -EBUSY;
	return ask(s, fd);
}

/* It was asked, and has left: on TCP when all that it had put was read. */
static int unanswered(struct sock *s)
{
	uint64_t n;

	return tcp_where(s, &n) == ANC_AT_ANCHOR ? 0 : -EBUSY;
}

/* `told`: the writer knows that it is PAUSED, and waits. */
static int paused_back(struct sock *s, int fd, bool told)
{
	uint64_t held;
	bool home;
	int ret;

	if (__atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST) ||
	    (carrier_shared(s) &&
	     __atomic_load_n(&s->rx->putting, __ATOMIC_SEQ_CST)))
		return -EAGAIN;
	if (pump_poll(s))
		return -ECONNRESET;
	ret = keep_pull(s, fd);
	if (ret <= 0)
		return ret ? ret : -EAGAIN;
	ret = rdma_give_begin(s);
	if (ret)
		return ret;
	held = s->got.avail + s->ar.kept;
	__atomic_store_n(&s->got.stale, held > 0, __ATOMIC_RELAXED);
	/* a receive that sees RESTORING looks at them */
	s->fallback.handed_at = clock_ns();
	__atomic_store_n(&s->fallback.handed_to, s->ar.taken + held,
			 __ATOMIC_RELAXED);
	home = anc_fall_back(s->rx, &s->ar, s->fallback.kept_at);
	if (!home) {
		__atomic_store_n(&s->fallback.handed_to, s->ar.from + held,
				 __ATOMIC_RELAXED);
		ring_note(s);
	}
	/* for a thread that waits for it: else the peer lifts it again */
	if (home && s->fallback.falling_back)
		fallback_pin(s);
	if (home && !told)
		ring_writer(s); /* one that sleeps for room looks again */
	if (!home || told || s->eos.rx_eof)
		ring_service(s); /* to write back, or for a FIN that is due */
	return home ? 0 : -EAGAIN;
}

/*
 * The writer was gone before all was written back. What came is the beginning
 * of what still lies here: it is dropped there.
 */
static int late_back(struct sock *s, int fd, enum reason why)
{
	int ret = carrier_puts_back(s) ? keep_revive(s, fd) : 0;

	if (ret > 0)
		return dead_fallback(s, fd, why);
	return ret ? ret : -ECONNRESET;
}

/* Lock held: 0 home, -EAGAIN not yet, other: cannot be. */
int fallback_rx(struct sock *s, int fd, enum reason why)
{
	int ret;

	if (marker_waits(s))
		rdma_marker_read(s, fd);
	if (rdma_failing_over(s))
		return -EAGAIN;
	if ((s->fallback.falling_back || carrier_comes_again(s)) &&
	    rdma_silent(s) && rdma_over(s, fd))
		return -EAGAIN;
	switch (anc_state(s->rx)) {
	case ANC_TCP:
		return rdma_unheld(s) ? -EAGAIN : 0;
	case ANC_SWITCHING:
	case ANC_LIFTED:
		if (s->peer_gone)
			return dead_fallback(s, fd, why);
		/* what has come is unread, but for control messages */
		return carrier_shared(s) && pump_poll(s) ? -ECONNRESET :
							   ask(s, fd);
	case ANC_RECALLED:
		if (s->peer_gone)
			return dead_fallback(s, fd, why);
		if (pump_poll(s))
			return -ECONNRESET;
		if (answer_known(s))
			return paused_back(s, fd, true);
		if (has_left(s))
			return unanswered(s);
		/* a writer blocked in the kernel could not answer */
		ret = keep_pull(s, fd);
		ring_service(s);
		return ret < 0 ? ret : -EAGAIN;
	case ANC_PAUSED:
		return s->peer_gone ? dead_fallback(s, fd, why) :
				      paused_back(s, fd, true);
	case ANC_RESTORING:
		if (s->peer_gone)
			return late_back(s, fd, why);
		if (!carrier_puts_back(s))
			return rdma_back_to_tcp(s, fd);
		/* the rest comes when this has been read */
		return __atomic_load_n(&s->rx->brim, __ATOMIC_ACQUIRE) ?
			       0 :
			       -EAGAIN;
	case ANC_DRAINING:
		return stalled_back(s, fd, why);
	default:
		return 0;
	}
}

void fallback_abandoned(struct sock *s, int fd)
{
	enum anc_state rx = anc_state(s->rx);

	if (unlikely(rx == ANC_RECALLED || rx == ANC_PAUSED ||
		     (rx == ANC_RESTORING && s->ar.unsure)) &&
	    (carrier_shared(s) || !s->fallback.falling_back) && !s->peer_gone)
		fallback_rx(s, fd, WHY_NONE);
}
