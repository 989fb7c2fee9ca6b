/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Which thread is told of messages, see fake.h: an end's connection is its
 * completion channel, too.
 */

#include "fake.h"

static void watch_armed(struct fend *e)
{
	struct epoll_event ev = { .events = EPOLLRDHUP, .data.ptr = e };

	if (e->armed && !e->deaf)
		ev.events |= EPOLLIN;
	if (e->out_len)
		ev.events |= EPOLLOUT;
	if (!e->eof)
		sys_epoll_ctl(e->v->ep, EPOLL_CTL_MOD, e->fd, &ev);
}

int fake_arm(struct end *end, bool solicited)
{
	struct fend *e = of(end);

	(void)solicited;
	pthread_mutex_lock(&e->lock);
	e->armed = true;
	watch_armed(e);
	pthread_mutex_unlock(&e->lock);
	return 0;
}

int fake_ear(struct end *end)
{
	return of(end)->fd;
}

int fake_deaf(struct end *end, bool on)
{
	struct fend *e = of(end);

	pthread_mutex_lock(&e->lock);
	e->deaf = on;
	watch_armed(e);
	pthread_mutex_unlock(&e->lock);
	return 0;
}

/* Nothing but the messages themselves makes it readable. */
void fake_heard(struct end *end)
{
	(void)end;
}
