/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_ZCOPY_H
#define LIBSDP_SOCKET_ZCOPY_H

/*
 * Zero copy of the socket room (D10): a large blocking send lends its memory
 * to the peer, whose receive reads it straight into the program's buffer; and
 * a large receive that waits offers its memory, into which a send writes.
 * sdp_proto/zcopy.h has the messages, fabric.h who lends and reads.
 *
 * One thread at a time has memory lent, from within its send; it leaves the
 * send only when the memory is its own again. Everything that takes the
 * direction out of the ring (spill, home, half-close, close) takes the memory
 * back first, by zc_recall(): once that is true `sent` counts what was read
 * and no more will be. On one host it is at once; between hosts it has to be
 * asked again (zcopy_rdma.c).
 *
 * All with the sock's lock held unless it says otherwise.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sock;
struct cursor;
struct conn_op;
struct fab_done;

enum zc_out {
	ZC_NONE,
	ZC_OUT, /* lent */
	ZC_OVER, /* the program's again; its thread has to fetch the count */
};

struct zc {
	size_t least; /* smallest send that lends; SIZE_MAX: none does */
	uint32_t wish; /* the program's, if it `asked` */
	bool asked;
	uint8_t out; /* enum zc_out */
	bool rx_off; /* the peer's memory cannot be read */
	bool due; /* something was read: zc_tell() */
	int32_t home; /* the paired process: the peer can read no other's */
	uint32_t owner; /* thread whose memory it is */
	uint32_t rkey, len, done; /* the loan; bytes of it counted as sent */
	uint32_t skip, skips; /* sends to go without, and last time */
	uint32_t files; /* atomic: threads that send a file */
	bool alone; /* `always`: the reader did not come, */
	uint64_t alone_at; /* when it had taken so much */
	/* between hosts */
	const uint8_t *mem; /* what is lent; good in `home` only */
	uint64_t back_at; /* asked back since, 0: not */
	uint64_t reads; /* number of the last RDMA operation */
	uint64_t pace; /* ns that the last turn took for a KiB; 0: not known */
	int broke; /* why the queue pair has to be given up, or 0 */
	bool wrote; /* what is out was written into the peer's sink */
	uint64_t writing; /* number of the RDMA Write that is not done, or 0 */
	bool tx_off; /* the peer's memory cannot be written */
	uint8_t sink; /* enum zc_out, of memory that the peer may write */
	bool sink_asked; /* the machine has not given it back yet */
	uint32_t sink_owner; /* thread whose memory it is */
	uint32_t sink_key, sink_len, got; /* bytes that came in the last one */
	uint32_t sink_skip, sink_skips; /* receives to go without */
	uint32_t awake, awakes; /* reads to look for from the beginning */
};

/* A send that is long enough to be thought about. */
struct zc_send {
	bool lend; /* the way that was chosen */
	bool whole; /* the memory was looked at */
	bool passed; /* could not lend just now: a piece by copy */
	bool part; /* bytes of the call have gone: no handler restarts it */
	uint8_t class;
	uint64_t begun; /* ns, 0: not measured */
};

/* At the pairing. */
void zc_paired(struct sock *s);
/* SDP_ZCOPY_THRESH: bytes, 0: never, -1: as the settings say. */
void zc_threshold(struct sock *s, int wish);

/* --- the writer -------------------------------------------------------- */

/* May the peer's memory not be tried at all? */
bool zc_barred(const struct sock *s);
/* Which way, for a blocking send of `len` bytes, s->zc.least or more? */
void zc_choose(struct sock *s, size_t len, struct zc_send *z);
/* It is over; `whole`: all of it went by the ring, without an error. */
void zc_chosen(struct zc_send *z, size_t len, bool whole);
/*
 * Lend the rest of the cursor's current vector and wait until it is read, or
 * taken back. True: the lock was let go; *n: bytes that went, perhaps none, the
 * cursor is past them; *err: why the send has to end; z->lend: is another worth
 * it? False: nothing was begun, go on by copy. Sleeps without the lock, with
 * its signals put off (hush.h); a cancellation point.
 */
bool zc_send(struct sock *s, int fd, struct cursor *c, struct zc_send *z,
	     uint64_t deadline, size_t *n, int *err);
/*
 * zc_send() began nothing: with `always`, where programs may count on it, what
 * a loan would have found out is found out before the copy, as by iov_still().
 * True: *err ends the send.
 */
