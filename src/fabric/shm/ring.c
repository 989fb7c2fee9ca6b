/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The ring and the lane (shm.h tells their form). The writer's half comes
 * first, then the reader's. What the other side can write is loaded once into
 * a local variable and checked there.
 */

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "fabric/shm/shm.h"

#define LINE	   64u
#define TAG	   8u /* bytes of a frame before its message */
#define MSG_MIN	   16u /* a BSDH */
#define ROOM_MIN   1024u /* less is called no room: no silly messages */
#define OPENER_KEY 0x6a09e667f3bcc908ull
/* Even, and keys are odd: no tag is 0, what fresh memory holds. */
#define TAG_STEP   0x3c6ef372fe94f82aull

/* What follows the tag of a jump frame; `len` is where BSDH.Len would be. */
struct jump {
	uint32_t to, len, cap;
};

static inline struct shm_end *shm_of(struct end *e)
{
	return (struct shm_end *)e;
}

static inline uint32_t frame_of(uint32_t len)
{
	return (len + TAG + LINE - 1) & ~(LINE - 1);
}

static inline uint64_t tag_load(const uint8_t *frame)
{
	return __atomic_load_n((const uint64_t *)(const void *)frame,
			       __ATOMIC_ACQUIRE);
}

static inline void tag_store(uint8_t *frame, uint64_t tag)
{
	__atomic_store_n((uint64_t *)(void *)frame, tag, __ATOMIC_RELEASE);
}

static inline uint32_t len_load(const uint8_t *frame)
{
	const uint32_t *len = (const uint32_t *)(const void *)(frame + TAG + 4);

	return be32toh(__atomic_load_n(len, __ATOMIC_RELAXED));
}

static inline void len_store(uint8_t *frame, uint32_t len)
{
	*(uint32_t *)(void *)(frame + TAG + 4) = htobe32(len);
}

/* --- writer ------------------------------------------------------------ */

static inline uint32_t tail_off(const struct shm_end *e)
{
	return (uint32_t)e->tx_seen;
}

static inline uint32_t tail_seq(const struct shm_end *e)
{
	return (uint32_t)(e->tx_seen >> 32);
}

/* Does the word name a place where a frame of ours may begin? */
static bool progress_sound(const struct shm_end *e, uint32_t seq, uint32_t off)
{
	uint32_t before = tail_seq(e);

	if (seq - before > e->tx_seq - before || off % LINE ||
	    off > e->seg.ring - LINE)
		return false;
	if (seq == e->tx_seq)
		return off == e->tx_head;
	if (e->tx_run == SHM_RUN_TWO && (int32_t)(seq - e->tx_mark) < 0)
		return off > e->tx_head && off < e->tx_wrap;
	return off < e->tx_head;
}

/* Look how far the reader is. */
static void tail_refresh(struct shm_end *e)
{
	uint64_t word = __atomic_load_n(e->tx_progress, __ATOMIC_ACQUIRE);
	uint32_t seq = (uint32_t)(word >> 32), off = (uint32_t)word;

	if (word == e->tx_seen)
		return;
	if (!progress_sound(e, seq, off)) {
		e->error = -EPROTO;
		return;
	}
	e->tx_seen = word;
	if (e->tx_run != SHM_RUN_ONE && (int32_t)(seq - e->tx_mark) >= 0) {
		e->tx_run = SHM_RUN_ONE;
		e->tx_lim = e->seg.ring - LINE;
	} else if (e->tx_run == SHM_RUN_TWO) {
		e->tx_lim = off - LINE;
	}
}

/* Bytes a jump to `to` could find there; one line before the tail stays. */
static uint32_t jump_room(const struct shm_end *e, uint32_t *to)
{
	uint32_t end = e->seg.ring - LINE;

	*to = 0;
	if (e->tx_run == SHM_RUN_ONE)
		return tail_off(e) ? tail_off(e) - LINE : 0;
	*to = e->tx_wrap;
	if (e->tx_run == SHM_RUN_TWO)
		return e->tx_wrap < end ? end - e->tx_wrap : 0;
	return 0;
}

static uint32_t room_slow(struct shm_end *e)
{
	uint32_t here, there, to;

	tail_refresh(e);
	if (e->error)
		return 0;
	here = e->tx_lim - e->tx_head;
	there = jump_room(e, &to);
	if (here < there)
		here = there;
	if (here < ROOM_MIN)
		return 0;
	return here - TAG < e->end.max_msg ? here - TAG : e->end.max_msg;
}

