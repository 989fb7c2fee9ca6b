/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_RDMA_END_H
#define LIBSDP_SOCKET_RDMA_END_H

/* A part of rdma.h: how a sock over RDMA ends. */

/*
 * Before anything is done about a queue pair that is no more: is it a break, or
 * the end of one that carried nothing? The peer's process ends like that.
 */
void rdma_lost(struct sock *s, int error);
void rdma_ended(struct sock *s); /* nothing more comes or goes */
/* The queue pair has ended; lock held. */
void rdma_down(struct sock *s, int error);
/* The process ends: what was sent has to arrive. Bounded. */
void rdma_exit(void);
/* Behind both DisConns no word passes any more. */
static inline bool rdma_silent(const struct sock *s)
{
	return unlikely(s->rd != NULL) && s->rd->state == RDMA_UP &&
	       s->conn.dis_sent && s->conn.dis_rcvd && !s->conn.error;
}
/*
 * Lock held, who wants home finds it silent: true, not yet; false: it is home,
 * or as if the peer were gone.
 */
bool rdma_over(struct sock *s, int fd);
/* DisConn, if it can be sent now; may the FIN follow, as far as that goes? */
bool rdma_may_end(struct sock *s, bool closes);
/*
 * Is the peer's FIN on the anchor, whatever lies in front of it? Our own
 * SHUT_RD is none, though poll() and recv() make no difference.
 */
bool rdma_fin_came(const struct sock *s, int fd);
/*
 * `n` bytes on the anchor begin a token or a record: was the writer killed over
 * it? They are taken away then.
 */
bool rdma_cut_short(struct sock *s, int fd, size_t n);
/* Its owner's last number goes, while other processes hold it; lock held. */
void rdma_leave(struct sock *s);
/* Lock held: are unread bytes on the anchor, or on their way there? */
bool rdma_unread(const struct sock *s, int fd);
/* close() of the last number: true, the service thread goes on with it. */
bool rdma_linger(struct sock *s, int fd);
bool rdma_lingered(struct sock *s); /* lock held: is it over? */
/* What broke is destroyed once no thread looks at it: is it? */
bool rdma_old_gone(struct sock *s);
/* Before it is up once more: is nothing left of the time before? */
bool rdma_all_home(const struct sock *s);
/* Is it kept at home for a child, and by the process that could lift it? */
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
/* Lock held, a fork: who forks often is lifted the more seldom. */
void rdma_parts(struct sock *s);
bool rdma_alone(struct sock *s); /* nobody else's, and nobody is lost in it */
void rdma_reunite(struct sock *s); /* rdma_parted(): no more, perhaps */

#endif
