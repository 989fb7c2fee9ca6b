/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Connection management: what the CM has to say. With v->lock held. */

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/sys.h"
#include "fabric/verbs/int.h"

/*
 * Reasons of a REJ (InfiniBand 12.6.7.2): those of the CM itself that concern
 * the path run from the GID to the alternative path's rate.
 */
#define REJ_GID	     12
#define REJ_ALT_RATE 23
#define REJ_MTU	     26
#define REJ_CONSUMER 28 /* the other side's program said no */

/* What the event owns is gone with the acknowledgement: copied before. */
static size_t copy_data(const struct rdma_cm_event *ev, uint8_t *to, size_t max)
{
	size_t len = ev->param.conn.private_data_len;

	if (!ev->param.conn.private_data)
		return 0;
	if (len > max)
		len = max;
	memcpy(to, ev->param.conn.private_data, len);
	return len;
}

/* Requests beyond the limit cost a REJ and nothing else. */
static void requested(struct verbs *v, struct listener *l,
		      const struct rdma_cm_event *ev)
{
	struct verbs_request *r = NULL;

	if (v->nrequests < v->conf.requests_max)
		r = calloc(1, sizeof(*r));
	if (!r) {
		rdma_reject(ev->id, NULL, 0);
		/* Its destruction waits for the acknowledgement: below. */
		ev->id->context = NULL;
		return;
	}
	r->owner.kind = OWNER_REQUEST;
	r->id = ev->id;
	r->port = l->port;
	r->rd_atom = ev->param.conn.initiator_depth;
	r->len = copy_data(ev, r->data, sizeof(r->data));
	ev->id->context = &r->owner;
	list_add(&v->requests, &r->all);
	v->nrequests++;
}

static void resolved(struct verbs *v, struct vend *e)
{
	int ret = device_get(v, e->id, &e->dev);

	if (ret) {
		e->dev = NULL;
		event_down(e, ret == -ENODEV ? -EHOSTUNREACH : ret);
		return;
	}
	e->state = V_ROUTING;
	event_limit(e, v->conf.resolve_ms);
	ret = cm_err(rdma_resolve_route(e->id, (int)v->conf.resolve_ms));
	if (ret)
		event_down(e, ret == -ENODEV ? -EHOSTUNREACH : ret);
}

static void routed(struct vend *e)
{
	int ret = end_build(e);

	if (ret) {
		event_down(e, ret);
		return;
	}
	e->state = V_READY;
	event_limit(e, 0);
	event_due(e, VE_READY);
}

static void answered(struct vend *e, const struct rdma_cm_event *ev)
{
	/* as many RDMA reads as the other side answers at a time */
	if (ev->param.conn.initiator_depth < e->rd_atom)
		e->rd_atom = ev->param.conn.initiator_depth;
	copy_data(ev, e->data, VERBS_REP_LEN);
	e->established = ev->event == RDMA_CM_EVENT_ESTABLISHED;
	e->state = V_ANSWERED;
	event_due(e, VE_ANSWERED);
}

/* One line, and that host is not dialled for a while. */
static void no_path(struct vend *e, const char *who, int status)
{
	verbs_say_once(e->v, LOG_WARN,
		       "RDMA: %s finds no path to the other end (%d): look at "
		       "P_Key and GID",
		       who, status);
	event_down(e, -ENETUNREACH);
}

static void rejected(struct vend *e, const struct rdma_cm_event *ev)
{
	int why = ev->status;

	if ((why >= REJ_GID && why <= REJ_ALT_RATE) || why == REJ_MTU) {
		no_path(e, "the other host", why);
		return;
	}
	if (e->state != V_CONNECTING || why != REJ_CONSUMER) {
		event_down(e, -ECONNREFUSED);
		return;
	}
	copy_data(ev, e->data, VERBS_REJ_LEN);
	e->state = V_DOWN;
	event_limit(e, 0);
	event_stop(e);
	event_due(e, VE_REFUSED);
}

static int errno_of(const struct rdma_cm_event *ev)
{
	if (ev->status == -ETIMEDOUT || ev->event == RDMA_CM_EVENT_UNREACHABLE)
		return -ETIMEDOUT;
	return ev->event == RDMA_CM_EVENT_CONNECT_ERROR ? -ECONNABORTED :
							  -EHOSTUNREACH;
}

static void disconnected(struct vend *e)
{
	bool up = e->state == V_UP || e->state == V_CLOSING;

	/* The DREP: or the peer would ask again and again. */
	if (e->state != V_CLOSING)
		rdma_disconnect(e->id);
	event_down(e, up ? 0 : -ECONNRESET);
}

static void for_end(struct verbs *v, struct vend *e,
		    const struct rdma_cm_event *ev)
{
	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (e->state == V_SEEKING)
			native_found(v, e);
		else if (e->state == V_RESOLVING)
			resolved(v, e);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (e->state == V_ROUTING)
			routed(e);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (e->state == V_CONNECTING)
			answered(e, ev);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (e->state == V_CONNECTING) { /* iWARP */
			answered(e, ev);
		} else if (e->state == V_ACCEPTED) {
			e->state = V_UP;
			event_limit(e, 0);
			event_due(e, VE_UP);
		}
		break;
	case RDMA_CM_EVENT_REJECTED:
		rejected(e, ev);
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		no_path(e, "the subnet", ev->status);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		event_down(e, errno_of(ev));
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		disconnected(e);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		if (e->dev)
			e->dev->gone = true;
		event_down(e, -ENODEV);
		break;
	default:
		break;
	}
}

static void one_event(struct verbs *v, const struct rdma_cm_event *ev)
{
	struct rdma_cm_id *of = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST ?
					ev->listen_id :
					ev->id;
	struct owner *o = of->context;

	switch (o->kind) {
	case OWNER_LISTENER:
		if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			requested(v, LIST_OF(o, struct listener, owner), ev);
		break;
	case OWNER_REQUEST:
		/* The dialler gave up, or its device went. */
		LIST_OF(o, struct verbs_request, owner)->dead = true;
		break;
	case OWNER_END:
		for_end(v, LIST_OF(o, struct vend, owner), ev);
		break;
	}
}

void cm_events(struct verbs *v)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *spare;

	while (!rdma_get_cm_event(v->chan, &ev)) {
		spare = ev->id;
		one_event(v, ev);
		/* not an end's any more, or never one's */
		if (spare->context)
			spare = NULL;
		rdma_ack_cm_event(ev);
		if (spare)
			rdma_destroy_id(spare);
	}
	if (cm_err(-1) != -EACCES)
		return;
	/* it stays readable, and it may not be read here (rdma-facts.md 1.1) */
	v->denied = true;
	sys_epoll_ctl(v->ep, EPOLL_CTL_DEL, v->chan->fd, NULL);
}
