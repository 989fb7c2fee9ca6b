/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The one place where the SDP machine and a fabric meet: messages are parsed
 * as they arrive (control messages behind unread data included, as SDP
 * demands, sdp-protocol.md 3.3), stream bytes are copied between the
 * program's memory and message memory, and never in between.
 */

#include "sdp_proto/wire.h"
#include "socket/transport/transport.h"

#define FILE_TURN 131072u /* bytes */

/* Lock held: does the sock have a row that it shares with no other? */
static inline bool row_held(struct sock *s)
{
	if (likely(s->stats.row_pid == sock_pid && s->stats.row != &sock_spare))
		return true;
	row_seek(s);
	return false;
}

static inline void held_add(uint64_t *word, uint64_t n)
{
	__atomic_store_n(word, *word + n, __ATOMIC_RELAXED);
}

/* COUNT() for what only the holder of the lock counts. */
#define COUNT_HELD(s, name, n)                                          \
	do {                                                            \
		if (row_held(s))                                        \
			held_add(&(s)->stats.row->name, (uint64_t)(n)); \
		else                                                    \
			COUNT(s, name, n);                              \
	} while (0)

/* A message with so many bytes of the stream; of one without any no size. */
#define COUNT_MESSAGE(s, way, len)                                         \
	do {                                                               \
		const uint32_t at_ = page_size_bucket(len);                \
		struct page_row *row_;                                     \
		if (row_held(s)) {                                         \
			row_ = (s)->stats.row;                             \
			held_add(&row_->msgs_##way, 1);                    \
			held_add(&row_->h.sizes_##way.bytes, len);         \
			held_add(&row_->h.sizes_##way.n[at_], (len) != 0); \
		} else {                                                   \
			COUNT(s, msgs_##way, 1);                           \
			COUNT(s, h.sizes_##way.bytes, len);                \
			COUNT(s, h.sizes_##way.n[at_], (len) != 0);        \
		}                                                          \
	} while (0)

int pump_fail_in(struct sock *s, int err, const char *where)
{
	if (!s->conn.error)
		conn_on_lost(&s->conn, err);
	if (s->stats.why != WHY_PROTOCOL) {
		log_err("Error: fd %d: the peer broke the protocol: %s",
			sock_fd(s), s->conn.fault ? s->conn.fault : where);
		sock_why(s, WHY_PROTOCOL);
	}
	if (unlikely(s->link))
		s->link->failed(s);
	return -ECONNRESET;
}

/* What the peer wrote back to the anchor must not come a second time. */
static void drop_stale(struct sock *s)
{
	uint64_t n = s->got.avail;

	if (anc_state(s->rx) == ANC_RESTORING || anc_state(s->rx) == ANC_PAUSED)
		return; /* the peer may still read it */
	__atomic_store_n(&s->got.stale, false, __ATOMIC_RELAXED);
	reports.kept_is_void(s);
	pump_recv(s, NULL, n, false, true);
	COUNT_HELD(s, bytes_sdp_rx, -n);
	fab_publish(s);
	ring_writer(s);
}

/* What the peer did not read comes back, however much lies in front. */
static int came_back(struct sock *s, const struct fab_msg *m,
		     const struct conn_in *in)
{
	int ret = reports.put_came(s, m->mem + in->back_off, in->back);

	if (m->held)
		rdma_api->drop(END(s));
	return ret;
}

int pump_poll(struct sock *s)
{
	struct fab_msg m = { .last = false };
	struct conn_in in;
	uint8_t hdr[CONN_HDR_MAX];
	bool got = false, credits = false, freed = false, news_at = false;
	int ret = 0, news = 0, said;

	if (unlikely(s->conn.error))
		return -ECONNRESET;
	if (unlikely(s->got.stale))
		drop_stale(s);
	while (!m.last && (ret = FAB(s)->poll(END(s), &m)) > 0) {
		bool held = m.held;
		uint32_t head = m.len < CONN_HDR_MAX ? m.len : CONN_HDR_MAX;

		memcpy(hdr, m.mem, head);
		capture_came(s, m.mem, m.len);
		ret = conn_on_recv(&s->conn, clock_coarse_ns(), hdr, m.len,
				   &in);
		if (unlikely(ret))
			return pump_fail(s, ret);
		/* what carries no stream bytes is done with already */
		if (unlikely(m.shed))
			conn_shed(&s->conn, 1);
		else if (!held || !in.len)
			conn_reposted(&s->conn, 1);
		got |= in.len || in.eof || in.source;
		credits |= in.credits;
		if (unlikely(s->zc.out == ZC_OUT) && s->rd &&
		    reports.zc_reported(s))
			return pump_fail(s, -EPROTO);
		if (unlikely(in.words)) {
			said = s->link ? s->link->words(s, in.words) : -EPROTO;
			if (said < 0)
				return pump_fail(s, said);
			news |= said;
		}
		if (unlikely(in.back) && came_back(s, &m, &in))
			return pump_fail(s, -EPROTO);
		if (likely(!s->link) || !s->link->hide(s, in.len, in.eof)) {
			if (in.len || in.eof)
				order_came(s, m.stamp, !news_at);
			news_at |= in.len || in.eof;
			PROBE3(message__in, s->id.inode,
			       s->ar.taken + s->got.avail, in.len);
			s->got.avail += in.len;
			s->eos.rx_eof |= in.eof;
			if (unlikely(!s->stats.rx_shown) && in.len &&
			    anc_state(s->rx) == ANC_LIFTED)
				sock_is_lifted(s);
			if (in.len || in.eof)
				__atomic_add_fetch(&s->waits.in_gen, 1,
						   __ATOMIC_RELAXED);
		}
		if (unlikely(in.freed) && reports.zc_freed(s))
			return pump_fail(s, -EPROTO);
		freed |= in.freed;
		if (unlikely(in.source)) {
			order_came(s, m.stamp, !news_at);
			reports.zc_offered(s);
		}
		if (unlikely(in.reset))
			return pump_fail(s, -ECONNRESET);
		COUNT_MESSAGE(s, rx, in.len);
	}
	if (unlikely(ret < 0) && !(s->rd && ret == -ECONNRESET))
		return pump_fail(s, ret);
	if (unlikely(ret < 0))
		reports.broke(s, ret); /* nothing more comes this way */
	if (unlikely(s->link))
		s->link->polled(s, news, got, credits);
	/* the peer waits for it, and we may fall asleep */
	if (unlikely(s->conn.want & CONN_WANT_SENDSM))
		reports.zc_due(s);
	/* DisConn, perhaps, and no other thread may come by */
	if (unlikely(freed) && s->conn.want) {
		pump_control(s);
		ring_reader(s, sock_anchor(s));
	}
	return 0;
}

/*
 * Where the stream bytes of the front message lie. The memory is the peer's
 * to change: only its own stream can suffer, lengths are clamped.
 */
static uint32_t front_payload(const struct fab_msg *m, uint32_t *off)
{
	uint32_t head;

	switch (m->len >= WIRE_BSDH ? m->mem[0] : 0) {
	case WIRE_DATA:
		head = WIRE_BSDH;
		break;
	case WIRE_SRC_AVAIL:
		head = WIRE_BSDH + 16;
		break;
	default:
		head = m->len;
		break;
	}
	*off = head;
	return m->len > head ? m->len - head : 0;
}

static void release(struct sock *s, bool data)
{
	FAB(s)->release(END(s));
	if (data)
		conn_reposted(&s->conn, 1);
	s->got.front_at = 0;
}

/*
 * What the program looks at without taking it: any number of messages; c may
 * be NULL.
 */
static ssize_t pump_peek(struct sock *s, struct cursor *c, size_t n)
{
	struct fab_walk w = { 0 };
	uint32_t at = s->got.front_at;
	struct fab_msg m;
	size_t got = 0;

	if (n > s->got.avail)
		n = s->got.avail;
	while (got < n && FAB(s)->next(END(s), false, &w, &m) == 1) {
		uint32_t off, len = front_payload(&m, &off);
		size_t part = len > at ? len - at : 0;

		if (part > n - got)
			part = n - got;
		if (c && unlikely(!cursor_put(c, m.mem + off + at, part)))
			return -EFAULT; /* all is looked at again */
		got += part;
		at = 0;
	}
	return (ssize_t)got;
}

ssize_t pump_recv(struct sock *s, struct cursor *c, size_t n, bool peek,
		  bool discard)
{
	struct fab_msg m;
	uint32_t at = s->got.front_at, off;
	size_t got = 0;
	bool fault = false;

	if (unlikely(peek))
		return pump_peek(s, discard ? NULL : c, n);
	while (got < n && s->got.avail) {
		uint32_t len, part;

		if (FAB(s)->front(END(s), &m) != 1)
			return pump_fail(s, -EPROTO);
		len = front_payload(&m, &off);
		if (at > len)
			at = len;
		part = len - at;
		if (part > n - got)
			part = (uint32_t)(n - got);
		if (part > s->got.avail)
			part = (uint32_t)s->got.avail;
		fault = part && !discard &&
			!cursor_put(c, m.mem + off + at, part);
		if (unlikely(fault))
			break;
		got += part;
		at += part;
		s->got.avail -= part;
		s->got.front_at = at;
		if (at == len) {
			release(s, len > 0);
			at = 0;
		} else if (!part) {
			return pump_fail(s, -EPROTO);
		}
	}
	if (got)
		COUNT_HELD(s, bytes_sdp_rx, got);
	/* the row may have shown the path before the first of them came */
	if (unlikely(!s->stats.counted) && got && !discard &&
	    s->stats.why <= WHY_PAIRED)
		sock_is_lifted(s);
	/* what carries no bytes must not keep its buffer behind the data */
	while (!s->got.avail && !(s->rd && s->rd->mark.hidden) &&
	       FAB(s)->front(END(s), &m) == 1)
		release(s, false);
	return unlikely(fault) && !got ? -EFAULT : (ssize_t)got;
}

/*
 * The last `back` stream bytes we sent, from our own ring: up to n of them.
 */
ssize_t pump_unread(struct sock *s, uint64_t back, void *buf, size_t n)
{
	struct fab_walk w = { 0 };
	uint64_t total = 0, skip;
	struct fab_msg m;
	uint32_t off, len;
	size_t got = 0;

	while (FAB(s)->next(END(s), true, &w, &m) == 1)
		total += front_payload(&m, &off);
	if (back > total)
		return -EPROTO;
	skip = total - back;
	memset(&w, 0, sizeof(w));
	while (got < n && FAB(s)->next(END(s), true, &w, &m) == 1) {
		len = front_payload(&m, &off);
		if (skip >= len) {
			skip -= len;
			continue;
		}
		len -= (uint32_t)skip;
		if (len > n - got)
			len = (uint32_t)(n - got);
		memcpy((uint8_t *)buf + got, m.mem + off + skip, len);
		got += len;
		skip = 0;
	}
	return (ssize_t)got;
}

/*
 * The message of `op` into `mem`, and away. False: without its bytes, which
 * are not there.
 */
static inline bool post(struct sock *s, struct cursor *c, uint8_t *mem,
			struct conn_op *op)
{
	bool whole = !op->payload ||
		     cursor_get(c, mem + op->hdr_len, op->payload);

	if (unlikely(!whole))
		conn_bare(&s->conn, op);
	memcpy(mem, op->hdr, op->hdr_len);
	capture_sent(s, mem, op->hdr_len + op->payload);
	FAB(s)->send(END(s), op->hdr_len + op->payload, op->solicited);
	PROBE3(message__out, s->id.inode, s->at.sent, op->payload);
	COUNT_MESSAGE(s, tx, op->payload);
	return whole;
}

int pump_post(struct sock *s, struct cursor *c, struct conn_op *op)
{
	uint8_t *mem = FAB(s)->buf(END(s), op->hdr_len + op->payload);

	if (!mem)
		return pump_fail(s, -EPROTO);
	post(s, c, mem, op);
	if (unlikely(s->window.holdback))
		holdback_show(s);
	return 0;
}

static inline void count_sent(struct sock *s, size_t n)
{
	if (!n)
		return;
	COUNT_HELD(s, bytes_sdp_tx, n);
	anc_sent_alone(s->tx, &s->at, n);
}

/*
 * Up to `len` bytes of a file that are in memory. Neither a disk nor another
 * process is waited for: the lock is held.
 */
static size_t read_now(struct file_in *f, uint8_t *mem, size_t len)
{
	struct iovec to = { mem, len };
	ssize_t n = sys_call6(SYS_preadv2, f->fd, (long)&to, 1, f->at, 0,
			      RWF_NOWAIT);

	if (n > 0)
		return (size_t)n;
	if (n == -EOPNOTSUPP || n == -ENOSYS || n == -EPERM)
		n = -EAGAIN;
	return (size_t)file_stop(f, (int)n);
}

/*
 * Bytes of a file, read into message memory: first read, then announced, since
 * a file may be shorter than it was. What a control message pushes out of its
 * memory is read again. No more than FILE_TURN at once: the reader is told of
 * it while it is in the cache.
 */
static __attribute__((noinline)) ssize_t pump_file(struct sock *s,
						   struct file_in *f, size_t n)
{
	struct conn_offer offer = { 0 };
	struct conn_op op;
	size_t done = 0;
	ssize_t ret = 0;

	/* between hosts a copy is kept first (failover_send()) */
	if (s->rd && !s->rd->failover.confirmed)
		return file_stop(f, -EAGAIN);
	if (n > FILE_TURN)
		n = FILE_TURN;
	if (!ring_put_begin(s))
		n = 0;
	while (done < n && !f->stop) {
		uint32_t room;
		uint8_t *mem;

		pump_control(s);
		room = pump_space(s);
		if (!room)
			break;
		if (room > n - done)
			room = (uint32_t)(n - done);
		mem = FAB(s)->buf(END(s), room < FAB_CTRL - WIRE_BSDH ?
						  FAB_CTRL :
						  WIRE_BSDH + room);
		if (unlikely(!mem)) {
			ret = pump_fail(s, -EPROTO);
			break;
		}
		offer.bytes = read_now(f, mem + WIRE_BSDH, room);
		if (!offer.bytes)
			break;
		conn_next(&s->conn, clock_coarse_ns(), &offer,
			  offer.bytes < FAB_CTRL - WIRE_BSDH ?
				  FAB_CTRL :
				  WIRE_BSDH + (uint32_t)offer.bytes,
			  &op);
		if (op.type != CONN_SEND)
			break;
		memcpy(mem, op.hdr, op.hdr_len);
		capture_sent(s, mem, op.hdr_len + op.payload);
		FAB(s)->send(END(s), op.hdr_len + op.payload, op.solicited);
		PROBE3(message__out, s->id.inode, s->at.sent, op.payload);
		COUNT_MESSAGE(s, tx, op.payload);
		done += op.payload;
		f->at += op.payload;
	}
	count_sent(s, done);
	ring_put_end(s);
	return ret ? ret : (ssize_t)done;
}

/*
 * Up to n bytes, and what of control messages is due. Its frame does not lie on
 * the stack below that of pump_file().
 */
static __attribute__((noinline)) ssize_t put_some(struct sock *s,
						  struct cursor *c, size_t n)
{
	struct conn_offer offer = { 0 };
	struct conn_op op;
	size_t done = 0;
	bool whole = true;
	uint8_t *mem;

	do {
		uint32_t room = FAB(s)->room(END(s));

		if (likely(room)) {
			offer.bytes = n - done;
			offer.more = false;
			conn_next(&s->conn, clock_coarse_ns(), &offer, room,
				  &op);
			if (op.type != CONN_SEND)
				break;
			mem = FAB(s)->buf(END(s), op.hdr_len + op.payload);
			if (unlikely(!mem))
				return pump_fail(s, -EPROTO);
		} else {
			/* a full ring never keeps control messages back */
			if (!conn_wants_send(&s->conn) ||
			    !(mem = FAB(s)->ctrl(END(s))))
				break;
			offer.bytes = 0;
			offer.more = done < n;
			conn_next(&s->conn, clock_coarse_ns(), &offer, FAB_CTRL,
				  &op);
			if (op.type != CONN_SEND)
				break;
		}
		whole = post(s, c, mem, &op);
		done += op.payload;
	} while (likely(whole) && (done < n || conn_wants_send(&s->conn)));
	count_sent(s, done);
	return done || likely(whole) ? (ssize_t)done : -EFAULT;
}

ssize_t pump_some(struct sock *s, struct cursor *c, size_t n)
{
	ssize_t ret;

	n = window_clip(s, n);
	if (unlikely(c->file))
		return pump_file(s, c->file, n);
	if (!n) /* control messages go in any state */
		return put_some(s, c, 0);
	ret = ring_put_begin(s) ? put_some(s, c, n) : 0;
	ring_put_end(s);
	return ret;
}

ssize_t pump_send(struct sock *s, struct cursor *c, size_t n)
{
	ssize_t done = pump_some(s, c, n);

	if (unlikely(s->window.holdback))
		holdback_show(s);
	return done;
}

void pump_control(struct sock *s)
{
	if (likely(!conn_wants_send(&s->conn)) || s->conn.error ||
	    (s->rd && s->rd->state != RDMA_UP))
		return;
	put_some(s, NULL, 0); /* in any state */
	if (unlikely(s->window.holdback))
		holdback_show(s);
}

bool pump_room(struct sock *s)
{
	if (unlikely(s->link) && !s->link->room(s))
		return false;
	return conn_tx_room(&s->conn) && FAB(s)->room(END(s)) > WIRE_BSDH &&
	       window_open(s);
}

bool pump_roomy(struct sock *s)
{
	return pump_room(s) && FAB(s)->room(END(s)) >= CONN_SPARE_ROOM &&
	       window_roomy(s);
}

uint32_t pump_space(struct sock *s)
{
	uint32_t fits = FAB(s)->room(END(s)), room = conn_tx_room(&s->conn);

	fits = fits > WIRE_BSDH ? fits - WIRE_BSDH : 0;
	return (uint32_t)window_clip(s, fits < room ? fits : room);
}
