/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_WAIT_H
#define LIBSDP_SOCKET_WAIT_H

/* Threads that sleep in a socket, and what they sleep on. */

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "handover_proto/anchor.h"

#define SOCK_BEDS 4

struct sock;

/* --- bed.c ------------------------------------------------------------- */

/* A thread asleep on the wake-up socket. */
struct bed {
	uint32_t tid; /* 0: free */
	bool writer;
	uintptr_t frame; /* of its sleep */
};

/* All with the lock held. `me` is of the frame that sleeps. */
void bed_in(struct sock *s, struct bed *me, bool writer);
void bed_out(struct sock *s, struct bed *me);
/*
 * Readers and writers asleep, and threads in a raw receive, as far as they are
 * known by name: of this process, but for this thread.
 */
uint32_t bed_others(struct sock *s);

/* --- wait.c ------------------------------------------------------------ */

/*
 * Sleep until the peer rang, lock held at entry and exit; 0 or negative
 * errno (-EAGAIN: `deadline` passed, -EINTR). UINT64_MAX: no deadline.
 * `part`: the call has moved bytes. As in the kernel it is not restarted then,
 * whatever the handler's flags say: -EINTR is a part's end.
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
/*
 * SLEEP(in): a thread that leaves the lock for a while and may run handlers or
 * be cancelled there, and is counted like a sleeper: who closes the socket
 * meanwhile leaves it to it.
 */
struct sleep {
	struct sock *s;
	struct bed bed;
};
#define SLEEP(name)                                                          \
	__attribute__((cleanup(wait_cancelled))) struct sleep name = { NULL, \
								       { 0 } }
void wait_away(struct sleep *in, struct sock *s, bool writer);
void wait_back(struct sleep *in);
void wait_cancelled(struct sleep *in);
/*
 * The name of a thread that is inside a receive without the lock or a bed, for
 * who closes the sock meanwhile. One that began later may lie over it: then that
 * one keeps the sock for both.
 */
void sock_named(struct sock *s);
void sock_unnamed(struct sock *s);
/*
 * Lock held, there is no room: when the direction is to be spilled, unless
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
 * already. Its number from here on, or -1 and errno: EAGAIN also where another
 * thread has closed it, or, with `some` bytes of this message, the urgent mark is
 * in front. For a MSG_WAITALL, which is many receives here, but has one time
 * limit, is not restarted behind a signal, and ends at that mark; and for the
 * second message of one call.
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

/* ready.c: the wait that this thread is in, or was in last: no other has it. */
uint64_t ready_wait(void);

#endif
