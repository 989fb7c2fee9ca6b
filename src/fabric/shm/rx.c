/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reader of a ring and a lane. What the writer can change is loaded once
 * into a local variable and checked there, each time it is looked at.
 */

#include "fabric/shm/frame.h"

/* A frame whose length is no message's: follow a jump or give up. */
static int poll_jump(struct shm_end *e)
{
	uint32_t to = jump_sound(e, e->rx, e->rx_parse, &e->rx_lap);

	if (to == SHM_BUF_NONE)
		return e->error = -EPROTO;
	if (e->rx_front_seq == e->rx_parse_seq) {
		e->rx_front = to;
		e->rx_front_seq++;
		e->rx_owed += LINE;
	}
	e->rx_parse = to;
	e->rx_parse_seq++;
	e->rx_tag += TAG_STEP;
	return 0;
}

static int poll_ring(struct shm_end *e, struct fab_msg *m)
{
	const uint8_t *at = e->rx + e->rx_parse;
	uint32_t len = len_load(at + HEAD);
	uint32_t frame = frame_sound(e, e->rx_parse, len);

	if (!frame)
		return -EAGAIN;
	m->mem = at + HEAD;
	m->len = len;
	m->held = true;
	m->stamp = stamp_load(at);
	e->rx_parse += frame;
	e->rx_parse_seq++;
	e->rx_tag += TAG_STEP;
	return 1;
}

static int poll_lane(struct shm_end *e, struct fab_msg *m)
{
	const uint8_t *at = e->rx_lane + e->rx_lane_seq % SHM_LANE * LINE;
	uint32_t len = len_load(at + TAG);

	if (len < MSG_MIN || len > FAB_CTRL)
		return e->error = -EPROTO;
	memcpy(e->rx_ctrl, at + TAG, FAB_CTRL);
	m->mem = e->rx_ctrl;
	m->len = len;
	m->held = false;
	m->stamp = 0;
	e->rx_tag += TAG_STEP;
	e->rx_lane_seq++;
	__atomic_store_n(e->rx_progress + 1, e->rx_lane_seq, __ATOMIC_RELEASE);
	return 1;
}

static inline bool ring_ready(const struct shm_end *e)
{
	return tag_load(e->rx + e->rx_parse) == e->rx_tag;
}

/* The lane itself is looked at only when used: its page stays untouched. */
static inline bool lane_ready(const struct shm_end *e)
{
	if (__atomic_load_n(e->rx_laned, __ATOMIC_ACQUIRE) == e->rx_lane_seq)
		return false;
	return tag_load(e->rx_lane + e->rx_lane_seq % SHM_LANE * LINE) ==
	       e->rx_tag;
}

int shm_rx_poll(struct end *end, struct fab_msg *m)
{
	struct shm_end *e = shm_of(end);
	int n;

	if (ring_ready(e)) {
		n = poll_ring(e, m);
		if (__builtin_expect(n != -EAGAIN, 1))
			return n;
		if (poll_jump(e))
			return e->error;
		/* The frame behind a jump was written before it. */
		if (!ring_ready(e) || poll_ring(e, m) != 1)
			return e->error = -EPROTO;
		return 1;
	}
	if (lane_ready(e))
		return poll_lane(e, m);
	return e->error;
}

/* The frame is as sound as any other: it was whole before the word said so. */
void shm_rx_unhold(struct end *end)
{
	struct shm_end *e = shm_of(end);
	uint64_t tag = __atomic_load_n(e->rx_held, __ATOMIC_ACQUIRE);

	if (tag && tag == e->rx_tag && !e->error)
		tag_store((uint8_t *)(uintptr_t)e->rx + e->rx_parse, tag);
}

bool shm_rx_pending(struct end *end)
{
	struct shm_end *e = shm_of(end);

	return ring_ready(e) || lane_ready(e);
}

/*
 * Move the front past a jump. Lengths were checked by poll(), but the peer
 * may have changed them since.
 */
static int front_jump(struct shm_end *e)
{
	uint32_t to;

	if (len_load(e->rx + e->rx_front + HEAD))
		return 0;
	to = jump_sound(e, e->rx, e->rx_front, &e->rx_lap);
	if (to == SHM_BUF_NONE)
		return e->error = -EPROTO;
	e->rx_front = to;
	e->rx_front_seq++;
	e->rx_owed += LINE;
	return 0;
}

int shm_rx_front(struct end *end, struct fab_msg *m)
{
	struct shm_end *e = shm_of(end);
	uint32_t len;

	if (e->rx_front_seq == e->rx_parse_seq || front_jump(e) ||
	    e->rx_front_seq == e->rx_parse_seq)
		return e->error;
	len = len_load(e->rx + e->rx_front + HEAD);
	if (!frame_sound(e, e->rx_front, len))
		return e->error = -EPROTO;
	m->mem = e->rx + e->rx_front + HEAD;
	m->len = len;
	m->held = true;
	return 1;
}

static void publish(struct shm_end *e)
{
	uint64_t word = (uint64_t)e->rx_front_seq << 32 | e->rx_front;

	__atomic_store_n(e->rx_progress, word, __ATOMIC_RELEASE);
	e->rx_told = e->rx_front_seq;
	e->rx_owed = 0;
}

/* The front, one of several, ends where its length says. */
static void release_walk(struct shm_end *e)
{
	struct fab_msg m;
	uint32_t frame;

	if (shm_rx_front(&e->end, &m) != 1)
		return;
	/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): no error is 1 */
	frame = frame_of(m.len);
	e->rx_owed += frame;
	e->rx_front += frame;
	e->rx_front_seq++;
	if (e->rx_front_seq == e->rx_parse_seq && e->rx_front != e->rx_parse)
		e->error = -EPROTO;
}

void shm_rx_release(struct end *end)
{
	struct shm_end *e = shm_of(end);
	uint32_t lap;

	if (e->rx_front_seq + 1 == e->rx_parse_seq) {
		e->rx_owed += e->rx_parse - e->rx_front;
		e->rx_front = e->rx_parse;
		e->rx_front_seq++;
	} else {
		release_walk(e);
	}
	lap = e->rx_lap > e->rx_front ? e->rx_lap : e->rx_front;
	if (e->rx_owed >= lap / 4)
		publish(e);
}

const struct stamp_log *shm_rx_sends(struct end *end)
{
	return shm_of(end)->rx_sends;
}

bool shm_publish(struct shm_end *e)
{
	if (e->rx_told == e->rx_front_seq)
		return false;
	publish(e);
	return true;
}
