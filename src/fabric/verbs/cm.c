/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Connection management: what the caller asks for. Answers: cmevent.c. */

#include <stdlib.h>
#include <string.h>

#include "fabric/verbs/int.h"

#define BACKLOG 128

static int listener_new(struct verbs *v, struct listener **out)
{
	struct listener *l = calloc(1, sizeof(*l));
	int ret;

	if (!l)
		return -ENOMEM;
	l->owner.kind = OWNER_LISTENER;
	ret = cm_err(rdma_create_id(v->chan, &l->id, &l->owner, v->ps));
	if (ret)
		free(l);
	else
		*out = l;
	return ret;
}

static int listen_on(struct listener *l, int family, uint16_t port)
{
	union verbs_addr any = { .sa.sa_family = (sa_family_t)family };
	int one = 1, ret;

	any.in.sin_port = htons(port);
	/* The IPv4 listener of the same port shall stay possible. */
	if (family == AF_INET6) {
		any.in6.sin6_port = htons(port);
		rdma_set_option(l->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY,
				&one, sizeof(one));
	}
	ret = cm_err(rdma_bind_addr(l->id, &any.sa));
	if (ret)
		return ret == -EADDRNOTAVAIL ? -EADDRINUSE : ret;
	ret = cm_err(rdma_listen(l->id, BACKLOG));
	if (ret)
		return ret == -EADDRNOTAVAIL ? -EADDRINUSE : ret;
	return ntohs(rdma_get_src_port(l->id));
}

int verbs_listen(struct verbs *v, int family, uint16_t port)
{
	struct listener *l;
	int ret;

	if (family != AF_INET && family != AF_INET6)
		return -EAFNOSUPPORT;
	ret = verbs_enter(v);
	if (ret)
		return ret;
	ret = listener_new(v, &l);
	if (ret)
		goto out;
	ret = listen_on(l, family, port);
	if (ret < 0) {
		rdma_destroy_id(l->id);
		free(l);
		goto out;
	}
	l->port = (uint16_t)ret;
	l->next = v->listeners;
	v->listeners = l;
out:
	lock_drop(&v->lock);
	return ret;
}

/* Both families, if both listen. Requests that came stay. */
void verbs_unlisten(struct verbs *v, uint16_t port)
{
	struct listener **at = &v->listeners, *l;

	if (verbs_enter(v))
		return; /* it stays until close() */
	while ((l = *at)) {
		if (l->port != port) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		rdma_destroy_id(l->id);
		free(l);
	}
	lock_drop(&v->lock);
}

/* No route to a device is an answer like others, and comes as an event. */
void cm_resolve(struct vend *e, struct sockaddr *from, struct sockaddr *to)
{
	uint32_t ms = e->v->conf.resolve_ms;
	int ret;

	event_limit(e, ms);
	ret = cm_err(rdma_resolve_addr(e->id, from->sa_family ? from : NULL, to,
				       (int)ms));
	if (ret == -ENODEV || ret == -ENETUNREACH || ret == -EADDRNOTAVAIL)
		ret = -EHOSTUNREACH;
	if (ret)
		event_down(e, ret);
}

int cm_dial(struct verbs *v, const union verbs_addr *local,
	    const union verbs_addr *peer, uint64_t service, uint64_t tag,
	    struct end **end)
{
	union verbs_addr to = *peer, from = { 0 };
	struct rdma_cm_id *id;
	struct vend *e;
	int ret;

	verbs_addr_plain(&to);
	if (local && local->sa.sa_family) {
		from = *local;
		from.in.sin_port = 0;
		verbs_addr_plain(&from);
	}
	ret = verbs_enter(v);
	if (ret)
		return ret;
	ret = cm_err(rdma_create_id(v->chan, &id, NULL,
				    service ? RDMA_PS_TCP : v->ps));
	if (ret)
		goto out;
	e = end_new(v, id, tag, true);
	if (!e) {
		rdma_destroy_id(id);
		ret = -ENOMEM;
		goto out;
	}
	e->native = service != 0;
	e->service = service;
	e->state = service ? V_SEEKING : V_RESOLVING;
	cm_resolve(e, &from.sa, &to.sa);
	*end = &e->end;
out:
	lock_drop(&v->lock);
	return ret;
}

int verbs_dial(struct verbs *v, const union verbs_addr *local,
	       const union verbs_addr *peer, uint64_t tag, struct end **end)
{
	return cm_dial(v, local, peer, 0, tag, end);
}

static void param_fill(const struct vend *e, struct rdma_conn_param *p)
{
	p->responder_resources = (uint8_t)e->rd_atom;
	p->initiator_depth = (uint8_t)e->rd_atom;
	p->retry_count = 6;
	p->rnr_retry_count = 7;
	p->qp_num = e->qp->qp_num;
}

