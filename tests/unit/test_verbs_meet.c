/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_util.h"

/*
 * Connection management with a CM that is made up: what its answers mean
 * (rdma-facts.md 1, 2), and what a call costs that asks without having a
 * connection.
 */

#define REQUESTS 100

static struct verbs v;
static struct vend *end;
static struct rdma_cm_id end_id, listen_id;
static struct rdma_event_channel chan;
static struct rdma_cm_event *coming; /* the event that comes next */
static int bind_err, route_err, device_err, build_err;
static int rejects, destroyed, disconnects, stops;
static uint8_t flags_afonly;
static struct sockaddr_storage asked; /* of rdma_resolve_addr() */

/* --- the module's other files ------------------------------------------- */

struct vend *end_new(struct verbs *of, struct rdma_cm_id *id, uint64_t tag,
		     bool active)
{
	struct vend *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	e->v = of;
	e->id = id;
	e->tag = tag;
	e->active = active;
	e->owner.kind = OWNER_END;
	id->context = &e->owner;
	return e;
}

void end_free(struct vend *e)
{
	free(e);
}

int end_build(struct vend *e)
{
	(void)e;
	return build_err;
}

int end_ready(struct vend *e)
{
	(void)e;
	return 0;
}

void event_stop(struct vend *e)
{
	(void)e;
	stops++;
}

void event_due(struct vend *e, enum verbs_event_type type)
{
	e->due |= (uint16_t)(1u << type);
}

void event_limit(struct vend *e, uint32_t ms)
{
	e->deadline = ms;
}

void event_late(struct vend *e, bool *what)
{
	(void)e;
	*what = true;
}

void event_down(struct vend *e, int why)
{
	e->state = V_DOWN;
	e->why = why;
	event_stop(e);
}

int device_get(struct verbs *of, struct rdma_cm_id *id, struct device **d)
{
	(void)of;
	(void)id;
	*d = NULL;
	return device_err;
}

/* Nothing here dials a kernel's SDP. */
void native_found(struct verbs *of, struct vend *e)
{
	(void)of;
	(void)e;
	fail();
}

void device_put(struct verbs *of, struct device *d)
{
	(void)of;
	(void)d;
}

/* --- librdmacm ---------------------------------------------------------- */

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
		   void *context, enum rdma_port_space ps)
{
	(void)channel;
	(void)ps;
	*id = &end_id;
	end_id.context = context;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	(void)id;
	destroyed++;
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval,
		    size_t optlen)
{
	(void)id;
	(void)level;
	(void)optval;
	(void)optlen;
	flags_afonly |= optname == RDMA_OPTION_ID_AFONLY;
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	(void)id;
	(void)addr;
	errno = bind_err;
	return bind_err ? -1 : 0;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)id;
	(void)backlog;
	return 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
	(void)id;
	return htons(7000);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src,
		      struct sockaddr *dst, int ms)
{
	(void)id;
	(void)src;
	(void)ms;
	memcpy(&asked, dst, sizeof(union verbs_addr));
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
	(void)id;
	(void)ms;
	errno = route_err;
	return route_err ? -1 : 0;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	(void)id;
	(void)p;
	return 0;
}

int rdma_establish(struct rdma_cm_id *id)
{
	(void)id;
	fail();
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	(void)id;
	(void)p;
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	(void)id;
	(void)data;
	(void)len;
	rejects++;
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	disconnects++;
	return 0;
}

int rdma_get_cm_event(struct rdma_event_channel *channel,
		      struct rdma_cm_event **event)
{
	(void)channel;
	*event = coming;
	coming = NULL;
	errno = EAGAIN;
	return *event ? 0 : -1;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	(void)event;
	return 0;
}

/* --- tests -------------------------------------------------------------- */

