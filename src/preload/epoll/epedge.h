/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_PRELOAD_EPOLL_EPEDGE_H
#define LIBSDP_PRELOAD_EPOLL_EPEDGE_H

/*
 * The arithmetic of epoll registrations: masks, edges, data words. Pure.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "socket/sock.h"

#define EP_INS	(EPOLLIN | EPOLLRDNORM | EPOLLRDBAND | EPOLLPRI)
#define EP_OUTS (EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND)
#define EP_ENDS (EPOLLRDHUP | EPOLLHUP | EPOLLERR)
#define EP_BITS (EP_INS | EP_OUTS | EP_ENDS | EPOLLMSG)

/* TCP reports the old System V names together with IN and OUT. */
static inline uint32_t ep_expand(uint32_t bits)
{
	if (bits & EPOLLIN)
		bits |= EPOLLRDNORM;
	if (bits & EPOLLOUT)
		bits |= EPOLLWRNORM;
	return bits;
}

/* What a registration with this mask can report. */
static inline uint32_t ep_want(uint32_t mask)
{
	return (mask & EP_BITS) | EPOLLERR | EPOLLHUP;
}

/*
 * The kernel's mask for the anchor while user space decides on `ours`
 * (anchor.md 5.3): an idle anchor is always writable, so OUT goes; kicks and
 * FIN arrive as IN and RDHUP; and because a kick may stay unread for a while
 * the entry becomes edge-triggered, one-shot is done in user space.
 */
static inline uint32_t ep_kmask(uint32_t mask, uint32_t ours)
{
	uint32_t k = mask;

	if (!ours)
		return mask;
	k &= ~(uint32_t)EPOLLEXCLUSIVE;
	if (ours & EPOLLOUT)
		k &= ~(uint32_t)EP_OUTS;
	if (mask & (EP_INS | EP_OUTS | EPOLLRDHUP))
		k |= EPOLLIN | EPOLLRDHUP;
	if ((ours & ~(uint32_t)EPOLLOUT) || (mask & EPOLLONESHOT))
		k |= (uint32_t)EPOLLET;
	return k & ~(uint32_t)EPOLLONESHOT;
}

/*
 * Edges. The kernel puts an edge-triggered entry on its ready list when
 * something arrives that its mask asks for, and then reports all of the mask
 * that is true.
 */
struct ep_edge {
	uint32_t in_gen, out_gen; /* as of the last report */
	uint32_t last; /* bits that were true then */
	bool fresh; /* added or modified since: report what is true */
};

/* What to report now, 0 for nothing; remembers that it was reported. */
static inline uint32_t ep_edge_take(struct ep_edge *e, uint32_t mask,
				    const struct sock_ready *r)
{
	uint32_t now = ep_expand(r->now) & ep_want(mask);
	bool rose = e->fresh || !(mask & (uint32_t)EPOLLET);

	if (r->in_gen != e->in_gen && (mask & EP_INS))
		rose = true;
	if (r->out_gen != e->out_gen && (mask & EP_OUTS))
		rose = true;
	if (now & ~e->last & (EP_ENDS | EPOLLPRI))
		rose = true;
	e->in_gen = r->in_gen;
	e->out_gen = r->out_gen;
	e->last = now;
	if (!rose || !now)
		return 0;
	e->fresh = false;
	return now;
}

/*
 * Data words of the kernel's entries, from the top: a random tag of this
 * process (26 bits), whether it is the wake-up socket's entry, how often the
 * registration's slot was used (9), how often its entry was modified (8), the
 * slot (20).
 */
#define EP_IDX_BITS 20
#define EP_MOD_BITS 8
#define EP_USE_BITS 9
#define EP_TAG_AT   38
#define EP_WAKE	    (1ull << 37)

#define EP_FIELD(word, at, bits) \
	((uint32_t)((word) >> (at)) & ((1u << (bits)) - 1))

static inline uint64_t ep_word(uint32_t tag, bool wake, uint32_t use,
			       uint32_t mod, uint32_t idx)
{
	return (uint64_t)tag << EP_TAG_AT | (wake ? EP_WAKE : 0) |
	       (uint64_t)EP_FIELD(use, 0, EP_USE_BITS)
		       << (EP_IDX_BITS + EP_MOD_BITS) |
	       EP_FIELD(mod, 0, EP_MOD_BITS) << EP_IDX_BITS | idx;
}

static inline uint32_t ep_word_tag(uint64_t word)
{
	return (uint32_t)(word >> EP_TAG_AT);
}

static inline uint32_t ep_word_idx(uint64_t word)
{
	return EP_FIELD(word, 0, EP_IDX_BITS);
}

/* The entry of the kernel's that a word stands for, whatever modified it. */
static inline uint64_t ep_word_entry(uint64_t word)
{
	return word & ~(((1ull << EP_MOD_BITS) - 1) << EP_IDX_BITS);
}

static inline bool ep_word_used(uint64_t word, uint32_t use)
{
	return EP_FIELD(word, EP_IDX_BITS + EP_MOD_BITS, EP_USE_BITS) ==
	       EP_FIELD(use, 0, EP_USE_BITS);
}

static inline bool ep_word_modded(uint64_t word, uint32_t mod)
{
	return EP_FIELD(word, EP_IDX_BITS, EP_MOD_BITS) ==
	       EP_FIELD(mod, 0, EP_MOD_BITS);
}

#endif
