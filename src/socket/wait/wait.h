/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_WAIT_WAIT_H
#define LIBSDP_SOCKET_WAIT_WAIT_H

/* Threads that sleep in a socket, and what they sleep on. */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "handover_proto/anchor.h"
#include "socket/progress/progress.h"

#define SLEEP(name)                                                          \
	__attribute__((cleanup(wait_cancelled))) struct sleep name = { NULL, \
								       { 0 } }

/* --- spin.c ------------------------------------------------------------ */

/*
 * Lock held at entry and exit. 1: there is something to look at; 0: nothing in
 * time, or it does not pay now; -EINTR: by a signal that ends the kernel's
 * wait. `was`: the state seen before the ring was found empty.
 */
int spin_rx(struct sock *s, enum anc_state was, uint64_t deadline,
	    enum spin_how how);
bool spin_tx(struct sock *s);

/* --- leave.c ----------------------------------------------------------- */

/* Our transmit direction goes back to the anchor for good. */
int lift_leave(struct sock *s, int fd, enum reason why);

/* --- wait.c ------------------------------------------------------------ */

/*
 * Lock held: no room for a send that must not wait. If hardly a byte of the
 * program's went since the peer gave credits last, it is our reports that used
 * them up, the peer gives others as soon as it looks, and the kernel would have
 * taken the bytes: to some programs EAGAIN for the few that a reader sends is
 * an error. Waits for credits, but not for long: *until is 0 at first. True:
 * look again.
 */
bool credit_comes(struct sock *s, int fd, uint64_t *until);

/*
 * Sleep until the peer rang, lock held at entry and exit; 0 or negative
 * errno (-EAGAIN: `deadline` passed, -EINTR). UINT64_MAX: no deadline.
 * `part`: the call has moved bytes. As in the kernel it is not restarted then,
 * whatever the handler's flags say: -EINTR is a part's end. Where the wait was
 * over when the handler ran, sleep_ended() says so.
 */

/* `was`: the state seen before the ring was found empty. */
int wait_rx(struct sock *s, int fd, uint64_t deadline, enum anc_state was,
	    bool part);
int wait_tx(struct sock *s, int fd, uint64_t deadline, bool part);
/*
 * As wait_rx() in LIFTED, for a thread whose signals are blocked: -EINTR when
 * the signalfd `signals` is readable.
 */
int wait_sink(struct sock *s, int fd, uint64_t deadline, int signals);
/* Every handler that the process has for these has SA_RESTART. */
bool wait_restarts(uint64_t signals);
/* ppoll() of one until `deadline`: a cancellation point, no lock held. */
int wait_until(struct pollfd *p, uint64_t deadline);
void wait_away(struct sleep *in, struct sock *s, bool writer);
void wait_back(struct sleep *in);
void wait_cancelled(struct sleep *in);
/*
 * One that waits for room, and is not rung by the peer, looks so often whether
 * another thread has ended the direction.
 */
#define WAIT_ENDED_MS 100

/*
 * Lock held, there is no room: when the direction is to be stalled, unless
 * there is progress meanwhile.
 */
uint64_t wait_full(struct sock *s, uint64_t now);
/* Memory is lent (zcopy.c): as wait_sink(), until it is not, or `until`. */
int wait_lent(struct sock *s, uint64_t until, int signals);
uint64_t wait_deadline(int64_t timeo);
/*
 * Lock not held: until the anchor takes more of a call that has sent some, and
 * sends the rest by many of the kernel's. 1: it may (the number may be another
 * by now); -EAGAIN behind `deadline`; -EPIPE: the direction is being shut down;
 * -EINTR.
 */
int wait_rest(struct sock *s, int fd, uint64_t deadline);
/*
 * Lock not held: until the anchor has the next byte of a call that has some
 * already. Its number from here on, or a negative errno: -EAGAIN also where
 * another thread has closed it, or, with `some` bytes of this message, the
 * urgent mark is in front. For a MSG_WAITALL, which is many receives here, but
 * has one time limit, is not restarted behind a signal, and ends at that mark;
 * and for the second message of one call.
 */
int wait_next(struct sock *s, int fd, uint64_t deadline, bool some);
/*
 * A moment without the lock, for bytes that are on their way to the anchor: 0,
 * -EINTR, or -EAGAIN behind `deadline`.
 */
int wait_queue(struct sock *s, int fd, uint64_t deadline, bool part);
/*
 * Lock not held, the sock is counted: a moment for what comes by the ring, with
 * handlers.
 */
void wait_apart(struct sock *s);
bool wait_room_due(struct sock *s);
/* Lock held, LIFTED: is there nothing that a receive has to look at? */
bool wait_idle(struct sock *s);

/* --- zc_wait.c --------------------------------------------------------- */

/*
 * Lend the rest of the cursor's current vector and wait until it is read, or
 * taken back. True: the lock was let go; *n: bytes that went, perhaps none, the
 * cursor is past them; *err: why the send has to end; z->lend: is another worth
 * it? False: nothing was begun, go on by copy. Sleeps without the lock, with
 * its signals put off (sigblock.h); a cancellation point.
 */
bool zc_send(struct sock *s, int fd, struct cursor *c, struct zc_send *z,
	     uint64_t deadline, size_t *n, int *err);
/*
 * wait_rx() in LIFTED, with up to `len` bytes of the cursor's current vector
 * offered to the writer: bytes that lie there now, the cursor behind them, and
 * accounted; 0: look again; negative errno. The memory is the program's again
 * then, however long the writer is stopped. A cancellation point.
 */
ssize_t zc_wait(struct sock *s, int fd, struct cursor *c, size_t len,
		uint64_t until, bool part);
/* As await() of zcopy.c; nothing is lent then. */
int zcr_await(struct sock *s, int fd, uint64_t deadline, int signals);

#include "socket/wait/sigblock.h"
#include "socket/wait/load.h"
#include "socket/wait/sleep.h"

#endif
