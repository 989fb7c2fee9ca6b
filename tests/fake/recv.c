/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The receives of a pretended queue pair, see fake.h. */

#include "fake.h"
#include "sdp_proto/wire.h"

/* Those at rest first, as the module does. */
static bool post(struct fend *e)
{
	struct receives *r = &e->rx;
	bool load = r->rest_free <= 0 || r->now > VERBS_RCV_SIZE;

	if (load && !r->load_free)
		return false;
	if (load)
		r->load_free--;
	else
		r->rest_free--;
	r->size[r->tail % 128] = load ? r->load_size : VERBS_RCV_SIZE;
	r->load[r->tail++ % 128] = load;
	return true;
}

void fake_rx_init(struct fend *e)
{
	e->rx.rest_free = VERBS_RCV_REST;
	e->rx.now = VERBS_RCV_SIZE;
	while (post(e))
		;
}

uint32_t fake_rx_posted(const struct fend *e)
{
	return e->rx.tail - e->rx.head;
}

uint32_t fake_rx_smallest(const struct fend *e)
{
	uint32_t i, least = VERBS_RCV_MAX;

	for (i = e->rx.head; i != e->rx.tail; i++)
		if (e->rx.size[i % 128] < least)
			least = e->rx.size[i % 128];
	return i == e->rx.head ? VERBS_RCV_SIZE : least;
}

static uint32_t in_use(const struct fend *e)
{
	return fake_rx_posted(e) + e->waiting;
}

/* The oldest receive takes a message. */
bool fake_rx_use(struct fend *e)
{
	e->waiting++;
	if (!fake_rx_posted(e)) {
		e->rx.rest_free--;
		return false;
	}
	return e->rx.load[e->rx.head++ % 128];
}

/*
 * An end that counts credits as it should never sends what finds no receive,
 * but for an AbortConn, which needs none.
 */
bool fake_rx_none_for(struct fend *e, const uint8_t *p, uint32_t len)
{
	return !fake_rx_posted(e) && (len < WIRE_BSDH || p[0] != WIRE_ABORT);
}

bool fake_rx_too_small(const struct fend *e, uint32_t len)
{
	return fake_rx_posted(e) && len > e->rx.size[e->rx.head % 128];
}

/* Its message is done with; `keep`: it is to be posted again. */
bool fake_rx_give(struct fend *e, const struct msg *m, bool keep)
{
	e->waiting--;
	if (m->load)
		e->rx.load_free++;
	else
		e->rx.rest_free++;
	return (keep || in_use(e) < e->end.depth) && post(e);
}

/* As the module: one region beside that of rest, its places of one size. */
static int region(struct receives *r, uint32_t size, uint16_t count)
{
	if (r->region && r->load_size >= size && r->load_count >= count)
		return 0;
	if (r->region && r->load_free < r->load_count)
		return -EBUSY;
	r->region = true;
	r->load_size = size;
	r->load_free = r->load_count = count;
	return 0;
}

int fake_rx_resize(struct fend *e, uint32_t size, uint16_t count)
{
	int more = 0, ret = 0;

	pthread_mutex_lock(&e->lock);
	if (count > VERBS_RCV_REST || size > VERBS_RCV_SIZE)
		ret = region(&e->rx, size, count);
	if (ret) {
		pthread_mutex_unlock(&e->lock);
		return ret;
	}
	e->rx.now = size;
	e->end.depth = count;
	while (in_use(e) < count && post(e))
		more++;
	pthread_mutex_unlock(&e->lock);
	return more;
}
