/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_WAIT_SLEEP_H
#define LIBSDP_SOCKET_WAIT_SLEEP_H

/* The kernel's part of a wait (wait.c). */

#include "base/sigdefer.h"
#include "socket/wait/wait.h"

/* Beside the wake-up socket, each -1 or a descriptor that ends a sleep: */
struct beside {
	int signals; /* as a signal does */
	int ear; /* as a byte does: completions (rdma_cqwait.c) */
	bool part; /* every handler ends the sleep */
	bool stops; /* and so does a stop with SIGCONT behind it, set below */
};

#define HEARD 2
#define AGAIN 3

/*
 * Lock held, in front of sleep_on(): does it sleep so that a stop ends it, if
 * the caller wants that?
 */
bool sleep_limit(struct sock *s, uint64_t deadline, struct beside also);
/*
 * Lock not held, counted as a sleeper. 1: rung, 0: hung up, HEARD: to be looked
 * at anew, AGAIN: behind a handler, or a negative errno: -EAGAIN at `deadline`,
 * clock_ns() or UINT64_MAX.
 */
int sleep_on(struct sock *s, uint64_t deadline, struct beside also);
/*
 * `ret` of a sleep the kernel does not restart: 0 where a call without a time
 * limit goes on behind the handler.
 */
int sleep_heeded(int ret, uint64_t deadline, bool part);
/*
 * `ran`: sigdefer_handlers() before the wait. Behind a handler, which may have
 * sent or received itself, no more bytes join those of this call.
 */
static inline int sleep_ended(int ret, bool part, uint32_t ran)
{
	return !ret && part && unlikely(ran != sigdefer_handlers()) ? -EINTR :
								      ret;
}
/* wait_tx() of a send under way. */
int sleep_for_room(struct sock *s, int fd, struct load *w);

#endif
