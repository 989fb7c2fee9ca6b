/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_TRANSPORT_TCP_H
#define LIBSDP_SOCKET_TRANSPORT_TCP_H

/*
 * Receives and sends that go to the anchor, counted in and out (tcp.c).
 */

#include "socket/transport/transport.h"

/* What hooks.recv() or its kin said, negative if an error; errno stays. */
static inline ssize_t tcp_said(ssize_t n, int saved)
{
	if (n < 0) {
		n = -errno;
		errno = saved;
	}
	return n;
}

/* Begin a TCP receive / send; false: the direction is not TCP. */
bool tcp_rx_enter(struct tcp_rx *c, struct sock *s);
/*
 * The receive just begun cannot tell kicks from bytes, or not come out by one:
 * nothing is paired or switched until it leaves. False: too late.
 */
bool tcp_rx_hold(struct tcp_rx *c);
void tcp_rx_leave(struct tcp_rx *c);
/*
 * As tcp_rx_leave(), but the call goes on where the lock is needed: it counts
 * as inside until it has it or is over. In *stays the sock, or NULL. `kick`:
 * what it took may have been one.
 */
void tcp_rx_stay(struct tcp_rx *c, struct sock **stays, bool kick);
void tcp_rx_stayed(struct sock **stays);

/* A process that has it, too, was killed in such a call, or asleep. */
void tcp_abandoned(struct sock *s, enum holder_part part);
/* store.c: as sock_awake(), of another process's thread. */
void sock_awoken(struct sock *s, uint32_t number);
bool tcp_tx_enter(struct tcp_tx *c, struct sock *s);

/*
 * Its place on the anchor could not be put back: the reader asks for nothing.
 */
static inline void tcp_urgent(struct sock *s, int flags)
{
	if ((flags & MSG_OOB) && s->paired)
		__atomic_store_n(&s->own->urgent, 1, __ATOMIC_SEQ_CST);
}

/* The call has returned n, to be counted in (inside or not). */
void tcp_tx_done(struct tcp_tx *c, struct sock *s, ssize_t n);
/*
 * It did not return: cancelled. How many bytes went is not known, so nothing
 * of this socket is switched any more.
 */
void tcp_tx_lost(struct tcp_tx *c);

/*
 * How much of n bytes one call of a sender that may block hands to the kernel.
 * Behind a stall the reader may ask for the direction, and the answer waits for
 * that call; and what is still to be lifted looks for its moment in between.
 */
size_t tcp_tx_piece(const struct sock *s, size_t n, bool nonblock);
/* Account n bytes; false: they were kicks, the direction is lifted now. */
bool tcp_took(struct sock *s, struct anc_dir *d, ssize_t n, bool peek);
/* Lock held: anc_where(), and the peer is told that a stall was passed. */
int tcp_where(struct sock *s, uint64_t *n);
/* The last byte in front of the ring was taken. */
void tcp_passed(struct sock *s, struct anc_dir *d);
/*
 * Lock not held, a receive at the anchor returned n <= 0: did the end of the
 * anchor come by bytes of the queue pair that were not looked at yet? Then they
 * come first.
 */
bool tcp_overtaken(struct sock *s, ssize_t n);
/* A receive that is the kernel's alone: out of band, the error queue. */
ssize_t tcp_answer(int fd, struct msghdr *m, int flags);
/*
 * What the kernel says of the control messages of a send that may go by the
 * ring: 0, or why they are refused.
 */
ssize_t tcp_judged(struct sock *s, int fd, const struct msghdr *m);
/* recv() of kicks and the like by the library, never asleep. */
ssize_t tcp_sink(struct sock *s, int fd, void *buf, size_t n);
/* tcp_sink() of bytes that are not needed: at most n of them, and 256. */
ssize_t tcp_throw(struct sock *s, int fd, uint64_t n);
/* The connection is reset, now or at the latest when it is closed. */
void tcp_abort(int fd);

/*
 * What the kernel said to a call of the library's own at the anchor, a look or
 * a send included: its word on the end of the connection, which it says but
 * once, is kept for the program. Returns n.
 */
