/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Descriptors are the program's. What the library has of them (fdhide.c) stays
 * below a share of RLIMIT_NOFILE, so that calls that are not seen (libc's own
 * open files) find as many as they would without it; beyond that nothing is
 * lifted. Where the program runs short all the same, less is kept for a while.
 */
#include <limits.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/sys.h"
#include "socket/core/core.h"

#define PART	 16 /* of the limit, one in so many */
#define FEW	 8 /* or this many, where they are */
#define FEW_PART 4 /* no more than one in so many */
#define LIFTS	 64 /* the limit is read again after so many */
#define SHORT_NS 1000000000ull /* after the program met its limit */

static struct {
	uint32_t share; /* 0: not known yet */
	uint32_t lifts; /* since it was read */
	uint64_t short_until; /* 0: never */
	uint32_t short_share; /* till then */
} own;

uint32_t fd_share_of(uint64_t limit)
{
	uint64_t part = limit / PART, few = limit / FEW_PART;

	if (few > FEW)
		few = FEW;
	if (part < few)
		part = few;
	return part > INT_MAX ? INT_MAX : (uint32_t)part;
}

void fd_share_learn(void)
{
	struct rlimit rl;

	if (sys_call6(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&rl, 0, 0))
		rl.rlim_cur = 1024;
	__atomic_store_n(&own.share, fd_share_of(rl.rlim_cur),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&own.lifts, 0, __ATOMIC_RELAXED);
}

uint32_t fd_share(void)
{
	uint64_t until = __atomic_load_n(&own.short_until, __ATOMIC_RELAXED);
	uint32_t share = __atomic_load_n(&own.share, __ATOMIC_RELAXED), less;

	if (!until)
		return share;
	if (clock_ns() >= until) {
		__atomic_store_n(&own.short_until, 0, __ATOMIC_RELAXED);
		return share;
	}
	less = __atomic_load_n(&own.short_share, __ATOMIC_RELAXED);
	return less < share ? less : share;
}

bool fd_share_left(void)
{
	if (!__atomic_load_n(&own.share, __ATOMIC_RELAXED) ||
	    __atomic_add_fetch(&own.lifts, 1, __ATOMIC_RELAXED) >= LIFTS)
		fd_share_learn();
	return fd_hidden_count() < fd_share();
}

void fd_share_short(void)
{
	__atomic_store_n(&own.short_share, fd_hidden_count(), __ATOMIC_RELAXED);
	__atomic_store_n(&own.short_until, clock_ns() + SHORT_NS,
			 __ATOMIC_RELAXED);
}
