/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_WAIT_LOAD_H
#define LIBSDP_SOCKET_WAIT_LOAD_H

/* A send under way (send.c). */

#include "socket/wait/wait.h"

struct load {
	struct cursor c;
	size_t len, done;
	size_t ask; /* of the last call to the kernel */
	uint64_t deadline; /* 0: not known yet */
	int flags;
	bool nonblock;
	bool begun; /* there was a message before it in the same call */
	bool urged; /* the kernel was not let wait: short tells nothing */
	bool note; /* MSG_ZEROCOPY: the program is owed a notification, */
	bool noted; /* which went ahead of the bytes (notice.h) */
	bool leave; /* which only the anchor can give it */
	uint8_t naps; /* until the reader is where it can be given */
	bool by_pipe; /* what is sent lies in `pipe` */
	bool pipe_over; /* and there is no more, as pipe_said says */
	int pipe;
	ssize_t pipe_said;
	struct zc_send zc;
};

/* Bytes of the call have gone: a handler ends it (wait.h). */
static inline bool load_part(const struct load *w)
{
	return w->done || w->begun;
}

/* The first wait of a call sets its limit. */
static inline uint64_t load_deadline(struct sock *s, struct load *w)
{
	if (!w->deadline)
		w->deadline = wait_deadline(s->opt.sndtimeo);
	return w->deadline;
}

/* Lock held: as many of n bytes as the ring takes now. */
static inline ssize_t way_out(struct sock *s, struct load *w, size_t n)
{
	/* what comes from a pipe must not need a message more */
	if (unlikely((w->flags & MSG_MORE) || s->opt.corked) &&
	    holdback_may(s) &&
	    !(w->by_pipe && s->window.holdback + n >= s->window.mss))
		return holdback_send(s, &w->c, n);
	return carrier_send(s, &w->c, n);
}

#endif
