/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Fortified poll(): the array is checked here, then it is poll(). */
#include "preload/fd/real.h"

#include "preload/preload.h"
#include "preload/ready.h"

int do___poll_chk(struct pollfd *p, nfds_t n, int ms, size_t room)
{
	if (unlikely(room / sizeof(*p) < n))
		__chk_fail();
	return (int)ret_errno(do_poll(p, n, ms));
}

int do___ppoll_chk(struct pollfd *p, nfds_t n, const struct timespec *ts,
		   const sigset_t *mask, size_t room)
{
	if (unlikely(room / sizeof(*p) < n))
		__chk_fail();
	return (int)ret_errno(do_ppoll(p, n, ts, mask));
}
