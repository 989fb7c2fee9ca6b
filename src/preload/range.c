/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* close_range() and closefrom(): managed numbers one by one, ours never. */
#include "preload/fd/real.h"

#include <limits.h>

#include "base/sys.h"
#include "preload/preload.h"

#define RANGE_UNSHARE 2 /* CLOSE_RANGE_UNSHARE */
#define RANGE_CLOEXEC 4 /* CLOSE_RANGE_CLOEXEC */

/* The kernel's call on the parts of the range between the hidden numbers. */
static int close_between(unsigned int first, unsigned int last, int flags)
{
	unsigned int from = first;
	int ret = 0, at;

	for (at = fd_hidden_next(first); at >= 0 && (unsigned int)at <= last;
	     at = fd_hidden_next(from)) {
		if ((unsigned int)at > from)
			ret = real_close_range(from, (unsigned int)at - 1,
					       flags);
		if (ret)
			break;
		from = (unsigned int)at + 1;
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
		sock_fallback_all(WHY_SANDBOX);
	}
	if (fdt_is_owner() && first <= INT_MAX)
		for (fd = fdt_next((int)first);
		     fd >= 0 && (unsigned int)fd <= last; fd = fdt_next(fd + 1))
			do_close(fd);
	return close_between(first, last, flags);
}

static void close_from(int fd, void *arg)
{
	if (fd >= *(const int *)arg)
		do_close(fd);
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
	if (!do_close_range((unsigned int)first, UINT_MAX, 0))
		return;
	/* an old kernel, or a filter */
	if (!numbers_each(close_from, &first))
		for (; first < FDT_ROOT * FDT_LEAF; first++)
			do_close(first);
}
