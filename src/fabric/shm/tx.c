/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The writer of a ring and a lane (shm.h tells their form). The reader's words
 * are loaded once into a local variable and checked there.
 */

#include <sys/mman.h>

#include "base/sys.h"
#include "fabric/shm/frame.h"

#define ROOM_MIN 1024u /* less is called no room: no silly messages */

/*
 * Does the word name a place where a frame of ours may begin? In a run it only
 * goes forward: what was said to be free stays so.
 */
static bool progress_sound(const struct shm_end *e, uint32_t seq, uint32_t off)
{
	uint32_t before = tail_seq(e);

	if (seq - before > e->tx_seq - before || off % LINE ||
	    off > e->seg.ring - LINE)
		return false;
	if (seq == e->tx_seq)
		return off == e->tx_head;
	if (e->tx_run == SHM_RUN_TWO && (int32_t)(seq - e->tx_mark) < 0)
		return off > tail_off(e) && off < e->tx_wrap;
	if (e->tx_run == SHM_RUN_ONE && off <= tail_off(e))
		return false;
	return off < e->tx_head;
}

/*
 * The last line of the ring that a frame at `from` may reach; a jump needs it.
 */
static uint32_t ring_end(const struct shm_end *e, uint32_t from)
{
	uint32_t end = e->tx_walled ? e->tx_paid : e->seg.ring;

	end = end / LINE * LINE - LINE;
	/* behind the wall, since before there was one: not a step further */
	return end > from ? end : from;
}

void shm_tx_limit(struct shm_end *e)
{
	e->tx_lim = ring_end(e, e->tx_head);
	if (e->tx_run == SHM_RUN_TWO && e->tx_lim > tail_off(e) - LINE)
		e->tx_lim = tail_off(e) - LINE;
}

/* Look how far the reader is. */
void shm_tx_look(struct shm_end *e)
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
		shm_tx_limit(e);
	} else if (e->tx_run == SHM_RUN_TWO) {
		shm_tx_limit(e);
	}
}

/* Bytes a jump to `to` could find there; one line before the tail stays. */
static uint32_t jump_room(const struct shm_end *e, uint32_t *to)
{
	uint32_t end = ring_end(e, 0);

	*to = 0;
	if (e->tx_run == SHM_RUN_ONE && tail_off(e))
		return tail_off(e) - LINE < end ? tail_off(e) - LINE : end;
	*to = e->tx_wrap;
	if (e->tx_run == SHM_RUN_TWO)
		return e->tx_wrap < end ? end - e->tx_wrap : 0;
	return 0;
}

static uint32_t room_slow(struct shm_end *e)
{
	uint32_t here, there, to;

	shm_tx_look(e);
	if (e->error)
		return 0;
	do {
		here = e->tx_lim - e->tx_head;
		there = jump_room(e, &to);
		if (here < there)
			here = there;
	} while (__builtin_expect(e->tx_walled, 0) &&
		 here < frame_of(SHM_MSG_MAX) && shm_raise(e));
	if (here < ROOM_MIN)
		return 0;
	return here - HEAD < e->end.max_msg ? here - HEAD : e->end.max_msg;
}

uint32_t shm_tx_room(struct end *end)
{
	struct shm_end *e = shm_of(end);

	if (__builtin_expect(e->tx_lim - e->tx_head >= frame_of(SHM_MSG_MAX),
			     1) &&
	    !e->error)
		return end->max_msg;
	return room_slow(e);
}

/*
 * Raise the cap until a frame that ends at `end` fits. What the account has not
 * got any more is not taken ahead.
 */
static void cap_grow(struct shm_end *e, uint32_t end)
{
	while (e->tx_cap < end && e->tx_cap < e->seg.ring - LINE)
		e->tx_cap = 2 * (e->tx_cap + LINE) - LINE;
	if (e->tx_cap > e->seg.ring - LINE)
		e->tx_cap = e->seg.ring - LINE;
	if (e->tx_cap + LINE <= e->tx_paid)
		return;
	if (e->tx_walled || !shm_affords(e->tx_cap + LINE - e->tx_paid))
		e->tx_cap = end;
	shm_pay(e, e->tx_cap + LINE);
}

