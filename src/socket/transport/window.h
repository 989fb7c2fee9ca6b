/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_TRANSPORT_WINDOW_H
#define LIBSDP_SOCKET_TRANSPORT_WINDOW_H

/*
 * How much may be under way, sent and not read. On TCP that is what the
 * writer's SO_SNDBUF and the reader's SO_RCVBUF hold together. Where the
 * program of either end has set one of them, a lifted direction takes no more,
 * on the anchor and on SDP in sum. TCP_NOTSENT_LOWAT counts as a smaller
 * SO_SNDBUF, TCP_WINDOW_CLAMP as a smaller SO_RCVBUF. A socket with nothing set
 * has what the ring has.
 *
 * The reader says in its words (anc_side.room) what its socket holds. The
 * writer looks there, and at what was taken, when it has sent as much as the
 * last look allowed (sock.may_send), so that nothing is looked at for a
 * message.
 *
 * Between hosts the reader posts fewer receives instead; the writer's own
 * buffer is the queue pair's.
 */

#include "socket/transport/transport.h"

enum { /* sock.bufs: what the program has set; the first two as SO_BUF_LOCK */
       BUF_SND = 1,
       BUF_RCV = 2,
       BUF_LOWAT = 4,
       BUF_CLAMP = 8,
       BUF_TIMEOUT = 16, /* TCP_USER_TIMEOUT, which looks at what waits */
};

#define WINDOW_ANY UINT64_MAX

/* Lock held, paired. Stream bytes that may follow now; WINDOW_ANY: no bound. */
uint64_t window_look(struct sock *s);

/* Of n bytes, how many may follow now? */
static inline size_t window_clip(struct sock *s, size_t n)
{
	uint64_t room;

	if (likely(s->at.sent + n <= s->window.may_send))
		return n;
	room = window_look(s);
	return room < n ? (size_t)room : n;
}

/* May any? */
static inline bool window_open(struct sock *s)
{
	return likely(s->at.sent < s->window.may_send) || window_look(s);
}

/*
 * None, or only the last eighth: how much the kernel takes is no closer a
 * bound.
 */
bool window_tight(struct sock *s);
/* And so many that TCP would say so to a program that waits for room? */
bool window_roomy(struct sock *s);

/*
 * A writer without room (`roomy`: without so much) waits for the reader, since
 * the anchor would take no more either. Not so if its program has set a time
 * for that: the kernel keeps it, of bytes that lie on the anchor.
 */
static inline bool window_waits(struct sock *s, bool roomy)
{
	return !(s->opt.bufs & BUF_TIMEOUT) &&
	       (roomy ? !window_roomy(s) : window_tight(s));
}

/* Bytes under way that the reader's own buffer has no room for. */
uint64_t window_queued(struct sock *s);

/* The bounds have changed, or are to be told for the first time. Lock held. */
void window_begin(struct sock *s, int fd);
/* The program has set one of BUF_*, or has not any more. Lock not held. */
void window_set(struct sock *s, int fd, uint8_t buf, bool on);
/* Of a socket whose options were not seen. */
uint8_t window_inherited(int fd);
/* Between hosts: may there be receives for so many bytes? */
bool window_may_post(const struct sock *s, uint64_t bytes);

#endif
