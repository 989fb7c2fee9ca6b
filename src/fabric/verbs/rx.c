/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The receiving half. Receives are used in the order they were posted in and
 * each holds a message until release(), so slots are chosen by number: those
 * of the end's own region, and under load those of a second one.
 */

#include <string.h>

#include "fabric/verbs/int.h"

#define MIN_MSG	     16u /* a BSDH alone */
#define MID_DATA     0xffu
#define MID_SRCAVAIL 0xfeu /* may carry stream bytes [4.3] */
#define SRCAVAIL_HDR 32u

static bool is_rest(uint32_t slot)
{
	return slot < VERBS_RCV_REST;
}

static uint8_t *slot_mem(const struct vend *e, uint32_t slot)
{
	if (is_rest(slot))
		return e->rest.mem + REST_LEN -
		       (VERBS_RCV_REST - slot) * RX_STRIDE;
	return e->rx.load.mem +
	       (size_t)(slot - VERBS_RCV_REST) * e->rx.load_stride;
}

static int post(struct vend *e, uint32_t slot)
{
	struct rx *r = &e->rx;
	struct ibv_sge sge = {
		.addr = (uintptr_t)slot_mem(e, slot),
		.length = is_rest(slot) ? VERBS_RCV_SIZE : r->load_size,
		.lkey = is_rest(slot) ? e->rest.mr->lkey : r->load.mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = WR_RECV | slot,
				  .sg_list = &sge,
				  .num_sge = 1 },
			   *bad;

	if (is_rest(slot))
		r->rest_out++;
	else
		r->load_out++;
	r->posted++;
	return -ibv_post_recv(e->qp, &wr, &bad);
}

/* A free slot, of the right size; SLOTS: none. */
static uint32_t slot_take(struct rx *r)
{
	unsigned int i, which;

	for (i = 0; i < 2; i++) {
		which = r->load_first ? 1 - i : i;
		if (!r->free[which] || (!which && r->size > VERBS_RCV_SIZE))
			continue;
		int bit = __builtin_ctzll(r->free[which]);

		r->free[which] &= r->free[which] - 1;
		return (which ? VERBS_RCV_REST : 0) + (uint32_t)bit;
	}
	return SLOTS;
}

static void slot_give(struct rx *r, uint32_t slot)
{
	if (is_rest(slot))
		r->free[0] |= 1ull << slot;
	else
		r->free[1] |= 1ull << (slot - VERBS_RCV_REST);
}

/* One more receive; after an error the queue pair takes none any more. */
static bool post_one(struct vend *e)
{
	uint32_t slot;
	int ret;

	if (e->error)
		return false;
	slot = slot_take(&e->rx);
	if (slot == SLOTS)
		return false;
	ret = post(e, slot);
	if (ret)
		cq_break(e, ret);
	return !ret;
}

static void push(struct arrivals *a, uint32_t slot, uint32_t len)
{
	a->q[a->tail % RX_LEN] = (struct arrival){ slot, len };
	__atomic_store_n(&a->tail, a->tail + 1, __ATOMIC_RELAXED);
}

static struct arrival pop(struct arrivals *a)
{
	struct arrival got = a->q[a->head % RX_LEN];

	__atomic_store_n(&a->head, a->head + 1, __ATOMIC_RELAXED);
	return got;
}

static void rx_arrived(struct vend *e, uint32_t slot, uint32_t len)
{
	struct rx *r = &e->rx;
	uint32_t size = is_rest(slot) ? VERBS_RCV_SIZE : r->load_size;

	if (is_rest(slot))
		r->rest_out--;
	else
		r->load_out--;
	r->posted--;
	push(&r->come, slot, len < size ? len : size);
}

int rx_init(struct vend *e)
{
	struct rx *r = &e->rx;
	unsigned int i;

	e->arrived = rx_arrived;
	r->size = VERBS_RCV_SIZE;
	r->free[0] = (1ull << VERBS_RCV_REST) - 1;
	e->end.depth = VERBS_RCV_REST;
	for (i = 0; i < VERBS_RCV_REST; i++)
		if (!post_one(e))
			return e->error;
	return 0;
}

/* The machine does not count on these buffers staying away [3.3]. */
static bool without_bytes(const uint8_t *mem, uint32_t len)
{
	if (len > FAB_CTRL || len < MIN_MSG)
		return false;
	if (mem[0] == MID_DATA)
		return len == MIN_MSG;
	return mem[0] != MID_SRCAVAIL || len == SRCAVAIL_HDR;
}

/* Receives that are posted or hold a message. */
static uint32_t in_use(const struct rx *r)
{
	return r->posted + (r->come.tail - r->come.head) +
	       (r->held.tail - r->held.head);
}

