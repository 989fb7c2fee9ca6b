/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_MEM_H
#define LIBSDP_BASE_MEM_H

/*
 * Is the program's memory there? The kernel answers EFAULT where a copy in
 * user space would crash. Pages are shown to the kernel by calls that change
 * nothing; those found good are remembered, so that the usual buffers cost a few
 * loads.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Asked anew, for one byte. */
bool mem_there(const void *at, bool write);
/* What was found good may not be any more. */
void mem_forget(void);

/*
 * How many of n bytes can be read, or (`write`) written. Looks at the first
 * page and the last; in between only if the last is missing, and then at 16 MiB
 * at most.
 */
size_t mem_front(const void *at, size_t n, bool write);
/*
 * The same of what is only touched by ucopy(), which finds out that a page has
 * gone since: thousands of pages are remembered, and by all threads.
 */
size_t mem_front_copied(const void *at, size_t n, bool write);

/*
 * The n bytes that lie at `from`, where this process may not read them at the
 * time (mprotect()). False: nothing lies there, or the kernel cannot be asked:
 * that takes /proc, and a descriptor for a moment.
 */
bool mem_read_protected(void *to, const void *from, size_t n);

/*
 * Does it begin or end beyond what a process can have? The kernel refuses that
 * before it looks at anything else, and moves no byte.
 */
static inline bool mem_beyond(const void *at, size_t n)
{
	uintptr_t end;

	return __builtin_add_overflow((uintptr_t)at, n, &end) ||
	       (intptr_t)end < 0;
}

static inline bool mem_good(const void *at, size_t n, bool write)
{
	return mem_front(at, n, write) == n;
}

#endif