static uint32_t shm_room(struct end *end)
{
	struct shm_end *e = shm_of(end);

	if (__builtin_expect(e->tx_lim - e->tx_head >= frame_of(SHM_MSG_MAX),
			     1) &&
	    !e->error)
		return end->max_msg;
	return room_slow(e);
}

/* Raise the cap until a frame that ends at `end` fits. */
static void cap_grow(struct shm_end *e, uint32_t end)
{
	while (e->tx_cap < end && e->tx_cap < e->seg.ring - LINE)
		e->tx_cap = 2 * (e->tx_cap + LINE) - LINE;
}

/*
 * The frame does not fit below the cap: go on at 0 when the reader keeps
 * pace, else raise the cap; past the limit, jump wherever there is room.
 */
static uint32_t place_slow(struct shm_end *e, uint32_t frame)
{
	uint32_t room, to;

	tail_refresh(e);
	if (e->error)
		return SHM_BUF_NONE;
	if (tail_seq(e) == e->tx_seq) {
		e->tx_cap = SHM_RING_MIN - LINE;
		cap_grow(e, frame);
	}
	if (e->tx_head + frame <= e->tx_cap && e->tx_head + frame <= e->tx_lim)
		return e->tx_head;
	room = jump_room(e, &to);
	if (e->tx_run == SHM_RUN_ONE && room >= frame && room >= e->tx_cap / 2)
		return to;
	if (e->tx_head + frame <= e->tx_lim) {
		cap_grow(e, e->tx_head + frame);
		return e->tx_head;
	}
	if (room < frame)
		return SHM_BUF_NONE;
	cap_grow(e, to + frame);
	return to;
}

static void *shm_buf(struct end *end, uint32_t len)
{
	struct shm_end *e = shm_of(end);
	uint32_t frame = frame_of(len), lim = e->tx_lim;

	if (lim > e->tx_cap)
		lim = e->tx_cap;
	e->tx_buf_len = len;
	if (__builtin_expect(len <= SHM_MSG_MAX && e->tx_head + frame <= lim,
			     1)) {
		e->tx_buf = e->tx_head;
		return e->tx + e->tx_head + TAG;
	}
	e->tx_buf = SHM_BUF_NONE;
	if (len > SHM_MSG_MAX)
		return NULL;
	e->tx_buf = place_slow(e, frame);
	return e->tx_buf == SHM_BUF_NONE ? NULL : e->tx + e->tx_buf + TAG;
}

static void *shm_ctrl(struct end *end)
{
	struct shm_end *e = shm_of(end);
	uint32_t seen;

	if (shm_room(end))
		return shm_buf(end, FAB_CTRL);
	if (e->error)
		return NULL;
	if (e->tx_lane_seq - e->tx_lane_seen >= SHM_LANE) {
		seen = (uint32_t)__atomic_load_n(e->tx_progress + 1,
						 __ATOMIC_ACQUIRE);
		if (seen - e->tx_lane_seen > SHM_LANE) {
			e->error = -EPROTO;
			return NULL;
		}
		e->tx_lane_seen = seen;
		if (e->tx_lane_seq - seen >= SHM_LANE)
			return NULL;
	}
	e->tx_buf = SHM_BUF_LANE;
	e->tx_buf_len = FAB_CTRL;
	return e->tx_lane + e->tx_lane_seq % SHM_LANE * LINE + TAG;
}

/*
 * The frame of `len` bytes was written somewhere else than at the head: its
 * tag goes first, the jump's, which makes both visible, last.
 */
static void send_jump(struct shm_end *e, uint32_t len)
{
	uint8_t *at = e->tx + e->tx_head;
	struct jump j = { e->tx_buf, 0, e->tx_cap };

	tag_store(e->tx + e->tx_buf, e->tx_tag + TAG_STEP);
	memcpy(at + TAG, &j, sizeof(j));
	tag_store(at, e->tx_tag);
	e->tx_tag += 2 * TAG_STEP;
	e->tx_mark = e->tx_seq + 1;
	e->tx_seq += 2;
	if (e->tx_buf) {
		e->tx_run = SHM_RUN_THREE;
		e->tx_lim = e->seg.ring - LINE;
	} else {
		e->tx_run = SHM_RUN_TWO;
		e->tx_wrap = e->tx_head + LINE;
		e->tx_lim = tail_off(e) - LINE;
	}
	e->tx_head = e->tx_buf + frame_of(len);
	e->tx_buf = SHM_BUF_NONE;
}

