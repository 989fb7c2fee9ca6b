/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_ARENA_H
#define LIBSDP_BASE_ARENA_H

/*
 * Memory of a process family: slots in MAP_SHARED|MAP_ANONYMOUS chunks, so
 * that parent and child see the same bytes at the same address after fork.
 * Chunks are never unmapped: a slot's memory stays mapped for the life of the
 * process (type-stable), only its content is reused.
 *
 * Slots are handed out with atomics on words inside the chunk, so any process
 * that has the chunk may give a slot back. Slots are taken only from chunks
 * that the process made itself (arena_forked), so that a child that is killed
 * takes along what it took and leaves no holes in its parent's chunks.
 */

#include <stddef.h>
#include <stdint.h>

#define ARENA_CHUNKS 64

struct arena {
	size_t size; /* of a slot, rounded up to 64 */
	size_t rare; /* of the rare part of a slot, rounded up to 64 */
	void *chunks[ARENA_CHUNKS]; /* process-private list of mapped chunks */
	uint32_t count;
	uint32_t first; /* chunks before this one are the parent's */
};

#define ARENA_INIT(bytes) ARENA_INIT_RARE(bytes, 0)
#define ARENA_INIT_RARE(bytes, rare_bytes)                 \
	{                                                  \
		.size = ((bytes) + 63) & ~(size_t)63,      \
		.rare = ((rare_bytes) + 63) & ~(size_t)63, \
	}

/*
 * A zeroed slot, aligned to 64, or NULL without memory. Async-signal-safe,
 * thread-safe. About 100,000 slots in all.
 */
void *arena_get(struct arena *a);
/*
 * Its rare part, which lies apart from the slots and takes no memory before it
 * is written to. Not zeroed: what a former slot had may lie there.
 */
void *arena_rare(const struct arena *a, const void *slot);
/* Any process of the family; a pointer that is no slot is ignored. */
void arena_put(struct arena *a, void *slot);
/* Call in a forked child before it takes a slot. */
void arena_forked(struct arena *a);

#endif