static inline ssize_t sock_eats(struct sock *s, ssize_t n)
{
	if (unlikely(n == -ECONNRESET || n == -ETIMEDOUT ||
		     n == -EHOSTUNREACH || n == -ENETUNREACH))
		s->eos.eaten = (uint8_t)-n;
	return n;
}

/*
 * The program gets what was in front of this error, and not the error: its next
 * call is told. Returns n.
 */
static inline ssize_t sock_tells_later(struct sock *s, ssize_t n)
{
	if (sock_eats(s, n) < 0 && s->eos.eaten == -n)
		s->eos.rst_told = false;
	return n;
}

static inline int reset_errno(const struct sock *s)
{
	return s->eos.eaten ? s->eos.eaten : ECONNRESET;
}

/*
 * What this thread is inside of, for a jump out of it (siglongjmp() in a
 * handler): begun before it is counted in, set behind that, and ended before it
 * is counted out. NULL: there is no room, it is not noted.
 */
enum inside_kind { INSIDE_RX, INSIDE_TX, INSIDE_SLEEP };

/* The thread's own; n and dozes are 0 while nothing can have been left. */

#define INSIDE_CALLS 4 /* one in another's handler, and so on */

struct tcp_inside {
	uint32_t n;
	uint32_t dozes; /* socks that it sleeps on in a poll() of the kernel */
	struct inside call[INSIDE_CALLS];
};

extern __thread struct tcp_inside tcp_inside
	__attribute__((tls_model("initial-exec")));

struct inside *inside_begin(enum inside_kind kind, const void *at);

static inline void inside_set(struct inside *in, struct sock *s)
{
	__atomic_store_n(&in->s, s, __ATOMIC_RELEASE);
}

struct inside *inside_of(const void *at); /* NULL: it is not noted */
/*
 * False: it is not noted, or, if it was, it has been counted out by now, or it
 * is for the parent to do so, which came into it.
 */
bool inside_end(const void *at);
/* Counts out what this thread jumped out of, seen from `frame`. */
void tcp_jumped_look(uintptr_t frame);

static inline void tcp_jumped(uintptr_t frame)
{
	if (unlikely(tcp_inside.n | tcp_inside.dozes))
		tcp_jumped_look(frame);
}

/*
 * Is the direction on the ring, as far as s->tx_shown or s->rx_shown knows? A
 * call that is passed by need not count itself in and out; where it was wrong
 * the locked look sends it back with *lifted set, and the second time it is not
 * passed by. Sets *lifted; jumps are noticed as in tcp_rx_enter().
 */
static inline bool tcp_passed_by(bool *lifted, const bool *shown,
				 const void *frame)
{
	bool first = !*lifted;

	tcp_jumped((uintptr_t)frame);
	*lifted = true;
	return first && __atomic_load_n(shown, __ATOMIC_RELAXED);
}

void tcp_forked(void);

/*
 * Both with the lock held. The receive direction is in TCP, or has just become
 * LIFTED and its writer waits for our answer: now anc_rx.base can be known.
 */
void lift_base(struct sock *s, int fd);
void lift_find_strayed(struct sock *s, int fd, uint64_t own);

/*
 * What the kernel gave to receives that never returned (s->strayed) is counted
 * as soon as no thread is inside, but for the caller with `own` bytes, which
 * are not counted yet.
 */
static inline void lift_strayed(struct sock *s, int fd, uint64_t own)
{
	if (unlikely(__atomic_load_n(&s->in.strayed, __ATOMIC_SEQ_CST)))
		lift_find_strayed(s, fd, own);
}

void tcp_strayed(struct sock *s, int fd); /* tcp.c: the lock is not held */
/*
 * Lock held, no thread inside a TCP send and none can begin one. The anchor was
 * just left: anc_tx.base; behind a stall: sends that never returned (s->unsent)
 * are counted. False: that cannot be known.
 */
void lift_sent_base(struct sock *s, int fd);
bool lift_sent(struct sock *s, int fd);

#endif
