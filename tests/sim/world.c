/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "../unit/wire_name.h"
#include "world.h"

#include <stdarg.h>
#include <string.h>

#define STEPS  400000 /* of one world: more is a livelock */
#define TIME   (400 * NS_PER_S)
#define TRICKS 2000 /* of one side */

uint8_t world_byte(unsigned int which, uint64_t at)
{
	return (uint8_t)(at * 167 + (at >> 8) + which * 31);
}

void world_fault(struct world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->fault[0])
		return;
	va_start(ap, fmt);
	vsnprintf(w->fault, sizeof(w->fault), fmt, ap);
	va_end(ap);
}

void world_tape(struct world *w, const char *fmt, ...)
{
	size_t at = strlen(w->tape);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(w->tape + at, sizeof(w->tape) - at, fmt, ap);
	va_end(ap);
}

static struct side *other(struct world *w, const struct side *s)
{
	return &w->s[1 - s->which];
}

static void tape_message(struct world *w, const struct side *s,
			 const uint8_t *msg, uint32_t len)
{
	world_tape(w, "%c>%s", 'a' + (int)s->which, wire_name(msg[0]));
	if (len > wire_hdr_len(msg[0]))
		world_tape(w, ":%u", len - wire_hdr_len(msg[0]));
	if (msg[1])
		world_tape(w, "/%x", msg[1]);
	world_tape(w, " ");
}

static void note(struct world *w, const struct side *s, const char *how,
		 const uint8_t *msg, uint32_t len)
{
	const char *name = wire_name(msg[0]);

	if (*how == '>')
		tape_message(w, s, msg, len);
	if (w->trace)
		fprintf(w->trace,
			"%c %s %s flags %x bufs %u len %u mseq %u ack %u\n",
			'a' + (int)s->which, how, name ? name : "?", msg[1],
			wire_get16(msg + 2), len, wire_get32(msg + 8),
			wire_get32(msg + 12));
}

/* --- receiving --------------------------------------------------------- */

static void down(struct world *w, struct side *s, int error)
{
	if (s->down)
		return;
	seen_end(&s->c);
	s->down = true;
	s->error = error;
	sim_disconnect(s->e);
	zc_fence(w, s);
	zc_fence(w, other(w, s));
	world_tape(w, "%c.%d ", 'a' + (int)s->which, error);
	if (w->trace)
		fprintf(w->trace, "%c down %d %s\n", 'a' + (int)s->which, error,
			s->c.fault ? s->c.fault : "");
	if (error && w->clean)
		world_fault(w, "%c: ended with %d: %s", 'a' + (int)s->which,
			    error, s->c.fault ? s->c.fault : "");
}

void world_repost(struct side *s)
{
	s->size[s->recv_last++ % WORLD_RECVS] = s->size_now;
	conn_reposted(&s->c, 1);
}

/* The oldest receive takes it, and has to be large enough. */
static void use_receive(struct world *w, struct side *s, uint32_t len)
{
	uint32_t size;

	if (s->recv_first == s->recv_last)
		return; /* an AbortConn needs none */
	size = s->size[s->recv_first++ % WORLD_RECVS];
	if (len > size)
		world_fault(w, "%c: %u bytes for a receive of %u",
			    'a' + (int)s->which, len, size);
}

/*
 * Messages without stream bytes are given back in their turn, and all of them
 * once the program has left.
 */
static void release_empty(struct side *s)
{
	while (s->first != s->last &&
	       (s->left || !s->held[s->first % WORLD_HELD].len)) {
		s->e->ops->release(s->e);
		if (s->held[s->first % WORLD_HELD].len)
			world_repost(s);
		s->first++;
	}
}

uint64_t world_unsent(const struct side *s)
{
	return s->written - conn_tx_at(&s->c);
}

static void check_marks(struct world *w, struct side *s,
			const struct conn_in *in)
{
	uint64_t arrived = s->c.rx_stream;
	const struct plan *p = &other(w, s)->plan;

	s->pending |= in->oob_pending;
	if (in->oob) {
		if (!s->pending)
			world_fault(w, "urgent byte unannounced");
		s->pending = false;
		if (s->urgents >= p->urgents ||
		    p->urgent[s->urgents] != arrived - 1)
			world_fault(w, "urgent byte at the wrong place");
		s->urgents++;
	}
	if (s->urgents < p->urgents && p->urgent[s->urgents] < arrived)
		world_fault(w, "urgent byte not marked");
}

