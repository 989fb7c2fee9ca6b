/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_PROGS_ZCOPY_H
#define TESTS_PROGS_ZCOPY_H

/* Sends whose buffer is scribbled over as soon as they have returned. */

#include <string.h>
#include <sys/mman.h>

#include "prog.h"

#define MIB ((size_t)1 << 20)
#define BIG (8 * MIB)

static inline uint8_t *buffer(void)
{
	void *p = mmap(NULL, BIG, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

/* One send of n bytes from a place of its own; what it took, or -1. */
static inline ssize_t shoot(struct link *l, uint8_t *buf, size_t n, int flags)
{
	struct flow f = l->tx;
	ssize_t r;

	flow_fill(&f, buf, n);
	r = send(l->fd, buf, n, flags);
	memset(buf, 0, n);
	if (r > 0)
		l->tx.off += (uint64_t)r;
	return r;
}

/*
 * All of it. A kernel that spawns a process meanwhile may cut a send short:
 * `zc_cut` says that the case does so.
 */
static bool zc_cut;

static inline void shoot_all(struct link *l, uint8_t *buf, size_t n)
{
	while (n) {
		ssize_t r = shoot(l, buf, n, 0);

		CHECK(r == (ssize_t)n || (zc_cut && r > 0));
		n -= (size_t)r;
	}
}

#endif
