/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A native world: the connection, our program, and what the pump of the
 * socket room would do.
 */
#include "native_world.h"

#include <errno.h>
#include <string.h>

#define STEPS 400000
#define TIME  (1500 * KP_S)

/* --- the connection ---------------------------------------------------- */

static struct native_msg *pipe_at(struct native_pipe *p, uint32_t i)
{
	return &p->m[i % NATIVE_PIPE];
}

static void pipe_put(struct native_world *w, struct native_pipe *p,
		     const uint8_t *msg, uint32_t len)
{
	struct native_msg *m = pipe_at(p, p->last);

	if (p->last - p->first == NATIVE_PIPE) {
		native_fault(w, "more messages under way than receives");
		return;
	}
	m->len = len;
	if (len)
		memcpy(m->mem, msg, len);
	m->at = w->now + native_pause(w->set.delay);
	if (m->at < p->at)
		m->at = p->at; /* in order */
	p->at = m->at;
	p->last++;
}

/* Violent ends take what is still under way with them, or do not. */
static void pipe_break(struct native_pipe *p)
{
	if (p->last != p->arrived)
		p->last = p->arrived + native_rnd(p->last - p->arrived + 1);
}

static bool arrive_kernel(struct native_world *w)
{
	struct native_pipe *p = &w->to_kernel;
	struct native_msg *m = pipe_at(p, p->first);

	if (p->first == p->last || m->at > w->now)
		return false;
	p->first = ++p->arrived;
	w->kernel_up = true; /* COMM_EST, if the RTU is late */
	if (m->len)
		kp_recv(&w->k, m->mem, m->len);
	else
		kp_on_dreq(&w->k);
	return true;
}

static bool arrive_us(struct native_world *w)
{
	struct native_pipe *p = &w->to_us;
	struct native_msg *m = pipe_at(p, p->arrived);

	if (p->arrived == p->last || m->at > w->now)
		return false;
	p->arrived++;
	if (m->len && !w->down) {
		if (!w->posted--)
			native_fault(w, "our receiver was not ready");
		kp_completed(&w->k, m->mem);
	}
	native_saw(SEEN_EARLY, !w->up);
	w->up = true;
	w->poll_at = w->now;
	if (w->set.stall && !native_rnd(8))
		w->poll_at += native_pause(w->set.stall);
	return true;
}

static bool link_step(struct native_world *w)
{
	bool any = false;

	while (arrive_kernel(w) || arrive_us(w))
		any = true;
	if (w->rtu_at && w->now >= w->rtu_at) {
		native_saw(SEEN_RTU, !w->up);
		w->up = w->kernel_up = true;
		w->rtu_at = 0;
		any = true;
	}
	return any;
}

/* --- the kernel -------------------------------------------------------- */

static bool kernel_step(struct native_world *w)
{
	static uint8_t buf[KP_MSG_MAX];
	bool any = kp_step(&w->k, w->now);
	uint32_t len;

	while (w->kernel_up && (len = kp_send(&w->k, w->now, buf))) {
		pipe_put(w, &w->to_us, buf, len);
		any = true;
	}
	if (kp_dreq(&w->k)) {
		if (w->k.odd)
			pipe_break(&w->to_us);
		pipe_put(w, &w->to_us, NULL, 0);
		any = true;
	}
	if (w->k.fault[0])
		native_fault(w, "kernel: %s", w->k.fault);
	return any;
}

/* --- receiving --------------------------------------------------------- */

static void repost(struct native_world *w, uint32_t n)
{
	w->posted += n;
	conn_reposted(&w->c, n);
}

static void down(struct native_world *w)
{
	if (w->down)
		return;
	w->down = true;
	w->error = w->c.error;
}

