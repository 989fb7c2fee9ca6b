/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_RAW_H
#define LIBSDP_SOCKET_RAW_H

/*
 * Receives and sends that go to the anchor, counted in and out (raw.c). Part of
 * impl.h, which includes it behind struct sock.
 */

struct rawrx {
	struct sock *s;
	struct anc_dir *d;
	struct anc_dir *held;
};
/* Begin a raw receive / send; false: the direction is not RAW. */
bool raw_rx_enter(struct rawrx *c, struct sock *s);
/*
 * The receive just begun cannot tell bells from bytes, or not come out by one:
 * nothing is paired or switched until it leaves. False: too late.
 */
bool raw_rx_hold(struct rawrx *c);
void raw_rx_leave(struct rawrx *c);

struct rawtx {
	struct sock *s; /* NULL: not inside */
};
bool raw_tx_enter(struct rawtx *c, struct sock *s);
/* The call has returned n, to be counted in (inside or not). */
void raw_tx_done(struct rawtx *c, struct sock *s, ssize_t n);
/*
 * It did not return: cancelled. How many bytes went nobody can say, so nothing
 * of this socket is switched any more.
 */
void raw_tx_lost(struct rawtx *c);

/* Counts out what this thread jumped out of, seen from `frame`. */
void raw_jumped(uintptr_t frame);
void raw_forked(void);
/*
 * How much of n bytes one call may hand to the kernel. Behind a spill the
 * reader may ask for the direction, and the answer waits for that call.
 */
static inline size_t raw_tx_piece(const struct sock *s, size_t n)
{
	const size_t piece = 128 * 1024;

	return n > piece && !s->nonblock && anc_state(s->tx) == ANC_SPILL ?
		       piece :
		       n;
}
/* Account n bytes; false: they were bells, the direction is lifted now. */
bool raw_took(struct sock *s, struct anc_dir *d, ssize_t n, bool peek);
/* Lock held: anc_where(), and the peer is told that a spill was passed. */
int raw_where(struct sock *s, uint64_t *n);
/* The last byte in front of the ring was taken. */
void raw_passed(struct sock *s, struct anc_dir *d);
/* recv() of bells and the like by the library, never asleep. */
ssize_t raw_sink(struct sock *s, int fd, void *buf, size_t n);

#endif
