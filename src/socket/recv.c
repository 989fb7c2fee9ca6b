/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Receiving: the anchor's bytes, the ring's bytes, and what lies between. */

#include "socket/impl.h"

/* Flags with which the kernel answers for itself. */
#define KERNEL_FLAGS (MSG_OOB | MSG_ERRQUEUE)

struct want {
	struct cursor c;
	size_t len, done;
	int flags;
	bool peek, all, nonblock;
};

/* --- the ring ---------------------------------------------------------- */

/* The peer has ended and its ring is empty: what would TCP show? */
static ssize_t orphan_recv(struct sock *s, bool *raw)
{
	bool lost = was_reset(s);

	if (s->why == WHY_PROTOCOL)
		return s->rst_told++ ? 0 : -ECONNRESET;
	if (lost && !s->rst_told) {
		s->rst_told = 1;
		return -ECONNRESET;
	}
	if (lost)
		return 0;
	lift_unpaired(s, WHY_CLOSED);
	*raw = true;
	return 0;
}

static void take_bells(struct sock *s, int fd, uint64_t n)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec ms = { 0, 1000000 };
	char sink[256];
	ssize_t got;

	if (__atomic_load_n(&s->rx->rawrx, __ATOMIC_SEQ_CST)) {
		/* one that was killed inside will never count itself out */
		if (++s->bell_naps > 200)
			__atomic_store_n(&s->rx->rawrx, 0, __ATOMIC_SEQ_CST);
		/* a thread from before the switch may hold one uncounted */
		sock_unlock(s);
		sys_ppoll(NULL, 0, &ms, NULL);
		lock_take(&s->lock);
		return;
	}
	/* counted anew: that thread may have taken it meanwhile */
	if (anc_bells(s->rx, &s->ar) < (int64_t)n)
		return;
	got = sys_recv(fd, sink, n < 256 ? n : sizeof(sink), MSG_DONTWAIT);
	if (got > 0) {
		s->ar.bells += (uint64_t)got;
		return;
	}
	if (got == -EAGAIN) {
		/* counted, about to be written: W is between the two steps */
		sock_unlock(s);
		sys_ppoll(&p, 1, &ms, NULL);
		lock_take(&s->lock);
		return;
	}
	s->ar.bells += n; /* FIN or error instead: W died in between */
}

/* Something was taken: the writer may want to know. */
static void took(struct sock *s, size_t n)
{
	anc_taken(s->rx, &s->ar, n);
	pump_control(s);
	if (__atomic_load_n(&s->rx->wait, __ATOMIC_RELAXED) || !s->rx_avail)
		fab_publish(s);
	ring_writer(s);
	if (unlikely(s->rx_eof) && !s->rx_avail && !s->fin_told) {
		s->fin_told = true;
		ring_service(s);
	}
}

/*
 * Lock held. A count, 0 for the end, a negative errno; *raw: go on at the
 * anchor.
 */
static ssize_t ring_recv(struct sock *s, int fd, struct want *w, bool *raw)
{
	uint64_t deadline = 0, lim;
	enum anc_state was;
	ssize_t got;
	int where, err;

	for (;;) {
		home_serve(s, fd);
		home_abandoned(s, fd);
		was = anc_state(s->rx);
		where = s->paired ? anc_where(s->rx, &s->ar, &lim) :
				    ANC_AT_ANCHOR;
		if (where < 0) {
			pump_fail(s, where);
			return orphan_recv(s, raw);
		}
		if (where == ANC_AT_ANCHOR) {
			*raw = true;
			return 0;
		}
		if (where == ANC_AT_BELLS) {
			take_bells(s, fd, lim);
			continue;
		}
		if ((!s->rx_avail || s->rx_stale) && pump_poll(s))
			return orphan_recv(s, raw);
		if (lim > w->len - w->done)
			lim = w->len - w->done;
		got = pump_recv(s, &w->c, lim, w->peek, w->flags & MSG_TRUNC);
		if (got < 0)
			return orphan_recv(s, raw);
		if (got) {
			w->done += (size_t)got;
			if (w->peek)
				return 0;
			took(s, (size_t)got);
			if (w->done < w->len && !s->rx_avail)
				pump_poll(s);
			if (w->done < w->len && s->rx_avail)
				continue;
			if (unlikely(anc_bells(s->rx, &s->ar) > 0))
				ring_bells(s, fd);
			if (!w->all || w->done == w->len)
				return 0;
			continue;
		}
		if (w->done && !w->all)
			return 0;
		if (s->rx_eof || s->shut_rd)
			return 0;
		if (s->orphan)
			return orphan_recv(s, raw);
		err = ring_bells(s, fd);
		if (err)
			return pump_fail(s, err);
		if (w->nonblock) {
			if (s->sleepers || s->watched > 1) {
				anc_arm(s->rx, ANC_WAKE);
				if (fab_pending(s) || anc_state(s->rx) != was)
					continue;
			}
			return -EAGAIN;
		}
		if (!deadline)
			deadline = wait_deadline(s->rcvtimeo);
		err = wait_rx(s, fd, deadline, was);
		if (err)
			return err;
	}
}

