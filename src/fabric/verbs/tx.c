/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The sending half. Messages lie in a ring until their completion, inline ones
 * too: what was not acknowledged when the end breaks must be sent elsewhere.
 * Each work request has a record; a completion covers all records before it.
 *
 * Completions cost more than sends, so only one send in QUIET_MAX asks for
 * one, and one whenever half a ring has gone since. A caller that needs to know
 * sooner posts a mark: an RDMA Write of no bytes.
 */

#include <string.h>

#include "fabric/verbs/int.h"

#define ROOM_MIN 1024u /* less is called no room: no silly messages */

static uint32_t lines_of(uint32_t len)
{
	return (len + LINE - 1) & ~(LINE - 1);
}

static struct sent *sent_at(struct vend *e, uint32_t seq)
{
	return &e->tx.sent[seq % SENT_LEN];
}

static uint32_t under_way(const struct tx *t)
{
	return t->seq - t->acked;
}

/* --- the ring ----------------------------------------------------------- */

/* The largest piece; *at: where. A message never wraps. */
static uint32_t ring_fit(struct ring *r, uint32_t *at)
{
	uint32_t end;

	if (!r->live)
		r->head = r->tail = 0;
	*at = r->head;
	if (r->head < r->tail || (r->live && r->head == r->tail))
		return r->tail - r->head;
	end = r->cap - r->head;
	if (end >= r->tail)
		return end;
	*at = 0;
	return r->tail;
}

static uint32_t fit_now(struct tx *t)
{
	uint32_t at;

	return under_way(t) < SQ_DATA ? ring_fit(&t->ring[t->cur], &at) : 0;
}

static struct region *region_of(struct tx *t, uint8_t ring)
{
	return &t->larger[ring - SENT_LOAD];
}

/*
 * A larger ring; messages of the one before stay where they are. The largest is
 * for a stream: with less to send from, the device runs dry before the thread
 * that writes is woken and runs.
 */
static void ring_grow(struct vend *e)
{
	struct tx *t = &e->tx;
	const uint8_t next = t->cur == SENT_REST ? SENT_LOAD : SENT_BULK;
	const uint32_t cap = next == SENT_LOAD ? LOAD_TX : BULK_TX;
	struct region *mem = region_of(t, next);

	if (t->cur == next || t->poor ||
	    (next == SENT_BULK && t->through < BULK_FROM))
		return;
	if (region_new(e, mem, cap)) {
		t->poor = true;
		return;
	}
	t->ring[next] = (struct ring){
		.mem = mem->mem,
		.lkey = mem->mr->lkey,
		.cap = cap,
	};
	t->cur = next;
}

/* The ring before the largest is needed as long as messages lie in it. */
static void ring_shed(struct vend *e)
{
	struct tx *t = &e->tx;

	if (t->cur == SENT_BULK && !t->ring[SENT_LOAD].live &&
	    !(t->buf && t->buf_kind == SENT_LOAD))
		region_free(e, region_of(t, SENT_LOAD));
}

/* --- sending ------------------------------------------------------------ */

int tx_post(struct vend *e, struct ibv_send_wr *wr, struct sent *s)
{
	struct tx *t = &e->tx;
	struct ibv_send_wr *bad;
	int ret;
	CALM;

	t->quiet++;
	t->quiet_bytes += s->len;
	if (t->quiet >= QUIET_MAX || s->kind >= SENT_MARK ||
	    (s->kind < SENT_LANE &&
	     t->quiet_bytes >= t->ring[s->kind].cap / 2)) {
		s->signalled = true;
		wr->send_flags |= IBV_SEND_SIGNALED;
		t->quiet = t->quiet_bytes = 0;
	}
	wr->wr_id = t->seq;
	*sent_at(e, t->seq) = *s;
	t->seq++;
	/*
	 * What cannot be posted counts as sent: it is among what unacked()
	 * finds. -EACCES: other credentials than those that opened the device.
	 */
	ret = -ibv_post_send(e->qp, wr, &bad);
	if (ret)
		cq_break(e, ret);
	return ret;
}

/*
 * A completion for everything sent so far. With a full queue one is coming.
 */
static void mark_post(struct vend *e)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE };
	struct sent s = { .kind = SENT_MARK };

	tx_post(e, &wr, &s);
}

static void mark(struct vend *e)
{
	struct tx *t = &e->tx;

	if (!under_way(t) || under_way(t) >= SQ_DATA ||
	    sent_at(e, t->seq - 1)->signalled || e->error)
		return;
	mark_post(e);
}

static uint32_t room_slow(struct vend *e)
{
	uint32_t fit;

	cq_reap(e);
	fit = fit_now(&e->tx);
	if (fit < VERBS_RCV_SIZE && under_way(&e->tx) < SQ_DATA) {
		ring_grow(e);
		fit = fit_now(&e->tx);
	}
	ring_shed(e);
	if (fit < ROOM_MIN || e->error)
		return 0;
	return fit;
}

uint32_t tx_room(struct end *end)
{
	struct vend *e = vend_of(end);
	uint32_t fit = fit_now(&e->tx);

	if (fit < VERBS_RCV_SIZE || e->error)
		fit = room_slow(e);
	return fit < end->max_msg ? fit : end->max_msg;
}

