/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cases of fabtest: finding each other, and not. */

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "fabtest.h"

#define FLOOD 60

/* The next event, passed through until one of this type for this end. */
static void want_for(struct rig *r, struct verbs_event *ev, struct end *e,
		     enum verbs_event_type type)
{
	do {
		rig_event(r, ev, 30000);
	} while (ev->end != e);
	if (ev->type != type)
		fprintf(stderr, "event %d, error %d, expected %d\n", ev->type,
			ev->error, type);
	IS(ev->type, type);
}

static void dial_ready(struct rig *r, struct end **e, uint8_t *req)
{
	struct verbs_event ev;

	IS(r->api->dial(r->v, NULL, &r->addr, 1, e), 0);
	want_for(r, &ev, *e, VE_READY);
	rig_hello(r, req);
}

static void destroy(struct end *e)
{
	e->ops->destroy(e);
}

/*
 * The HelloAck is no good: REJ instead of RTU, and the server, which has a
 * queue pair by then, hears of a refusal and not of a connection [6, 38].
 */
void fab_badack(struct rig *r)
{
	uint8_t req[VERBS_REQ_LEN], rep[VERBS_REP_LEN] = { 1 };
	struct verbs_event ev;
	struct conn_names n;

	rig_open(r);
	if (r->server) {
		rig_listen(r);
		rig_want(r, &ev, VE_REQUEST);
		IS(r->api->prepare(r->v, ev.request, 3, &r->end), 0);
		IS(r->api->accept(r->end, rep), 0);
		rig_want(r, &ev, VE_FAILED);
		IS(ev.error, -ECONNREFUSED);
		CHECK(ev.tag == 3);
	} else {
		dial_ready(r, &r->end, req);
		IS(r->api->connect(r->end, req), 0);
		rig_want(r, &ev, VE_ANSWERED);
		CHECK(!memcmp(ev.data, rep, sizeof(rep)));
		CHECK(conn_on_hello_ack(&r->conn, ev.data, ev.len, &n) < 0);
		r->api->disconnect(r->end);
		IS(r->api->establish(r->end), -EINVAL);
		rig_want(r, &ev, VE_FAILED);
	}
	destroy(r->end);
	rig_close(r);
}

/* The server says no, and why. */
void fab_refused(struct rig *r)
{
	uint8_t req[VERBS_REQ_LEN];
	char why[VERBS_REJ_LEN + 1] = "port 4711";
	struct verbs_event ev;

	memset(why + 10, 'x', VERBS_REJ_LEN - 10);
	rig_open(r);
	if (r->server) {
		rig_listen(r);
		rig_want(r, &ev, VE_REQUEST);
		IS(ev.len, VERBS_REQ_LEN);
		CHECK(ev.peer.sa.sa_family == r->addr.sa.sa_family);
		IS(r->api->refuse(r->v, ev.request, why, VERBS_REJ_LEN + 1),
		   -EINVAL);
		IS(r->api->refuse(r->v, ev.request, why, VERBS_REJ_LEN), 0);
	} else {
		dial_ready(r, &r->end, req);
		IS(r->api->connect(r->end, req), 0);
		rig_want(r, &ev, VE_REFUSED);
		IS(ev.len, VERBS_REJ_LEN);
		CHECK(!memcmp(ev.data, why, VERBS_REJ_LEN));
		destroy(r->end);
		sleep(1); /* the server reads its REJ's outcome meanwhile */
	}
	rig_close(r);
}

static int dial_error(struct rig *r, const union verbs_addr *from)
{
	struct verbs_event ev;

	IS(r->api->dial(r->v, from, &r->addr, 5, &r->end), 0);
	rig_want(r, &ev, VE_FAILED);
	CHECK(ev.end == r->end && ev.tag == 5);
	destroy(r->end);
	return ev.error;
}

/* Alone: nothing listens; no route; no device that may be used. */
void fab_nobody(struct rig *r)
{
	uint8_t req[VERBS_REQ_LEN];
	union verbs_addr addr = r->addr;
	struct verbs *v;
	struct verbs_event ev;
	int err;

	r->conf.resolve_ms = 4000;
	rig_open(r);
	dial_ready(r, &r->end, req);
	IS(r->api->connect(r->end, req), 0);
	rig_want(r, &ev, VE_FAILED);
	IS(ev.error, -ECONNREFUSED);
	destroy(r->end);

	memset(&r->addr, 0, sizeof(r->addr));
	r->addr.in.sin_family = AF_INET;
	r->addr.in.sin_port = 1234;
	r->addr.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	IS(dial_error(r, NULL), -EHOSTUNREACH);
	/* ARP gets no answer: our time limit or the kernel's */
	r->addr.in.sin_addr.s_addr = addr.in.sin_addr.s_addr ^ htonl(0xf0);
	err = dial_error(r, NULL);
	CHECK(err == -ETIMEDOUT || err == -EHOSTUNREACH);
	/* no address of a device */
	r->addr = addr;
	addr.in.sin_addr.s_addr = htonl(0x01020304);
	IS(dial_error(r, &addr), -EHOSTUNREACH);
	rig_close(r);

	r->conf.allow_soft_rdma = false;
	IS(r->api->open(&v, &r->conf), -EOPNOTSUPP);
}

/* ::ffff:a.b.c.d is the IPv4 address. */
void fab_mapped(struct rig *r)
{
	struct in6_addr a = { .s6_addr = { [10] = 0xff, [11] = 0xff } };
	union verbs_addr plain = r->addr;

	if (!r->server) {
		memcpy(&a.s6_addr[12], &plain.in.sin_addr, 4);
		memset(&r->addr, 0, sizeof(r->addr));
		r->addr.in6.sin6_family = AF_INET6;
		r->addr.in6.sin6_port = plain.in.sin_port;
		r->addr.in6.sin6_addr = a;
	}
	rig_open(r);
	rig_meet(r);
	rig_run(r, 1000, 1000, 100);
	rig_part(r);
	rig_close(r);
}

