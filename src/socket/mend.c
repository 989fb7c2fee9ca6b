/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A broken queue pair: the stream goes on over the anchor (resume.h has the
 * rules), and is lifted again when the way is back.
 *
 * The transmit half begins at once and is written out by whoever comes by. The
 * receive half waits for what the peer writes: until then what came by SDP is
 * read as ever, and the old end polled, since what it has taken in counts as
 * arrived. Only the service thread reads control bytes then. What the program
 * has not read when the record comes moves to the larder, memory of the
 * process family, and the end is let go.
 */

#include "base/arena.h"
#include "sdp_proto/wire.h"
#include "socket/rdma.h"

#define KEPT 16376

struct rdma_kept {
	uint32_t len;
	uint8_t mem[KEPT];
};

static struct arena kepts = ARENA_INIT(sizeof(struct rdma_kept));

void mend_forked(void)
{
	arena_forked(&kepts);
}

static int anchor_of(struct sock *s)
{
	return s->ghost >= 0 ? s->ghost : sock_fd(s);
}

/* --- until the reader has confirmed a lift or a spill --------------------- */

bool mend_keep(struct sock *s)
{
	struct rdma *r = s->rd;

	if (!rdma_here(s) || r->state != RDMA_UP)
		return false;
	if (!r->kept)
		r->kept = arena_get(&kepts);
	if (!r->kept)
		return false;
	r->kept->len = 0;
	r->confirmed = false;
	return true;
}

static void keep_no_more(struct rdma *r)
{
	if (r->kept)
		arena_put(&kepts, r->kept);
	r->kept = NULL;
}

bool mend_room(const struct sock *s)
{
	const struct rdma *r = s->rd;

	return r->state == RDMA_UP &&
	       (r->confirmed || (r->kept && r->kept->len < KEPT));
}

ssize_t mend_send(struct sock *s, struct cursor *c, size_t n)
{
	struct rdma *r = s->rd;
	struct cursor was = *c;
	ssize_t done;

	if (!mend_room(s))
		return 0;
	if (r->confirmed)
		return pump_send(s, c, n);
	if (n > KEPT - r->kept->len)
		n = KEPT - r->kept->len;
	done = pump_send(s, c, n);
	if (done > 0 && r->kept) {
		cursor_get(&was, r->kept->mem + r->kept->len, (size_t)done);
		r->kept->len += (uint32_t)done;
	}
	return done;
}

void mend_seen(struct sock *s)
{
	struct rdma *r = s->rd;

	enum anc_state st = anc_state(s->tx);

	if (!remote_seen(&r->words))
		return;
	if ((st == ANC_LIFTED || st == ANC_ASKED) && !r->ahead &&
	    !r->confirmed) {
		r->confirmed = true;
		keep_no_more(r);
		if (s->full || s->writers)
			rdma_wake(s);
	}
	if (s->stand) {
		__atomic_store_n(&s->stand, 0, __ATOMIC_SEQ_CST);
		r->changed = true;
		rdma_wake(s);
	}
}

/* --- the transmit half ---------------------------------------------------- */

static uint32_t payload(const struct fab_msg *m)
{
	return m->len > WIRE_BSDH && m->mem[0] == WIRE_DATA ?
		       m->len - WIRE_BSDH :
		       0;
}

/* Stream bytes that may not have arrived; copied to `to` if that is given. */
static size_t unacked(struct rdma *r, uint8_t *to)
{
	struct fab_msg m;
	uint32_t pos = 0, n;
	size_t sum = 0;

	while (rdma_api->unacked(r->end, &pos, &m) == 1) {
		n = payload(&m);
		if (to && n)
			memcpy(to + sum, m.mem + WIRE_BSDH, n);
		sum += n;
	}
	return sum;
}

/* True: r->out is to be written. */
static bool recorded(struct sock *s, struct rdma *r)
{
	size_t n = unacked(r, NULL);
	uint8_t *to;

	r->ahead = false;
	r->out_len = r->token_due + RESUME_RECORD + n;
	r->out = to = larder_map(r->out_len);
	if (!to)
		return false;
	memcpy(to, r->token_tx + RDMA_TOKEN - r->token_due, r->token_due);
	to += r->token_due;
	r->token_due = 0;
	resume_record(to, r->secret_tx, s->at.sent - n);
	unacked(r, to + RESUME_RECORD);
	return true;
}