static int begin(void **state)
{
	union verbs_addr to = { .in = { .sin_family = AF_INET } };
	struct end *e;

	(void)state;
	v = (struct verbs){ .ep = -1, .kick = -1, .chan = &chan };
	v.conf.requests_max = 8;
	v.conf.connect_ms = 3000;
	list_init(&v.ends);
	list_init(&v.due);
	list_init(&v.timed);
	list_init(&v.requests);
	bind_err = route_err = device_err = build_err = 0;
	rejects = destroyed = disconnects = stops = lines = 0;
	assert_int_equal(verbs_dial(&v, NULL, &to, 1, &e), 0);
	end = vend_of(e);
	return 0;
}

static int over(void **state)
{
	(void)state;
	while (!list_empty(&v.requests))
		request_drop(&v, LIST_OF(v.requests.next, struct verbs_request,
					 all));
	free(end);
	return 0;
}

static void happens(enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event ev = { .id = &end_id,
				    .event = type,
				    .status = status };

	coming = &ev;
	cm_events(&v);
}

/* What becomes of a dialler in that state to which this happens. */
static int becomes(enum vstate state, enum rdma_cm_event_type type, int status)
{
	end->state = (uint8_t)state;
	end->why = 1;
	happens(type, status);
	return end->state == V_DOWN ? end->why : 1;
}

static void what_the_cm_says(void **state)
{
	(void)state;
	/* nothing listens; listens on another address; the program says no */
	assert_int_equal(becomes(V_CONNECTING, RDMA_CM_EVENT_REJECTED, 8),
			 -ECONNREFUSED);
	end->due = 0;
	becomes(V_CONNECTING, RDMA_CM_EVENT_REJECTED, 28);
	assert_int_equal(end->due, 1u << VE_REFUSED);
	assert_int_equal(becomes(V_RESOLVING, RDMA_CM_EVENT_ADDR_ERROR, -110),
			 -ETIMEDOUT);
	assert_int_equal(becomes(V_RESOLVING, RDMA_CM_EVENT_ADDR_ERROR, -19),
			 -EHOSTUNREACH);
	assert_int_equal(becomes(V_CONNECTING, RDMA_CM_EVENT_UNREACHABLE, -110),
			 -ETIMEDOUT);
	assert_int_equal(lines, 0);
	/* the path: its GID, its partition; once each */
	assert_int_equal(becomes(V_CONNECTING, RDMA_CM_EVENT_REJECTED, 12),
			 -ENETUNREACH);
	assert_int_equal(becomes(V_ROUTING, RDMA_CM_EVENT_ROUTE_ERROR, -22),
			 -ENETUNREACH);
	assert_int_equal(becomes(V_ROUTING, RDMA_CM_EVENT_ROUTE_ERROR, -22),
			 -ENETUNREACH);
	assert_int_equal(lines, 1);
}

