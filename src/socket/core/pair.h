/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_PAIR_H
#define LIBSDP_SOCKET_CORE_PAIR_H

/*
 * Finding the other end on this host and proving that it is the other end
 * (anchor.md section 3). Steps are taken inside calls the program makes
 * anyway; none blocks. Calls of one pair are serialised by the caller.
 *
 * The offering end (the higher (port, address)) listens on an abstract unix
 * name that derives from the 4-tuple and the anchor's network namespace; the
 * answering end connects, makes the segment and sends PAIR with a Hello; the
 * offering end answers PAIRED with a HelloAck or a reason. The connected
 * unix socket then is the wake-up descriptor of both.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/un.h>

#include "base/reason.h"
#include "fabric/shm/shm.h"
#include "sdp_proto/conn.h"

struct sock;
struct rdma;
struct page_row;

enum pair_state {
	PAIR_NONE,
	PAIR_OFFERED, /* our name is bound and listening */
	PAIR_PROBING, /* connect() refused, or still to come: then `fd` is -1 */
	PAIR_ASKED, /* answering end: PAIR sent, waiting for PAIRED */
	PAIR_DONE, /* `fd`, `seg`, `key` are good, conn is established */
	PAIR_FAILED, /* `why` says it; nothing is held */
};

struct pair {
	uint8_t state; /* enum pair_state */
	bool offering; /* we are the offering end = SDP passive side */
	bool met; /* offering end: `fd` is the accepted socket */
	bool records; /* the peer: capture.h */
	uint8_t tries; /* failed probes */
	enum reason why;
	int fd; /* -1, listener, or the wake-up socket */
	uint32_t ring; /* ring bytes to ask for (settings.ring_max) */
	uint64_t netns; /* SO_NETNS_COOKIE of the anchor */
	uint64_t cookie, peer_cookie; /* SO_COOKIE of the anchors */
	uint8_t token[16], peer_token[16];
	uint64_t key;
	int32_t peer_pid; /* of the peer, from SO_PEERCRED */
	struct shm_seg seg;
	struct conn_names names;
};

/* The names of a connected socket; v4-mapped addresses count as IPv4. */
struct diag_names {
	bool v4;
	uint8_t local[16], peer[16]; /* network order, IPv4 in the first 4 */
	uint16_t local_port, peer_port; /* host order */
	uint32_t scope; /* interface of link-local addresses, or 0 */
};

/* 0, -ENOTCONN, -EAFNOSUPPORT (not INET) or another negative errno. */
int diag_names(int anchor, struct diag_names *n);

/*
 * Socket diagnosis of the other end of `anchor` (1.6 us): unread bytes in its
 * kernel queue, its cookie, uid and inode. -ENOENT: not on this host; other
 * negative errno: diagnosis does not work here. Any thread, no waiting.
 */
struct diag {
	uint64_t cookie;
	uint32_t uid, inode, rqueue;
	uint8_t state;
};

int diag_peer(int anchor, struct diag *d);
/* The same of the end that is named, and of the socket itself. */
int diag_find(const struct diag_names *n, bool peer, struct diag *d);
/* Forget the kept netlink socket (forked child). */
void diag_forked(void);
/* Close the kept netlink socket until it is needed again. */
void diag_rest(void);
/* Let go of a number (fd_move()); false: it has another. */
bool diag_vacate(int fd);

/*
 * Move an internal descriptor to a high number (the upper quarter of the
 * soft limit, at most FD_TOP), close-on-exec; `fd` is closed in any case.
 * The number, or -EMFILE.
 */

#define FD_TOP 65536
int fd_hide(int fd);
/*
 * The number `from`, which *fd has, is the program's from now on: *fd gets
 * another one for what it is. `from` stays open, to be replaced by the program,
 * so that no other file gets it meanwhile. False: *fd has another, or there is
 * no number left.
 */
bool fd_move(int *fd, int from);
/* Is this number one of ours (close loops must spare it)? */
bool fd_hidden(int fd);
int fd_hidden_next(unsigned int from); /* the first such from there on, or -1 */
void fd_unhide(int fd); /* forget it (before closing) */

#endif
