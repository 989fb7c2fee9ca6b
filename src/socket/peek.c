/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * MSG_PEEK where the stream goes over from anchor to ring or from ring to
 * anchor: a program may look for more than lies on one side.
 */

#include "socket/impl.h"

/* Looks at up to n bytes of the anchor, into the first vector only. */
static size_t anchor_peek(int fd, struct cursor *c, size_t n)
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
	if (got > 0 && c)
		cursor_skip(c, (size_t)got);
	return got > 0 ? (size_t)got : 0;
}

size_t peek_around(struct sock *s, int fd, const struct cursor *to, size_t all)
{
	uint64_t x = __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);
	uint64_t front = s->ar.taken < x ? x - s->ar.taken : 0;
	struct cursor copy, *c = NULL;
	size_t n = all, got = 0;

	if (to) {
		copy = *to;
		c = &copy;
	}
	if (front) {
		n = front < n ? front : n;
		got = s->ar.kept ? (size_t)keep_take(s, c, 0, n, true) :
				   anchor_peek(fd, c, n);
		if (got < n || n == all)
			return got;
	}
	got += (size_t)pump_recv(s, c, all - got, true, !c);
	if (got == all || got < front + s->rx_avail ||
	    __atomic_load_n(&s->rx->y, __ATOMIC_ACQUIRE) == ANC_OPEN)
		return got;
	if (s->ar.kept > front)
		return got + (size_t)keep_take(s, c, front, all - got, true);
	if (front || s->asleep_anchor || s->rx->rawrx || keep_bells(s, fd))
		return got;
	return got + anchor_peek(fd, c, all - got);
}

bool peek_final(struct sock *s, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	struct timespec now = { 0, 0 };

	if (s->rx_eof || s->shut_rd || s->orphan || s->conn.error)
		return true;
	/* behind the ring the anchor has the stream's end */
	return anc_state(s->rx) != ANC_LIFTED &&
	       sys_ppoll(&p, 1, &now, NULL) == 1;
}
