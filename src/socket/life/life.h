/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_LIFE_LIFE_H
#define LIBSDP_SOCKET_LIFE_LIFE_H

#include "socket/stream/stream.h"

/* --- close.c ----------------------------------------------------------- */

void sock_orphan_end(struct sock *s); /* a sleeper leaves a closed sock */

/* --- rdma_end.c -------------------------------------------------------- */

/* The process ends: what was sent has to arrive. Bounded. */
void rdma_exit(void);
/*
 * The last number of a process goes, while others hold it; lock held. Of a queue
 * pair's owner: what only it could do ends.
 */
void rdma_leave(struct sock *s);
/* Lock held: are unread bytes on the anchor, or on their way there? */
bool rdma_unread(const struct sock *s, int fd);
/*
 * close() of the last number: true, the service thread goes on with it, once. On
 * one host never.
 */
bool rdma_linger(struct sock *s, int fd);
/* Lock held: anc_gone() of the receive direction, for rdma_fin_first(). */
enum anc_state rdma_gone(struct sock *s);
/*
 * Lock held, the receive direction is gone, all was read that came, and none
 * but this process has it: if it was lifted to its end, the peer is told by the
 * anchor, too, that the stream ends in order.
 */
void rdma_fin_first(struct sock *s, int fd);
bool rdma_lingered(struct sock *s); /* lock held: it is over, or never was */

/* --- service.c --------------------------------------------------------- */

void *service_main(void *arg); /* the thread itself */
void service_forked(void);

/* --- reload.c ---------------------------------------------------------- */

/* What the rules say as they are now; false: tcp. */
bool sock_rules_now(enum rule_role role, const struct sockaddr *sa,
		    struct verdict *v);
/* The same of what `fd` was accepted from; `any`: the wildcard. */
bool sock_rules_server(int fd, bool any, struct verdict *v);
bool sock_rules_any(const struct sockaddr_storage *ss);
/* Have they been read again, so that what a listener was told is old? */
bool sock_rules_changed(void);
/* Of the service thread, which may wait for peers. */
void reload_serve(void);
/*
 * Before a rule is asked for: this process gets its page, if it has none, and
 * with that hears what it was asked for without one.
 */
void sock_row_first(void);
void reload_forked(void);

/* --- told.c ------------------------------------------------------------ */

/* Takes what was sent to the service thread's socket. */
void told_hear(int dgram);

#endif