static void check_in(struct native_world *w, const uint8_t *msg,
		     const struct conn_in *in)
{
	const struct kp_plan *p = &w->set.kernel;
	uint64_t at = w->c.rx_stream - in->len;
	uint32_t i;

	for (i = 0; i < in->len; i++)
		if (msg[in->off + i] != native_byte(true, at + i))
			native_fault(w, "byte %llu is wrong",
				     (unsigned long long)(at + i));
	if (in->oob && (w->urgents == p->urgents ||
			p->urgent[w->urgents++] != w->c.rx_stream - 1))
		native_fault(w, "urgent byte at the wrong place");
	if (in->oob && !in->oob_pending)
		native_fault(w, "urgent byte unannounced");
	if (w->urgents < p->urgents && p->urgent[w->urgents] < w->c.rx_stream)
		native_fault(w, "urgent byte not marked");
	if (in->words || in->sink || in->freed)
		native_fault(w, "what no kernel says");
	w->eof |= in->eof;
}

static void take(struct native_world *w, const struct native_msg *m)
{
	uint8_t hdr[CONN_HDR_MAX] = { 0 };
	struct conn_in in;

	memcpy(hdr, m->mem, m->len < CONN_HDR_MAX ? m->len : CONN_HDR_MAX);
	native_judge_took(w, hdr, m->len);
	if (conn_on_recv(&w->c, w->now, hdr, m->len, &in))
		return;
	check_in(w, m->mem, &in);
	if (in.len)
		w->held[w->held_last++ % NATIVE_PIPE] = in.len;
	else
		repost(w, 1);
}

static bool receive(struct native_world *w)
{
	struct native_pipe *p = &w->to_us;
	bool any = false;

	if (w->now < w->poll_at)
		return false;
	while (p->first != p->arrived && !w->c.error) {
		struct native_msg *m = pipe_at(p, p->first);

		if (!w->down && m->len) {
			take(w, m);
		} else if (!w->down) {
			native_judge_disconnected(
				w, conn_on_disconnected(&w->c, w->now));
			down(w);
		}
		p->first++;
		any = true;
	}
	return any;
}

/* --- our program ------------------------------------------------------- */

/* What is left of a source by RDMA, or it is given back. */
static bool read_source(struct native_world *w)
{
	struct native_plan *p = &w->set.plan;

	if (w->read_done || !conn_source(&w->c))
		return false;
	if (p->refuse && !native_rnd(p->refuse)) {
		conn_refuse_sources(&w->c);
		return true;
	}
	if (!conn_read(&w->c, 1 + native_rnd(p->read_max), &w->read))
		return false;
	w->read_done = w->now + 1 + native_pause(w->set.delay * 2);
	return true;
}

static bool read_ends(struct native_world *w)
{
	uint64_t at = w->c.rx_stream;

	if (!w->read_done || w->now < w->read_done)
		return false;
	w->read_done = 0;
	if (w->k.state != KP_TIME_WAIT &&
	    kp_memory(&w->k, w->read.vaddr, w->read.rkey, w->read.len) != at)
		native_fault(w, "a source read at the wrong place");
	if (!conn_on_done(&w->c, CONN_READ, w->read.len))
		w->got += w->read.len;
	return true;
}

static bool program_read(struct native_world *w)
{
	struct native_plan *p = &w->set.plan;
	uint32_t n, len;

	if (w->now < w->read_at || w->now < p->lazy_until)
		return false;
	if (w->held_first == w->held_last)
		return !w->down && read_source(w);
	len = w->held[w->held_first % NATIVE_PIPE];
	n = 1 + native_rnd(p->gulp);
	if (n > len - w->held_at)
		n = len - w->held_at;
	w->got += n;
	w->held_at += n;
	if (w->held_at == len) {
		w->held_at = 0;
		w->held_first++;
		repost(w, 1);
	}
	w->read_at = w->now + native_pause(p->read_gap);
	return true;
}

