/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * MSG_PEEK where the stream goes over from anchor to ring or from ring to
 * anchor: a program may look for more than lies on one side.
 */

#include "socket/stream/stream.h"

#include <sys/ioctl.h>

/* Looks at up to n bytes of the anchor, into the first vector only. */
static ssize_t anchor_peek(struct sock *s, int fd, struct cursor *c, size_t n)
{
	int flags = MSG_PEEK | MSG_DONTWAIT;
	void *to = NULL;
	size_t room = n;
	ssize_t got;

	if (c) {
		room = c->left ? c->iov->iov_len - c->at : 0;
		to = room ? (char *)c->iov->iov_base + c->at : NULL;
	}
	got = sys_recv(fd, to, n < room ? n : room,
		       c ? flags : flags | MSG_TRUNC);
	sock_eats(s, got);
	if (got > 0 && c)
		cursor_skip(c, (size_t)got);
	return got > 0 || got == -EFAULT ? got : 0;
}

/* What of it cannot be mapped is not there for now. */
static ssize_t kept_peek(struct sock *s, struct cursor *c, uint64_t skip,
			 size_t n)
{
	ssize_t got = keep_take(s, c, skip, n, true);

	return got > 0 || got == -EFAULT ? got : 0;
}

/* The next n bytes, behind all of the ring. */
static ssize_t behind_ring(struct sock *s, int fd, struct cursor *c,
			   uint64_t front, size_t n)
{
	if (s->ar.kept > front)
		return kept_peek(s, c, front, n);
	if (front || peek_no_kick(s) || s->waits.asleep_anchor ||
	    s->rx->tcp_rx || keep_kicks(s, fd))
		return 0;
	return anchor_peek(s, fd, c, n);
}

ssize_t peek_around(struct sock *s, int fd, const struct cursor *to, size_t all)
{
	uint64_t x = __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);
	uint64_t front = s->ar.taken < x ? x - s->ar.taken : 0;
	struct cursor copy, *c = NULL;
	size_t n = all, got = 0;
	ssize_t more;

	if (to) {
		copy = *to;
		c = &copy;
	}
	if (front) {
		n = front < n ? front : n;
		more = s->ar.kept ? kept_peek(s, c, 0, n) :
				    anchor_peek(s, fd, c, n);
		if (more < (ssize_t)n || n == all)
			return more;
		got = n;
	}
	more = pump_recv(s, c, all - got, true, !c);
	if (more < 0)
		return more;
	got += (size_t)more;
	if (got == all || got < front + s->got.avail ||
	    __atomic_load_n(&s->rx->y, __ATOMIC_ACQUIRE) == ANC_OPEN)
		return (ssize_t)got;
	more = behind_ring(s, fd, c, front, all - got);
	return more < 0 ? more : (ssize_t)got + more;
}

/*
 * Where a look for `len` bytes of the anchor saw n: does the urgent mark end
 * it, as it ends a read? FIONREAD counts up to it, or all if it is in line.
 */
static bool marked(struct sock *s, int fd, size_t len, size_t n)
{
	struct pollfd p = { .fd = fd, .events = POLLPRI };
	struct timespec now = { 0, 0 };
	socklen_t size = sizeof(int);
	int in_line = 0, there = 0;
	ssize_t seen;

	if (sys_ppoll(&p, 1, &now, NULL) != 1 || !(p.revents & POLLPRI) ||
	    sys_getsockopt(fd, SOL_SOCKET, SO_OOBINLINE, &in_line, &size) ||
	    sys_ioctl(fd, FIONREAD, &there))
		return false;
	seen = sys_recv(fd, NULL, len, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
	if (sock_eats(s, seen) < 0)
		seen = 0;
	return (size_t)seen == n && (in_line ? seen < there : seen == there);
}

bool peek_final(struct sock *s, int fd, size_t len, size_t n)
{
	uint64_t y = __atomic_load_n(&s->rx->y, __ATOMIC_ACQUIRE);
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	struct timespec now = { 0, 0 };

	if (s->eos.rx_eof || s->eos.shut_rd || s->peer_gone || s->conn.error)
		return true;
	if (anc_state(s->rx) == ANC_DRAINING && s->ar.taken + n >= y &&
	    marked(s, fd, s->ar.taken + len - y, s->ar.taken + n - y))
		return true;
	/* behind the ring the anchor has the stream's end */
	return anc_state(s->rx) != ANC_LIFTED &&
	       sys_ppoll(&p, 1, &now, NULL) == 1;
}

bool peek_left(struct sock *s, int fd)
{
	int kernel = 0;

	return anc_state(s->rx) == ANC_DRAINING &&
	       !sys_ioctl(fd, FIONREAD, &kernel) &&
	       kernel > anc_kicks(s->rx, &s->ar);
}

/*
 * Between hosts nothing behind x is shown before the marker, and that waits for
 * x to be passed: by one that looks on and on for more, never.
 */
bool peek_starves(struct sock *s, size_t len, bool all, bool *was)
{
	uint64_t x = __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);
	bool again;

	if (*was || !carrier_hides(s) || s->ar.taken >= x ||
	    len <= x - s->ar.taken)
		return false;
	again = carrier_peeked(s, s->ar.taken);
	*was = all || again;
	return *was;
}

/* All of it on the anchor, for good: the kernel shows it in one piece. */
void peek_fallback(struct sock *s, int fd)
{
	if (!sock_fallback(s, fd, WHY_SOCKET_OPTION) || sock_lock(s))
		return;
	carrier_unpeeked(s, clock_ns() + 10000000000u);
	sock_unlock(s);
	sock_unpin(s);
}

bool peek_wait(struct sock *s, int fd, size_t len, size_t n, uint64_t until)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	struct timespec ms = { 0, 1000000 };
	struct timespec now = { 0, 0 };

	if (n >= len || sys_ppoll(&p, 1, &now, NULL) || clock_ns() >= until ||
	    marked(s, fd, len, n))
		return false;
	return hooks.ppoll(NULL, 0, &ms, NULL) >= 0;
}

ssize_t peek_end(struct sock *s, int fd)
{
	ssize_t got;
	char byte;

	if (unlikely(s->eos.eaten) && !told_reset(s))
		return -s->eos.eaten;
	got = sys_recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return got > 0 ? -EAGAIN : got;
}
