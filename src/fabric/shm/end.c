/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One end of a segment: its birth, its table, and looking around. */

#include "fabric/shm/frame.h"

static int shm_next(struct end *end, bool own, struct fab_walk *w,
		    struct fab_msg *m)
{
	struct shm_end *e = shm_of(end);
	const uint8_t *ring = own ? e->tx : e->rx;
	uint32_t last = own ? e->tx_seq : e->rx_parse_seq, len, cap;

	if (!w->begun) {
		if (own)
			shm_tx_look(e);
		w->begun = true;
		w->off = own ? tail_off(e) : e->rx_front;
		w->seq = own ? tail_seq(e) : e->rx_front_seq;
	}
	while (w->seq != last) {
		len = len_load(ring + w->off + HEAD);
		if (frame_sound(e, w->off, len)) {
			m->mem = ring + w->off + HEAD;
			m->len = len;
			m->held = true;
			w->off += frame_of(len);
			w->seq++;
			return 1;
		}
		w->off = jump_sound(e, ring, w->off, &cap);
		w->seq++;
		if (w->off == SHM_BUF_NONE)
			return e->error = -EPROTO;
	}
	return 0;
}

static bool shm_publish_end(struct end *end)
{
	struct shm_end *e = shm_of(end);

	return e->rx_owed && shm_publish(e);
}

static void shm_destroy(struct end *end)
{
	shm_forgo(shm_of(end));
	shm_unmap(&shm_of(end)->seg);
}

const struct fabric_ops shm_ops = {
	.name = "shm",
	.room = shm_tx_room,
	.buf = shm_tx_buf,
	.ctrl = shm_tx_ctrl,
	.send = shm_tx_send,
	.hold = shm_tx_hold,
	.unhold = shm_rx_unhold,
	.poll = shm_rx_poll,
	.front = shm_rx_front,
	.release = shm_rx_release,
	.next = shm_next,
	.publish = shm_publish_end,
	.sends = shm_rx_sends,
	.lend = shm_lend,
	.lent = shm_lent,
	.unlend = shm_unlend,
	.recalled = shm_recalled,
	.read = shm_read,
	.done = shm_done,
	.pending = shm_rx_pending,
	.trim = shm_tx_trim,
	.destroy = shm_destroy,
};

void shm_end_init(struct shm_end *e, const struct shm_seg *s, bool maker,
		  uint64_t key)
{
	uint8_t *base = s->mem, *rings = base + SHM_HEAD_LEN;
	uint8_t *word = base + SHM_PROGRESS_AT;
	uint8_t *lane = rings + 2 * (size_t)s->ring;
	size_t tx = maker ? 0 : 1, rx = 1 - tx;

	__atomic_store_n(&stamp_used, true, __ATOMIC_RELAXED);
	*e = (struct shm_end){
		.end = { &shm_ops, SHM_MSG_MAX, SHM_DEPTH },
		.seg = *s,
		.tx = rings + tx * s->ring,
		.tx_lane = lane + tx * SHM_LANE * LINE,
		.tx_progress = (void *)(word + tx * 256),
		.tx_laned = (void *)(base + SHM_LANED_AT + tx * 128),
		.tx_held = (void *)(base + SHM_HELD_AT + tx * 128),
		.tx_sends = (void *)(base + SHM_SENDS_AT + tx * 128),
		.tx_tag = (maker ? key : key ^ OPENER_KEY) | 1,
		.tx_cap = SHM_RING_BIRTH - LINE,
		.tx_lim = s->ring - LINE,
		.tx_buf = SHM_BUF_NONE,
		.rx = rings + rx * s->ring,
		.rx_lane = lane + rx * SHM_LANE * LINE,
		.rx_progress = (void *)(word + rx * 256),
		.rx_laned = (void *)(base + SHM_LANED_AT + rx * 128),
		.rx_held = (void *)(base + SHM_HELD_AT + rx * 128),
		.rx_sends = (void *)(base + SHM_SENDS_AT + rx * 128),
		.rx_tag = (maker ? key ^ OPENER_KEY : key) | 1,
		.rx_lap = SHM_RING_BIRTH - LINE,
		.src = (void *)(base + SHM_SRC_AT + tx * 256),
		.peer_src = (void *)(base + SHM_SRC_AT + rx * 256),
		.peer = -1,
	};
	shm_pay_begin(e);
}