int rx_poll(struct end *end, struct fab_msg *m)
{
	struct vend *e = vend_of(end);
	struct rx *r = &e->rx;
	struct arrival got;
	const uint8_t *mem;

	while (r->come.head == r->come.tail && cq_next(e))
		;
	if (r->come.head == r->come.tail) {
		if (!e->error)
			return 0;
		return e->error == -EPROTO ? -EPROTO : -ECONNRESET;
	}
	got = pop(&r->come);
	m->last = r->come.head == r->come.tail && cq_dry(e) && !e->error;
	mem = slot_mem(e, got.slot);
	m->len = got.len;
	m->held = !without_bytes(mem, got.len);
	if (m->held) {
		m->mem = mem;
		m->shed = false;
		push(&r->held, got.slot, got.len);
		return 1;
	}
	memcpy(r->copy, mem, got.len);
	m->mem = r->copy;
	slot_give(r, got.slot);
	/* an end whose count was lowered gets back to it by these */
	m->shed = in_use(r) >= end->depth;
	if (!m->shed)
		post_one(e);
	return 1;
}

int rx_front(struct end *end, struct fab_msg *m)
{
	struct vend *e = vend_of(end);
	struct arrivals *h = &e->rx.held;

	if (h->head == h->tail)
		return 0;
	m->mem = slot_mem(e, h->q[h->head % RX_LEN].slot);
	m->len = h->q[h->head % RX_LEN].len;
	m->held = true;
	return 1;
}

int rx_next(struct end *end, bool own, struct fab_walk *w, struct fab_msg *m)
{
	struct vend *e = vend_of(end);
	struct arrivals *h = &e->rx.held;
	struct arrival *a;

	if (own)
		return -EOPNOTSUPP;
	if (w->seq == h->tail - h->head)
		return 0;
	a = &h->q[(h->head + w->seq++) % RX_LEN];
	m->mem = slot_mem(e, a->slot);
	m->len = a->len;
	m->held = true;
	return 1;
}

void rx_release(struct end *end)
{
	struct vend *e = vend_of(end);
	struct arrivals *h = &e->rx.held;

	if (h->head == h->tail)
		return;
	slot_give(&e->rx, pop(h).slot);
	post_one(e);
}

void verbs_drop(struct end *end)
{
	struct vend *e = vend_of(end);
	struct arrivals *h = &e->rx.held;

	if (h->head == h->tail)
		return;
	__atomic_store_n(&h->tail, h->tail - 1, __ATOMIC_RELAXED);
	slot_give(&e->rx, h->q[h->tail % RX_LEN].slot);
	post_one(e);
}

int verbs_shed(struct end *end)
{
	struct vend *e = vend_of(end);
	struct rx *r = &e->rx;

	if (r->held.head == r->held.tail)
		return 0;
	if (in_use(r) <= end->depth) {
		rx_release(end);
		return 0;
	}
	slot_give(r, pop(&r->held).slot);
	return 1;
}

static uint64_t all_of(uint32_t slots)
{
	return slots < 64 ? (1ull << slots) - 1 : UINT64_MAX;
}

static void load_free(struct vend *e)
{
	region_free(e, &e->rx.load);
	e->rx.free[1] = 0;
}

/* The second region, all of it free. */
static int load_new(struct vend *e, uint32_t size, uint32_t count)
{
	struct rx *r = &e->rx;
	uint32_t stride = (size + LINE - 1) & ~(LINE - 1);
	int ret;

	if (r->load.mr && r->load_size >= size && r->load_count >= count)
		return 0;
	if (r->load.mr && r->free[1] != all_of(r->load_count))
		return -EBUSY;
	load_free(e);
	ret = region_new(e, &r->load, (size_t)stride * count);
	if (ret)
		return ret;
	r->load_stride = stride;
	r->load_size = size;
	r->load_count = count;
	r->free[1] = all_of(count);
	return 0;
}

_Static_assert(VERBS_RCV_MOST <= 64, "free slots of a region fit its mask");

int verbs_resize(struct end *end, uint32_t size, uint16_t count)
{
	struct vend *e = vend_of(end);
	struct rx *r = &e->rx;
	int ret, more = 0;

	if (size < VERBS_RCV_SIZE || size > VERBS_RCV_MAX ||
	    count < VERBS_RCV_REST || count > VERBS_RCV_MOST)
		return -EINVAL;
	if (e->error)
		return -ECONNRESET;
	if (count > VERBS_RCV_REST || size > VERBS_RCV_SIZE) {
		ret = load_new(e, size, count);
		if (ret)
			return ret;
	}
	r->size = size;
	r->load_first = size > VERBS_RCV_SIZE;
	end->depth = count;
	while (in_use(r) < count && post_one(e))
		more++;
	return more;
}

uint32_t rx_smallest(const struct vend *e)
{
	const struct rx *r = &e->rx;

	return r->rest_out || !r->load_out ? VERBS_RCV_SIZE : r->load_size;
}

void rx_trim(struct vend *e)
{
	struct rx *r = &e->rx;

	if (!r->load.mr || r->free[1] != all_of(r->load_count) ||
	    r->size > VERBS_RCV_SIZE || e->end.depth > VERBS_RCV_REST)
		return;
	load_free(e);
}
