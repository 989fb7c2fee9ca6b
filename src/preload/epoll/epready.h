/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_PRELOAD_EPOLL_EPREADY_H
#define LIBSDP_PRELOAD_EPOLL_EPREADY_H

/*
 * The ready list of a set (epoll_order.c), to be mixed with the kernel's.
 */

#include "preload/epoll/epset.h"

/* Of two stamps: is `a` behind `b`? */
static inline bool later(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) > 0;
}

void epready_append(struct epset *set, struct epreg *r);
void epready_sort(struct epset *set);
/*
 * Does the list fill the array with what is older than all that is not on it?
 */
bool epready_enough(const struct epset *set, int room);
/* Looks at all hot members; what was put into `ev` already gets bits added. */
void epready_find(struct epset *set, struct epoll_event *ev);
/*
 * The first that are ready, up to `room`, go off the list to **to; `pos` of
 * each is negative until it is put or given back. Returns how many.
 */
int epready_take(struct epset *set, struct epreg ***to, int room);
/* `bits` of `r` to ev[n], told to the program. */
void epready_put(struct epset *set, struct epoll_event *ev, int n,
		 struct epreg *r, uint32_t bits);

/* What is known of `r` before the kernel's word of this turn. */
void epready_was(struct epreg *r);

#endif
