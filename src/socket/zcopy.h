/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_ZCOPY_H
#define LIBSDP_SOCKET_ZCOPY_H

/*
 * Zero copy of the socket room (D10): a large blocking send lends its memory
 * to the peer, whose receive reads it straight into the program's buffer.
 * sdp_proto/zcopy.h has the messages, fabric.h who lends and reads.
 *
 * One thread at a time has memory lent, from within its send; it leaves the
 * send only when the memory is its own again. Everything that takes the
 * direction out of the ring (spill, home, half-close, close) takes the memory
 * back first, by zc_recall(): then `sent` counts what was read and no more
 * will be.
 *
 * All with the sock's lock held unless it says otherwise.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sock;
struct cursor;

enum zc_out {
	ZC_NONE,
	ZC_OUT, /* lent */
	ZC_OVER, /* the program's again; its thread has to fetch the count */
};

struct zc {
	uint32_t least; /* smallest send that lends; UINT32_MAX: none does */
	uint32_t wish; /* the program's, if it `asked` */
	bool asked;
	uint8_t out; /* enum zc_out */
	bool rx_off; /* the peer's memory cannot be read */
	bool due; /* something was read: zc_tell() */
	int32_t home; /* the paired process: the peer can read no other's */
	uint32_t owner; /* thread whose memory it is */
	uint32_t rkey, len, done; /* the loan; bytes of it counted as sent */
	uint32_t skip, skips; /* sends to go without, and last time */
};

/* A send that is long enough to be thought about. */
struct zc_send {
	bool lend; /* the way that was chosen */
	uint8_t class;
	uint64_t begun; /* ns, 0: not measured */
};

/* At the pairing. */
void zc_paired(struct sock *s);
/* SDP_ZCOPY_THRESH: bytes, 0: never, -1: as the settings say. */
void zc_threshold(struct sock *s, int wish);

/* --- the writer -------------------------------------------------------- */

/* Which way, for a blocking send of `len` bytes, s->zc.least or more? */
void zc_choose(struct sock *s, size_t len, struct zc_send *z);
/* It is over; `whole`: all of it went by the ring, without an error. */
void zc_chosen(struct zc_send *z, size_t len, bool whole);
/*
 * Lend the rest of the cursor's current vector and wait until it is read, or
 * taken back. *n: bytes that went, the cursor is past them; 0: nothing was
 * begun, go on by copy. Negative errno: why the send has to end (*n counts
 * all the same). Sleeps without the lock; a cancellation point.
 */
int zc_send(struct sock *s, int fd, struct cursor *c, uint64_t deadline,
	    size_t *n);
/* This thread will not return to its send (cancellation). */
void zc_abandon(struct sock *s);
/* What is lent comes back now. */
void zc_recall_slow(struct sock *s);
/*
 * Is every loan answered by the peer? Its service thread is asked if not; the
 * direction must not be lifted again before.
 */
bool zc_settled(struct sock *s);
/* conn_in.freed. 0 or -EPROTO. */
int zc_freed(struct sock *s);

/* --- the reader -------------------------------------------------------- */

/*
 * zc_here(): does a receive of n bytes take them from the peer's memory? If
 * it cannot, by its flags, they are given back.
 */
bool zc_next(struct sock *s, int flags, uint64_t n);
/* Up to n bytes of the peer's memory, the next of the stream; 0: none. */
size_t zc_take(struct sock *s, struct cursor *c, size_t n);
/* The peer shall send by copy what it has lent (MSG_PEEK and the like). */
void zc_refuse(struct sock *s);
/* Send what is due about the peer's loan; wakes whoever waits for it. */
void zc_tell(struct sock *s);
/* Without the lock: the peer took its memory back and waits for a word. */
bool zc_asked(const struct sock *s);
/* The same: we did, and the word was not heard yet. */
bool zc_unanswered(const struct sock *s);
/* Give it, hear it. */
void zc_answer(struct sock *s, int fd);

#endif
