/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/arena.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"

#define CHUNK_SLOTS_MIN 64u
#define CHUNK_SLOTS_MAX 4096u

/*
 * The head of a mapping; the slots follow at the next multiple of 64, and behind
 * them their rare parts.
 */
struct chunk {
	uint32_t slots; /* a multiple of 64 */
	uint32_t hint; /* the word of `used` where room was seen last */
	size_t bytes; /* of the mapping */
	uint64_t used[CHUNK_SLOTS_MAX / 64];
} __attribute__((aligned(64)));

/* Eight chunks of each size: programs with few sockets map little. */
static uint32_t chunk_slots(uint32_t index)
{
	uint32_t doublings = index / 8;

	return doublings > 6 ? CHUNK_SLOTS_MAX : CHUNK_SLOTS_MIN << doublings;
}

static char *chunk_slot(struct chunk *c, size_t size, uint32_t i)
{
	return (char *)(c + 1) + size * i;
}

static char *chunk_rare(struct chunk *c, const struct arena *a, uint32_t i)
{
	return chunk_slot(c, a->size, c->slots) + a->rare * i;
}

/* The number of a slot that was free and is now taken, or -1. */
static int chunk_take(struct chunk *c)
{
	uint32_t words = c->slots / 64, i;
	uint32_t start = __atomic_load_n(&c->hint, __ATOMIC_RELAXED);

	for (i = 0; i < words; i++) {
		uint32_t w = (start + i) % words;
		uint64_t seen = __atomic_load_n(&c->used[w], __ATOMIC_RELAXED);

		while (~seen) {
			uint64_t bit = ~seen & (seen + 1); /* lowest free */

			if (!__atomic_compare_exchange_n(
				    &c->used[w], &seen, seen | bit, 0,
				    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				continue;
			__atomic_store_n(&c->hint, w, __ATOMIC_RELAXED);
			return (int)(w * 64) + __builtin_ctzll(bit);
		}
	}
	return -1;
}

/*
 * Here may have lain what another thread was too late with and gave back a
 * moment ago, by a call that the thread sanitizer does not see.
 */
__attribute__((noinline, no_sanitize("thread"))) static struct chunk *
chunk_new(const struct arena *a, uint32_t slots)
{
	size_t bytes = sizeof(struct chunk) + (a->size + a->rare) * slots;
	struct chunk *c;

	c = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (sys_is_err(c))
		return NULL;
	c->slots = slots;
	c->bytes = bytes;
	return c;
}

/*
 * Appends a chunk unless another thread just did. False: no memory, or no
 * place left in the list. The list only grows; a place is filled before the
 * count that makes it visible.
 */
static bool arena_grow(struct arena *a, uint32_t count)
{
	void *none = NULL;
	struct chunk *c;

	if (count >= ARENA_CHUNKS)
		return false;
	if (!__atomic_load_n(&a->chunks[count], __ATOMIC_ACQUIRE)) {
		c = chunk_new(a, chunk_slots(count - a->first));
		if (!c)
			return false;
		if (!__atomic_compare_exchange_n(&a->chunks[count], &none, c, 0,
						 __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE))
			sys_munmap(c, c->bytes);
	}
	__atomic_compare_exchange_n(&a->count, &count, count + 1, 0,
				    __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	return true;
}

static struct chunk *arena_chunk(const struct arena *a, uint32_t i)
{
	return __atomic_load_n(&a->chunks[i], __ATOMIC_RELAXED);
}

void *arena_get(struct arena *a)
{
	uint32_t count, i;
	struct chunk *c;
	void *slot;
	int n;

	do {
		count = __atomic_load_n(&a->count, __ATOMIC_ACQUIRE);
		for (i = count; i-- > a->first;) {
			c = arena_chunk(a, i);
			n = chunk_take(c);
			if (n < 0)
				continue;
			slot = chunk_slot(c, a->size, (uint32_t)n);
			return memset(slot, 0, a->size);
		}
	} while (arena_grow(a, count));
	return NULL;
}

/* The chunk that the slot is the *n-th of; or NULL, it is none. */
static struct chunk *chunk_of(const struct arena *a, const void *slot,
			      uint32_t *n)
{
	uint32_t i = __atomic_load_n(&a->count, __ATOMIC_ACQUIRE);

	while (i-- > 0) {
		struct chunk *c = arena_chunk(a, i);
		uintptr_t at =
			(uintptr_t)slot - (uintptr_t)chunk_slot(c, a->size, 0);

		if (at / a->size >= c->slots || at % a->size)
			continue;
		*n = (uint32_t)(at / a->size);
		return c;
	}
	return NULL;
}

void *arena_rare(const struct arena *a, const void *slot)
{
	uint32_t n;
	struct chunk *c = chunk_of(a, slot, &n);

	return c ? chunk_rare(c, a, n) : NULL;
}

void arena_put(struct arena *a, void *slot)
{
	uint32_t n;
	struct chunk *c = chunk_of(a, slot, &n);

	if (!c)
		return;
	__atomic_fetch_and(&c->used[n / 64], ~(1ull << (n % 64)),
			   __ATOMIC_RELEASE);
	__atomic_store_n(&c->hint, n / 64, __ATOMIC_RELAXED);
}

void arena_forked(struct arena *a)
{
	uint32_t count = a->count;

	/* a thread of the parent may have been between place and count */
	if (count < ARENA_CHUNKS && a->chunks[count])
		a->count = ++count;
	a->first = count;
}
