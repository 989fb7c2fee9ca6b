/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TEST_SHM_UTIL_H
#define TEST_SHM_UTIL_H

/* Two ends over one segment, and messages that tell where they belong. */

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "fabric/shm/shm.h"

#define KEY 0x1234567890abcdefull

struct two {
	int fd;
	struct shm_end a, b; /* maker, opener; each with its own mapping */
};

static inline uint64_t rnd(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

static inline void two_make(struct two *t, uint32_t ring)
{
	struct shm_seg m, o;

	t->fd = shm_make(&m, ring);
	assert_true(t->fd >= 0);
	assert_int_equal(shm_open_seg(&o, t->fd, m.len), 0);
	shm_end_init(&t->a, &m, true, KEY);
	shm_end_init(&t->b, &o, false, KEY);
}

static inline void two_drop(struct two *t)
{
	shm_ops.destroy(&t->a.end);
	shm_ops.destroy(&t->b.end);
	close(t->fd);
}

/* Content of message `n`: pattern that depends on number and offset. */
static inline void fill(uint8_t *p, uint32_t len, uint64_t n)
{
	uint32_t i, word;

	memset(p, 0, 16);
	p[0] = 0xff;
	word = htobe32((uint32_t)n);
	memcpy(p + 8, &word, 4);
	for (i = 16; i < len; i++)
		p[i] = (uint8_t)(n * 31 + i);
}

static inline void check(const struct fab_msg *m, uint32_t len, uint64_t n)
{
	uint32_t i, word;

	assert_int_equal(m->len, len);
	memcpy(&word, m->mem + 4, 4);
	assert_int_equal(be32toh(word), len);
	memcpy(&word, m->mem + 8, 4);
	assert_int_equal(be32toh(word), (uint32_t)n);
	for (i = 16; i < len; i++)
		if (m->mem[i] != (uint8_t)(n * 31 + i))
			fail_msg("message %llu: byte %u is wrong",
				 (unsigned long long)n, i);
}

/* Size of message `n` under `seed`: mostly small, sometimes the largest. */
static inline uint32_t size_of(uint64_t seed, uint64_t n)
{
	uint64_t s =
		seed * 0x9e3779b97f4a7c15ull + n * 0x2545f4914f6cdd1dull + 1;
	uint64_t r = (rnd(&s), rnd(&s));

	switch (r % 8) {
	case 0:
		return 16 + (uint32_t)(r >> 32) % (SHM_MSG_MAX - 15);
	case 1:
		return SHM_MSG_MAX;
	case 2:
		return 16 + (uint32_t)(r >> 32) % 4000;
	default:
		return 16 + (uint32_t)(r >> 32) % 200;
	}
}

static inline bool try_send(struct shm_end *e, uint32_t len, uint64_t n)
{
	uint32_t room = shm_ops.room(&e->end);
	uint8_t *p = shm_ops.buf(&e->end, len);

	if (room >= len)
		assert_non_null(p);
	if (!p)
		return false;
	assert_in_range(p - e->tx, 8, e->seg.ring - len);
	fill(p, len, n);
	assert_int_equal(shm_ops.send(&e->end, len, false), 0);
	return true;
}

static inline void send_ctrl(struct shm_end *e, uint64_t n)
{
	uint8_t *p = shm_ops.ctrl(&e->end);

	assert_non_null(p);
	fill(p, 36, n);
	assert_int_equal(shm_ops.send(&e->end, 36, true), 0);
}

/* For a child that connects to it, by a name that the kernel draws. */
static inline int listen_here(struct sockaddr_un *un, socklen_t *len)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	memset(un, 0, sizeof(*un));
	un->sun_family = AF_UNIX;
	*len = sizeof(*un);
	assert_int_equal(bind(fd, (void *)un, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (void *)un, len), 0);
	return fd;
}

#endif
