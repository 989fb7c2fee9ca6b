/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_TRANSPORT_RDMA_SIZE_H
#define LIBSDP_SOCKET_TRANSPORT_RDMA_SIZE_H

/* How many receives an end has, and how large; rdma.h includes it. */

#include "socket/transport/transport.h"

/* All with the lock held. Bytes came: under load more, and larger ones. */
void rdma_grow(struct sock *s);
/* r->sizing: something came, and the peer or the queue may be so far. */
void rdma_sized(struct sock *s);
/* The service thread, now and then: back to few, once it is quiet. */
void rdma_slim(struct sock *s, bool quiet);

#endif