static int shm_send(struct end *end, uint32_t len, bool solicited)
{
	struct shm_end *e = shm_of(end);
	uint8_t *at;

	(void)solicited;
	if (e->tx_buf == SHM_BUF_NONE || len > e->tx_buf_len || len < MSG_MIN)
		return e->error ? e->error : -EINVAL;
	if (__builtin_expect(e->tx_buf == e->tx_head, 1)) {
		at = e->tx + e->tx_head;
		len_store(at, len);
		tag_store(at, e->tx_tag);
		e->tx_tag += TAG_STEP;
		e->tx_head += frame_of(len);
		e->tx_seq++;
		e->tx_buf = SHM_BUF_NONE;
		return 0;
	}
	if (e->tx_buf == SHM_BUF_LANE) {
		at = e->tx_lane + e->tx_lane_seq++ % SHM_LANE * LINE;
		len_store(at, len);
		tag_store(at, e->tx_tag);
		e->tx_tag += TAG_STEP;
		e->tx_buf = SHM_BUF_NONE;
		return 0;
	}
	len_store(e->tx + e->tx_buf, len);
	send_jump(e, len);
	return 0;
}

bool shm_tx_empty(struct shm_end *e)
{
	tail_refresh(e);
	return tail_seq(e) == e->tx_seq;
}

/*
 * The whole ring is empty, so whatever the reader polls may become zero;
 * the first page stays. Writers only: the other ring is the peer's.
 */
static void shm_trim(struct end *end)
{
	struct shm_end *e = shm_of(end);

	if (!shm_tx_empty(e) || e->error)
		return;
	e->tx_cap = SHM_RING_MIN - LINE;
	sys_call3(SYS_madvise, e->tx + SHM_RING_MIN, e->seg.ring - SHM_RING_MIN,
		  MADV_REMOVE);
}

/* --- reader ------------------------------------------------------------ */

/* Frame bytes of a message of `len` bytes at `off`, 0: impossible. */
static inline uint32_t frame_sound(const struct shm_end *e, uint32_t off,
				   uint32_t len)
{
	uint32_t frame = frame_of(len);

	if (len < MSG_MIN || len > SHM_MSG_MAX ||
	    frame > e->seg.ring - LINE - off)
		return 0;
	return frame;
}

/* Where the jump frame at `off` leads, or SHM_BUF_NONE. */
static uint32_t jump_sound(struct shm_end *e, uint32_t off)
{
	struct jump j;

	memcpy(&j, e->rx + off + TAG, sizeof(j));
	__asm__ volatile("" : "+m"(j)); /* checked is what is used */
	if (j.len || j.to % LINE || j.to > e->seg.ring - LINE)
		return SHM_BUF_NONE;
	e->rx_lap = j.cap < e->seg.ring ? j.cap : e->seg.ring;
	return j.to;
}

/* A frame whose length is no message's: follow a jump or give up. */
static int poll_jump(struct shm_end *e)
{
	uint32_t to = jump_sound(e, e->rx_parse);

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
	uint32_t len = len_load(at);
	uint32_t frame = frame_sound(e, e->rx_parse, len);

	if (!frame)
		return -EAGAIN;
	m->mem = at + TAG;
	m->len = len;
	m->held = true;
	e->rx_parse += frame;
	e->rx_parse_seq++;
	e->rx_tag += TAG_STEP;
	return 1;
}

static int poll_lane(struct shm_end *e, struct fab_msg *m)
{
	const uint8_t *at = e->rx_lane + e->rx_lane_seq % SHM_LANE * LINE;
	uint32_t len = len_load(at);

	if (len < MSG_MIN || len > FAB_CTRL)
		return e->error = -EPROTO;
	memcpy(e->rx_ctrl, at + TAG, FAB_CTRL);
	m->mem = e->rx_ctrl;
	m->len = len;
	m->held = false;
	e->rx_tag += TAG_STEP;
	e->rx_lane_seq++;
	__atomic_store_n(e->rx_progress + 1, e->rx_lane_seq, __ATOMIC_RELEASE);
	return 1;
}

static inline bool ring_ready(const struct shm_end *e)
{
	return tag_load(e->rx + e->rx_parse) == e->rx_tag;
}

static inline bool lane_ready(const struct shm_end *e)
{
	return tag_load(e->rx_lane + e->rx_lane_seq % SHM_LANE * LINE) ==
	       e->rx_tag;
}

