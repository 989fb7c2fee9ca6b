/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_STREAM_STREAM_H
#define LIBSDP_SOCKET_STREAM_STREAM_H

#include "socket/bridge/bridge.h"

/* --- option.c ---------------------------------------------------------- */

/* A new connection: all from the anchor, or the bars of its listener. */
void option_inherit(struct sock *s, int fd);
void option_heir(struct sock *s, uint16_t bars);
int option_shown(struct sock *s, int fd); /* time stamps; 0 or -EAGAIN */

/*
 * A thread has left a receive at the anchor: the last one of those that began
 * under an SO_RCVLOWAT, taken back since, lets the stream be lifted again.
 */
void option_left(struct sock *s);
bool option_async(const struct sock *s); /* signals for input are asked for */

/* --- ioctl.c ----------------------------------------------------------- */

/* TCP_INQ behind a receive from the ring; `room` for control messages. */
void option_inq(struct sock *s, int fd, struct msghdr *m, size_t room);

/* --- path.c ------------------------------------------------------------ */

/* Under an `sdp` rule: 0 when lifted, or the errno of the failed call. */
int lift_demand(struct sock *s, int fd, bool tx);
/*
 * Lock not held, before a call that moves a lifted stream, if user_other():
 * waits until its user has brought it back to TCP, or for fallback_timeout_ms;
 * then it is used as it is. A cancellation point; -EAGAIN: not by `deadline`,
 * -EINTR. `deadline` 0: the call must not wait, and gives a user that runs the
 * moment it takes, once for each time it is asked.
 */
int user_comes(struct sock *s, uint64_t deadline, bool part);
/*
 * Before a receive by TCP: another process moves our direction, and nothing would
 * serve it if that one closes while this one sleeps in the kernel.
 */
static inline bool tx_lifted_elsewhere(const struct sock *s)
{
	return s->paired && unlikely(user_other(s)) &&
	       tx_state_seen(s) != ANC_TCP;
}

void user_comes_back(struct sock *s); /* for a call that has no limit */
/* How much of what was handed back, and seen perhaps, was not taken again. */
static inline uint64_t stream_handed(const struct sock *s)
{
	uint64_t to = __atomic_load_n(&s->fallback.handed_to, __ATOMIC_RELAXED);
	uint64_t taken = __atomic_load_n(&s->ar.taken, __ATOMIC_RELAXED);

	return to > taken ? to - taken : 0;
}

/*
 * Lock not held. A receive that must not wait found nothing, and stream_handed():
 * the peer writes it back right now, or it is under way in the kernel. True: look
 * again; false: it is stopped, or has not got to it for 200 ms. *done: false for
 * the first of a call's looks; there is no other that waits.
 */
bool peer_writes_back(struct sock *s, int fd, bool *done);
/* The background thread, if user_asked(): waits as sock_fallback() does. */
void user_yields(struct sock *s);

/* --- move.c ------------------------------------------------------------ */

/*
 * The same from a pipe (move.c). What was read cannot be put back: it is no
 * more than the ring takes, and the lock is held meanwhile.
 */
ssize_t load_from_pipe(struct sock *s, struct load *w);

#include "socket/stream/peek.h"
#include "socket/stream/torn.h"
#include "socket/stream/want.h"
#include "socket/stream/sendfile.h"

#endif
