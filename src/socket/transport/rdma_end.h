/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_TRANSPORT_RDMA_END_H
#define LIBSDP_SOCKET_TRANSPORT_RDMA_END_H

/* A part of rdma.h: how a sock over RDMA ends. */

#include "socket/transport/transport.h"

/* Behind both DisConns no word passes any more. */
static inline bool rdma_silent(const struct sock *s)
{
	return unlikely(s->rd != NULL) && s->rd->state == RDMA_UP &&
	       s->conn.dis_sent && s->conn.dis_rcvd && !s->conn.error;
}

/* DisConn, if it can be sent now; may the FIN follow, as far as that goes? */
bool rdma_may_end(struct sock *s, bool closes);
/*
 * Is the peer's FIN on the anchor, whatever lies in front of it? Our own
 * SHUT_RD is none, though poll() and recv() make no difference.
 */
bool rdma_fin_came(const struct sock *s, int fd);
/* Lock held: it came, and not too long ago for what lies in front of it. */
bool rdma_hides_fin(struct sock *s, int fd);
/*
 * `n` bytes on the anchor begin a marker or a record: was the writer killed
 * over it? They are taken away then.
 */
bool rdma_cut_short(struct sock *s, int fd, size_t n);
/* Before it is up once more: is nothing left of the time before? */
bool rdma_all_on_tcp(const struct sock *s);

/* Is it kept on TCP for a child, and by the process that could lift it? */
static inline bool rdma_parted(const struct sock *s)
{
	const struct rdma *r = s->rd;

	return unlikely(r != NULL) && s->fallback.apart && r->owner == sock_pid;
}

/* Is its queue pair to be tried now and then (rdma_serve.c)? */
static inline bool rdma_waits(const struct sock *s)
{
	const struct rdma *r = s->rd;

	return unlikely(r != NULL) && r->load.waits_since &&
	       r->state == RDMA_UP && r->owner == sock_pid;
}

bool rdma_alone(struct sock *s); /* no other's, and none is lost in it */

#endif
