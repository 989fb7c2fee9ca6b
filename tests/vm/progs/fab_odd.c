/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cases of fabtest: buffers that grow, RDMA, and peers that misbehave. */

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "fabtest.h"

/* A message of n bytes that no machine made. */
static void send_raw(struct rig *r, uint32_t n, uint8_t mid)
{
	uint8_t *mem;

	while (!(mem = r->end->ops->buf(r->end, n)))
		IS(r->end->ops->pending(r->end) || !r->spin, 1);
	memset(mem, 0, n);
	if (n)
		mem[0] = mid;
	IS(r->end->ops->send(r->end, n, false), 0);
}

static void wait_msg(struct rig *r, struct fab_msg *m)
{
	struct fab_walk walk = { 0 };
	struct fab_msg seen = { 0 };
	int ret;

	while (!(ret = r->end->ops->poll(r->end, m)))
		rig_wait(r);
	IS(ret, 1);
	/* the last of those that are held, or none */
	while (r->end->ops->next(r->end, false, &walk, &seen) == 1)
		;
	CHECK(!m->held || (seen.mem == m->mem && seen.len == m->len));
}

static void begin(struct rig *r)
{
	rig_open(r);
	rig_meet(r);
}

static void over(struct rig *r)
{
	r->end->ops->destroy(r->end);
	rig_close(r);
}

#define MOST VERBS_RCV_SIZE

/*
 * Every length from nothing to a full buffer arrives as it is; messages
 * without stream bytes are not held, and their buffers are posted at once.
 */
void fab_lengths(struct rig *r)
{
	static const uint32_t len[] = { 0,  1,	8,  15,	  16,	    17,
					20, 56, 57, 4096, MOST - 1, MOST };
	const unsigned int n = sizeof(len) / sizeof(len[0]);
	struct verbs_info info;
	struct fab_msg m;
	unsigned int i, k;

	begin(r);
	for (k = 0; k < 3; k++) {
		static const uint8_t mid[] = { 0xff, 0xfe, 0x06 };

		for (i = 0; i < n; i++) {
			bool bare = len[i] >= 16 && len[i] <= FAB_CTRL &&
				    (k == 2 || (!k && len[i] == 16));

			if (!r->server) {
				send_raw(r, len[i], mid[k]);
				wait_msg(r, &m); /* the echo paces us */
				r->end->ops->release(r->end);
				continue;
			}
			wait_msg(r, &m);
			IS(m.len, len[i]);
			IS(m.held, !bare);
			IS(r->end->ops->front(r->end, &m), !bare);
			if (!bare)
				r->end->ops->release(r->end);
			r->api->info(r->end, &info);
			IS(info.posted, VERBS_RCV_REST);
			send_raw(r, 100, 0xff);
		}
	}
	over(r);
}

/*
 * A peer that keeps no count of credits: its messages wait for receives,
 * briefly each time, and none is lost (rdma-facts.md 1.4).
 */
void fab_norecv(struct rig *r)
{
	const unsigned int n = 60;
	struct fab_msg m;
	unsigned int i;
	uint64_t t;

	begin(r);
	if (!r->server) {
		for (i = 0; i < n; i++)
			send_raw(r, 20 + i, 0xff);
		while (!r->api->flushed(r->end))
			rig_wait(r);
		r->api->disconnect(r->end);
		over(r);
		return;
	}
	t = rig_ns();
	for (i = 0; i < n; i++) {
		wait_msg(r, &m);
		IS(m.len, 20 + i);
		if (i % 4 == 3) {
			usleep(20000); /* receives are used up by now */
			while (r->end->ops->front(r->end, &m))
				r->end->ops->release(r->end);
		}
	}
	/* 655 ms each time would be ten seconds */
	CHECK(rig_ns() - t < 8000000000ull);
	over(r);
}

static void expect_down(struct rig *r)
{
	struct verbs_event ev;
	struct fab_msg m;
	int ret;

	while ((ret = r->end->ops->poll(r->end, &m)) == 0 && !r->down)
		rig_wait(r);
	CHECK(ret < 0 || r->down);
	while (!r->down)
		rig_event(r, &ev, 20000);
}

/* A message that is longer than what is posted for it. */
void fab_toolong(struct rig *r)
{
	begin(r);
	if (!r->server)
		send_raw(r, VERBS_RCV_SIZE + 1, 0xff);
	expect_down(r);
	CHECK(r->down_error < 0 || r->server);
	over(r);
}

#define MANY 40
#define MORE (MANY - VERBS_RCV_REST)

/* More and larger receives; back to few, and to little memory. */
void fab_resize(struct rig *r)
{
	struct verbs_info info;
	struct fab_msg m;
	unsigned int i;

	begin(r);
	if (!r->server) {
		wait_msg(r, &m);
		r->end->ops->release(r->end);
		for (i = 0; i < 100; i++) {
			send_raw(r, 5000, 0xff);
			wait_msg(r, &m);
			r->end->ops->release(r->end);
		}
		over(r);
		return;
	}
	IS(r->api->resize(r->end, VERBS_RCV_SIZE - 1, 8), -EINVAL);
	IS(r->api->resize(r->end, VERBS_RCV_SIZE, VERBS_RCV_MOST + 1), -EINVAL);
	IS(r->api->resize(r->end, VERBS_RCV_SIZE, VERBS_RCV_REST - 1), -EINVAL);
	IS(r->api->resize(r->end, VERBS_RCV_SIZE, MANY), MORE);
	IS(r->end->depth, MANY);
	IS(r->api->resize(r->end, VERBS_RCV_SIZE, VERBS_RCV_REST), 0);
	send_raw(r, 20, 0xff);
	for (i = 0; i < 100; i++) {
		wait_msg(r, &m);
		IS(m.len, 5000);
		IS(r->api->shed(r->end), i < MORE);
		r->api->info(r->end, &info);
		IS(info.posted, i < MORE ? MANY - 1 - i : VERBS_RCV_REST);
		r->end->ops->trim(r->end);
		send_raw(r, 20, 0xff);
	}
	r->end->ops->trim(r->end);
	r->api->info(r->end, &info);
	CHECK(info.registered <= VERBS_IDLE_MAX);
	over(r);
}

