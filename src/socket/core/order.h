/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_ORDER_H
#define LIBSDP_SOCKET_CORE_ORDER_H

/* What came first. Part of impl.h, which includes it behind struct sock. */

#include "socket/core/core.h"

/*
 * Lock held, in front of counting it: something to read came, sent at `stamp`
 * (fab_msg.stamp). `first`: of those that one look found. in_since is when it
 * became readable, in_news when the first of the last look was sent; 0: when
 * it was sent is not known.
 */
static inline void order_came(struct sock *s, uint64_t stamp, bool first)
{
	if (!s->got.avail && !s->eos.rx_eof)
		s->waits.in_since = stamp;
	if (first)
		s->waits.in_news = stamp;
}

/* The kernel took something for the peer. */
void order_note(struct sock *s);

static inline void order_sent(struct sock *s)
{
	if (unlikely(__atomic_load_n(&stamp_used, __ATOMIC_RELAXED)))
		order_note(s);
}

/*
 * The kernel has an end of the stream for the peer: it is logged as what is
 * sent is, since the anchor tells of it, also behind bytes of the ring.
 */
static inline void order_ended(struct sock *s)
{
	if (__atomic_load_n(&s->id.port, __ATOMIC_RELAXED))
		order_sent(s);
}

/* Lock held, `fd` is open: about to end. Its port cannot be asked for later. */
void order_ends(struct sock *s, int fd);
/* Lifted: nor can the peer's behind a reset. */
void order_lifted(struct sock *s, int fd);

/* A TCP receive gave something. */
static inline void order_read(struct sock *s)
{
	if (unlikely(__atomic_load_n(&stamp_used, __ATOMIC_RELAXED)))
		__atomic_store_n(&s->waits.read_at, stamp_now(),
				 __ATOMIC_RELAXED);
}

/* A connection was begun; its event at the other end is a listener's. */
static inline void order_connected(void)
{
	if (unlikely(__atomic_load_n(&stamp_used, __ATOMIC_RELAXED)))
		stamp_log_add(0);
}

#endif
