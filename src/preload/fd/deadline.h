/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_PRELOAD_FD_DEADLINE_H
#define LIBSDP_PRELOAD_FD_DEADLINE_H

/*
 * Time-outs of waiting calls as absolute monotonic nanoseconds. Everything
 * saturates: a time-out too long for 64 bits never ends. What goes back to
 * the kernel is rounded up, so a wait never ends before its time.
 */

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/mem.h"

#define DL_NEVER UINT64_MAX
#define DL_SEC	 1000000000u
#define DL_MS	 1000000u

/* What the kernel accepts as a time span (else EINVAL). */
static inline bool dl_valid(const struct timespec *ts)
{
	return ts->tv_sec >= 0 && ts->tv_nsec >= 0 &&
	       ts->tv_nsec < (long)DL_SEC;
}

/*
 * A limit that is not there: libc would read it itself, and end the program
 * where the kernel says EFAULT.
 */
static inline bool dl_lost(const struct timespec *ts)
{
	return ts && !mem_good(ts, sizeof(*ts), false);
}

/* The kernel reads a mask before it looks at anything that is waited for. */
static inline bool dl_mask_lost(const void *mask)
{
	return mask && !mem_good(mask, 8, false);
}

/* No limit, or one that is there and valid; else the kernel refuses. */
static inline bool dl_sound(const struct timespec *ts)
{
	return !ts || (mem_good(ts, sizeof(*ts), false) && dl_valid(ts));
}

/* A valid span in nanoseconds. */
static inline uint64_t dl_span(const struct timespec *ts)
{
	uint64_t s = (uint64_t)ts->tv_sec, ns;

	if (__builtin_mul_overflow(s, (uint64_t)DL_SEC, &ns) ||
	    __builtin_add_overflow(ns, (uint64_t)ts->tv_nsec, &ns))
		return DL_NEVER;
	return ns;
}

static inline uint64_t dl_span_ms(int ms)
{
	return ms < 0 ? DL_NEVER : (uint64_t)ms * DL_MS;
}

/* The moment `span` after `now`; DL_NEVER stays. */
static inline uint64_t dl_after(uint64_t now, uint64_t span)
{
	uint64_t at;

	return __builtin_add_overflow(now, span, &at) ? DL_NEVER : at;
}

/* What is left at `now` of a wait until `at`. */
static inline uint64_t dl_left(uint64_t now, uint64_t at)
{
	if (at == DL_NEVER)
		return DL_NEVER;
	return at > now ? at - now : 0;
}

/*
 * The kernel has slept all that was `left`, in a nap of that length: the time
 * is over, whatever the clock says to a program for which a library in front of
 * the kernel has it run faster. Longer ones may have been cut (dl_ms()).
 */
static inline bool dl_slept(int ret, uint64_t nap, uint64_t left)
{
	return !ret && nap == left && left / DL_MS < INT_MAX;
}

/* A span for poll() and epoll_wait(): -1 for ever. */
static inline int dl_ms(uint64_t span)
{
	uint64_t ms = span / DL_MS + (span % DL_MS ? 1 : 0);

	if (span == DL_NEVER)
		return -1;
	return ms > INT_MAX ? INT_MAX : (int)ms;
}

/* A span for ppoll() and epoll_pwait2(); not for DL_NEVER. */
static inline struct timespec dl_ts(uint64_t span)
{
	return (struct timespec){ .tv_sec = (time_t)(span / DL_SEC),
				  .tv_nsec = (long)(span % DL_SEC) };
}

#endif
