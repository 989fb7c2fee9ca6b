/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a waiting call sleeps in the kernel, and what ends it beside the peer. */
#include "socket/wait/wait.h"

#include "base/sigdefer.h"

#define WAKE_SLACK 10000000u /* ns by which the kernel's limits may be off */
#define WAKE_FAR   (3600u * 1000) /* ms: only for what it ends */

static uint64_t left_till(uint64_t deadline)
{
	uint64_t now = clock_ns();

	return deadline > now ? deadline - now : 0;
}

/*
 * Locked, in front of a sleep: a receive of TCP's with a time limit, or that
 * has a part, ends though no handler ran, and for that the wake-up socket needs
 * a limit itself. It counts for all that sleep there: the first one sets it,
 * and one that needs another sleeps by ppoll().
 */
bool sleep_limit(struct sock *s, uint64_t deadline, struct beside also)
{
	uint64_t ms = 0;
	struct timeval tv;

	if (also.signals >= 0 || also.ear >= 0 ||
	    (!also.stops && deadline != UINT64_MAX))
		return false;
	if (deadline != UINT64_MAX)
		ms = (left_till(deadline) + 999999) / 1000000;
	else if (also.part)
		ms = WAKE_FAR;
	if (ms > WAKE_FAR)
		ms = WAKE_FAR; /* what comes out too early sleeps again */
	if (likely(ms == s->waits.wake_ms))
		return ms;
	if (!ms && deadline != UINT64_MAX)
		return false;
	tv = (struct timeval){ .tv_sec = (time_t)(ms / 1000),
			       .tv_usec = (suseconds_t)(ms % 1000 * 1000) };
	if (s->waits.readers + s->waits.writers ||
	    sys_setsockopt(s->waits.wake, SOL_SOCKET, SO_RCVTIMEO, &tv,
			   sizeof(tv)))
		return false;
	s->waits.wake_ms = (uint32_t)ms;
	return ms;
}

/* By a receive of the byte that rings, without taking it. */
static int sleep_by_receive(struct sock *s, uint64_t deadline, bool stops)
{
	char byte;
	int ret = (int)sigdefer_await(s->waits.wake, &byte, !stops);

	if (unlikely(!stops && s->waits.wake_ms))
		ret = sleep_heeded(ret, deadline, false);
	if (ret == SIGDEFER_AGAIN)
		return AGAIN;
	/* the limit may be another sleeper's, or end too soon */
	if (ret == -EAGAIN && left_till(deadline) > WAKE_SLACK)
		return HEARD;
	return ret;
}

static int sleep_by_poll(struct sock *s, uint64_t deadline, struct beside also)
{
	struct pollfd p[3] = { { .fd = s->waits.wake, .events = POLLIN },
			       { .fd = also.ear, .events = POLLIN },
			       { .fd = also.signals, .events = POLLIN } };
	uint64_t left = left_till(deadline);
	struct timespec ts;
	char byte;
	int n;

	ts.tv_sec = (time_t)(left / 1000000000u);
	ts.tv_nsec = (long)(left % 1000000000u);
	n = hooks.ppoll(p, also.signals < 0 ? 1 : 3,
			deadline == UINT64_MAX ? NULL : &ts, NULL);
	if (n < 0)
		return -errno;
	if (!n)
		return -EAGAIN;
	if (!p[0].revents)
		return p[1].revents ? HEARD : -EINTR;
	if (also.ear < 0 && !also.part)
		return p[0].revents & POLLIN ? 1 : 0;
	/* its end is readable, too; the byte may be eaten by now */
	n = (int)sys_recv(p[0].fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return n == -EAGAIN ? HEARD : n;
}

int sleep_on(struct sock *s, uint64_t deadline, struct beside also)
{
	if (also.stops ||
	    (deadline == UINT64_MAX && also.signals < 0 && !also.part))
		return sleep_by_receive(s, deadline, also.stops);
	return sleep_by_poll(s, deadline, also);
}

/*
 * What a call without a time limit does behind a handler that was let in by a
 * sleep the kernel does not restart.
 */
int sleep_heeded(int ret, uint64_t deadline, bool part)
{
	return ret == -EINTR && deadline == UINT64_MAX && !part &&
			       wait_restarts(UINT64_MAX) ?
		       0 :
		       ret;
}
