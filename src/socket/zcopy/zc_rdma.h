/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_ZCOPY_ZC_RDMA_H
#define LIBSDP_SOCKET_ZCOPY_ZC_RDMA_H

/*
 * What lending memory is to each carrier, as operations. On one host the kernel
 * copies between the processes, at once, and what is lent comes back at once;
 * between hosts a device reads or writes, and answers by messages. With the
 * lock held; none fails but where it says so. zcopy.h includes it.
 */

#include "socket/zcopy/zcopy.h"

#define ZC_MOST	     (1u << 30) /* lent at once */
#define ZC_MOST_RDMA (4u << 20) /* the same, registered */

/* So much may be lent at once. */
static inline size_t zc_most(const struct sock *s)
{
	return s->rd ? ZC_MOST_RDMA : ZC_MOST;
}

/* What is lent comes back; false: it is asked for, ask again. */
static inline bool zc_recall(struct sock *s)
{
	return likely(s->zc.out != ZC_OUT) ||
	       (unlikely(s->rd != NULL) ? zcr_recall(s) : zc_recall_ring(s));
}

/* conn_in.freed. 0 or -EPROTO. */
static inline int zc_freed(struct sock *s)
{
	return unlikely(s->rd != NULL) ? zcr_freed(s) : zc_freed_ring(s);
}

/* The peer has lent: is it given back at once? */
static inline void zc_judge_offer(struct sock *s)
{
	if (s->rd)
		zcr_offered(s);
}

/* Behind all that is received: the peer hears of it. */
static inline void zc_took(struct sock *s)
{
	if (likely(!s->rd))
		pump_control(s);
	else
		zcr_took(s);
}

/* Does a read wait for more than the kernel's copy? */
static inline bool zc_read_waits(const struct sock *s)
{
	return s->rd != NULL;
}

/* Does a send that must not wait concern the measure and the peer's sinks? */
static inline bool zc_concerns(const struct sock *s, bool nonblock)
{
	return !nonblock || s->rd;
}

/* Does the kernel copy what is lent, process to process? */
static inline bool zc_by_kernel(const struct sock *s)
{
	return !s->rd;
}

/* Can the peer's sinks be written into? */
static inline bool zc_into_sinks(const struct sock *s)
{
	return s->rd != NULL;
}

/* Can a source be lost without harm now? */
static inline bool zc_may_lose(struct sock *s)
{
	return likely(!s->rd) || zcr_may(s);
}

/* Before a lift: no sink of the time before is held. */
static inline bool zc_left(const struct sock *s)
{
	return !s->rd || zcw_left(s);
}

#endif