#define LARGER 20000

/* Larger receives: all of them only after the smaller ones are used up. */
void fab_larger(struct rig *r)
{
	struct verbs_info info;
	struct fab_msg m;
	unsigned int i;

	begin(r);
	if (r->server) {
		IS(r->api->resize(r->end, LARGER, 8), 8 - VERBS_RCV_REST);
		send_raw(r, 20, 0xff);
	} else {
		wait_msg(r, &m);
		r->end->ops->release(r->end);
	}
	for (i = 0; i < 40; i++) {
		if (!r->server)
			send_raw(r, i < 8 ? 100 : LARGER, 0xff);
		wait_msg(r, &m);
		IS(m.len, r->server && i >= 8 ? LARGER : 100);
		r->end->ops->release(r->end);
		if (r->server) {
			r->api->info(r->end, &info);
			IS(info.posted, 8);
			IS(info.rcv_size,
			   i < VERBS_RCV_REST - 1 ? VERBS_RCV_SIZE : LARGER);
			send_raw(r, 100, 0xff);
		}
	}
	over(r);
}

/* --- RDMA --------------------------------------------------------------- */

#define AREA 300000

struct advert {
	uint8_t bsdh[16];
	uint64_t vaddr;
	uint32_t rkey;
};

static uint8_t area[AREA];

static void wait_done(struct rig *r, uint64_t id, int status)
{
	struct fab_done d;

	while (!r->end->ops->done(r->end, &d))
		rig_wait(r);
	CHECK(d.id == id);
	IS(d.status, status);
}

/* The server advertises; the client reads, writes back, and then goes wild. */
static void rdma_server(struct rig *r)
{
	struct advert a = { .bsdh = { 0xff }, .vaddr = (uintptr_t)area };
	struct verbs_region mine;
	struct fab_msg m;
	unsigned int i;

	for (i = 0; i < AREA; i++)
		area[i] = (uint8_t)(i * 7 + i / 251);
	IS(r->api->reg(r->end, area, AREA, true, true, &mine), 0);
	a.rkey = mine.rkey;
	memcpy(r->end->ops->buf(r->end, sizeof(a)), &a, sizeof(a));
	IS(r->end->ops->send(r->end, sizeof(a), true), 0);
	wait_msg(r, &m);
	r->end->ops->release(r->end);
	for (i = 0; i < AREA; i++)
		IS(area[i], (uint8_t) ~(i * 7 + i / 251));
	/* what is not advertised any more cannot be had */
	r->api->dereg(r->end, &mine);
	CHECK(!mine.mr);
	send_raw(r, 20, 0xff);
	expect_down(r);
}

static void rdma_client(struct rig *r)
{
	struct verbs_region mine;
	struct fab_msg m;
	struct advert a;
	unsigned int i;

	wait_msg(r, &m);
	memcpy(&a, m.mem, sizeof(a));
	r->end->ops->release(r->end);
	IS(r->end->ops->read(r->end, area, a.vaddr, a.rkey, 1, 1), -EFAULT);
	IS(r->api->reg(r->end, area, AREA, false, false, &mine), 0);
	IS(r->end->ops->read(r->end, area, a.vaddr, a.rkey, AREA + 1, 1),
	   -EFAULT);
	for (i = 0; i < 3; i++)
		IS(r->end->ops->read(r->end, area + i * 100000,
				     a.vaddr + i * 100000, a.rkey, 100000,
				     10 + i),
		   0);
	for (i = 0; i < 3; i++)
		wait_done(r, 10 + i, 0);
	for (i = 0; i < AREA; i++) {
		IS(area[i], (uint8_t)(i * 7 + i / 251));
		area[i] = (uint8_t)~area[i];
	}
	IS(r->end->ops->write(r->end, area, a.vaddr, a.rkey, AREA, 77), 0);
	wait_done(r, 77, 0);
	/* keep-alive: no bytes, no key */
	IS(r->end->ops->write(r->end, NULL, 0, 0, 0, 78), 0);
	wait_done(r, 78, 0);
	send_raw(r, 20, 0xff);
	wait_msg(r, &m);
	r->end->ops->release(r->end);
	IS(r->end->ops->read(r->end, area, a.vaddr, a.rkey, 10, 79), 0);
	IS(r->end->ops->read(r->end, area, a.vaddr, a.rkey, 10, 80), 0);
	wait_done(r, 79, -ECONNRESET);
	wait_done(r, 80, -ECONNRESET);
	r->api->dereg(r->end, &mine);
	expect_down(r);
	IS(r->down_error, -ECONNRESET);
}

void fab_rdma(struct rig *r)
{
	begin(r);
	if (r->server)
		rdma_server(r);
	else
		rdma_client(r);
	over(r);
}
