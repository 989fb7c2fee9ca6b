/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Lending memory and reading what was lent; see zcopy.h. */

#include "sdp_proto/wire.h"
#include "sdp_proto/zcopy.h"
#include "socket/zcopy/zcopy.h"

#define READ_MAX (1u << 20) /* read under the lock at once */
#define READ_MIN (16u << 10) /* not worth a system call */

static size_t least(const struct sock *s)
{
	int64_t wish = s->zc.asked ? s->zc.wish : settings.zcopy_threshold;

	if (!wish || settings.zcopy == SET_ZCOPY_NO || !FAB(s)->lend)
		return SIZE_MAX;
	return zcr_least(s, (uint32_t)wish);
}

void zc_paired(struct sock *s)
{
	s->zc.home = sock_pid;
	s->zc.least = least(s);
}

void zc_threshold(struct sock *s, int wish)
{
	s->zc.asked = wish >= 0;
	s->zc.wish = (uint32_t)wish;
	if (s->paired)
		s->zc.least = least(s);
}

/* --- the writer -------------------------------------------------------- */

bool zc_recall_ring(struct sock *s)
{
	int64_t n;

	n = FAB(s)->lent(END(s), true);
	s->zc.out = ZC_OVER;
	if (n < 0 || zc_count(s, n)) {
		pump_fail(s, -EPROTO);
		return true;
	}
	if (s->zc.done < s->zc.len)
		page_add(zcopy_cancelled, 1);
	if (s->conn.error)
		return true;
	conn_cancel_sources(&s->conn);
	pump_control(s);
	/* its program may be busy with other things */
	if (s->conn.src_count)
		ring_service(s);
	return true;
}

bool zc_settled(struct sock *s)
{
	if (likely(!s->conn.src_count) || s->conn.error || pump_poll(s) ||
	    !s->conn.src_count)
		return true;
	pump_control(s);
	ring_service(s);
	return false;
}

int zc_freed_ring(struct sock *s)
{
	struct conn_freed f;
	int64_t n;

	while (conn_freed(&s->conn, &f)) {
		n = FAB(s)->lent(END(s), true);
		if (f.sink || n < 0 || f.key != s->zc.rkey || f.bytes != n ||
		    (s->zc.out == ZC_OUT && zc_count(s, n)))
			return -EPROTO;
		if (s->zc.out == ZC_OUT)
			s->zc.out = ZC_OVER;
		FAB(s)->unlend(END(s));
	}
	ring_put_end(s);
	return 0;
}

void zc_abandon(struct sock *s)
{
	if (s->zc.out == ZC_NONE || s->zc.owner != lock_tid())
		return;
	zc_seize(s);
	s->zc.out = ZC_NONE;
	ring_put_end(s);
}

bool zc_torn(struct zc_send *z, const struct cursor *c, size_t done,
	     size_t *len, int *err)
{
	if (settings.zcopy != SET_ZCOPY_ALWAYS || z->whole)
		return false;
	z->whole = true;
	*err = iov_still(c, done, len);
	return *err != 0;
}

/* --- the reader -------------------------------------------------------- */

void zc_offered(struct sock *s)
{
	__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
	zc_judge_offer(s);
}

void zc_tell(struct sock *s)
{
	s->zc.due = false;
	pump_control(s);
	fab_publish(s);
	ring_writer(s);
	/* it may be asleep for other things */
	if (zc_asked(s))
		ring_service(s);
}

bool zc_asked(const struct sock *s)
{
	return s->paired && FAB(s)->recalled && FAB(s)->recalled(END(s));
}

bool zc_unanswered(const struct sock *s)
{
	return s->paired && s->conn.src_count && s->zc.out != ZC_OUT &&
	       zc_live(s);
}

void zc_answer(struct sock *s, int fd)
{
	if ((!zc_asked(s) && !zc_unanswered(s)) || pump_poll(s))
		return;
	zc_tell(s);
	ring_reader(s, fd); /* DisConn may have waited for the answer */
}

/* Why a read brought less than it should have. */
static void failed(struct sock *s, int status)
{
	if (status == -ECANCELED || status == -EFAULT)
		return; /* taken back; a bad pointer of one of the two */
	s->zc.rx_off = true;
	log_debug("fd %d: the peer's memory cannot be read: %d", sock_fd(s),
		  status);
}

/* The next bytes of what is lent, n at most: how many came. */
static size_t fetch(struct sock *s, void *to, size_t n)
{
	struct fab_done d = { 0 };
	struct conn_op op;

	if (!conn_read(&s->conn, n < READ_MAX ? n : READ_MAX, &op))
		return 0;
	s->shm.peer = s->waits.wake;
	FAB(s)->read(END(s), to, op.vaddr, op.rkey, op.len, 0);
	FAB(s)->done(END(s), &d);
	if (conn_on_done(&s->conn, CONN_READ, d.len))
		d.len = 0;
	if (d.status)
		failed(s, d.status);
	return d.len;
}

bool zc_next(struct sock *s, int flags, uint64_t n)
{
	bool peek = flags & MSG_PEEK;

	if ((flags & MSG_TRUNC) || (peek && n > s->got.avail) ||
	    (zc_read_waits(s) && (s->opt.nonblock || (flags & MSG_DONTWAIT)))) {
		zc_refuse(s);
		return false;
	}
	return !peek && !s->got.avail;
}

size_t zc_take(struct sock *s, struct cursor *c, size_t n)
{
	uint8_t *to = (uint8_t *)c->iov->iov_base + c->at;
	size_t room = c->iov->iov_len - c->at, most;
	uint64_t there = conn_source(&s->conn);

	if (n > there)
		n = (size_t)there;
	if (s->zc.rx_off || !FAB(s)->read || zc_barred(s) ||
	    (n < READ_MIN && n < there && settings.zcopy != SET_ZCOPY_ALWAYS)) {
		zc_refuse(s);
		return 0;
	}
	if (n > room)
		n = room;
	if (carrier_reads_later(s)) {
		most = zcr_read_most(s);
		n = zcr_read(s, to, n < most ? n : most);
	} else {
		n = fetch(s, to, n);
	}
	if (!n) {
		zc_tell(s);
		zcr_broke(s);
		return 0;
	}
	s->zc.due = true;
	cursor_skip(c, n);
	COUNT(s, bytes_sdp_rx, n);
	COUNT(s, zcopy, n);
	page_add(zcopy_rx, n);
	return n;
}

void zc_seize(struct sock *s)
{
	if (likely(s->zc.out != ZC_OUT))
		return;
	if (!carrier_reads_later(s)) {
		zc_recall(s);
		return;
	}
	if (!s->conn.error)
		reports.broke(s, -ECANCELED);
	zcr_over(s);
}