/* --- the anchor -------------------------------------------------------- */

static ssize_t raw_recv(struct sock *s, int fd, struct want *w,
			struct msghdr *m, bool *lifted)
{
	__attribute__((cleanup(raw_rx_leave))) struct rawrx in = { 0 };
	struct iovec one;
	int flags = w->flags, saved = errno;
	ssize_t n;

	*lifted = true;
	if (!raw_rx_enter(&in, s))
		return 0;
	if (w->all) /* it would swallow a bell and sleep on (5.2) */
		flags &= ~MSG_WAITALL;
	if (m && !w->done) {
		n = hooks.recvmsg(fd, m, flags);
	} else if (w->c.left == 1) {
		one.iov_base = (char *)w->c.iov->iov_base + w->c.at;
		one.iov_len = w->c.iov->iov_len - w->c.at;
		n = hooks.recv(fd, one.iov_base, one.iov_len, flags);
	} else {
		struct msghdr rest = { 0 };

		/* the vector half filled: one piece at a time */
		one.iov_base = (char *)w->c.iov->iov_base + w->c.at;
		one.iov_len = w->c.iov->iov_len - w->c.at;
		rest.msg_iov = &one;
		rest.msg_iovlen = 1;
		if (!w->c.at) {
			rest.msg_iov = (struct iovec *)w->c.iov;
			rest.msg_iovlen = w->c.left;
		}
		n = hooks.recvmsg(fd, &rest, flags);
	}
	if (n < 0) {
		n = -errno;
		errno = saved;
	}
	if (!raw_took(s, in.d, n, w->peek)) {
		raw_rx_leave(&in);
		if (n > 0)
			ring_ask_bell(s);
		return n == -EINTR ? (*lifted = false, n) : 0;
	}
	*lifted = false;
	return n;
}

static ssize_t kernel_recv(int fd, struct msghdr *m, int flags)
{
	int saved = errno;
	ssize_t n = hooks.recvmsg(fd, m, flags);

	if (n < 0) {
		n = -errno;
		errno = saved;
	}
	return n;
}

/*
 * The anchor says end of stream. When the peer's process died and left bytes
 * of ours in the ring, TCP would have said reset.
 */
static bool end_is_reset(struct sock *s)
{
	if (anc_state(s->tx) != ANC_LIFTED || sock_lock(s))
		return false;
	if (!s->orphan && wake_hung_up(s))
		lift_orphan(s);
	sock_unlock(s);
	return s->orphan && was_reset(s) && !s->rst_told++;
}

/*
 * The peer died while it wrote back what we could not keep (RESUME): the rest
 * is still in the ring, behind what came by the anchor.
 */
static bool revived(struct sock *s, ssize_t n)
{
	uint64_t skip;
	bool ret = false;

	if (n != 0 && n != -ECONNRESET)
		return false;
	if (sock_lock(s))
		return false;
	if (s->rx_stale && anc_state(s->rx) == ANC_RESUME) {
		skip = s->ar.taken - s->stale_from;
		pump_recv(s, NULL, skip < s->rx_avail ? skip : s->rx_avail,
			  false, true);
		s->rx_stale = false;
		anc_revive(s->rx);
		lift_orphan(s);
		ret = true;
	}
	sock_unlock(s);
	return ret;
}