/* Fact 7: resolved to a device, and then there is no route. */
static void loopback_has_no_route(void **state)
{
	(void)state;
	route_err = ENODEV;
	assert_int_equal(becomes(V_RESOLVING, RDMA_CM_EVENT_ADDR_RESOLVED, 0),
			 -EHOSTUNREACH);
	route_err = 0;
	end->state = V_RESOLVING;
	happens(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(end->state, V_ROUTING);
	device_err = -ENXIO;
	assert_int_equal(becomes(V_RESOLVING, RDMA_CM_EVENT_ADDR_RESOLVED, 0),
			 -ENXIO);
}

/* Fact 8. */
static void mapped_addresses_are_plain_ones(void **state)
{
	union verbs_addr to = { .in6 = { .sin6_family = AF_INET6,
					 .sin6_port = htons(81) } };
	const struct sockaddr_in *in = (const void *)&asked;
	struct end *e;

	(void)state;
	assert_int_equal(
		inet_pton(AF_INET6, "::ffff:192.0.2.7", &to.in6.sin6_addr), 1);
	assert_int_equal(verbs_dial(&v, NULL, &to, 2, &e), 0);
	assert_int_equal(in->sin_family, AF_INET);
	assert_int_equal(in->sin_port, htons(81));
	assert_int_equal(in->sin_addr.s_addr, inet_addr("192.0.2.7"));
	free(vend_of(e));
}

/* Fact 9; and an IPv6 listener leaves the IPv4 port alone. */
static void a_port_in_use(void **state)
{
	(void)state;
	bind_err = EADDRNOTAVAIL;
	assert_int_equal(verbs_listen(&v, AF_INET, 7000), -EADDRINUSE);
	bind_err = EACCES;
	assert_int_equal(verbs_listen(&v, AF_INET, 80), -EACCES);
	assert_int_equal(destroyed, 2);
	bind_err = 0;
	assert_int_equal(verbs_listen(&v, AF_INET6, 7000), 7000);
	assert_true(flags_afonly);
	verbs_unlisten(&v, 7000);
	assert_null(v.listeners);
}

/* Fact 5: the queue pair that nothing touches would wait for ever. */
static void a_peer_that_goes_breaks_the_queue_pair(void **state)
{
	(void)state;
	assert_int_equal(becomes(V_UP, RDMA_CM_EVENT_DISCONNECTED, 0), 0);
	assert_int_equal(disconnects, 1);
	assert_int_equal(stops, 1);
}

/* Before the RTU: REJ, and no RTU any more (rdma_establish() fails here). */
static void a_bad_answer_is_rejected(void **state)
{
	(void)state;
	end->state = V_CONNECTING;
	happens(RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(end->state, V_ANSWERED);
	verbs_disconnect(&end->end);
	assert_int_equal(rejects, 1);
	assert_int_equal(verbs_establish(&end->end), -EINVAL);
}

/* What is beyond the limit is rejected, destroyed, and leaves nothing. */
static void a_flood_of_requests(void **state)
{
	static struct rdma_cm_id from[REQUESTS];
	struct listener l = { .owner = { OWNER_LISTENER },
			      .id = &listen_id,
			      .port = 7000 };
	struct rdma_cm_event ev = { .event = RDMA_CM_EVENT_CONNECT_REQUEST,
				    .listen_id = &listen_id };
	struct verbs_request *r;
	unsigned int i;

	(void)state;
	listen_id.context = &l.owner;
	for (i = 0; i < REQUESTS; i++) {
		ev.id = &from[i];
		coming = &ev;
		cm_events(&v);
	}
	assert_int_equal(v.nrequests, 8);
	assert_int_equal(rejects, REQUESTS - 8);
	assert_int_equal(destroyed, REQUESTS - 8);
	/* a place that is free again is another's */
	r = LIST_OF(v.requests.next, struct verbs_request, all);
	assert_int_equal(verbs_refuse(&v, r, NULL, 0), 0);
	ev.id = &from[0];
	coming = &ev;
	cm_events(&v);
	assert_int_equal(v.nrequests, 8);
	assert_int_equal(rejects, REQUESTS - 8 + 1);
}

/* Whose queue pair cannot be made is refused, and can still be. */
static void a_request_that_cannot_be_prepared_stays(void **state)
{
	struct listener l = { .owner = { OWNER_LISTENER }, .id = &listen_id };
	struct rdma_cm_id from = { 0 };
	struct rdma_cm_event ev = { .event = RDMA_CM_EVENT_CONNECT_REQUEST,
				    .listen_id = &listen_id,
				    .id = &from };
	struct verbs_request *r;
	struct end *e;

	(void)state;
	listen_id.context = &l.owner;
	coming = &ev;
	cm_events(&v);
	r = LIST_OF(v.requests.next, struct verbs_request, all);
	build_err = -ENOMEM;
	assert_int_equal(verbs_prepare(&v, r, 3, &e), -ENOMEM);
	assert_int_equal(v.nrequests, 1);
	assert_ptr_equal(from.context, &r->owner);
	assert_int_equal(verbs_refuse(&v, r, "no", 2), 0);
	assert_int_equal(v.nrequests, 0);
	assert_int_equal(rejects, 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, over)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_the_cm_says),
		CASE(loopback_has_no_route),
		CASE(mapped_addresses_are_plain_ones),
		CASE(a_port_in_use),
		CASE(a_peer_that_goes_breaks_the_queue_pair),
		CASE(a_bad_answer_is_rejected),
		CASE(a_flood_of_requests),
		CASE(a_request_that_cannot_be_prepared_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
