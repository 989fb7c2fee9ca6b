/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_STREAM_WANT_H
#define LIBSDP_SOCKET_STREAM_WANT_H

/* A receive under way (recv.c). */

#include "base/sigdefer.h"
#include "socket/stream/rest.h"
#include "socket/stream/stream.h"

struct want {
	struct cursor c;
	size_t len, done;
	uint64_t deadline; /* 0: not known yet */
	int flags;
	bool peek, all, nonblock;
	bool peek_all; /* MSG_PEEK that waits for all */
	bool begun; /* there was a message before it in the same call */
	bool between; /* not by the ring alone */
	bool starved; /* by what is in front of x: brought back to TCP, or not */
	bool torn; /* `len` was cut: memory is missing behind it */
	bool control; /* the program has room for control messages */
	uint64_t from; /* taken before the kernel was asked, */
	uint32_t ran; /* and with MSG_WAITALL the handlers that had run */
};

/* Bytes of the call have come: a handler ends it (wait.h). */
static inline bool want_part(const struct want *w)
{
	return w->done || w->begun;
}

/* More? At the switch what is already there follows: a look has shown it. */
static inline bool want_goes_over(struct want *w)
{
	if (w->all || w->done == w->len)
		return w->done != w->len;
	if (likely(!w->between) || w->peek || w->control)
		return false;
	w->nonblock = true;
	w->flags |= MSG_DONTWAIT;
	return true;
}

/* By the kernel: a count or a negative errno. */
static inline ssize_t want_recv(const struct want *w, int fd, void *buf,
				size_t n, int flags)
{
	int saved = errno;

	if (unlikely(want_part(w)))
		return rest_recv(fd, buf, n, flags, !w->nonblock);
	return tcp_said(hooks.recv(fd, buf, n, flags), saved);
}

static inline ssize_t want_recvmsg(const struct want *w, int fd,
				   struct msghdr *m, int flags)
{
	int saved = errno;

	if (unlikely(want_part(w)))
		return rest_recvmsg(fd, m, flags, !w->nonblock);
	return tcp_said(hooks.recvmsg(fd, m, flags), saved);
}

/* Into what is left of the first piece of memory. */
static inline ssize_t want_piece(const struct want *w, int fd, int flags)
{
	return want_recv(w, fd, (char *)w->c.iov->iov_base + w->c.at,
			 w->c.iov->iov_len - w->c.at, flags);
}

/* The kernel is asked next. */
static inline void want_asks(struct want *w, const struct sock *s)
{
	w->from = __atomic_load_n(&s->ar.taken, __ATOMIC_RELAXED);
	if (unlikely(w->all))
		w->ran = sigdefer_handlers();
}

/*
 * It gave n bytes. Has another receive, of a handler that ended this one's or of
 * another thread, taken what comes next? With MSG_WAITALL another thread may.
 */
static inline bool want_overtaken(const struct want *w, const struct sock *s,
				  size_t n)
{
	return __atomic_load_n(&s->ar.taken, __ATOMIC_RELAXED) != w->from + n &&
	       (!w->all || w->ran != sigdefer_handlers());
}

/* What the kernel writes into the header of a message that has only bytes. */
static inline void want_header(struct msghdr *m, int flags)
{
	m->msg_flags = flags & MSG_CMSG_CLOEXEC;
	m->msg_controllen = 0;
	if (m->msg_name)
		m->msg_namelen = 0;
}

/* The first wait of a call sets its limit. */
static inline uint64_t want_deadline(struct sock *s, struct want *w)
{
	if (!w->deadline)
		w->deadline = wait_deadline(s->opt.rcvtimeo);
	return w->deadline;
}

/*
 * A handler has run, and the call is made again, as the kernel does: with what it
 * has made of O_NONBLOCK and SO_RCVTIMEO.
 */
static inline void begin_again(struct sock *s, struct want *w)
{
	w->nonblock = s->opt.nonblock || (w->flags & MSG_DONTWAIT);
	w->deadline = 0;
}

static inline void want_set(struct want *w, struct sock *s,
			    const struct iovec *iov, size_t cnt, size_t len,
			    int flags)
{
	*w = (struct want){ .len = len, .flags = flags };
	cursor_set(&w->c, iov, cnt);
	w->peek = flags & MSG_PEEK;
	w->all = (flags & MSG_WAITALL) && !w->peek;
	w->nonblock = s->opt.nonblock || (flags & MSG_DONTWAIT);
	w->peek_all = (flags & MSG_WAITALL) && w->peek && !w->nonblock;
	if (unlikely(w->all && s->opt.rcvtimeo && !w->nonblock))
		want_deadline(s, w);
}

#endif
