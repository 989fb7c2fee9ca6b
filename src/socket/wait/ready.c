/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Readiness (D6): what user space knows better than the kernel. FIN, RST and
 * hang-ups are always the kernel's, since the anchor shows them truly; data
 * are ours while the ring is where they come from, room is ours while the
 * ring is where they go to.
 */

#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "base/settle.h"
#include "socket/wait/wait.h"

#define IN_BITS	 (EPOLLIN | EPOLLRDNORM)
#define OUT_BITS (EPOLLOUT | EPOLLWRNORM)

static bool kernel_has(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec now = { 0, 0 };

	return sys_ppoll(&p, 1, &now, NULL) > 0;
}

/* Stream bytes up to `there` have come: more than at the last look is an edge. */
static void arrived(struct sock *s, uint64_t there)
{
	uint64_t *seen = &s->fallback.queue_seen; /* tcp_passed() has no lock */

	if (there > __atomic_exchange_n(seen, there, __ATOMIC_RELAXED))
		__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
}

/*
 * In front of the ring's bytes the anchor's own edges do not count (the entry
 * stands for kicks, too): what arrived since the last look is one.
 */
static void queue_edge(struct sock *s, int fd)
{
	uint64_t there = s->ar.taken + s->ar.kept;
	int n = 0;

	if (!sys_ioctl(fd, FIONREAD, &n) && n > 0)
		there += (uint64_t)n;
	arrived(s, there);
}

/*
 * The writer has left the ring, and bytes of it are unread still: what arrives
 * on the anchor behind them is an edge. Kicks are none.
 */
static void stall_edge(struct sock *s, int fd)
{
	uint64_t there = s->ar.taken + s->got.avail;
	int64_t kicks = anc_kicks(s->rx, &s->ar);
	int n = 0;

	if (sys_ioctl(fd, FIONREAD, &n) || kicks < 0 || n <= kicks)
		return;
	there += (uint64_t)(n - kicks);
	arrived(s, there);
}

static void ready_in(struct sock *s, int fd, struct sock_ready *r)
{
	uint64_t n;
	int where = tcp_where(s, &n);

	if (where == ANC_AT_KICKS &&
	    (__atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST) ||
	     __atomic_load_n(&s->in.strayed, __ATOMIC_SEQ_CST))) {
		r->ms = 1; /* a thread may hold one uncounted */
	} else if (where == ANC_AT_KICKS && s->ar.unsure) {
		r->ms = 1; /* the writer has not said yet that it knows */
	} else if (where == ANC_AT_KICKS &&
		   (marker_waits(s) || rdma_failing_over(s))) {
		rdma_marker_read(s, fd);
		r->ms = 1;
	} else if (where == ANC_AT_KICKS &&
		   anc_kicks(s->rx, &s->ar) == (int64_t)n) {
		ssize_t got = tcp_throw(s, fd, n);

		if (got > 0)
			s->ar.kicks += (uint64_t)got;
		where = tcp_where(s, &n);
		if (where == ANC_AT_KICKS)
			r->ms = 1; /* the last kick is still on its way */
	}
	/* what comes by the ring is an edge, before x is passed as well */
	if (where == ANC_AT_ANCHOR && anc_state(s->rx) == ANC_SWITCHING)
		where = ANC_AT_QUEUE;
	if (where == ANC_AT_ANCHOR) {
		rdma_passed(s);
		if (unlikely(s->eos.rx_ended) && !s->peer_gone) {
			r->ours |= IN_BITS; /* before the kernel's FIN, too */
			r->now |= IN_BITS;
		}
		return;
	}
	r->ours |= IN_BITS;
	if (where == ANC_AT_QUEUE) {
		pump_poll(s);
		queue_edge(s, fd);
		if (s->ar.kept || kernel_has(fd))
			r->now |= IN_BITS;
		else
			r->ms = 1; /* on its way: it was sent before */
		return;
	}
	if (where < 0)
		pump_fail(s, where);
	else
		pump_poll(s); /* unread data or not: each arrival is an edge */
	if (unlikely(anc_state(s->rx) == ANC_DRAINING) && carrier_shared(s))
		stall_edge(s, fd);
	/* before it is said what there is: it may be what the marker hid */
	if (marker_waits(s))
		rdma_marker_read(s, fd);
	if (s->got.avail || s->conn.error || s->eos.shut_rd || zc_here(s) ||
	    (s->eos.rx_eof && !carrier_comes_again(s)))
		r->now |= IN_BITS;
	else if (s->peer_gone)
		r->ours &= ~(uint32_t)IN_BITS; /* the anchor's FIN tells */
	else
		ring_kicks(s, fd);
	/* a marker among them shows what lay behind it */
	if (unlikely(s->got.avail))
		r->now |= IN_BITS;
}

