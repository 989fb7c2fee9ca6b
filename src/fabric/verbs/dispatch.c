/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* event(): looks at what is ready, and tells what was queued, one by one. */

#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/sys.h"
#include "fabric/verbs/int.h"

/* What a signal handler could not do while it had interrupted us. */
static void catch_up(struct verbs *v)
{
	struct list *l, *next;
	struct vend *e;

	v->late = false;
	for (l = v->ends.next; l != &v->ends; l = next) {
		next = l->next;
		e = LIST_OF(l, struct vend, all);
		if (e->die) {
			end_free(e);
		} else if (e->leave) {
			e->leave = false;
			end_leave(e);
		}
	}
}

/* The first of an end's bits; VE_UP before VE_DOWN before VE_READABLE. */
static void tell(struct vend *e, struct verbs_event *ev)
{
	unsigned int type = (unsigned int)__builtin_ctz(e->due);

	e->due &= (uint16_t)(e->due - 1);
	if (!e->due)
		list_del(&e->due_at);
	ev->type = type;
	ev->end = &e->end;
	ev->tag = e->tag;
	if (type == VE_ANSWERED || type == VE_REFUSED) {
		memcpy(ev->data, e->data, sizeof(ev->data));
		ev->len = type == VE_ANSWERED ? VERBS_REP_LEN : VERBS_REJ_LEN;
	}
	if (type == VE_FAILED || type == VE_DOWN)
		ev->error = e->why;
}

static bool tell_request(struct verbs *v, struct verbs_event *ev)
{
	struct verbs_request *r;
	struct list *l;

	for (l = v->requests.next; l != &v->requests; l = l->next) {
		r = LIST_OF(l, struct verbs_request, all);
		if (r->told)
			continue;
		r->told = true;
		ev->type = VE_REQUEST;
		ev->request = r;
		ev->port = r->port;
		memcpy(&ev->local, rdma_get_local_addr(r->id),
		       sizeof(ev->local));
		memcpy(&ev->peer, rdma_get_peer_addr(r->id), sizeof(ev->peer));
		verbs_addr_plain(&ev->local);
		verbs_addr_plain(&ev->peer);
		memcpy(ev->data, r->data, r->len);
		ev->len = r->len;
		return true;
	}
	return false;
}

static void time_out(struct verbs *v)
{
	struct list *l = v->timed.next, *next;
	struct vend *e;
	uint64_t now;

	if (l == &v->timed)
		return;
	now = clock_ns();
	for (; l != &v->timed; l = next) {
		next = l->next;
		e = LIST_OF(l, struct vend, timed);
		if (e->deadline <= now)
			event_down(e, -ETIMEDOUT);
	}
}

uint64_t verbs_patience(const struct verbs *cv)
{
	struct verbs *v = (struct verbs *)(uintptr_t)cv;
	uint64_t first = UINT64_MAX, now = clock_ns();
	struct list *l;

	if (verbs_enter(v))
		return 0;
	for (l = v->timed.next; l != &v->timed; l = l->next) {
		struct vend *e = LIST_OF(l, struct vend, timed);

		if (e->deadline < first)
			first = e->deadline;
	}
	lock_drop(&v->lock);
	if (first == UINT64_MAX)
		return first;
	return first > now ? first - now : 0;
}

/* One descriptor that is ready: false when there is none. */
static bool look(struct verbs *v)
{
	struct epoll_event ev;
	struct device *d;
	uint64_t n;

	if (sys_call6(SYS_epoll_pwait, v->ep, (long)&ev, 1, 0, 0, 8) <= 0)
		return false;
	if (ev.data.ptr == &v->kick) {
		sys_read(v->kick, &n, sizeof(n));
		v->rung = false;
		return true;
	}
	if (ev.data.ptr == v->chan) {
		cm_events(v);
		return true;
	}
	if (ear_event(v, ev.data.ptr))
		return true;
	for (d = v->devices; d; d = d->next) {
		if (ev.data.ptr == &d->chan) {
			device_completions(d);
			return true;
		}
		if (ev.data.ptr == &d->ctx) {
			device_async(v, d);
			return true;
		}
	}
	return true;
}

int verbs_event(struct verbs *v, struct verbs_event *ev)
{
	int ret = 1;

	memset(ev, 0, sizeof(*ev));
	if (verbs_enter(v))
		return 0;
	v->inside = true;
	time_out(v);
	for (;;) {
		if (v->late)
			catch_up(v);
		if (!list_empty(&v->due)) {
			tell(LIST_OF(v->due.next, struct vend, due_at), ev);
			break;
		}
		if (tell_request(v, ev))
			break;
		if (!look(v)) {
			ret = v->denied ? -EACCES : 0;
			break;
		}
	}
	v->inside = false;
	/* For a caller that asks once and sleeps. */
	if (!list_empty(&v->due))
		event_kick(v);
	lock_drop(&v->lock);
	return ret;
}