/*
 * The frame does not fit below the cap: go on at 0 when the reader keeps
 * pace, else raise the cap; past the limit, jump wherever there is room.
 */
static uint32_t place_slow(struct shm_end *e, uint32_t frame)
{
	uint32_t room, to;

	shm_tx_look(e);
	if (e->error)
		return SHM_BUF_NONE;
	if (tail_seq(e) == e->tx_seq) {
		if (e->tx_cap > SHM_RING_MIN - LINE)
			e->tx_cap = SHM_RING_MIN - LINE;
		cap_grow(e, frame);
	}
	if (e->tx_head + frame <= e->tx_cap && e->tx_head + frame <= e->tx_lim)
		return e->tx_head;
	room = jump_room(e, &to);
	if (e->tx_run == SHM_RUN_ONE && room >= frame &&
	    room >= e->tx_cap / 2) {
		cap_grow(e, to + frame);
		return to;
	}
	if (e->tx_head + frame <= e->tx_lim) {
		cap_grow(e, e->tx_head + frame);
		return e->tx_head;
	}
	if (room < frame)
		return SHM_BUF_NONE;
	cap_grow(e, to + frame);
	return to;
}

void *shm_tx_buf(struct end *end, uint32_t len)
{
	struct shm_end *e = shm_of(end);
	uint32_t frame = frame_of(len), lim = e->tx_lim;

	if (lim > e->tx_cap)
		lim = e->tx_cap;
	e->tx_buf_len = len;
	if (__builtin_expect(len <= SHM_MSG_MAX && e->tx_head + frame <= lim,
			     1)) {
		e->tx_buf = e->tx_head;
		return e->tx + e->tx_head + HEAD;
	}
	e->tx_buf = SHM_BUF_NONE;
	if (len > SHM_MSG_MAX)
		return NULL;
	e->tx_buf = place_slow(e, frame);
	shm_settle(e);
	return e->tx_buf == SHM_BUF_NONE ? NULL : e->tx + e->tx_buf + HEAD;
}

