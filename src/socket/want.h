/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_WANT_H
#define LIBSDP_SOCKET_WANT_H

/* A receive under way (recv.c). */

#include "socket/impl.h"

struct want {
	struct cursor c;
	size_t len, done;
	uint64_t deadline; /* 0: not known yet */
	int flags;
	bool peek, all, nonblock;
	bool peek_all; /* MSG_PEEK that waits for all */
	bool begun; /* there was a message before it in the same call */
	bool between; /* not by the ring alone */
	bool starved; /* by what is in front of x: brought home, or not */
	bool torn; /* `len` was cut: memory is missing behind it */
	bool control; /* the program has room for control messages */
};

/* Bytes of the call have come: a handler ends it (wait.h). */
static inline bool part(const struct want *w)
{
	return w->done || w->begun;
}

/* The first wait of a call sets its limit. */
static inline uint64_t deadline(struct sock *s, struct want *w)
{
	if (!w->deadline)
		w->deadline = wait_deadline(s->rcvtimeo);
	return w->deadline;
}

#endif
