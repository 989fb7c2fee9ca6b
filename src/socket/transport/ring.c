/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Kicks and wake-up bytes.
 *
 * Wake-up bytes are numbered: a ringing thread raises `rung` after the send. A
 * thread that wants to take bytes off the wake-up socket first notes the
 * number (ring_mark), then arms, then finds nothing to do, and only then eats
 * the bytes up to that number (ring_eat). A byte that rang later stays, so
 * every other sleeper comes out by it; a sleeper that stays in the kernel
 * because its byte was eaten had nothing to do (anchor.md 2.4, 5.1).
 *
 * A writer may lose the processor between send and number: the byte that woke
 * a sleeper counts as rung then (s->rung_seen), else it would wake that
 * sleeper again and again until the writer's turn comes.
 */

#include "socket/transport/transport.h"

#define PILE 64

static void wake_peer(struct sock *s)
{
	static const char byte;

	if (s->link) {
		s->link->tell(s, false);
		return;
	}
	/* EAGAIN: 278 unread bytes, no thread can be asleep */
	if (s->waits.wake >= 0 &&
	    sys_send(s->waits.wake, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
		__atomic_add_fetch(&s->own->rung, 1, __ATOMIC_RELEASE);
	COUNT(s, wakeups, 1);
}

#define OWED_NS 1000000u

void ring_kick_owed(struct sock *s)
{
	__atomic_store_n(&s->fallback.kick_owed, true, __ATOMIC_RELAXED);
	anc_arm(s->tx, ANC_ANCHOR);
	service_by(clock_ns() + OWED_NS);
}

/* One kick, as send() with `flags`; false: not now. */
static bool strike(struct sock *s, int fd, int flags)
{
	static const char byte;
	bool ok;

	if (!anc_may_kick(s->tx, &s->at))
		return false;
	ring_put_begin(s);
	ok = anc_may_kick(s->tx, &s->at);
	if (ok) {
		anc_kick(s->tx, &s->at);
		ok = sock_eats(s, sys_send(fd, &byte, 1,
					   MSG_DONTWAIT | MSG_NOSIGNAL |
						   flags)) == 1;
		if (!ok)
			__atomic_store_n(&s->tx->kicks, --s->at.kicks,
					 __ATOMIC_SEQ_CST);
	}
	ring_put_end(s);
	return ok;
}

static void kick(struct sock *s, int fd)
{
	static const char byte;

	if (fd < 0)
		return;
	if (s->link) {
		/* told when it is written: the reader knows of no other */
		if (!s->link->may_kick(s))
			anc_arm(s->tx, ANC_ANCHOR);
		else if (sock_eats(s, sys_send(fd, &byte, 1,
					       MSG_DONTWAIT | MSG_NOSIGNAL)) ==
			 1)
			anc_kick(s->tx, &s->at);
		s->link->tell(s, false);
		return;
	}
	if (!strike(s, fd, 0) && anc_may_kick(s->tx, &s->at) && !s->peer_gone)
		ring_kick_owed(s);
}

/*
 * A kick for our program's own sake: sent with MSG_ZEROCOPY, it puts the
 * notification of one send into the error queue of the anchor.
 */
int ring_told(struct sock *s, int fd)
{
	if (s->link || fd < 0)
		return -ENOSPC;
	return strike(s, fd, MSG_ZEROCOPY) ? 0 : -EAGAIN;
}

void ring_reader(struct sock *s, int fd)
{
	uint32_t who = anc_ring(s->tx);

	if (likely(!who))
		return;
	if (who & ANC_WAKE)
		wake_peer(s);
	if (!(who & ANC_ANCHOR))
		return;
	s->fallback.kick_owed = false;
	if (anc_may_kick(s->tx, &s->at))
		kick(s, fd);
}

void ring_writer(struct sock *s)
{
	uint32_t wait;

	if (unlikely(s->zc.due)) { /* comes back here */
		reports.zc_due(s);
		return;
	}
	if (unlikely(s->link)) {
		s->link->took(s);
		return;
	}
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	wait = __atomic_load_n(&s->rx->wait, __ATOMIC_RELAXED);
	if (likely(!wait) || (wait == ANC_WAIT_LENT && zc_here(s)))
		return;
	if (__atomic_exchange_n(&s->rx->wait, 0, __ATOMIC_SEQ_CST))
		wake_peer(s);
}

void ring_note(struct sock *s)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	__atomic_and_fetch(&s->tx->armed, ~(uint32_t)ANC_WAKE,
			   __ATOMIC_SEQ_CST);
	wake_peer(s);
}

void ring_service(struct sock *s)
{
	uint64_t id = __atomic_load_n(&s->peer->service, __ATOMIC_ACQUIRE);

	if (s->link)
		s->link->tell(s, true);
	else if (id)
		service_poke(id);
}

uint32_t ring_mark(struct sock *s)
{
	uint32_t mark = __atomic_load_n(&s->peer->rung, __ATOMIC_ACQUIRE);

	return (int32_t)(s->waits.rung_seen - mark) > 0 ? s->waits.rung_seen :
							  mark;
}

void ring_eat(struct sock *s, uint32_t mark)
{
	char sink[64];

	/*
	 * A full wake-up socket (278 bytes) takes no more, and a thread that
	 * rings then has cleared `armed` for nothing. So of a pile one byte
	 * stays: its reader comes out once more, looks again and eats it last.
	 */
	if ((int32_t)(mark - s->waits.rung_eaten) >= PILE)
		mark--;
	while ((int32_t)(mark - s->waits.rung_eaten) > 0 &&
	       s->waits.wake >= 0) {
		uint32_t want = mark - s->waits.rung_eaten;
		ssize_t n;

		if (want > sizeof(sink))
			want = sizeof(sink);
		n = sys_recv(s->waits.wake, sink, want, MSG_DONTWAIT);
		if (n <= 0) {
			/* counted but never there: the peer lies, or died */
			s->waits.rung_eaten = mark;
			break;
		}
		s->waits.rung_eaten += (uint32_t)n;
	}
}

/*
 * A writer's thread, or one that only polled, finds bytes on the wake-up
 * socket. They may be news for a reader that has not come out yet.
 */
bool ring_may_eat(struct sock *s)
{
	if (!s->waits.readers &&
	    !__atomic_load_n(&s->waits.asleep_anchor, __ATOMIC_SEQ_CST) &&
	    !__atomic_load_n(&s->waits.watched, __ATOMIC_SEQ_CST))
		return true;
	anc_arm(s->rx, ANC_WAKE);
	if (fab_pending(s) || s->got.avail || s->eos.rx_eof || zc_here(s))
		return false;
	return !s->waits.readers || anc_state(s->rx) == ANC_LIFTED;
}

void ring_ask_kick(struct sock *s)
{
	const struct link_ops *link = sock_link(s);

	if (!s->paired ||
	    (!__atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST) &&
	     !__atomic_load_n(&s->waits.asleep_anchor, __ATOMIC_SEQ_CST)))
		return;
	anc_arm(s->rx, ANC_ANCHOR);
	if (link && !lock_try(&s->lock)) {
		link->tell(s, false);
		sock_unlock(s);
	} else if (!link) {
		ring_service(s);
	}
}

bool wake_hung_up(const struct sock *s)
{
	/* of one that we have shut our own end shows that, too */
	const bool shut = s->waits.deaf || s->eos.shut_rd;
	const short gone = POLLHUP | POLLERR | (shut ? 0 : POLLRDHUP);
	struct pollfd p = { .fd = s->waits.wake, .events = POLLRDHUP };
	struct timespec now = { 0, 0 };

	/* not by a receive: bytes may still lie in front of the end */
	return s->waits.wake >= 0 && sys_ppoll(&p, 1, &now, NULL) == 1 &&
	       (p.revents & gone);
}
