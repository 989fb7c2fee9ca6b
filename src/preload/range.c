/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* close_range() and closefrom(): managed numbers one by one, ours never. */
#include "preload/real.h"

#include <limits.h>
#include <sys/resource.h>

#include "base/sys.h"
#include "preload/preload.h"

#define RANGE_UNSHARE 2 /* CLOSE_RANGE_UNSHARE */
#define RANGE_CLOEXEC 4 /* CLOSE_RANGE_CLOEXEC */

/* One past the highest number that can be ours. */
static unsigned int hidden_end(void)
{
	struct rlimit64 lim = { 0 };

	if (sys_call6(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&lim, 0, 0) ||
	    lim.rlim_cur > INT_MAX)
		return FDT_ROOT * FDT_LEAF;
	return (unsigned int)lim.rlim_cur;
}

/* The kernel's call on the parts of the range between the hidden numbers. */
static int close_between(unsigned int first, unsigned int last, int flags)
{
	unsigned int end = hidden_end(), from = first, at;
	int ret = 0;

	for (at = first; at <= last && at < end && !ret; at++) {
		if (!fd_hidden((int)at))
			continue;
		if (at > from)
			ret = real_close_range(from, at - 1, flags);
		from = at + 1;
	}
	if (!ret && from <= last && from >= first)
		ret = real_close_range(from, last, flags);
	return ret;
}

int do_close_range(unsigned int first, unsigned int last, int flags)
{
	int fd;

	if (!flags)
		uring_closing(first, last);
	if (likely(!fdt_ever) || first > last || flags & RANGE_CLOEXEC ||
	    flags & ~(RANGE_UNSHARE | RANGE_CLOEXEC))
		return real_close_range(first, last, flags);
	if (flags & RANGE_UNSHARE) {
		/* the table follows one set of descriptors: this thread's */
		sock_home_all(WHY_SANDBOX);
	}
	if (fdt_is_owner() && first <= INT_MAX)
		for (fd = fdt_next((int)first);
		     fd >= 0 && (unsigned int)fd <= last; fd = fdt_next(fd + 1))
			do_close(fd);
	return close_between(first, last, flags);
}

void do_closefrom(int first)
{
	if (first < 0)
		first = 0;
	uring_closing((unsigned int)first, UINT_MAX);
	if (likely(!fdt_ever)) {
		real_closefrom(first);
		return;
	}
	if (do_close_range((unsigned int)first, UINT_MAX, 0))
		for (; (unsigned int)first < hidden_end(); first++)
			do_close(first);
}
