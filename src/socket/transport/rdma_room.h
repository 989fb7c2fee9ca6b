/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_TRANSPORT_RDMA_ROOM_H
#define LIBSDP_SOCKET_TRANSPORT_RDMA_ROOM_H

/* What a program was told of room stays so; rdma.h includes it. */

#include "socket/transport/transport.h"

/*
 * Lock held. `by`, a wait of this thread or 0, tells the program that there is
 * room: that stays so until something is sent, until the thread looks in
 * another wait, sleeps in a call or does something else with the sock, or for
 * SPARE_NS.
 */
void rdma_spare(struct sock *s, uint64_t by);
void rdma_spared(struct sock *s); /* the end of it */
/* Another thread's stays: that one may be about to send. */
void rdma_spare_ends(struct sock *s, bool look);

static inline void rdma_unspare(struct sock *s)
{
	if (unlikely(s->conn.spare))
		rdma_spare_ends(s, false);
}

static inline void rdma_looked(struct sock *s)
{
	if (unlikely(s->conn.spare))
		rdma_spare_ends(s, true);
}

/*
 * Lock held, in TCP: the writer may leave the anchor, and what its program was
 * told of room there holds for the ring: rdma_spare() is on.
 */
bool rdma_may_rise(struct sock *s);

#endif