/*
 * The peer's library is gone. The kernel's word counts, but for kicks it left
 * unread: they make the kernel show a reset where TCP would show an end.
 */
static void ready_peer_gone(struct sock *s, int fd, struct sock_ready *r)
{
	const uint32_t all = IN_BITS | OUT_BITS | EPOLLRDHUP | EPOLLPRI |
			     EPOLLERR | EPOLLHUP;
	bool lost = was_reset(s);
	struct pollfd p = { .fd = fd, .events = (short)(all & 0x7fff) };
	struct timespec now = { 0, 0 };

	if (sys_ppoll(&p, 1, &now, NULL) < 0)
		return;
	p.revents = settled(fd, p.events, p.revents);
	lost = lost || carrier_torn(s, p.revents);
	if (anc_state(s->rx) == ANC_TCP ||
	    (anc_state(s->rx) == ANC_DRAINING && !s->got.avail)) {
		/* the anchor carries the rest: only a reset it cannot show */
		if (lost && !s->eos.rst_told && tx_by_ring(s) &&
		    (p.revents & (POLLRDHUP | POLLHUP))) {
			r->ours |= EPOLLERR | EPOLLHUP;
			r->now |= EPOLLERR | EPOLLHUP;
		}
		return;
	}
	r->ours = all;
	r->now |= (uint16_t)p.revents & all;
	if (!(r->now & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))) {
		r->ms = 1; /* its FIN follows within microseconds */
		if (!s->got.avail && anc_state(s->rx) == ANC_LIFTED)
			r->now &= ~(uint32_t)IN_BITS; /* kicks */
		return;
	}
	r->now |= IN_BITS | OUT_BITS | EPOLLRDHUP;
	if (lost && !s->eos.rst_told)
		r->now |= EPOLLERR | EPOLLHUP;
	else if (lost)
		r->now |= EPOLLHUP;
	else if (!s->eos.shut_wr && !s->eos.epipe)
		r->now &= ~(uint32_t)(EPOLLERR | EPOLLHUP);
}

/* All of a reset, though the kernel may hear of it later. */
static void ready_failed(const struct sock *s, struct sock_ready *r)
{
	const uint32_t all = IN_BITS | OUT_BITS | EPOLLRDHUP | EPOLLHUP;

	r->ours |= all | EPOLLERR;
	r->now |= all;
	if (!s->eos.rst_told)
		r->now |= EPOLLERR;
}

/* The kernel shows what it told to us no more. */
static void ready_eaten(const struct sock *s, struct sock_ready *r)
{
	uint32_t marks = EPOLLERR;

	/* unreachable hosts may come back */
	if (s->eos.eaten == ECONNRESET || s->eos.eaten == ETIMEDOUT)
		marks |= EPOLLHUP;
	r->ours |= marks;
	r->now |= marks;
}

/*
 * The peer has closed or shut down, or the program has: the kernel's marks come
 * along. It hears of both ends late (close.c), and then hangs up late.
 */
static void ready_ending(struct sock *s, int fd, struct sock_ready *r)
{
	const short marks = POLLERR | POLLHUP | POLLRDHUP | POLLPRI;
	struct pollfd p = { .fd = fd, .events = POLLRDHUP | POLLPRI };
	struct timespec now = { 0, 0 };

	if (sys_ppoll(&p, 1, &now, NULL) <= 0)
		p.revents = 0;
	p.revents = settled(fd, p.events, p.revents);
	if (s->eos.shut_wr &&
	    (s->eos.rx_eof || s->eos.shut_rd || (p.revents & POLLRDHUP)))
		p.revents |= POLLHUP | POLLRDHUP; /* never alone */
	r->ours |= (uint32_t)(uint16_t)(p.revents & marks);
	r->now |= (uint32_t)(uint16_t)(p.revents & marks);
}