static void take(struct world *w, struct side *s, const struct fab_msg *m)
{
	uint8_t hdr[CONN_HDR_MAX] = { 0 };
	struct conn was = s->c;
	struct conn_in in;
	int ret;

	use_receive(w, s, m->len);
	memcpy(hdr, m->mem, m->len < CONN_HDR_MAX ? m->len : CONN_HDR_MAX);
	ret = conn_on_recv(&s->c, w->now, hdr, m->len, &in);
	seen_recv(&was, &s->c, hdr[0], in.len);
	note(w, s, "<", hdr, m->len);
	if (m->held) {
		s->held[s->last++ % WORLD_HELD] =
			(struct held){ in.off, ret ? 0 : in.len,
				       s->c.rx_stream - in.len };
		if (s->last - s->first > WORLD_HELD)
			world_fault(w, "too many messages held");
	} else if (in.len) {
		world_fault(w, "stream bytes in the lane");
	}
	if (ret) {
		if (w->clean)
			world_fault(w, "%c: %d: %s", 'a' + (int)s->which, ret,
				    s->c.fault ? s->c.fault : "");
		return;
	}
	if (!in.len)
		world_repost(s);
	if (in.freed != (s->c.freed_count != 0))
		world_fault(w, "memory came free, and nobody is told");
	zc_step(w, s);
	check_marks(w, s, &in);
	s->eof |= in.eof;
	if (in.eof && s->c.rx_stream != other(w, s)->plan.total)
		world_fault(w, "DisConn at %llu of %llu",
			    (unsigned long long)s->c.rx_stream,
			    (unsigned long long)other(w, s)->plan.total);
	release_empty(s);
}

static bool receive(struct world *w, struct side *s)
{
	struct fab_msg m;
	bool any = false;
	int ret = 0;

	if (s->down)
		return false;
	while (!s->c.error && (ret = s->e->ops->poll(s->e, &m)) == 1) {
		take(w, s, &m);
		any = true;
	}
	if (s->c.error || ret == 0)
		return any;
	if (sim_link(s->e) == SIM_LOST) {
		conn_on_lost(&s->c, -ENETDOWN);
		down(w, s, s->c.error);
	} else {
		down(w, s, conn_on_disconnected(&s->c, w->now));
	}
	return true;
}

/* The program reads some bytes of the front message. */
static bool program_read(struct world *w, struct side *s)
{
	struct held *h = &s->held[s->first % WORLD_HELD];
	uint32_t n, i;
	struct fab_msg m;

	if (w->now < s->read_at || w->now < s->plan.lazy_until)
		return false;
	if (s->first == s->last)
		return zc_read(w, s);
	if (s->e->ops->front(s->e, &m) != 1) {
		world_fault(w, "nothing at the front");
		return false;
	}
	n = 1 + sim_rnd(w->sim, s->plan.gulp);
	if (n > h->len - s->at)
		n = h->len - s->at;
	for (i = 0; i < n; i++)
		if (m.mem[h->off + s->at + i] !=
		    world_byte(1 - s->which, h->at + s->at + i))
			world_fault(w, "%c: byte %llu is wrong",
				    'a' + (int)s->which,
				    (unsigned long long)(h->at + s->at + i));
	s->got += n;
	s->at += n;
	if (s->at == h->len) {
		s->e->ops->release(s->e);
		s->first++;
		s->at = 0;
		world_repost(s);
		release_empty(s);
	}
	if (s->plan.read_gap)
		s->read_at =
			w->now + sim_rnd(w->sim, (uint32_t)s->plan.read_gap);
	return true;
}

/* --- sending ----------------------------------------------------------- */

/* Carry out one answer of conn_next(); false: it has nothing to do. */
static bool carry_out(struct world *w, struct side *s, const struct conn_op *op,
		      uint8_t *mem)
{
	uint32_t i;

	switch (op->type) {
	case CONN_SEND:
		memcpy(mem, op->hdr, op->hdr_len);
		for (i = 0; i < op->payload; i++)
			mem[op->hdr_len + i] = world_byte(
				s->which, s->c.tx_stream - op->payload + i);
		note(w, s, ">", mem, op->hdr_len + op->payload);
		if (s->e->ops->send(s->e, op->hdr_len + op->payload, true))
			return false; /* cut: poll() will tell */
		return true;
	case CONN_DISCONNECT:
		down(w, s, s->c.error);
		return true;
	case CONN_WRITE:
		return zc_write(w, s, op);
	default:
		return false;
	}
}

