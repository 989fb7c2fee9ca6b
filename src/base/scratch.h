/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_SCRATCH_H
#define LIBSDP_BASE_SCRATCH_H

/*
 * Memory for a call that needs more than some hundred bytes: the stack is the
 * program's, and may be the smallest there is, with a signal's frame on it.
 * Each thread has a mapping of its own, made at the first use, in which calls
 * take pieces one above the other. Where it is full a piece is mapped for
 * itself; a few threads have one though the program's address space is used up.
 *
 * Async-signal-safe: a handler that interrupts a taker gives back what it took
 * before it returns, and what a jump out of a handler leaves is taken back by
 * scratch_jumping().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct scratch {
	void *at; /* NULL: nothing */
	size_t mapped; /* not 0: bytes mapped for this one */
};

/* In a variable of its own: given back when it goes out of scope. */
#define SCRATCH(name) \
	__attribute__((cleanup(scratch_give))) struct scratch name = { NULL, 0 }

/* n bytes, aligned to 16, not cleared; NULL without memory. Taken once. */
void *scratch_take(struct scratch *s, size_t n);
void scratch_give(struct scratch *s);
/* Another thread has the mapping `mem` (NULL: none) from here on. */
void scratch_fresh(void *mem);
/*
 * `mem` is not used any more; what its slot keeps of it: NULL if it is
 * unmapped.
 */
void *scratch_drop(void *mem);
/* Has this thread taken a piece? */
bool scratch_held(void);
/* This thread leaves the frames below `to`: what they took is free again. */
void scratch_jumping(uintptr_t to);

#endif