static bool taken_back(struct sock *s, struct rdma *r)
{
	size_t n = (size_t)(s->at.sent - s->at.x);

	r->token_due = 0;
	r->ahead = false;
	r->out_len = n;
	if (!n)
		return true;
	if (!r->kept || r->kept->len != n)
		return false;
	r->out = larder_map(n);
	if (r->out)
		memcpy(r->out, r->kept->mem, n);
	return r->out != NULL;
}

/* From here on nobody of the program sends before r->out is out. */
static bool begin_tx(struct sock *s, struct rdma *r)
{
	enum anc_state st = anc_state(s->tx);
	bool ok = true, confirmed = st == ANC_SPILL ? !s->stand : r->confirmed;

	r->out_at = 0;
	if (st == ANC_RAW || st == ANC_GONE)
		return true;
	switch (resume_tx(st, confirmed)) {
	case RESUME_RECORDED:
		ok = recorded(s, r);
		break;
	case RESUME_BACK:
		ok = taken_back(s, r);
		break;
	default:
		break;
	}
	s->at.y = s->at.sent;
	__atomic_store_n(&s->tx->state, ANC_PAUSED, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->stand, 0, __ATOMIC_SEQ_CST);
	keep_no_more(r);
	s->full = false;
	return ok;
}

void mend_flush(struct sock *s, int fd)
{
	struct rdma *r = s->rd;
	ssize_t n = 0;

	if (r->state != RDMA_MENDING || anc_state(s->tx) != ANC_PAUSED ||
	    fd < 0)
		return;
	while (r->out && r->out_at < r->out_len && n >= 0) {
		n = sys_send(fd, r->out + r->out_at, r->out_len - r->out_at,
			     MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0)
			r->out_at += (size_t)n;
	}
	if (n == -EAGAIN)
		return;
	/* out, or the program will meet the error */
	larder_unmap(r->out, r->out_len);
	r->out = NULL;
	__atomic_store_n(&s->tx->state, ANC_RAW, __ATOMIC_SEQ_CST);
	lift_left(s, fd);
	r->changed = true;
	rdma_wake(s);
}

/* --- beginning ------------------------------------------------------------ */

static void end_it(struct sock *s)
{
	struct rdma *r = s->rd;

	r->state = RDMA_ENDED;
	r->changed = true;
	if (r->far >= 0)
		sys_shutdown(r->far, SHUT_WR);
	lift_orphan(s);
}

/* A reader inside the kernel could get the record as if it were the stream. */
static bool hold_raw(struct sock *s)
{
	if (__atomic_load_n(&s->rx->rawrx, __ATOMIC_SEQ_CST))
		return false;
	s->pins &= (uint8_t)~2u;
	s->ar.unsure = true;
	__atomic_store_n(&s->rx->bells, s->ar.bells, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->rx->y, s->ar.taken, __ATOMIC_SEQ_CST);
	__atomic_store_n(&s->rx->state, ANC_SPILL, __ATOMIC_SEQ_CST);
	return true;
}

static bool begin_rx(struct sock *s, struct rdma *r)
{
	bool sure = remote_sure(&r->words);
	enum anc_state st = anc_state(s->rx);

	if (st == ANC_RAW && !sure && !hold_raw(s))
		return false;
	r->in.token = r->token_rx;
	r->in.secret = r->secret_rx;
	r->in.token_got = RDMA_TOKEN;
	if (r->token_wait)
		r->in.token_got = (uint8_t)(s->ar.bells - r->token_at);
	r->in.bells = st == ANC_SPILL ? (uint64_t)anc_bells(s->rx, &s->ar) : 0;
	resume_begin(&r->in, st, r->token_wait, sure);
	return true;
}