/* A port is used once, whatever has it; another is as good. */
void fab_inuse(struct rig *r)
{
	struct verbs_event ev;
	uint16_t port = ntohs(r->addr.in.sin_port);
	int n;

	rig_open(r);
	if (r->server) {
		rig_listen(r);
		IS(r->api->listen(r->v, AF_INET, port), -EADDRINUSE);
		IS(r->api->listen(r->v, AF_UNIX, port), -EAFNOSUPPORT);
		rig_want(r, &ev, VE_REQUEST);
		IS(r->api->refuse(r->v, ev.request, NULL, 0), 0);
	} else {
		uint8_t req[VERBS_REQ_LEN];

		/* on the server's node this process is another one */
		n = r->api->listen(r->v, AF_INET, port);
		CHECK(n == -EADDRINUSE || n == port);
		n = r->api->listen(r->v, AF_INET, 0);
		CHECK(n > 0 && n != port);
		r->api->unlisten(r->v, (uint16_t)n);
		IS(r->api->listen(r->v, AF_INET6, (uint16_t)n), n);
		IS(r->api->listen(r->v, AF_INET, (uint16_t)n), n);
		dial_ready(r, &r->end, req);
		IS(r->api->connect(r->end, req), 0);
		rig_want(r, &ev, VE_REFUSED);
		destroy(r->end);
	}
	rig_close(r);
}

static unsigned int flood_dial(struct rig *r, struct end **ends,
			       const uint8_t *req)
{
	unsigned int i, refused = 0, blank = 0;
	struct verbs_event ev;
	struct conn_names n;

	for (i = 0; i < FLOOD; i++)
		IS(r->api->connect(ends[i], req), 0);
	puts("quiet");
	fflush(stdout);
	while (refused < FLOOD - 1 || !r->up) {
		rig_event(r, &ev, 30000);
		if (ev.type == VE_REFUSED) {
			refused++;
			blank += !ev.data[0];
		} else if (ev.type == VE_ANSWERED) {
			IS(conn_on_hello_ack(&r->conn, ev.data, ev.len, &n), 0);
			IS(r->api->establish(ev.end), 0);
			r->end = ev.end;
		} else {
			IS(ev.error, 0);
			IS(ev.type, VE_UP);
		}
	}
	return blank;
}

/* The test says that all requests are out. */
static bool told(void)
{
	struct pollfd p = { .fd = 0, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void flood_answer(struct rig *r, unsigned int max)
{
	struct verbs_request *held[FLOOD];
	uint8_t hello[VERBS_REQ_LEN];
	struct verbs_event ev;
	unsigned int n = 0;

	while (rig_try(r, &ev, 2000) || !told()) {
		if (ev.type == VE_NONE)
			continue;
		IS(ev.type, VE_REQUEST);
		if (!n)
			memcpy(hello, ev.data, VERBS_REQ_LEN);
		held[n++] = ev.request;
	}
	IS(n, max);
	while (n > 1)
		IS(r->api->refuse(r->v, held[--n], "full", 4), 0);
	rig_accept(r, held[0], hello);
}

/*
 * More requests than the server holds: what is beyond is refused without a
 * trace, and one of those it holds becomes a connection.
 */
void fab_flood(struct rig *r)
{
	uint8_t req[VERBS_REQ_LEN];
	struct end *ends[FLOOD], *used;
	unsigned int i;

	r->conf.requests_max = 8;
	rig_open(r);
	if (r->server) {
		rig_listen(r);
		flood_answer(r, 8);
		rig_run(r, 5000, 5000, 300);
		rig_part(r);
		rig_close(r);
		return;
	}
	for (i = 0; i < FLOOD; i++)
		dial_ready(r, &ends[i], req);
	IS(flood_dial(r, ends, req), FLOOD - 8);
	used = r->end;
	rig_run(r, 5000, 5000, 300);
	rig_part(r);
	for (i = 0; i < FLOOD; i++)
		if (ends[i] != used)
			destroy(ends[i]);
	rig_close(r);
}

/* Nothing answers the REQ, or the DREQ: our own time limits, not 102 s. */
void fab_slow(struct rig *r)
{
	uint8_t req[VERBS_REQ_LEN];
	struct verbs_event ev;
	uint64_t t;

	r->conf.connect_ms = 1500;
	r->conf.disconnect_ms = 1500;
	rig_open(r);
	if (r->server) {
		rig_meet(r);
		rig_run(r, 1, 0, 1);
		pause(); /* killed by the test */
	}
	rig_dial(r);
	rig_run(r, 0, 1, 1);
	/* the first VE_UP was the last thing it did: it answers no more */
	IS(r->api->dial(r->v, NULL, &r->addr, 1, &ev.end), 0);
	want_for(r, &ev, ev.end, VE_READY);
	rig_hello(r, req);
	t = rig_ns();
	IS(r->api->connect(ev.end, req), 0);
	want_for(r, &ev, ev.end, VE_FAILED);
	IS(ev.error, -ETIMEDOUT);
	CHECK(rig_ns() - t < 20000000000ull);
	destroy(ev.end);
	t = rig_ns();
	r->api->disconnect(r->end);
	rig_want(r, &ev, VE_DOWN);
	IS(ev.error, -ETIMEDOUT);
	CHECK(rig_ns() - t < 20000000000ull);
	destroy(r->end);
	rig_close(r);
}
