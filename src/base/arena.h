/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_ARENA_H
#define LIBSDP_BASE_ARENA_H

/*
 * Memory of a process family: slots in MAP_SHARED|MAP_ANONYMOUS chunks, so
 * that parent and child see the same bytes at the same address after fork.
 * Chunks are never unmapped: a slot's memory stays mapped for the life of the
 * process (type-stable), only its content is reused.
 *
 * Slots are handed out in processes that share the chunk, so taking and
 * giving is done with atomics on words inside the chunk. A process that dies
 * without giving its slots back leaks them to its relatives only until
 * arena_reap() finds the owners dead.
 */

#include <stddef.h>
#include <stdint.h>

struct arena {
	size_t size; /* of a slot, rounded up to 64 */
	void *chunks[64]; /* process-private list of mapped chunks */
	uint32_t count;
};

#define ARENA_INIT(bytes) { .size = ((bytes) + 63) & ~(size_t)63 }

/* A zeroed slot, or NULL without memory. Async-signal-safe, thread-safe. */
void *arena_get(struct arena *a);
void arena_put(struct arena *a, void *slot);

#endif