static bool program_write(struct native_world *w)
{
	struct native_plan *p = &w->set.plan;
	uint64_t end = p->total, n = 1 + native_rnd(p->chunk);
	uint32_t i;

	if (w->shut || w->now < w->write_at || w->written != w->c.tx_stream)
		return false;
	if (w->written == end) {
		if (p->patient && !w->eof)
			return false;
		w->shut = true;
		w->shut_at = w->now;
		conn_shutdown(&w->c, w->now,
			      p->close && w->eof &&
				      w->held_first == w->held_last);
		return true;
	}
	for (i = p->urgents; i--;)
		if (p->urgent[i] >= w->written)
			end = p->urgent[i] + 1;
	if (n > end - w->written)
		n = end - w->written;
	w->written += n;
	w->write_at = w->now + native_pause(p->write_gap);
	if (w->written == p->total)
		w->write_at += p->close_gap;
	return true;
}

static bool disturb(struct native_world *w)
{
	struct native_plan *p = &w->set.plan;

	if (w->set.cut_at && w->now >= w->set.cut_at) {
		native_saw(SEEN_CUT, true);
		w->odd = true;
		conn_on_lost(&w->c, -ENETDOWN);
		kp_on_lost(&w->k);
		down(w);
	} else if (p->abort_at && w->now >= p->abort_at) {
		p->abort_at = 0;
		w->odd = true;
		conn_abort(&w->c);
	} else if (p->leave_at && w->now >= p->leave_at) {
		p->leave_at = 0;
		w->odd = w->left = w->shut = true;
		p->total = w->written = w->c.tx_stream;
		w->held_first = w->held_last;
		conn_shutdown(&w->c, w->now, true);
	} else {
		return false;
	}
	return true;
}

/* What the machine must not do to a kernel, in any case. */
static void trick(struct native_world *w)
{
	static const uint8_t words[CONN_WORDS];
	int ret = -EOPNOTSUPP;

	switch (native_rnd(3)) {
	case 0:
		ret = conn_set_mode(&w->c, native_rnd(3));
		break;
	case 1:
		ret = conn_say_rcvbuf(&w->c, w->c.rcv_size + 4096);
		break;
	default:
		ret = conn_words(&w->c, 0, words);
	}
	native_saw(SEEN_TRICKS, true);
	if (ret != -EOPNOTSUPP && ret != -ENOTCONN && ret != w->c.error)
		native_fault(w, "a trick was answered with %d", ret);
}

/* --- sending ----------------------------------------------------------- */

static void offer_memory(struct native_world *w, struct conn_offer *offer,
			 struct conn_zc *zc)
{
	if (!w->set.plan.offers || native_rnd(3))
		return;
	zc->src = (struct conn_mem){ 0x7f0000001000, 1, 7, 0 };
	zc->src.len = (uint32_t)offer->bytes;
	zc->sink = (struct conn_mem){ 0x7f0000009000, 2, 8, 30000 };
	zc->write = offer->bytes;
	offer->zc = zc;
	native_saw(SEEN_OFFERED, offer->bytes > 1);
}

static void send_one(struct native_world *w, const struct conn_op *op)
{
	static uint8_t buf[KP_MSG_MAX];
	uint64_t at = w->c.tx_stream - op->payload;
	uint32_t i;

	memcpy(buf, op->hdr, op->hdr_len);
	for (i = 0; i < op->payload; i++)
		buf[op->hdr_len + i] = native_byte(false, at + i);
	native_judge_sent(w, buf, op->hdr_len + op->payload);
	pipe_put(w, &w->to_kernel, buf, op->hdr_len + op->payload);
}

static bool carry_out(struct native_world *w, const struct conn_op *op)
{
	switch (op->type) {
	case CONN_SEND:
		send_one(w, op);
		return true;
	case CONN_DISCONNECT:
		native_judge_dreq(w);
		if (w->c.error && !w->odd && !w->k.odd)
			native_fault(w, "reset: %s",
				     w->c.fault ? w->c.fault : "");
		pipe_put(w, &w->to_kernel, NULL, 0);
		down(w);
		return true;
	default:
		return false;
	}
}

