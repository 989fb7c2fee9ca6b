/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "rig.h"

#define LIMIT_MS 60000
#define LOADED	 65536 /* bytes after which an end grows */

int rig_hidden;

void rig_fail(const char *file, int line, const char *what, long n)
{
	fprintf(stderr, "%s:%d: %s (%ld)\n", file, line, what, n);
	exit(1);
}

uint64_t rig_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void say(int level, const char *line)
{
	fprintf(stderr, "[%d] %s\n", level, line);
}

/* As the library does it: out of the program's way. */
static int hide(int fd)
{
	int high = fcntl(fd, F_DUPFD_CLOEXEC, RIG_HIGH);

	close(fd);
	rig_hidden++;
	return high;
}

static void unhide(int fd)
{
	CHECK(fd >= RIG_HIGH);
	rig_hidden--;
}

int rig_low_fds(void)
{
	int fd, n = 0;

	for (fd = 0; fd < RIG_HIGH; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

void rig_load(struct rig *r, const char *path, const char *addr, int port)
{
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	char host[64];
	char *scope;

	if (!lib)
		rig_fail(__FILE__, __LINE__, dlerror(), 0);
	r->api = dlsym(lib, "libsdp_verbs");
	CHECK(r->api && r->api->version == VERBS_API);
	r->conf = (struct verbs_conf){
		.allow_soft_rdma = true,
		.resolve_ms = 20000,
		.connect_ms = 60000,
		.disconnect_ms = 20000,
		.requests_max = 16,
		.host = { .hide = hide, .unhide = unhide, .log = say },
	};
	snprintf(host, sizeof(host), "%s", addr);
	scope = strchr(host, '%');
	if (scope) {
		*scope = '\0';
		r->addr.in6.sin6_scope_id = (uint32_t)atoi(scope + 1);
	}
	if (inet_pton(AF_INET, host, &r->addr.in.sin_addr) == 1) {
		r->addr.in.sin_family = AF_INET;
		r->addr.in.sin_port = htons((uint16_t)port);
		return;
	}
	CHECK(inet_pton(AF_INET6, host, &r->addr.in6.sin6_addr) == 1);
	r->addr.in6.sin6_family = AF_INET6;
	r->addr.in6.sin6_port = htons((uint16_t)port);
}

void rig_open(struct rig *r)
{
	IS(r->api->open(&r->v, &r->conf), 0);
}

/* --- events ------------------------------------------------------------- */

static bool seen(struct rig *r, const struct verbs_event *ev)
{
	if (ev->type == VE_DOWN) {
		r->down = true;
		r->down_error = ev->error;
	}
	if (ev->type == VE_UP)
		r->up = true;
	return ev->type != VE_READABLE;
}

/* Sleeps at most ms for the module's descriptor or its own time limits. */
static void doze(struct rig *r, int ms)
{
	struct pollfd p = { .fd = r->api->fd(r->v), .events = POLLIN };
	uint64_t limit = r->api->patience(r->v) / 1000000;

	if (limit < (uint64_t)ms)
		ms = (int)limit + 1;
	poll(&p, 1, ms);
}

bool rig_try(struct rig *r, struct verbs_event *ev, int ms)
{
	uint64_t end = rig_ns() + (uint64_t)ms * 1000000;

	for (;;) {
		while (r->api->event(r->v, ev))
			if (seen(r, ev))
				return true;
		if (rig_ns() > end)
			return false;
		doze(r, ms);
	}
}

void rig_event(struct rig *r, struct verbs_event *ev, int ms)
{
	if (!rig_try(r, ev, ms))
		rig_fail(__FILE__, __LINE__, "no event", ms);
}

void rig_want(struct rig *r, struct verbs_event *ev, enum verbs_event_type t)
{
	rig_event(r, ev, LIMIT_MS);
	if (ev->type != t)
		fprintf(stderr, "event %d, error %d, expected %d\n", ev->type,
			ev->error, t);
	IS(ev->type, t);
}

/* --- meeting ------------------------------------------------------------ */

void rig_machine(struct rig *r)
{
	struct conn_params p = {
		.rcv_size = VERBS_RCV_SIZE,
		.posted = VERBS_RCV_REST,
		.max_adverts = 1,
		.ext_flags = CONN_EXT_ANCHORED,
	};

	conn_init(&r->conn, &p);
	r->sent = r->got = r->msgs = r->bare = 0;
	r->at = 0;
	r->up = r->down = r->dis = false;
}

void rig_hello(struct rig *r, uint8_t req[VERBS_REQ_LEN])
{
	struct conn_names n = { .ipv = 4,
				.local_port = 40000,
				.remote_port = ntohs(r->addr.in.sin_port),
				.token = 0x1234 };
	uint8_t buf[CONN_HELLO_MAX];

	rig_machine(r);
	IS(conn_hello(&r->conn, &n, buf), VERBS_REQ_LEN);
	memcpy(req, buf, VERBS_REQ_LEN);
}

void rig_dial(struct rig *r)
{
	uint8_t req[VERBS_REQ_LEN];
	struct verbs_event ev;
	struct conn_names n;

	IS(r->api->dial(r->v, NULL, &r->addr, 7, &r->end), 0);
	rig_want(r, &ev, VE_READY);
	CHECK(ev.end == r->end && ev.tag == 7);
	IS(r->end->depth, VERBS_RCV_REST);
	rig_hello(r, req);
	IS(r->api->connect(r->end, req), 0);
	rig_want(r, &ev, VE_ANSWERED);
	IS(ev.len, VERBS_REP_LEN);
	IS(conn_on_hello_ack(&r->conn, ev.data, ev.len, &n), 0);
	r->token = n.token;
	IS(r->api->establish(r->end), 0);
	rig_want(r, &ev, VE_UP);
}

void rig_listen(struct rig *r)
{
	IS(r->api->listen(r->v, r->addr.sa.sa_family,
			  ntohs(r->addr.in.sin_port)),
	   ntohs(r->addr.in.sin_port));
	puts("ready");
	fflush(stdout);
}

void rig_accept(struct rig *r, struct verbs_request *q,
		const uint8_t req[VERBS_REQ_LEN])
{
	uint8_t rep[CONN_HELLO_ACK_LEN];
	struct verbs_event ev;
	struct conn_names n;

	rig_machine(r);
	IS(conn_on_hello(&r->conn, req, VERBS_REQ_LEN, &n), 0);
	r->token = n.token;
	IS(r->api->prepare(r->v, q, 8, &r->end), 0);
	conn_hello_ack(&r->conn, &n, rep);
	IS(r->api->accept(r->end, rep), 0);
	rig_want(r, &ev, VE_UP);
	CHECK(ev.end == r->end && ev.tag == 8);
}

void rig_answer(struct rig *r)
{
	struct verbs_event ev;

	ev = r->asked;
	r->asked.type = VE_NONE;
	if (ev.type == VE_NONE)
		rig_want(r, &ev, VE_REQUEST);
	IS(ev.len, VERBS_REQ_LEN);
	IS(ev.port, ntohs(r->addr.in.sin_port));
	IS(ev.local.sa.sa_family, r->addr.sa.sa_family);
	rig_accept(r, ev.request, ev.data);
}

void rig_meet(struct rig *r)
{
	if (!r->server) {
		rig_dial(r);
		return;
	}
	rig_listen(r);
	rig_answer(r);
}

/* --- the stream --------------------------------------------------------- */

static uint8_t scratch[VERBS_RCV_MAX];

static uint8_t pattern(uint64_t at, bool server)
{
	uint64_t x = at * 0x9e3779b97f4a7c15u + (server ? 99 : 1);

	return (uint8_t)(x >> 56);
}

/* The stream bytes of the front messages, as far as they are wanted. */
static bool take(struct rig *r, uint64_t rx)
{
	struct fab_msg m;
	bool any = false;

	while (r->got < rx && r->end->ops->front(r->end, &m) == 1) {
		uint32_t i = 16 + r->at, end = m.len;

		if (end - i > rx - r->got)
			end = i + (uint32_t)(rx - r->got);
		if (r->blind) {
			memcpy(scratch, m.mem + i, end - i);
			r->got += end - i;
			i = end;
		}
		for (; i < end; i++, r->got++)
			if (m.mem[i] != pattern(r->got, !r->server))
				rig_fail(__FILE__, __LINE__, "byte",
					 (long)r->got);
		r->at = i - 16;
		any = true;
		if (i != m.len)
			break;
		r->at = 0;
		r->end->ops->release(r->end);
		conn_reposted(&r->conn, 1);
	}
	if (r->grow && r->got > LOADED && r->end->depth < VERBS_RCV_MOST) {
		int n = r->api->resize(r->end, VERBS_RCV_SIZE, VERBS_RCV_MOST);

		CHECK(n > 0);
		conn_reposted(&r->conn, (uint32_t)n);
	}
	return any;
}

static bool arrivals(struct rig *r)
{
	uint8_t hdr[CONN_HDR_MAX];
	struct fab_msg m;
	struct conn_in in;
	bool any = false;
	int ret;

	while ((ret = r->end->ops->poll(r->end, &m)) == 1) {
		bool held = m.held;

		memcpy(hdr, m.mem, m.len < sizeof(hdr) ? m.len : sizeof(hdr));
		ret = conn_on_recv(&r->conn, rig_ns(), hdr, m.len, &in);
		if (ret)
			rig_fail(__FILE__, __LINE__, r->conn.fault, ret);
		CHECK(held == (in.len > 0));
		if (!held)
			conn_reposted(&r->conn, 1);
		r->dis |= in.eof;
		r->msgs++;
		r->bare += !held;
		any = true;
	}
	if (ret && !r->down)
		rig_fail(__FILE__, __LINE__, "poll", ret);
	return any;
}

static bool departures(struct rig *r, uint64_t tx, uint32_t chunk)
{
	struct conn_offer offer = { 0 };
	struct conn_op op;
	bool any = false;
	uint8_t *mem;
	uint32_t i;

	for (;;) {
		uint32_t room = r->end->ops->room(r->end);
		bool lane = !room;

		if (lane && !conn_wants_send(&r->conn))
			return any;
		offer.bytes = lane ? 0 : tx - r->sent;
		if (offer.bytes > chunk)
			offer.bytes = chunk;
		mem = lane ? r->end->ops->ctrl(r->end) : NULL;
		if (lane && !mem)
			return any;
		conn_next(&r->conn, rig_ns(), &offer, lane ? FAB_CTRL : room,
			  &op);
		if (op.type != CONN_SEND)
			return any;
		if (!lane)
			mem = r->end->ops->buf(r->end, op.hdr_len + op.payload);
		CHECK(mem);
		memcpy(mem, op.hdr, op.hdr_len);
		if (r->blind) {
			memcpy(mem + op.hdr_len, scratch, op.payload);
			r->sent += op.payload;
		}
		for (i = 0; i < op.payload && !r->blind; i++)
			mem[op.hdr_len + i] = pattern(r->sent++, r->server);
		IS(r->end->ops->send(r->end, op.hdr_len + op.payload, true), 0);
		any = true;
	}
}

bool rig_pump(struct rig *r, uint64_t tx, uint64_t rx, uint32_t chunk)
{
	bool any = arrivals(r);

	any |= take(r, rx);
	any |= departures(r, tx, chunk);
	return any;
}

void rig_wait(struct rig *r)
{
	struct verbs_event ev;
	uint64_t end = rig_ns() + LIMIT_MS * 1000000ull;

	while (!r->end->ops->pending(r->end)) {
		if (rig_ns() > end)
			rig_fail(__FILE__, __LINE__, "nothing comes",
				 (long)r->got);
		if (r->spin)
			continue;
		IS(r->api->arm(r->end, false), 0);
		if (r->end->ops->pending(r->end))
			break;
		while (r->api->event(r->v, &ev))
			if (seen(r, &ev) && ev.type == VE_REQUEST)
				r->asked = ev;
		if (r->down || r->end->ops->pending(r->end))
			break;
		doze(r, LIMIT_MS);
	}
}

void rig_run(struct rig *r, uint64_t tx, uint64_t rx, uint32_t chunk)
{
	tx += r->sent;
	rx += r->got;
	while (r->sent < tx || r->got < rx)
		if (!rig_pump(r, tx, rx, chunk))
			rig_wait(r);
	rig_pump(r, tx, rx, chunk);
}

/* --- the end ------------------------------------------------------------ */

void rig_part(struct rig *r)
{
	struct verbs_event ev;
	int ret;

	conn_shutdown(&r->conn, rig_ns(), false);
	while (!r->dis || !r->conn.dis_sent)
		if (!rig_pump(r, r->sent, r->got, 1))
			rig_wait(r);
	/* The client's DREQ may come before the server's last completion. */
	if (!r->server) {
		while (!(ret = r->api->flushed(r->end)))
			rig_wait(r);
		IS(ret, 1);
		r->api->disconnect(r->end);
	}
	while (!r->down)
		rig_event(r, &ev, LIMIT_MS);
	IS(r->down_error, 0);
	r->end->ops->destroy(r->end);
	r->end = NULL;
}

void rig_close(struct rig *r)
{
	r->api->close(r->v);
	r->v = NULL;
}