static bool pump_once(struct world *w, struct side *s)
{
	uint32_t room = s->e->ops->room(s->e), len = room;
	struct conn_offer offer = { 0 };
	struct conn_op op;
	uint8_t *mem = NULL;
	uint32_t i;

	if (room) {
		mem = s->e->ops->buf(s->e, room);
		offer.bytes = world_unsent(s);
		offer.zc = zc_offer(w, s, offer.bytes);
		for (i = 0; i < s->plan.urgents; i++)
			if (offer.bytes && s->plan.urgent[i] + 1 == s->written)
				offer.oob_last = true;
	} else if (conn_wants_send(&s->c)) {
		mem = s->e->ops->ctrl(s->e);
		len = FAB_CTRL;
		offer.more = world_unsent(s) != 0;
	}
	if (!mem) {
		if (!s->c.error)
			return false;
		len = 0;
	}
	conn_next(&s->c, w->now, &offer, len, &op);
	zc_took(w, s, &op);
	if (op.type == CONN_SEND && op.hdr_len + op.payload > len)
		world_fault(w, "message larger than room");
	return carry_out(w, s, &op, mem);
}

/* The program writes its next chunk, or is done and closes. */
static bool program_write(struct world *w, struct side *s)
{
	struct plan *p = &s->plan;
	uint64_t end = p->total;
	uint32_t i, n;

	if (world_unsent(s) || w->now < s->write_at || s->left ||
	    (s->c.src_count && !p->zc.overlap))
		return false;
	if (s->written == p->total) {
		if (s->shut || (p->patient && !s->eof))
			return false;
		s->shut = true;
		/* close() with bytes to come would be a reset */
		conn_shutdown(&s->c, w->now,
			      p->close && s->eof && s->first == s->last);
		return true;
	}
	for (i = p->urgents; i--;)
		if (p->urgent[i] >= s->written)
			end = p->urgent[i] + 1;
	n = 1 + sim_rnd(w->sim, p->chunk);
	s->written = s->written + n < end ? s->written + n : end;
	if (p->write_gap)
		s->write_at = w->now + sim_rnd(w->sim, (uint32_t)p->write_gap);
	return true;
}

/* Planned violence. */
static bool disturb(struct world *w, struct side *s)
{
	struct plan *p = &s->plan;

	if (w->cut_at && w->now >= w->cut_at) {
		w->cut_at = 0;
		sim_cut(w->sim);
		return true;
	}
	if (p->abort_at && w->now >= p->abort_at) {
		p->abort_at = 0;
		conn_abort(&s->c);
		return true;
	}
	if (p->leave_at && w->now >= p->leave_at) {
		p->leave_at = 0;
		s->left = s->shut = true;
		/* The rest never was. */
		p->total = s->written = conn_tx_at(&s->c);
		conn_shutdown(&s->c, w->now, true);
		release_empty(s);
		return true;
	}
	return false;
}

static bool side_step(struct world *w, struct side *s)
{
	bool any = receive(w, s);

	any |= zc_step(w, s);
	if (!s->left)
		any |= program_read(w, s);
	if (s->down)
		return any;
	any |= disturb(w, s);
	any |= program_write(w, s);
	if (s->plan.tricks && s->tricks < TRICKS &&
	    !sim_rnd(w->sim, s->plan.tricks)) {
		s->tricks++;
		world_trick(w, s);
	}
	if (conn_deadline(&s->c) <= w->now) {
		conn_on_timer(&s->c, w->now);
		any = true;
	}
	while (!s->down && !w->fault[0] && pump_once(w, s)) {
		any = true;
		if (++w->steps > STEPS)
			return false;
	}
	return any;
}

/* Nothing is advertised, unanswered or under way by RDMA from `t` to `r`. */
static bool quiet(const struct conn *t, const struct conn *r)
{
	return !t->src_count && !t->writes && !t->wr_told &&
	       !(t->want & (CONN_WANT_WR_COMPL | CONN_WANT_SINK_ACK)) &&
	       (t->tx_mode != WIRE_PIPELINED || t->dis_sent) &&
	       !r->sink_count && !r->peer_src_count && !r->reads;
}

/*
 * No byte is counted twice or not at all: what the peer has is never more
 * than we gave, and the same when nothing is out nor under way.
 */
static void check_offsets(struct world *w)
{
	int i;

	for (i = 0; i < 2; i++) {
		const struct side *s = &w->s[i], *o = &w->s[1 - i];

		if (s->c.error || o->c.error || s->left || o->left)
			continue;
		if (s->c.dis_rcvd && s->c.sink_count)
			world_fault(w, "a sink is out behind DisConn");
		if (o->c.rx_stream > conn_tx_at(&s->c))
			world_fault(w, "%c has more than was sent", 'b' - i);
		if (quiet(&s->c, &o->c) && sim_still(s->e) &&
		    sim_link(s->e) != SIM_LOST &&
		    o->c.rx_stream != s->c.tx_stream)
			world_fault(w, "offsets of %c differ at rest", 'a' + i);
	}
	if (sim_trespasses(w->sim))
		world_fault(w, "RDMA where nobody was let at");
}

