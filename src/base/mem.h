/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_MEM_H
#define LIBSDP_BASE_MEM_H

/*
 * Is the program's memory there? The kernel answers EFAULT where a copy in
 * user space would crash. Pages are shown to the kernel by calls that change
 * nothing; those found good are remembered per thread, so that the usual
 * buffers cost a few loads. Who unmaps a page that was found good and hands it
 * in again is not found out.
 */

#include <stdbool.h>
#include <stddef.h>

/* Asked anew, for one byte. */
bool mem_there(const void *at);

/*
 * How many of n bytes can be read, or (`write`) written. Looks at the first
 * page and the last; in between only if the last is missing, and then at 16 MiB
 * at most.
 */
size_t mem_front(const void *at, size_t n, bool write);

static inline bool mem_good(const void *at, size_t n, bool write)
{
	return mem_front(at, n, write) == n;
}

#endif