int verbs_connect(struct end *end, const uint8_t *req)
{
	struct vend *e = vend_of(end);
	struct rdma_conn_param p = {
		.private_data = req,
		.private_data_len = e->native ? VERBS_REQ_LONG : VERBS_REQ_LEN,
	};
	int ret = verbs_enter(e->v);

	if (ret)
		return ret;
	ret = -EINVAL;
	if (e->state == V_READY) {
		param_fill(e, &p);
		e->state = V_CONNECTING;
		event_limit(e, e->v->conf.connect_ms);
		ret = cm_err(rdma_connect(e->id, &p));
		if (ret)
			event_down(e, ret);
	}
	lock_drop(&e->v->lock);
	return ret;
}

/*
 * iWARP has no third message: there the queue pair is connected already, by
 * the device.
 */
int verbs_establish(struct end *end)
{
	struct vend *e = vend_of(end);
	int ret = verbs_enter(e->v);

	if (ret)
		return ret;
	ret = -EINVAL;
	if (e->state == V_ANSWERED) {
		ret = 0;
		if (!e->established) {
			ret = end_ready(e);
			if (!ret)
				ret = cm_err(rdma_establish(e->id));
		}
		if (ret) {
			event_down(e, ret);
		} else {
			e->state = V_UP;
			event_limit(e, 0);
			event_due(e, VE_UP);
		}
	}
	lock_drop(&e->v->lock);
	return ret;
}

/* --- the passive side --------------------------------------------------- */

static void request_unlink(struct verbs *v, struct verbs_request *r)
{
	list_del(&r->all);
	v->nrequests--;
	free(r);
}

/* With v->lock held, or by the only thread. */
void request_drop(struct verbs *v, struct verbs_request *r)
{
	rdma_destroy_id(r->id);
	request_unlink(v, r);
}

int verbs_prepare(struct verbs *v, struct verbs_request *r, uint64_t tag,
		  struct end **end)
{
	struct device *d;
	struct vend *e;
	int ret = verbs_enter(v);

	if (ret)
		return ret;
	ret = r->dead ? -ECONNRESET : device_get(v, r->id, &d);
	if (ret)
		goto out;
	e = end_new(v, r->id, tag, false);
	if (!e) {
		device_put(v, d);
		ret = -ENOMEM;
		goto out;
	}
	e->dev = d;
	if (r->rd_atom < e->rd_atom)
		e->rd_atom = r->rd_atom;
	e->state = V_PREPARED;
	ret = end_build(e);
	if (ret) { /* the request stays, to be refused */
		r->id->context = &r->owner;
		e->id = NULL;
		end_free(e);
		goto out;
	}
	request_unlink(v, r);
	*end = &e->end;
out:
	lock_drop(&v->lock);
	return ret;
}

int verbs_accept(struct end *end, const uint8_t rep[VERBS_REP_LEN])
{
	struct vend *e = vend_of(end);
	struct rdma_conn_param p = {
		.private_data = rep,
		.private_data_len = VERBS_REP_LEN,
	};
	int ret = verbs_enter(e->v);

	if (ret)
		return ret;
	ret = -EINVAL;
	if (e->state == V_PREPARED) {
		param_fill(e, &p);
		e->state = V_ACCEPTED;
		event_limit(e, e->v->conf.connect_ms);
		ret = end_ready(e);
		if (!ret) /* a message may overtake the RTU [2.1] */
			ret = -ibv_req_notify_cq(e->cq, 0);
		if (!ret)
			ret = cm_err(rdma_accept(e->id, &p));
		if (ret)
			event_down(e, ret);
	}
	lock_drop(&e->v->lock);
	return ret;
}

int verbs_refuse(struct verbs *v, struct verbs_request *r, const void *data,
		 size_t len)
{
	int ret;

	if (len > VERBS_REJ_LEN)
		return -EINVAL;
	ret = verbs_enter(v);
	if (ret)
		return ret;
	ret = r->dead ? 0 : cm_err(rdma_reject(r->id, data, (uint8_t)len));
	request_drop(v, r);
	lock_drop(&v->lock);
	return ret;
}

/*
 * Before VE_UP: a REJ where one is due, else nothing but VE_FAILED. The id goes
 * with destroy(), which ends what is under way.
 */
void end_leave(struct vend *e)
{
	switch (e->state) {
	case V_UP:
		e->state = V_CLOSING;
		event_limit(e, e->v->conf.disconnect_ms);
		if (rdma_disconnect(e->id))
			event_down(e, cm_err(-1));
		else
			event_stop(e);
		break;
	case V_ANSWERED:
	case V_PREPARED:
		rdma_reject(e->id, NULL, 0);
		event_down(e, -ECANCELED);
		break;
	case V_CLOSING:
	case V_DOWN:
		break;
	default:
		event_down(e, -ECANCELED);
		break;
	}
}

void verbs_disconnect(struct end *end)
{
	struct vend *e = vend_of(end);
	CALM;

	if (verbs_enter(e->v)) {
		event_late(e, &e->leave);
		return;
	}
	end_leave(e);
	lock_drop(&e->v->lock);
}
