/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_ZCOPY_ZCOPY_H
#define LIBSDP_SOCKET_ZCOPY_ZCOPY_H

/*
 * Zero copy of the socket room (D10): a large blocking send lends its memory
 * to the peer, whose receive reads it straight into the program's buffer; and
 * between hosts a large receive that waits offers its memory, into which a send
 * writes. sdp_proto/zcopy.h has the messages, fabric.h how it is lent and read.
 *
 * One thread at a time has memory lent, from within its send; it leaves the
 * send only when the memory is its own again. Everything that takes the
 * direction out of the ring (stall, home, half-close, close) takes the memory
 * back first, by zc_recall(): once that is true `sent` counts what was read
 * and no more will be. On one host it is at once; between hosts it has to be
 * asked again (zcopy_rdma.c).
 *
 * All with the sock's lock held unless it says otherwise.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "socket/transport/transport.h"

/* A send that is long enough to be thought about. */
struct zc_send {
	bool lend; /* the way that was chosen */
	bool whole; /* the memory was looked at */
	bool passed; /* could not lend just now: a piece by copy */
	bool part; /* bytes of the call have gone: no handler restarts it */
	uint8_t class;
	uint64_t begun; /* ns, 0: not measured */
};

/* --- zcopy.c ----------------------------------------------------------- */

/* At the pairing. */
void zc_paired(struct sock *s);
/* SDP_ZCOPY_THRESH: bytes, 0: never, -1: as the settings say. */
void zc_threshold(struct sock *s, int wish);
/*
 * zc_send() began nothing: with `always`, where programs may count on it, what
 * a source would have found out is found out before the copy, as by
 * iov_still(). True: *err ends the send.
 */
bool zc_torn(struct zc_send *z, const struct cursor *c, size_t done,
	     size_t *len, int *err);
/* This thread will not return to its send (cancellation). */
void zc_abandon(struct sock *s);
/* zc_recall() on one host: true. */
bool zc_recall_ring(struct sock *s);
/*
 * n bytes of the source were read in all, as the peer says; -EPROTO: it lies.
 */
int zc_count(struct sock *s, int64_t n);
/*
 * Is every source answered by the peer? Its service thread is asked if not; the
 * direction must not be lifted again before.
 */
bool zc_settled(struct sock *s);
/* zc_freed() on one host. 0 or -EPROTO. */
int zc_freed_ring(struct sock *s);

/* The peer has lent: that is an arrival, whether bytes came with it or not. */
void zc_offered(struct sock *s);
/*
 * zc_here(): does a receive of n bytes take them from the peer's memory? If
 * it cannot, by its flags, they are given back.
 */
bool zc_next(struct sock *s, int flags, uint64_t n);
/* Up to n bytes of the peer's memory, the next of the stream; 0: none. */
size_t zc_take(struct sock *s, struct cursor *c, size_t n);
/* The peer shall send by copy what it has lent (MSG_PEEK and the like). */
void zc_refuse(struct sock *s);
/*
 * Send what is due about the peer's source; wakes a thread that waits for it.
 */
void zc_tell(struct sock *s);
/* Without the lock: the peer took its memory back and waits for a word. */
bool zc_asked(const struct sock *s);
/* The same: we did, and the word was not heard yet. */
bool zc_unanswered(const struct sock *s);
/* Give it, hear it. */
void zc_answer(struct sock *s, int fd);

/* --- zcopy_way.c ------------------------------------------------------- */

/* May the peer's memory not be tried at all? */
bool zc_barred(const struct sock *s);
/* Which way, for a blocking send of `len` bytes, s->zc.least or more? */
void zc_choose(struct sock *s, size_t len, struct zc_send *z);
/* It is over; `whole`: all of it went by the ring, without an error. */
void zc_chosen(struct zc_send *z, size_t len, bool whole);

/* --- zcopy_rdma.c ------------------------------------------------------ */