/*
 * The FIN of a process that was killed is here before the end of its queue pair
 * and what lies in front of both: an end is readable, or it is none yet.
 */
static void ready_killed(struct sock *s, int fd, struct sock_ready *r)
{
	if ((r->now & IN_BITS) || !(r->ours & EPOLLIN) ||
	    !carrier_hides_fin(s, fd))
		return;
	r->ours |= EPOLLRDHUP | EPOLLHUP | EPOLLERR;
	r->ms = 1;
}

/* A ring that stays full is left for the anchor after a while (4.5). */
static void stalled(struct sock *s, int fd, struct sock_ready *r)
{
	uint64_t now = clock_ns(), limit = wait_full(s, now);

	if (window_waits(s, true)) {
		r->ms = WAIT_ENDED_MS;
		return;
	}
	if (now >= limit && !lift_stall(s, fd, WHY_STALLED, false)) {
		if (likely(!s->fallback.stand))
			r->ours &= ~(uint32_t)OUT_BITS;
		else
			r->ms = 1; /* the anchor has room, and is not free */
		return;
	}
	r->ms = now < limit ? (int)((limit - now) / 1000000u) + 1 : 1;
}

bool sock_promise(struct sock *s)
{
	bool ok = true;

	if (carrier_room_stays(s) || sock_lock(s))
		return true;
	if (!carrier_room_stays(s) && s->paired && sock_here(s) &&
	    tx_by_ring(s) && !s->conn.error && !s->peer_gone &&
	    !s->eos.shut_wr) {
		ok = pump_roomy(s);
		if (ok)
			carrier_promise(s);
		else
			wait_full(s, clock_ns());
	}
	sock_unlock(s);
	return ok;
}

/*
 * The program has ended its direction, and the kernel, which will call the
 * anchor writable for that, is yet to hear of it.
 */
static bool out_ended(const struct sock *s)
{
	enum anc_state tx = anc_state(s->tx);

	return s->eos.fin_due || (s->eos.shut_wr && tx != ANC_DRAINING &&
				  tx != ANC_TCP && tx != ANC_GONE);
}

static void ready_out(struct sock *s, int fd, uint32_t asks,
		      struct sock_ready *r)
{
	if (unlikely(out_ended(s)) && !s->peer_gone) {
		r->ours |= OUT_BITS;
		r->now |= OUT_BITS;
		return;
	}
	switch (anc_state(s->tx)) {
	case ANC_SWITCHING:
	case ANC_LIFTED:
		break;
	case ANC_DRAINING:
		if (unlikely(s->fallback.stand) && !s->peer_gone &&
		    !s->eos.shut_wr) {
			r->ours |= OUT_BITS;
			r->ms = 1;
		}
		return;
	case ANC_TCP:
	case ANC_GONE:
		return;
	default:
		r->ours |= OUT_BITS;
		r->ms = 5;
		return;
	}
	if (s->peer_gone)
		return;
	r->ours |= OUT_BITS;
	if (s->conn.error) {
		r->now |= OUT_BITS;
		return;
	}
	carrier_report(s); /* what is due does not count as room */
	if (!pump_roomy(s)) {
		/* ask to be rung, then look once more */
		__atomic_store_n(&s->tx->wait, 1, __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		pump_poll(s);
	}
	if (pump_roomy(s)) {
		if (s->waits.full) {
			s->waits.full = false;
			__atomic_add_fetch(&s->waits.out_gen, 1,
					   __ATOMIC_RELAXED);
		}
		if ((asks & OUT_BITS) && !(asks & EPOLLET))
			carrier_promise(s);
		r->now |= OUT_BITS;
	} else {
		stalled(s, fd, r);
	}
}

/* Bytes are next that travel by the anchor, and may be under way. */
static bool in_front(const struct sock *s)
{
	return anc_state(s->rx) != ANC_LIFTED &&
	       s->ar.taken < __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);
}