static int shm_poll(struct end *end, struct fab_msg *m)
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

static bool shm_pending(struct end *end)
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

	if (len_load(e->rx + e->rx_front))
		return 0;
	to = jump_sound(e, e->rx_front);
	if (to == SHM_BUF_NONE)
		return e->error = -EPROTO;
	e->rx_front = to;
	e->rx_front_seq++;
	e->rx_owed += LINE;
	return 0;
}

static int shm_front(struct end *end, struct fab_msg *m)
{
	struct shm_end *e = shm_of(end);
	uint32_t len;

	if (e->rx_front_seq == e->rx_parse_seq || front_jump(e) ||
	    e->rx_front_seq == e->rx_parse_seq)
		return e->error;
	len = len_load(e->rx + e->rx_front);
	if (!frame_sound(e, e->rx_front, len))
		return e->error = -EPROTO;
	m->mem = e->rx + e->rx_front + TAG;
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

	if (shm_front(&e->end, &m) != 1)
		return;
	frame = frame_of(m.len);
	e->rx_owed += frame;
	e->rx_front += frame;
	e->rx_front_seq++;
	if (e->rx_front_seq == e->rx_parse_seq && e->rx_front != e->rx_parse)
		e->error = -EPROTO;
}

static void shm_release(struct end *end)
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

bool shm_publish(struct shm_end *e)
{
	if (e->rx_told == e->rx_front_seq)
		return false;
	publish(e);
	return true;
}

/* --- both -------------------------------------------------------------- */

int shm_next(struct shm_end *e, bool own, struct shm_walk *w,
	     struct fab_msg *m)
{
	const uint8_t *ring = own ? e->tx : e->rx;
	uint32_t end = own ? e->tx_seq : e->rx_parse_seq, len;
	struct jump j;

	if (!w->begun) {
		if (own)
			tail_refresh(e);
		w->begun = true;
		w->off = own ? tail_off(e) : e->rx_front;
		w->seq = own ? tail_seq(e) : e->rx_front_seq;
	}
	while (w->seq != end) {
		len = len_load(ring + w->off);
		if (frame_sound(e, w->off, len)) {
			m->mem = ring + w->off + TAG;
			m->len = len;
			m->held = true;
			w->off += frame_of(len);
			w->seq++;
			return 1;
		}
		memcpy(&j, ring + w->off + TAG, sizeof(j));
		__asm__ volatile("" : "+m"(j)); /* checked is what is used */
		if (j.len || j.to % LINE || j.to > e->seg.ring - LINE)
			return e->error = -EPROTO;
		w->off = j.to;
		w->seq++;
	}
	return 0;
}

static int shm_done(struct end *end, struct fab_done *d)
{
	(void)end;
	(void)d;
	return 0;
}

static void shm_destroy(struct end *end)
{
	shm_unmap(&shm_of(end)->seg);
}

const struct fabric_ops shm_ops = {
	.name = "shm",
	.room = shm_room,
	.buf = shm_buf,
	.ctrl = shm_ctrl,
	.send = shm_send,
	.poll = shm_poll,
	.front = shm_front,
	.release = shm_release,
	.done = shm_done,
	.pending = shm_pending,
	.trim = shm_trim,
	.destroy = shm_destroy,
};

void shm_end_init(struct shm_end *e, const struct shm_seg *s, bool maker,
		  uint64_t key)
{
	uint8_t *base = s->mem, *rings = base + SHM_HEAD_LEN;
	uint8_t *word = base + SHM_PROGRESS_AT, *lane = base + SHM_LANES_AT;
	size_t tx = maker ? 0 : 1, rx = 1 - tx;

	*e = (struct shm_end){
		.end = { &shm_ops, SHM_MSG_MAX, SHM_DEPTH },
		.seg = *s,
		.tx = rings + tx * s->ring,
		.tx_lane = lane + tx * SHM_LANE * LINE,
		.tx_progress = (void *)(word + tx * 256),
		.tx_tag = (maker ? key : key ^ OPENER_KEY) | 1,
		.tx_cap = SHM_RING_MIN - LINE,
		.tx_lim = s->ring - LINE,
		.tx_buf = SHM_BUF_NONE,
		.rx = rings + rx * s->ring,
		.rx_lane = lane + rx * SHM_LANE * LINE,
		.rx_progress = (void *)(word + rx * 256),
		.rx_tag = (maker ? key ^ OPENER_KEY : key) | 1,
		.rx_lap = SHM_RING_MIN - LINE,
	};
}