/* m: the program's msghdr, or NULL when only w counts. */
static ssize_t receive(struct sock *s, int fd, struct want *w, struct msghdr *m)
{
	bool lifted, raw;
	ssize_t n;

	if (unlikely(s->use == USE_SDP) && !s->paired && !w->nonblock) {
		n = lift_demand(s, fd, false);
		if (n)
			return n;
	}
	for (;;) {
		n = raw_recv(s, fd, w, m, &lifted);
		if (!lifted) {
			lift_count(s, fd, n, false);
			if (unlikely(n <= 0) && s->rx_stale && revived(s, n))
				continue;
			if (unlikely(!n) && s->paired && end_is_reset(s))
				n = -ECONNRESET;
			if (n <= 0)
				return w->done ? (ssize_t)w->done : n;
			w->done += (size_t)n;
			if (!w->all || w->done == w->len ||
			    sock_atmark(s, fd) == 1)
				return (ssize_t)w->done;
			cursor_skip(&w->c, (size_t)n);
			continue;
		}
		if (unlikely(!iov_sound(w->c.iov, w->c.left)))
			return w->done ? (ssize_t)w->done : -EFAULT;
		raw = false;
		if (sock_lock(s))
			return w->done ? (ssize_t)w->done : -EINTR;
		n = ring_recv(s, fd, w, &raw);
		sock_unlock(s);
		if (unlikely(s->ghost >= 0))
			fd = s->ghost;
		if (!raw || (w->done && !w->all))
			break;
		if (w->done && sock_atmark(s, fd) == 1)
			break; /* the urgent mark ends a read, WAITALL too */
	}
	if (unlikely(s->ghost >= 0))
		sock_exorcise(s);
	if (m) {
		m->msg_flags = 0;
		m->msg_controllen = 0;
		m->msg_namelen = 0;
	}
	return w->done ? (ssize_t)w->done : n;
}

static void want_set(struct want *w, struct sock *s, const struct iovec *iov,
		     size_t cnt, size_t len, int flags)
{
	w->c.iov = iov;
	w->c.left = cnt;
	w->c.at = 0;
	while (w->c.left && !w->c.iov->iov_len) {
		w->c.iov++;
		w->c.left--;
	}
	w->len = len;
	w->done = 0;
	w->flags = flags;
	w->peek = flags & MSG_PEEK;
	w->all = (flags & MSG_WAITALL) && !w->peek;
	w->nonblock = s->nonblock || (flags & MSG_DONTWAIT);
}

/* A receive of nothing waits for something, as on TCP, and takes nothing. */
static ssize_t nothing(struct sock *s, int fd, int flags)
{
	char byte;
	ssize_t n = sock_recv(s, fd, &byte, 1, flags | MSG_PEEK);

	return n < 0 ? n : 0;
}

ssize_t sock_recv(struct sock *s, int fd, void *buf, size_t len, int flags)
{
	struct iovec iov = { buf, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct want w;

	if (unlikely(len > SSIZE_MAX))
		iov.iov_len = len = SSIZE_MAX;
	if (unlikely(!len) && s->paired && !(flags & KERNEL_FLAGS))
		return nothing(s, fd, flags);
	if (unlikely(!len || (flags & KERNEL_FLAGS)) || !sock_up(s, fd))
		return kernel_recv(fd, &m, flags);
	want_set(&w, s, &iov, 1, len, flags);
	return receive(s, fd, &w, NULL);
}

ssize_t sock_recvmsg(struct sock *s, int fd, struct msghdr *m, int flags)
{
	struct want w;
	ssize_t len;

	if ((flags & KERNEL_FLAGS) || !sock_up(s, fd) || !m->msg_iovlen)
		return kernel_recv(fd, m, flags);
	len = iov_sum(m->msg_iov, m->msg_iovlen);
	if (!len && s->paired)
		return nothing(s, fd, flags);
	if (len <= 0)
		return kernel_recv(fd, m, flags);
	want_set(&w, s, m->msg_iov, m->msg_iovlen, (size_t)len, flags);
	return receive(s, fd, &w, m);
}