void mend_begin(struct sock *s, int error)
{
	struct rdma *r = s->rd;

	if (!rdma_here(s) || r->state != RDMA_UP)
		return;
	/* it closed: nobody is left to go on with */
	if (__atomic_load_n(&s->peer->reset, __ATOMIC_ACQUIRE) ||
	    anc_state(s->tx) == ANC_GONE) {
		s->ar.unsure = false;
		end_it(s);
		return;
	}
	log_note("fd %d: the RDMA connection broke (%d), on over TCP",
		 sock_fd(s), error);
	r->state = RDMA_MENDING;
	r->changed = r->restless = true;
	r->mended = false;
	__atomic_store_n(&r->words.peer->ready, 0, __ATOMIC_RELEASE);
	s->full = false;
	sock_why(s, WHY_RDMA_LOST);
	if (!begin_tx(s, r) || !begin_rx(s, r)) {
		s->conn.fault = "no memory or no way to go on";
		end_it(s);
		return;
	}
	mend_flush(s, anchor_of(s));
	/* it may hear of it by nothing else, for a long time */
	rdma_api->disconnect(r->end);
	rdma_wake(s);
	rdma_owe(s);
}

/* --- the receive half, service thread ------------------------------------- */

static void token_came(struct sock *s, struct rdma *r)
{
	r->token_wait = false;
	s->ar.bells = r->token_at + RDMA_TOKEN;
	remote_bells_ahead(&r->words);
	s->rx_avail += r->hidden;
	s->rx_eof |= r->eof_hidden;
	r->hidden = 0;
	r->eof_hidden = false;
	__atomic_add_fetch(&s->in_gen, 1, __ATOMIC_RELAXED);
}

static void drop_hidden(struct rdma *r)
{
	r->token_wait = r->eof_hidden = false;
	r->hidden = 0;
}

/* 1: what follows is the stream; 0: not yet; -EPROTO, -ECONNRESET. */
static int parse(struct sock *s, int fd)
{
	struct rdma *r = s->rd;
	uint8_t buf[4096];
	size_t eat;
	ssize_t n;
	int ret;

	if (r->in.phase == RESUME_PLAIN)
		return 1;
	/* those in front of x are the program's, record or not */
	if (__atomic_load_n(&s->rx->rawrx, __ATOMIC_SEQ_CST) ||
	    s->ar.taken < __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE))
		return 0;
	do {
		n = larder_glance(s, fd, buf, sizeof(buf));
		if (n == -EAGAIN)
			return 0;
		s->rst_eaten |= n == -ECONNRESET;
		if (n <= 0)
			return resume_ended(&r->in) ? 1 : -ECONNRESET;
		/* what W counts as arrived has, by the time of its record */
		if (pump_poll(s))
			return -EPROTO;
		ret = resume_look(&r->in, buf, (size_t)n,
				  s->ar.taken + s->rx_avail + r->hidden, &eat);
		if (eat && !larder_swallow(s, fd, buf, eat))
			return -EPROTO;
		if (r->token_wait && r->in.token_got == RDMA_TOKEN)
			token_came(s, r);
	} while (!ret && eat);
	return ret;
}

/* The end is let go; what is unread lies between `taken` and y now. */
static bool settle(struct sock *s)
{
	struct rdma *r = s->rd;
	enum anc_state st = anc_state(s->rx);

	if (r->in.back)
		drop_hidden(r);
	if (!larder_store(s))
		return false;
	s->end = s->rx_avail ? &r->larder.end : &rdma_nowhere;
	s->end_pid = 0;
	s->front_at = 0;
	r->old = r->end;
	r->end = NULL;
	s->ar.unsure = false;
	if (st == ANC_RISING || st == ANC_LIFTED || st == ANC_ASKED ||
	    st == ANC_PAUSED) {
		s->ar.bells = r->in.back ? r->token_at : s->ar.bells;
		__atomic_store_n(&s->rx->bells, s->ar.bells, __ATOMIC_SEQ_CST);
		__atomic_store_n(&s->rx->y, s->ar.taken + s->rx_avail,
				 __ATOMIC_SEQ_CST);
		__atomic_store_n(&s->rx->state,
				 s->rx_avail ? ANC_SPILL : ANC_RAW,
				 __ATOMIC_SEQ_CST);
	} else if (st == ANC_SPILL && r->in.token_got == RDMA_TOKEN &&
		   !r->in.bells) {
		s->ar.bells = __atomic_load_n(&s->rx->bells, __ATOMIC_ACQUIRE);
	}
	__atomic_add_fetch(&s->in_gen, 1, __ATOMIC_RELAXED);
	r->mended = r->changed = true;
	rdma_anchor_watch(s, -1);
	rdma_wake(s);
	return true;
}