void *tx_buf(struct end *end, uint32_t len)
{
	struct vend *e = vend_of(end);
	struct tx *t = &e->tx;
	struct ring *r;
	uint32_t at;

	t->buf = NULL;
	/* broken since room() said so: it counts as sent, see tx_post() */
	if (len > tx_room(end) && !(e->error && len <= fit_now(t)))
		return NULL;
	r = &t->ring[t->cur];
	if (ring_fit(r, &at) < len)
		return NULL;
	t->buf = r->mem + at;
	t->buf_len = len;
	t->buf_kind = t->cur;
	return t->buf;
}

void *tx_ctrl(struct end *end)
{
	struct vend *e = vend_of(end);
	struct tx *t = &e->tx;

	if (tx_room(end))
		return tx_buf(end, FAB_CTRL);
	t->buf = NULL;
	if (e->error || t->lane_seq - t->lane_acked >= LANE)
		return NULL;
	t->buf = t->lane + t->lane_seq % LANE * LINE;
	t->buf_len = FAB_CTRL;
	t->buf_kind = SENT_LANE;
	return t->buf;
}

/* The place that buf() gave is taken: up to `end` of its ring. */
static void place_take(struct vend *e, struct sent *s)
{
	struct tx *t = &e->tx;
	struct ring *r;

	if (s->kind == SENT_LANE) {
		t->lane_seq++;
		return;
	}
	r = &t->ring[s->kind];
	s->end = (uint32_t)(t->buf - r->mem) + lines_of(s->len ? s->len : 1);
	if (s->end > r->cap)
		s->end = r->cap;
	r->head = s->end;
	r->live++;
	if (s->kind == SENT_LOAD)
		t->through += s->len;
}

int tx_send(struct end *end, uint32_t len, bool solicited)
{
	struct vend *e = vend_of(end);
	struct tx *t = &e->tx;
	struct ibv_sge sge = { .addr = (uintptr_t)t->buf, .length = len };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND };
	struct sent s = { .mem = t->buf, .len = len, .kind = t->buf_kind };

	if (!t->buf || len > t->buf_len)
		return e->error ? e->error : -EINVAL;
	place_take(e, &s);
	sge.lkey = s.kind == SENT_LANE ? e->rest.mr->lkey :
					 t->ring[s.kind].lkey;
	if (len <= e->inline_max)
		wr.send_flags |= IBV_SEND_INLINE;
	if (solicited)
		wr.send_flags |= IBV_SEND_SOLICITED;
	t->buf = NULL;
	return tx_post(e, &wr, &s);
}

/* --- completions -------------------------------------------------------- */

static void retire(struct vend *e, const struct sent *s)
{
	struct tx *t = &e->tx;

	switch (s->kind) {
	case SENT_REST:
	case SENT_LOAD:
	case SENT_BULK:
		t->ring[s->kind].tail = s->end;
		t->ring[s->kind].live--;
		break;
	case SENT_LANE:
		t->lane_acked++;
		break;
	case SENT_RDMA:
		rdma_op_note(e, s, 0);
		break;
	default:
		break;
	}
}

/* RDMA operations that will never be done. */
static void fail_rdma(struct vend *e, uint32_t from, int err)
{
	uint32_t seq;

	for (seq = from; seq != e->tx.seq; seq++) {
		struct sent *s = sent_at(e, seq);

		if (s->kind != SENT_RDMA)
			continue;
		rdma_op_note(e, s, seq == from ? err : -ECONNRESET);
		s->kind = SENT_MARK;
	}
}

static void tx_completed(struct vend *e, uint32_t seq, int err)
{
	struct tx *t = &e->tx;

	if (seq - t->acked >= under_way(t))
		return;
	/* A failed one says nothing of those before it. */
	if (err) {
		fail_rdma(e, seq, err);
		return;
	}
	while (t->acked != seq + 1)
		retire(e, sent_at(e, t->acked++));
}

void tx_init(struct vend *e)
{
	struct tx *t = &e->tx;

	e->completed = tx_completed;
	t->lane = e->rest.mem;
	t->ring[SENT_REST] = (struct ring){
		.mem = e->rest.mem + LANE * LINE,
		.lkey = e->rest.mr->lkey,
		.cap = REST_LEN - LANE * LINE - VERBS_RCV_REST * RX_STRIDE,
	};
}

void tx_trim(struct vend *e)
{
	struct tx *t = &e->tx;

	if (e->error)
		return;
	if (under_way(t)) {
		mark(e);
		return;
	}
	t->poor = false;
	t->buf = NULL;
	t->cur = SENT_REST;
	t->through = 0;
	region_free(e, region_of(t, SENT_LOAD));
	region_free(e, region_of(t, SENT_BULK));
}

int verbs_unacked(struct end *end, uint32_t *pos, struct fab_msg *m)
{
	struct vend *e = vend_of(end);
	struct sent *s;

	if (!*pos)
		cq_reap(e);
	while (*pos < under_way(&e->tx)) {
		s = sent_at(e, e->tx.acked + (*pos)++);
		if (s->kind >= SENT_MARK)
			continue;
		m->mem = s->mem;
		m->len = s->len;
		m->held = true;
		return 1;
	}
	return 0;
}

int verbs_flushed(struct end *end)
{
	struct vend *e = vend_of(end);

	cq_reap(e);
	if (!under_way(&e->tx))
		return 1;
	if (e->error)
		return -ECONNRESET;
	mark(e);
	return 0;
}

void verbs_probe(struct end *end)
{
	struct vend *e = vend_of(end);

	cq_reap(e);
	if (!under_way(&e->tx) && !e->error)
		mark_post(e);
}