bool world_step(struct world *w)
{
	unsigned int first = sim_rnd(w->sim, 2);
	bool any = side_step(w, &w->s[first]);

	w->steps++;
	any |= side_step(w, &w->s[1 - first]);
	check_offsets(w);
	return any;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

bool world_wait(struct world *w)
{
	uint64_t at = sim_next(w->sim);
	int i;

	for (i = 0; i < 2; i++) {
		struct side *s = &w->s[i];

		if (s->first != s->last && !s->left)
			at = sooner(at, s->read_at > s->plan.lazy_until ?
						s->read_at :
						s->plan.lazy_until);
		if (s->down)
			continue;
		at = sooner(at, conn_deadline(&s->c));
		at = sooner(at, zc_next(w, s));
		if (s->write_at > w->now)
			at = sooner(at, s->write_at);
		if (s->plan.abort_at)
			at = sooner(at, s->plan.abort_at);
		if (s->plan.leave_at)
			at = sooner(at, s->plan.leave_at);
		if (w->cut_at)
			at = sooner(at, w->cut_at);
	}
	if (at == UINT64_MAX)
		return false;
	if (at > w->now)
		w->now = at;
	sim_time(w->sim, w->now);
	return true;
}

static bool over(const struct world *w)
{
	int i;

	for (i = 0; i < 2; i++)
		if (!w->s[i].down || w->s[i].reads || w->s[i].writes ||
		    (w->s[i].first != w->s[i].last && !w->s[i].left))
			return false;
	return true;
}

static void check_end(struct world *w)
{
	int i;

	for (i = 0; i < 2; i++) {
		struct side *s = &w->s[i];

		zc_check_end(w, s);
		if (!w->clean)
			continue;
		if (s->got != w->s[1 - i].plan.total)
			world_fault(w, "%c: %llu bytes of %llu", 'a' + i,
				    (unsigned long long)s->got,
				    (unsigned long long)w->s[1 - i].plan.total);
		if (!s->eof || s->urgents != w->s[1 - i].plan.urgents)
			world_fault(w, "%c: no end, or an urgent byte lost",
				    'a' + i);
		if (s->c.fault)
			world_fault(w, "%c: %s", 'a' + i, s->c.fault);
	}
}

bool world_run(struct world *w)
{
	int i;

	while (!over(w) && !w->fault[0]) {
		if (world_step(w))
			continue;
		if (!world_wait(w)) {
			for (i = 0; i < 2; i++)
				world_fault(
					w,
					"stuck: a %d sent %llu credits %u, "
					"b %d sent %llu credits %u",
					w->s[0].c.state,
					(unsigned long long)w->s[0].c.tx_stream,
					w->s[0].c.credits, w->s[1].c.state,
					(unsigned long long)w->s[1].c.tx_stream,
					w->s[1].c.credits);
			break;
		}
		if (w->steps > STEPS || w->now > TIME)
			world_fault(w, "no end after %llu steps, %llu ms",
				    (unsigned long long)w->steps,
				    (unsigned long long)(w->now / WORLD_MS));
	}
	if (!w->fault[0])
		check_end(w);
	return !w->fault[0];
}

void world_start(struct world *w, const struct sim_params *fab,
		 const struct conn_params *a, const struct conn_params *b)
{
	struct conn_names n = { .ipv = 4, .local_port = 1, .remote_port = 2 };
	uint8_t buf[CONN_HELLO_ACK_LEN];
	struct conn_names got;
	struct sim *sim = w->sim;
	FILE *trace = w->trace;
	size_t len;
	int i;

	memset(w, 0, sizeof(*w));
	w->sim = sim;
	w->trace = trace;
	w->clean = true;
	w->sync = fab->sync;
	w->now = 1; /* 0 means never */
	sim_start(sim, fab);
	for (i = 0; i < 2; i++) {
		w->s[i].which = (unsigned int)i;
		w->s[i].e = sim_end(sim, (unsigned int)i);
		zc_start(w, &w->s[i]);
		conn_init(&w->s[i].c, i ? b : a);
		w->s[i].size_now = w->s[i].c.rcv_size;
		while (w->s[i].recv_last < w->s[i].c.posted)
			w->s[i].size[w->s[i].recv_last++] = w->s[i].size_now;
	}
	len = conn_hello(&w->s[0].c, &n, buf);
	if (conn_on_hello(&w->s[1].c, buf, len, &got))
		world_fault(w, "Hello refused");
	conn_hello_ack(&w->s[1].c, &n, buf);
	if (conn_on_hello_ack(&w->s[0].c, buf, sizeof(buf), &got))
		world_fault(w, "HelloAck refused");
}