void mend_step(struct sock *s)
{
	struct rdma *r = s->rd;
	int fd = anchor_of(s), ret;

	r->restless = true;
	mend_flush(s, fd);
	if (!r->mended && !s->conn.error && !pump_poll(s)) {
		ret = fd < 0 ? 0 : parse(s, fd);
		if (ret == 1 && !settle(s))
			ret = -ENOMEM;
		if (ret == -EPROTO)
			pump_fail(s, ret);
		if (ret < 0)
			end_it(s);
	} else if (s->conn.error) {
		end_it(s);
	}
	if (r->state == RDMA_MENDING && r->mended &&
	    anc_state(s->tx) != ANC_PAUSED)
		rdma_again(s);
}

/* In front of x it is not to be seen yet: rdma_took() asks once more. */
bool mend_look(struct sock *s)
{
	struct rdma *r = s->rd;
	struct resume in = { .token = r->token_rx, .secret = r->secret_rx };
	struct pollfd p = { .fd = anchor_of(s), .events = POLLIN };
	struct timespec now = { 0, 0 };
	uint8_t buf[4096];
	int fd = p.fd;
	ssize_t n;

	if (anc_state(s->rx) != ANC_RAW &&
	    s->ar.taken < __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE))
		return false;
	r->called = false;
	if (fd < 0 || anc_state(s->rx) == ANC_RAW)
		return false;
	/* a reset is told once, and not for us */
	if (sys_ppoll(&p, 1, &now, NULL) != 1 || (p.revents & POLLERR))
		return false;
	n = sys_recv(fd, buf, sizeof(buf), MSG_PEEK | MSG_DONTWAIT);
	s->rst_eaten |= n == -ECONNRESET;
	if (n <= 0)
		return false;
	in.token_got = RDMA_TOKEN;
	if (r->token_wait)
		in.token_got = (uint8_t)(s->ar.bells - r->token_at);
	resume_begin(&in, ANC_LIFTED, r->token_wait, false);
	return resume_called(&in, buf, (size_t)n);
}

/* --- the end ------------------------------------------------------------- */

void mend_drop(struct rdma *r)
{
	larder_unmap(r->out, r->out_len);
	r->out = NULL;
	larder_drop(r);
	keep_no_more(r);
}

int mend_now(struct sock *s, int fd)
{
	uint64_t until =
		clock_ns() + (uint64_t)settings.home_timeout_ms * 1000000u;
	struct timespec ms = { 0, 1000000 };
	bool done;

	if (sock_lock(s))
		return -EAGAIN;
	if (rdma_here(s) && s->rd->state == RDMA_UP && !s->conn.error) {
		pump_poll(s);
		rdma_api->disconnect(s->rd->end);
		mend_begin(s, 0);
	}
	for (;;) {
		if (s->rd && s->rd->state == RDMA_MENDING)
			mend_flush(s, fd);
		done = !s->rd || s->rd->state != RDMA_MENDING;
		sock_unlock(s);
		if (done || clock_ns() > until)
			return done ? 0 : -EAGAIN;
		sys_ppoll(NULL, 0, &ms, NULL);
		if (sock_lock(s))
			return -EAGAIN;
	}
}

bool mend_old_gone(struct sock *s)
{
	struct rdma *r = s->rd;

	if (__atomic_load_n(&s->lookers, __ATOMIC_SEQ_CST)) {
		r->restless = true;
		return false;
	}
	r->old->ops->destroy(r->old);
	r->old = NULL;
	return true;
}

bool mend_all_home(const struct sock *s)
{
	return !s->paired ||
	       (anc_state(s->tx) == ANC_RAW && anc_state(s->rx) == ANC_RAW &&
		!s->rx_avail && !s->rx_eof && !s->shut_wr && !s->shut_rd &&
		!s->orphan);
}
