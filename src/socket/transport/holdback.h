/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_TRANSPORT_HOLDBACK_H
#define LIBSDP_SOCKET_TRANSPORT_HOLDBACK_H

/*
 * What MSG_MORE and TCP_CORK hold back. On TCP that is what does not fill a
 * segment, until more comes, the cork is taken off, or 200 ms have passed.
 * While lifted it lies in the ring and its reader is not shown it
 * (fabric_ops.hold): so nothing is lost with a process that is killed, and what
 * follows is in order. Whatever else goes to the ring shows it, and so does all
 * that ends the direction. The service thread keeps the time; without one, and
 * between hosts, nothing is held back.
 */

#include "socket/transport/transport.h"

/* All with the lock held, the transmit direction by the ring. */

/*
 * Corked, or with MSG_MORE: may it be held back? The latter not behind bytes
 * that are under way: on TCP their acknowledgement would send it.
 */
bool holdback_may(const struct sock *s);
/*
 * As pump_send(), of bytes that are to be held back as far as they do not fill
 * segments.
 */
ssize_t holdback_send(struct sock *s, struct cursor *c, size_t n);
/* There is some, and the reader is shown it now. */
void holdback_show(struct sock *s);

/* Lock not held: the service thread's next look, of which `tick` is one; ms. */
int holdback_tick(const struct sock *s, int tick);
void holdback_serve(struct sock *s);
/* The same if it knows of no sock: more will come, lately there was some. */
bool holdback_lately(void);
/* Lock not held: no more comes of what was sent with MSG_MORE. */
void holdback_end(struct sock *s);

#define HOLDBACK_TICK 30 /* ms: often enough for those to come */

#endif
