/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Ears: completion channels of one end each. A thread that waits for one end
 * alone can sleep on its ear and is woken by the completion itself, without
 * another thread in between. An ear is a descriptor, so only so many ends have
 * one, and the others share their device's.
 */

#include <sys/epoll.h>

#include "base/sys.h"
#include "fabric/verbs/int.h"

void ear_new(struct vend *e)
{
	struct verbs *v = e->v;
	unsigned int i;
	int ret;

	for (i = 0; i < EARS && v->ears[i]; i++)
		;
	if (i == EARS)
		return;
	e->chan = ibv_create_comp_channel(e->dev->ctx);
	if (!e->chan)
		return;
	e->ear = &v->ears[i];
	*e->ear = e;
	ret = verbs_hide(v, &e->chan->fd);
	if (!ret)
		ret = verbs_watch(v, e->chan->fd, e->ear);
	if (ret)
		ear_free(e);
}

static int watch(struct vend *e, int op)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = e->ear };

	return sys_epoll_ctl(e->v->ep, op, e->chan->fd, &ev);
}

/* A child that has not closed its copy yet would keep it in the set. */
void ear_free(struct vend *e)
{
	if (!e->chan)
		return;
	watch(e, EPOLL_CTL_DEL);
	verbs_unhide(e->v, e->chan->fd);
	ibv_destroy_comp_channel(e->chan);
	*e->ear = NULL;
	e->chan = NULL;
}

void ear_forget(struct vend *e)
{
	if (!e->chan)
		return;
	verbs_unhide(e->v, e->chan->fd);
	sys_close(e->chan->fd);
}

/* What two threads do with the events of one CQ comes one after the other. */
static bool take(struct vend *e)
{
	struct ibv_cq *cq;
	void *who;
	bool some;
	CALM;

	if (lock_take(&e->stash.lock) == -EDEADLK)
		return false;
	some = !ibv_get_cq_event(e->chan, &cq, &who);
	if (some)
		ibv_ack_cq_events(cq, 1);
	lock_drop(&e->stash.lock);
	return some;
}

bool ear_event(struct verbs *v, void *who)
{
	struct vend **at = who;

	if (at < v->ears || at >= v->ears + EARS)
		return false;
	if (*at && take(*at))
		device_told(*at);
	return true;
}

int verbs_ear(struct end *end)
{
	struct vend *e = vend_of(end);

	return e->chan ? e->chan->fd : -1;
}

/*
 * A channel does not say what it has to tell. So to watch it for nothing would
 * wake the thread that sleeps on the set for each completion, inside the
 * kernel, where it finds nothing and sleeps on: it costs as much and is not
 * seen.
 */
int verbs_deaf(struct end *end, bool on)
{
	struct vend *e = vend_of(end);
	int ret = 0;

	if (e->chan)
		ret = watch(e, on ? EPOLL_CTL_DEL : EPOLL_CTL_ADD);
	return ret == -ENOENT || ret == -EEXIST ? 0 : ret;
}

void verbs_heard(struct end *end)
{
	struct vend *e = vend_of(end);

	if (e->chan)
		take(e);
}
