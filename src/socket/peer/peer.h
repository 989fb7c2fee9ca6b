/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_PEER_PEER_H
#define LIBSDP_SOCKET_PEER_PEER_H

#include "socket/transport/transport.h"

struct rdma_module {
	struct verbs *v; /* the service thread's; NULL: not open */
	struct lock lock; /* it is opened or closed, or a fork is under way */
	bool wanted; /* there has been a candidate */
	bool held;
	bool denied; /* it was opened with other credentials than now */
	enum reason why; /* it cannot be opened, */
	uint64_t until; /* or not before that time */
};

/* --- pair.c ------------------------------------------------------------ */

/*
 * Learn the names of the connected socket `anchor`, which end offers, and
 * whether lifting is thinkable: 0, or the reason why never (self, remote when
 * no socket of this network namespace is the other end, netns, no-diag ...):
 * decided by one netlink diagnosis of the reversed tuple. Before, the caller
 * zeroes *p and sets `fd` = -1, `ring` and `service`. Sockets are refused
 * (netns) on kernels without SO_NETNS_COOKIE (before 5.14).
 */
enum reason pair_begin(struct pair *p, int anchor);

/* The abstract name where the ends of *p meet, into *un; how long it is. */
socklen_t pair_name(const struct pair *p, struct sockaddr_un *un);

/*
 * Take the next step: PAIR_* after it. `c` is an initialised conn
 * (conn_init with active = !p->offering done by the callee through `cp`).
 * Offering end: first call binds and listens; later calls accept4 without
 * waiting, check, map, answer. Answering end: each call is one connect()
 * attempt or one look for PAIRED; after `max_tries` refusals: FAILED,
 * peer-declined. Internal descriptors are moved to high numbers (>= 3/4 of the
 * soft limit, found downwards), close-on-exec, non-blocking.
 */
enum pair_state pair_step(struct pair *p, int anchor, struct conn *c,
			  const struct conn_params *cp, unsigned int max_tries);

/* Drop whatever is held in OFFERED, PROBING, RECALLED; nothing was injected. */
void pair_cancel(struct pair *p);

/* --- rdma.c ------------------------------------------------------------ */

/*
 * The peer is on another host. WHY_NONE: s is a candidate now, s->look set;
 * else why it is not. Lock held.
 */
enum reason rdma_begin(struct sock *s, int fd);
/* Lock held: the candidate has failed, or runs out of patience. */
void rdma_drop(struct sock *s, enum reason why);
void rdma_forked(void); /* the child's part */
/* Must the service thread stay for what was let go of? */
bool rdma_busy(void);
/* Lock held: the sock lets go of it; the service thread does the rest. */
void rdma_detach(struct sock *s);
void rdma_bury(void); /* frees what was detached and is over */
void rdma_forget_hist(struct rdma *r); /* the proof is done */

/* One try was in vain: another one later, or never. Lock held, end gone. */
void rdma_in_vain(struct sock *s, int err);
/* What this end says of itself in Hello and HelloAck. */
struct conn_params rdma_params(const struct rdma *r);
struct conn_names rdma_names(const struct rdma *r);
uint64_t rdma_answer_key(const struct rdma *r); /* both tokens are known */

/* Lock held, mended: the other end is looked for anew. */
void rdma_again(struct sock *s);

/* --- rdma_open.c ------------------------------------------------------- */

extern struct rdma_module rdma_module;

/* Is there a device (service thread)? Opens it at first. */
bool rdma_open(void);
/* WHY_NONE, or why it is no use to ask just now. */
enum reason rdma_hopeless(void);
void rdma_give_up(enum reason why); /* for rdma_retry_s, or for good */
/* Nothing lives here any more (service thread). */
void rdma_rest(void);
/*
 * The service thread: the module says -EACCES, since the program has changed
 * its credentials. What goes over RDMA goes on over TCP; and once all that is
 * let go, rdma_renew() opens the module anew.
 */
void rdma_denied(void);
void rdma_renew(void);
/* Around a fork, in the parent; nothing in between may need the module. */
void rdma_hold(void);
void rdma_resume(void);
void rdma_open_forked(void);
int rdma_patience_ms(void); /* of the module; -1: none */

/* --- rdma_answer.c ----------------------------------------------------- */

void rdma_request(struct verbs *v, const struct verbs_event *ev);
/* When that peer asked last for any connection of the same port; 0: unknown. */
uint64_t rdma_asked(const struct diag_names *n);
void rdma_note_asker(const struct diag_names *n); /* it asks */

/* --- rdma_redirect.c ------------------------------------------------------- */

/*
 * The end of this candidate can be found from now on, for a while: a time at
 * which to ask again.
 */
uint64_t rdma_listen(struct verbs *v, const struct rdma *r);
/* The RDMA port of the process that holds it, or 0. */
uint16_t rdma_redirect_ask(const struct diag_names *n);
/* From time to time, and when a process spoke at a desk. */
void rdma_redirect_tidy(struct verbs *v);
/* The module is closed, or was the parent's: nothing is listened on. */
void rdma_unlisten(void);

/* --- rdma_mod.c -------------------------------------------------------- */

/* The module's table, or NULL (said once in the log). */
const struct verbs_api *rdma_load(void);
void rdma_say(int level, const char *line);
/* May this device be used, by its name? */
bool rdma_may_use(const char *device);
/*
 * An error of the module that the other end has no part in, or that another try
 * will not mend: the reason, WHY_NONE for others.
 */
enum reason rdma_no_way(int err);
/*
 * Has the kernel a device that may be used? WHY_NONE, or why not; as it was
 * settings.rdma_retry_s ago at most.
 */
enum reason rdma_devices(void);
enum reason rdma_devices_now(void);
/* Which end dials: positive for the one that does. */
int rdma_order(const struct diag_names *n);
/* The address of one end, with another port. */
void rdma_address(union verbs_addr *a, const struct diag_names *n, bool peer,
		  uint16_t port);

bool rdma_foreign_cm(void); /* the program uses librdmacm itself */

/* --- rdma_proof.c ------------------------------------------------------ */

void rdma_remember(struct sock *s, bool sent, const struct iovec *iov,
		   size_t cnt, size_t at, size_t n);
/*
 * Dialler: choose what to show (nothing, if need be, to a trusted host); false:
 * too little has been moved.
 */
bool rdma_choose(struct rdma *r, uint16_t *window);
/* Answerer: the same bytes, seen from here; false: not (yet) known. */
bool rdma_find(struct rdma *r, uint16_t window);
/* The same where the dialler shows nothing (CONN_EXT_BARE). */
bool rdma_find_bare(struct rdma *r);
/* The check that the dialler (or else the answerer) shows. */
uint32_t rdma_check(const struct rdma *r, bool dialler, uint64_t key);
/* Both tokens are known: those that will be written into the anchor. */
void rdma_markers(struct rdma *r);

#include "socket/peer/rdma_turn.h"

#endif