void *shm_tx_ctrl(struct end *end)
{
	struct shm_end *e = shm_of(end);
	uint32_t seen;

	if (shm_tx_room(end))
		return shm_tx_buf(end, FAB_CTRL);
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
 * The log goes along: it is there, and so is what the frame says of it, before
 * the frame can be seen.
 */
static uint64_t with_log(struct shm_end *e, uint64_t now)
{
	uint64_t last = __atomic_load_n(&stamp_logged, __ATOMIC_ACQUIRE), entry;
	int i;

	if (last == e->tx_sends_last)
		return now | STAMP_MIXED;
	e->tx_sends_last = last;
	for (i = 0; i < STAMP_LOG; i++) {
		entry = __atomic_load_n(&stamp_log.entry[i], __ATOMIC_RELAXED);
		__atomic_store_n(&e->tx_sends->entry[i], entry,
				 __ATOMIC_RELAXED);
	}
	return now | STAMP_MIXED;
}

static inline void stamp_frame(struct shm_end *e, uint8_t *frame)
{
	uint64_t now = stamp_now();

	if (stamp_mixed(now))
		now = with_log(e, now);
	stamp_store(frame, now);
}

/* The tag that shows the message of the frame `msg`, or is held back. */
static inline void show(struct shm_end *e, uint8_t *at, uint8_t *msg)
{
	if (__builtin_expect(!e->tx_holds || e->tx_held_at, 1)) {
		tag_store(at, e->tx_tag);
		return;
	}
	e->tx_held_at = at;
	e->tx_held_msg = msg;
	e->tx_held_tag = e->tx_tag;
	__atomic_store_n(e->tx_held, e->tx_tag, __ATOMIC_RELEASE);
}

/* It arrives now, and not when it was written. */
void shm_tx_hold(struct end *end, bool on)
{
	struct shm_end *e = shm_of(end);

	e->tx_holds = on;
	if (on || !e->tx_held_at)
		return;
	stamp_frame(e, e->tx_held_msg);
	tag_store(e->tx_held_at, e->tx_held_tag);
	__atomic_store_n(e->tx_held, 0, __ATOMIC_RELEASE);
	e->tx_held_at = NULL;
}

/*
 * The frame of `len` bytes was written somewhere else than at the head: its
 * tag goes first, the jump's, which makes both visible, last.
 */
static void send_jump(struct shm_end *e, uint32_t len)
{
	uint8_t *at = e->tx + e->tx_head;
	struct jump j = { e->tx_buf, 0, e->tx_cap };

	stamp_frame(e, e->tx + e->tx_buf);
	tag_store(e->tx + e->tx_buf, e->tx_tag + TAG_STEP);
	memcpy(at + HEAD, &j, sizeof(j));
	show(e, at, e->tx + e->tx_buf);
	e->tx_tag += 2 * TAG_STEP;
	e->tx_mark = e->tx_seq + 1;
	e->tx_seq += 2;
	if (e->tx_buf) {
		e->tx_run = SHM_RUN_THREE;
	} else {
		e->tx_run = SHM_RUN_TWO;
		e->tx_wrap = e->tx_head + LINE;
	}
	e->tx_head = e->tx_buf + frame_of(len);
	shm_tx_limit(e);
	e->tx_buf = SHM_BUF_NONE;
}

int shm_tx_send(struct end *end, uint32_t len, bool solicited)
{
	struct shm_end *e = shm_of(end);
	uint8_t *at;

	(void)solicited;
	if (e->tx_buf == SHM_BUF_NONE || len > e->tx_buf_len || len < MSG_MIN)
		return e->error ? e->error : -EINVAL;
	if (__builtin_expect(e->tx_buf == e->tx_head, 1)) {
		at = e->tx + e->tx_head;
		len_store(at + HEAD, len);
		stamp_frame(e, at);
		show(e, at, at);
		e->tx_tag += TAG_STEP;
		e->tx_head += frame_of(len);
		e->tx_seq++;
		e->tx_buf = SHM_BUF_NONE;
		return 0;
	}
	if (e->tx_buf == SHM_BUF_LANE) {
		at = e->tx_lane + e->tx_lane_seq++ % SHM_LANE * LINE;
		len_store(at + TAG, len);
		tag_store(at, e->tx_tag);
		e->tx_tag += TAG_STEP;
		e->tx_buf = SHM_BUF_NONE;
		__atomic_store_n(e->tx_laned, e->tx_lane_seq, __ATOMIC_RELEASE);
		return 0;
	}
	len_store(e->tx + e->tx_buf + HEAD, len);
	send_jump(e, len);
	return 0;
}

bool shm_tx_empty(struct shm_end *e)
{
	shm_tx_look(e);
	return tail_seq(e) == e->tx_seq;
}

/* Whole pages of the ring between these offsets are given back. */
static void give_back(struct shm_end *e, uint32_t from, uint32_t to)
{
	if (to > from)
		sys_madvise(e->tx + from, to - from, MADV_REMOVE);
}

/*
 * The whole ring is empty, so whatever the reader polls may become zero;
 * the first half page stays, and the last, which lies in a page that others
 * use, and the page where the reader looks for the next frame: it would only be
 * made anew. Writers only: the other ring is the peer's.
 */
void shm_tx_trim(struct end *end)
{
	struct shm_end *e = shm_of(end);
	uint32_t last = e->seg.ring - SHM_RING_BIRTH, at;

	if (!shm_tx_empty(e) || e->error)
		return;
	e->tx_cap = SHM_RING_BIRTH - LINE;
	if (e->tx_head < SHM_RING_BIRTH) {
		give_back(e, SHM_RING_BIRTH, last);
	} else {
		at = (e->tx_head - SHM_RING_BIRTH) / SHM_RING_MIN *
			     SHM_RING_MIN +
		     SHM_RING_BIRTH;
		give_back(e, SHM_RING_BIRTH, at);
		give_back(e, at + SHM_RING_MIN, last);
	}
	shm_forgo(e);
	shm_pay_begin(e);
	shm_tx_limit(e);
}
