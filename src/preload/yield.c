/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The program runs short of numbers, and the library has some. */
#include "preload/preload.h"

/* Of one that looks for its peer, from where the last such was found on. */
static bool offer_from(int from)
{
	static int last;
	int first = from < 0 ? __atomic_load_n(&last, __ATOMIC_RELAXED) : from;
	struct sock *s;
	int fd;
	GUARDED(in);

	for (fd = fdt_next(first); fd >= 0; fd = fdt_next(fd + 1)) {
		s = fdt_sock(&in, fd);
		if (!s || sock_yield_offer(s))
			continue;
		__atomic_store_n(&last, fd + 1, __ATOMIC_RELAXED);
		return true;
	}
	return false;
}

bool yield_number(void)
{
	return offer_from(-1) || offer_from(0) || !sock_yield_fd();
}

bool yield_that(int fd)
{
	struct sock *s;
	int n;
	GUARDED(in);

	for (n = fdt_next(0); n >= 0; n = fdt_next(n + 1)) {
		s = fdt_sock(&in, n);
		if (s && !sock_move_offer(s, fd))
			return true;
	}
	return !sock_vacate(fd);
}

bool sock_retry(int ret)
{
	int keep = errno;
	bool again;

	if (likely(ret >= 0) || (keep != EMFILE && keep != ENFILE) ||
	    !fdt_ever || !fdt_is_owner())
		return false;
	again = yield_number();
	errno = keep;
	return again;
}
