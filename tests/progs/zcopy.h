/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TESTS_PROGS_ZCOPY_H
#define TESTS_PROGS_ZCOPY_H

/*
 * Sends whose buffer is scribbled over as soon as they have returned, and
 * receives of which the buffer has to stay as it is.
 */

#include <poll.h>
#include <string.h>
#include <sys/mman.h>

#include "prog.h"

#define MIB  ((size_t)1 << 20)
#define BIG  (8 * MIB)
#define MARK 0xee

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

/* All of it without blocking, by poll. */
static inline void push(struct link *l, uint8_t *buf, size_t n)
{
	struct pollfd p = { .fd = l->fd, .events = POLLOUT };
	size_t at = 0;

	flow_fill(&l->tx, buf, n);
	while (at < n) {
		ssize_t r = send(l->fd, buf + at, n - at, MSG_DONTWAIT);

		if (r < 0) {
			CHECK(errno == EAGAIN);
			CHECK(poll(&p, 1, 10000) == 1);
			continue;
		}
		memset(buf + at, 0, (size_t)r);
		at += (size_t)r;
	}
}

/* What a receive has left is written over, and stays as it is. */
struct left {
	uint8_t *buf[2];
	bool used[2];
	int at;
};

static inline void left_init(struct left *b)
{
	*b = (struct left){ .buf = { buffer(), buffer() } };
}

static inline void left_free(struct left *b)
{
	CHECK(!munmap(b->buf[0], BIG));
	CHECK(!munmap(b->buf[1], BIG));
}

/* The next one, which nothing has touched since. */
static inline uint8_t *left_next(struct left *b)
{
	uint8_t *p = b->buf[b->at ^= 1];
	size_t i;

	for (i = 0; b->used[b->at] && i < MIB; i++)
		CHECK(p[i] == MARK);
	return p;
}

static inline void left_done(struct left *b)
{
	memset(b->buf[b->at], MARK, MIB);
	b->used[b->at] = true;
}

#endif
