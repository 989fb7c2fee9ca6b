/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_POLLMANY_H
#define LIBSDP_BASE_POLLMANY_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* A system call that may sleep, with its arguments and the mask in it. */
typedef long pollmany_sleep(long nr, const long arg[6], const void *mask);

/* Are these more entries than the kernel takes of the program? */
bool pollmany_refused(size_t n);
/*
 * ppoll() for more entries than RLIMIT_NOFILE, for which the kernel says
 * EINVAL. `sleep` makes the calls that wait, NULL: bare ones. What poll()
 * returns, or a negative errno, -ENOMEM among them. Async-signal-safe.
 */
int pollmany(struct pollfd *p, size_t n, const struct timespec *ts,
	     const void *mask, pollmany_sleep *sleep);

#endif