void sock_ready(struct sock *s, int fd, uint32_t asks, struct sock_ready *r)
{
	bool changed = false;
	enum anc_state rx, tx;

	*r = (struct sock_ready){ .ms = -1 };
	if (!s->paired || sock_lock(s))
		return;
	if (unlikely(user_other(s)) && sock_here(s) && user_asks(s)) {
		r->ours = IN_BITS | OUT_BITS; /* once it is on TCP */
		r->ms = 1;
	} else if (s->paired && sock_here(s)) {
		fd = sock_at(s, fd);
		rx = anc_state(s->rx);
		tx = anc_state(s->tx);
		rdma_looked(s);
		fallback_serve(s, fd);
		fallback_abandoned(s, fd);
		ready_in(s, fd, r);
		/* unread bytes or none, as a FIN, once all of them are here */
		if (s->eos.rx_eof && (r->now & IN_BITS) && !in_front(s)) {
			r->ours |= EPOLLRDHUP;
			r->now |= EPOLLRDHUP;
		}
		ready_out(s, fd, asks, r);
		if (s->peer_gone)
			ready_peer_gone(s, fd, r);
		else if (unlikely(anc_state(s->rx) == ANC_DRAINING ||
				  anc_state(s->tx) == ANC_GONE ||
				  s->eos.rx_eof || s->eos.fin_due ||
				  (s->eos.shut_wr && s->eos.shut_rd)))
			ready_ending(s, fd, r);
		else if (carrier_end_doubtful(s, asks & EPOLLRDHUP))
			ready_killed(s, fd, r);
		if (s->conn.error)
			ready_failed(s, r);
		if (s->eos.eaten && !s->eos.rst_told)
			ready_eaten(s, r);
		changed = rx != anc_state(s->rx) || tx != anc_state(s->tx);
	}
	r->in_gen = s->waits.in_gen;
	r->out_gen = s->waits.out_gen;
	r->since = s->waits.in_since;
	r->news = s->waits.in_news;
	sock_unlock(s);
	if (changed)
		sock_changed(s);
}

int sock_wake_fd(const struct sock *s)
{
	return s->paired && !__atomic_load_n(&s->peer_gone, __ATOMIC_ACQUIRE) ?
		       s->waits.wake :
		       -1;
}

/*
 * A sleeper is counted first (sock_watch, sleepers), then arms under the
 * lock: so sock_disarm() never takes away what another has just set.
 */
void sock_arm(struct sock *s, bool in, bool out)
{
	bool locked;

	if (!s->paired)
		return;
	locked = !sock_lock(s);
	if (likely(s->paired && sock_here(s))) {
		if (in)
			anc_arm(s->rx, ANC_WAKE);
		/*
		 * what was left to an answer, before the answering thread
		 * sleeps
		 */
		if (locked && in)
			carrier_report(s);
		if (locked && (in || out))
			rdma_arm(s);
		if (out)
			__atomic_store_n(&s->tx->wait, 1, __ATOMIC_SEQ_CST);
	}
	if (locked)
		sock_unlock(s);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void sock_disarm(struct sock *s)
{
	if (!s->paired || sock_lock(s))
		return;
	if (s->paired && sock_here(s) &&
	    (__atomic_load_n(&s->rx->armed, __ATOMIC_RELAXED) & ANC_WAKE) &&
	    !__atomic_load_n(&s->waits.watched, __ATOMIC_SEQ_CST) &&
	    !__atomic_load_n(&s->waits.sleepers, __ATOMIC_SEQ_CST))
		__atomic_and_fetch(&s->rx->armed, ~(uint32_t)ANC_WAKE,
				   __ATOMIC_SEQ_CST);
	sock_unlock(s);
}

void sock_watch(struct sock *s, int delta)
{
	__atomic_add_fetch(&s->waits.watched, (uint32_t)delta,
			   __ATOMIC_SEQ_CST);
}