static bool pump(struct native_world *w)
{
	struct conn_offer offer = { .bytes = w->written - conn_tx_at(&w->c) };
	struct native_plan *p = &w->set.plan;
	struct conn_zc zc = { 0 };
	struct conn_op op;
	uint32_t i;

	for (i = 0; i < p->urgents; i++)
		if (offer.bytes && p->urgent[i] + 1 == w->written)
			offer.oob_last = true;
	offer_memory(w, &offer, &zc);
	native_saw(SEEN_BLOCKED,
		   offer.bytes && (w->c.credits == 1 || w->c.credits == 2));
	native_saw(SEEN_DISC_HELD, (w->c.want & CONN_WANT_DISC) &&
					   !offer.bytes && w->c.credits < 2);
	if (!native_rnd(10)) { /* little room, then plenty */
		conn_next(&w->c, w->now, &offer, 16 + native_rnd(200), &op);
		if (carry_out(w, &op))
			return true;
	}
	if (w->down)
		return true;
	conn_next(&w->c, w->now, &offer, KP_MSG_MAX, &op);
	return carry_out(w, &op);
}

static bool our_step(struct native_world *w)
{
	bool any = receive(w);

	any |= read_ends(w);
	if (!w->left)
		any |= program_read(w);
	if (w->down)
		return any;
	any |= disturb(w);
	if (w->down)
		return true;
	if (!w->c.error)
		any |= program_write(w);
	if (w->set.plan.tricks && !native_rnd(w->set.plan.tricks))
		trick(w);
	if (conn_deadline(&w->c) <= w->now)
		conn_on_timer(&w->c, w->now);
	/* Not before the RTU, or a message [2.1]. */
	while (w->up && !w->down && pump(w))
		any = true;
	return any;
}

/* --- time -------------------------------------------------------------- */

static void sooner(const struct native_world *w, uint64_t *at, uint64_t other)
{
	if (other > w->now && other < *at)
		*at = other;
}

static bool wait(struct native_world *w)
{
	const struct native_plan *p = &w->set.plan;
	uint64_t at = UINT64_MAX;

	if (w->to_us.arrived != w->to_us.last)
		sooner(w, &at, pipe_at(&w->to_us, w->to_us.arrived)->at);
	if (w->to_kernel.first != w->to_kernel.last)
		sooner(w, &at, pipe_at(&w->to_kernel, w->to_kernel.first)->at);
	sooner(w, &at, w->rtu_at);
	sooner(w, &at, w->poll_at);
	sooner(w, &at, w->read_done);
	sooner(w, &at, p->lazy_until);
	sooner(w, &at, w->read_at);
	sooner(w, &at, kp_deadline(&w->k, w->now));
	if (!w->down) {
		sooner(w, &at, w->write_at);
		sooner(w, &at, p->leave_at);
		sooner(w, &at, p->abort_at);
		sooner(w, &at, w->set.cut_at);
		sooner(w, &at, conn_deadline(&w->c));
	}
	if (at == UINT64_MAX)
		return false;
	w->now = at;
	return true;
}

static bool over(const struct native_world *w)
{
	return w->down && kp_over(&w->k) && !w->read_done &&
	       (w->left || w->held_first == w->held_last);
}

bool native_run(struct native_world *w)
{
	while (!over(w) && !w->fault[0]) {
		bool any = link_step(w);

		any |= our_step(w);
		any |= kernel_step(w);
		if (any && ++w->steps < STEPS && w->now < TIME)
			continue;
		if (any || !wait(w))
			native_fault(w,
				     "%s at %llu s: us %d credits %u want %x "
				     "posted %u, kernel state %d credits %d "
				     "posted %u view %u",
				     any ? "no end" : "stuck",
				     (unsigned long long)(w->now / KP_S),
				     w->c.state, w->c.credits, w->c.want,
				     w->c.posted, w->k.state, w->k.credits,
				     w->k.posted, w->k.view);
	}
	if (!w->fault[0])
		native_judge_end(w);
	return !w->fault[0];
}
