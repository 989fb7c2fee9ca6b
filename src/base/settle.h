/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef BASE_SETTLE_H
#define BASE_SETTLE_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>

#include "base/sys.h"

/*
 * The kernel notes a reset as an error, a hang-up and an end, one after the
 * other, and poll() looks at them without the socket's lock: a look just
 * then sees half of it. All that is noted under the lock, so behind a call that
 * takes it the whole is there.
 *
 * `revents`: what poll() said of `fd`, a TCP socket, when asked for `events`.
 * Returns that, or what it says behind such a call if it looks like half.
 */
static inline short settled(int fd, short events, short revents)
{
	const short in = POLLIN | POLLRDNORM;
	struct pollfd p = { .fd = fd, .events = events };
	struct timespec now = { 0, 0 };
	struct tcp_info i;
	socklen_t len = sizeof(i);

	if (revents & POLLHUP ? !(events & in) || (revents & in) :
				!(revents & POLLERR))
		return revents;
	(void)sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len);
	return sys_ppoll(&p, 1, &now, NULL) < 0 ? revents : p.revents;
}

#endif