/* It is back now, whatever that costs (RDMA: the queue pair). */
void zc_seize(struct sock *s);
/* The smallest send that lends, registering counted in. */
uint32_t zcr_least(const struct sock *s, uint32_t least);
/* Can a source be lost without harm now? */
bool zcr_may(struct sock *s);
/* The device did not take memory; counted, and said once. */
void zc_unregistered(struct sock *s, int err);
/* As zc_freed(), and reports before that: before words are looked at. */
int zcr_freed(struct sock *s);
int zcr_reported(struct sock *s);
bool zcr_recall(struct sock *s);
/*
 * The queue pair is given up: bytes that are lent; copy them, counted
 * as sent; the region goes.
 */
size_t zcr_left(const struct sock *s);
bool zcr_sent(struct sock *s, uint8_t *to); /* false: it is not there */
void zcr_over(struct sock *s);
/* Bytes, lent or not, that a queue pair has not seen acknowledged; it polls. */
size_t zcr_unacked(struct sock *s);
/* So long a source waits without a report. */
uint64_t zcr_patience_ns(void);

/* --- zread_rdma.c ------------------------------------------------------ */

/* The peer lends: gives it back at once if the program will not read it. */
void zcr_offered(struct sock *s);
/*
 * Reads the next bytes of what is lent into the program's memory, n at most,
 * and waits for them: how many, accounted for in the machine. Less may be a
 * broken queue pair: it is given up by zcr_broke(), or, when those bytes are
 * counted as taken, by zcr_took(), which is called behind all that is received.
 */
size_t zcr_read(struct sock *s, void *to, size_t n);
void zcr_broke(struct sock *s);
void zcr_took(struct sock *s);
/* So much at once, since it is waited for with the lock held. */
size_t zcr_read_most(const struct sock *s);
/* This operation is done, or the queue pair is given up over it: *d. */
void zcr_completion(struct sock *s, uint64_t id, struct fab_done *d);

/* --- zsink_rdma.c ------------------------------------------------------ */

/*
 * The writer. Up to `len` bytes go into the peer's sink: they are out
 * (s->zc.out, `wrote`) until the peer has heard of them. False: none do.
 */
bool zcw_put(struct sock *s, const uint8_t *at, size_t len);
int zcw_heard(struct sock *s); /* as zcr_reported() */
void zcw_done(struct sock *s); /* it is over, if it was heard of */
void zcw_over(struct sock *s); /* as zcr_over() */
/*
 * Is no sink held that was offered before the direction left the queue pair?
 * Its reader may have come out since, and takes it back.
 */
bool zcw_left(const struct sock *s);
/* It goes into sinks: let the peer offer them, see if one is there. */
void zc_prefer(struct sock *s);
/* It goes by copy, or is to be read: sinks would be in the way. */
void zc_decline(struct sock *s);
/* zc_may_sink(), for receives that are long enough. */
bool zc_would_sink(struct sock *s, const struct cursor *c);
/* May the reader offer memory now, and how much at once? */
bool zcr_may_sink(struct sock *s);
uint32_t zcr_sink_piece(size_t len);
int zcr_sunk(struct sock *s, const struct conn_freed *f);
void zcr_sink_over(struct sock *s); /* the queue pair is given up */
/* This thread will not return to its receive (cancellation). */
void zc_abandon_sink(struct sock *s);
/* Lock held: is what is on offer, or was and is over, of this thread? */
bool zc_sink_mine(const struct sock *s);
/*
 * What came into it; void now. The sink that is out comes back; `wait`: the
 * lock is let go of for a while, else the queue pair is given up if there is no
 * answer yet.
 */
size_t zc_sink_finish(struct sock *s, bool wait);

/* --- what hot paths ask --------------------------------------------------- */

#include "socket/zcopy/zc_rdma.h"

/* May a receive that has to wait for n bytes here offer its memory? */
static inline bool zc_may_sink(struct sock *s, const struct cursor *c,
			       uint64_t n)
{
	return unlikely(n >= s->zc.least) && zc_would_sink(s, c);
}

/* pump_recv(), or what the peer has lent. */
static inline ssize_t zc_recv(struct sock *s, struct cursor *c, size_t n,
			      int flags)
{
	if (zc_here(s) && zc_next(s, flags, n))
		return (ssize_t)zc_take(s, c, n);
	return pump_recv(s, c, n, flags & MSG_PEEK, flags & MSG_TRUNC);
}

#endif