bool zc_torn(struct zc_send *z, const struct cursor *c, size_t done,
	     size_t *len, int *err);
/* This thread will not return to its send (cancellation). */
void zc_abandon(struct sock *s);
/* What is lent comes back; false: it is asked for, ask again. */
bool zc_recall_slow(struct sock *s);
/* n bytes of the loan were read in all, as the peer says; -EPROTO: it lies. */
int zc_count(struct sock *s, int64_t n);
/* It is back now, whatever that costs (RDMA: the queue pair). */
void zc_seize(struct sock *s);
/*
 * Is every loan answered by the peer? Its service thread is asked if not; the
 * direction must not be lifted again before.
 */
bool zc_settled(struct sock *s);
/* conn_in.freed. 0 or -EPROTO. */
int zc_freed(struct sock *s);
/* It goes into sinks: let the peer offer them, see if one is there. */
void zc_prefer(struct sock *s);
/* It goes by copy, or is to be read: sinks would be in the way. */
void zc_decline(struct sock *s);
/*
 * Up to `len` bytes of the cursor into the peer's sink; how many went. The
 * program's memory is read within the call: any send may.
 */
size_t zc_write(struct sock *s, int fd, struct cursor *c, size_t len);

/* --- the reader -------------------------------------------------------- */

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
/* Send what is due about the peer's loan; wakes whoever waits for it. */
void zc_tell(struct sock *s);
/* Without the lock: the peer took its memory back and waits for a word. */
bool zc_asked(const struct sock *s);
/* The same: we did, and the word was not heard yet. */
bool zc_unanswered(const struct sock *s);
/* Give it, hear it. */
void zc_answer(struct sock *s, int fd);

/* zc_may_sink(), for receives that are long enough. */
bool zc_would_sink(struct sock *s, const struct cursor *c);
/*
 * wait_rx() in LIFTED, with up to `len` bytes of the cursor's current vector
 * offered to the writer: bytes that lie there now, the cursor behind them, and
 * accounted; 0: look again; negative errno. The memory is the program's again
 * then, however long the writer is stopped. A cancellation point.
 */
ssize_t zc_wait(struct sock *s, int fd, struct cursor *c, size_t len,
		uint64_t until, bool part);
/* This thread will not return to its receive (cancellation). */
void zc_abandon_sink(struct sock *s);
/* The machine gives a sink back. 0 or -EPROTO. */
struct conn_freed;
int zc_sunk(struct sock *s, const struct conn_freed *f);
/*
 * The sink is over; n bytes of the stream lie in it. Once for each, by whoever
 * finds out: its thread takes s->zc.got with it later.
 */
int zc_settle(struct sock *s, int64_t n);

/* --- zcopy_rdma.c ------------------------------------------------------ */

/* Is the carrier there? And may the program see what it brings? */
bool zc_live(const struct sock *s);
bool zc_shown(const struct sock *s);
/* The smallest send that lends, registering counted in. */
uint32_t zcr_least(const struct sock *s, uint32_t least);
/* Can a loan be lost without harm now? */
bool zcr_may(struct sock *s);
/* The device did not take memory; counted, and said once. */
void zc_unregistered(struct sock *s, int err);
/* As zc_freed(), and reports before that: before words are looked at. */
int zcr_freed(struct sock *s);
int zcr_reported(struct sock *s);
bool zcr_recall(struct sock *s);
/* As await() of zcopy.c; nothing is lent then. */
int zcr_await(struct sock *s, int fd, uint64_t deadline, int signals);
/*
 * The queue pair is given up: bytes that are out on loan; copy them, counted
 * as sent; the region goes.
 */
size_t zcr_left(const struct sock *s);
bool zcr_sent(struct sock *s, uint8_t *to); /* false: it is not there */
void zcr_over(struct sock *s);
/* So long a loan waits without a report. */
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
/* The reader: is the writer's word enough for what it wrote? */
bool zcr_believes(const struct sock *s);
/* May it offer memory now, and how much at once? */
bool zcr_may_sink(struct sock *s);
size_t zcr_sink_piece(size_t len);
int zcr_sunk(struct sock *s, const struct conn_freed *f);
/*
 * The sink that is out comes back; `wait`: the lock is let go of for a while,
 * else the queue pair is given up if there is no answer yet.
 */
void zcr_take_back(struct sock *s, bool wait);
void zcr_sink_over(struct sock *s); /* the queue pair is given up */

#endif
