/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The byte buffer: what came by SDP, was not read, and lost its end
 * (rdma_failover.c). It is a fabric of one message that came and will never be
 * followed by another, in memory of the process family. And what receives have
 * taken off the anchor that is not known to be stream.
 */

#include "fabric/nowhere.h"
#include "sdp_proto/wire.h"
#include "socket/transport/transport.h"

void bytebuf_unmap(void *mem, size_t len)
{
	if (mem)
		sys_munmap(mem, len);
}

void *bytebuf_map(size_t len)
{
	void *mem = sys_mmap(NULL, len, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return sys_is_err(mem) ? NULL : mem;
}

static int front(struct end *e, struct fab_msg *m)
{
	struct rdma_bytebuf *l = (struct rdma_bytebuf *)e;

	if (!l->mem)
		return 0;
	*m = (struct fab_msg){ .mem = l->mem, .len = l->len, .held = true };
	return 1;
}

static void release(struct end *e)
{
	struct rdma_bytebuf *l = (struct rdma_bytebuf *)e;

	bytebuf_unmap(l->mem, l->room);
	l->mem = NULL;
}

/* Of what was taken ahead n bytes from the at-th on are done with. */
static void cut(struct rdma_bytebuf *a, size_t at, size_t n)
{
	if (!n) /* there may be no memory at all */
		return;
	memmove(a->mem + at, a->mem + at + n, a->len - at - n);
	if (a->len == n) {
		bytebuf_unmap(a->mem, a->room);
		a->mem = NULL;
		a->room = 0;
	}
	a->len -= (uint32_t)n;
}

static void shorten(struct rdma_bytebuf *a, size_t n)
{
	cut(a, 0, n);
}

static int next(struct end *e, bool own, struct fab_walk *w, struct fab_msg *m)
{
	if (own || w->begun)
		return 0;
	w->begun = true;
	return front(e, m);
}

static const struct fabric_ops bytebuf_ops = {
	.name = "verbs",
	.room = nowhere_room,
	.buf = nowhere_buf,
	.ctrl = nowhere_ctrl,
	.send = nowhere_send,
	.poll = nowhere_msg,
	.front = front,
	.release = release,
	.next = next,
	.pending = nowhere_pending,
	.trim = nowhere_nothing,
	.destroy = nowhere_nothing,
};

/* Bytes behind room for a BSDH, as one message; they are the buffer's. */
static void fill(struct rdma_bytebuf *l, uint8_t *mem, size_t n)
{
	l->mem = mem;
	l->len = l->room = (uint32_t)n + WIRE_BSDH;
	mem[0] = WIRE_DATA;
}

uint64_t bytebuf_front_unread(const struct sock *s)
{
	enum anc_state st = anc_state(s->rx);
	uint64_t x = __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);

	if ((st != ANC_SWITCHING && st != ANC_RECALLED && st != ANC_PAUSED) ||
	    __atomic_load_n(&s->rx->y, __ATOMIC_ACQUIRE) != ANC_OPEN)
		return 0;
	return s->ar.taken < x ? x - s->ar.taken : 0;
}

/* The part of that which is kept: it is what the stash begins with. */
static size_t front_kept(const struct sock *s)
{
	uint64_t n = bytebuf_front_unread(s);

	return (size_t)(n < s->ar.kept ? n : s->ar.kept);
}

/* Around n bytes of SDP's what was taken off the anchor: where those go. */
static __attribute__((noinline)) uint8_t *put_kept(const struct sock *s,
						   uint8_t *mem, size_t n)
{
	const struct rdma_bytebuf *a = &s->rd->failover.stash;
	size_t first = front_kept(s);

	if (a->len) {
		memcpy(mem, a->mem, first);
		memcpy(mem + first + n, a->mem + first, a->len - first);
	}
	return mem + first;
}

/* What the program has not read yet, as one message. */
bool bytebuf_store(struct sock *s)
{
	struct rdma_bytebuf *l = &s->rd->failover.bytebuf,
			    *ahead = &s->rd->failover.stash;
	struct iovec iov;
	struct cursor c = { .iov = &iov, .left = 1 };
	size_t n = s->got.avail;
	uint8_t *mem;

	if (!n && !ahead->len)
		return true;
	mem = bytebuf_map(n + ahead->len + WIRE_BSDH);
	if (!mem)
		return false;
	fill(l, mem, n + ahead->len);
	mem = put_kept(s, l->mem + WIRE_BSDH, n);
	iov = (struct iovec){ mem, n };
	if (pump_recv(s, &c, n, true, false) != (ssize_t)n) {
		release(&l->end);
		return false;
	}
	s->got.avail += ahead->len;
	shorten(ahead, ahead->len);
	s->ar.kept = 0; /* it was that */
	return true;
}

void bytebuf_again(struct sock *s)
{
	struct rdma *r = s->rd;

	if (r->failover.give.mem)
		fill(&r->failover.bytebuf, r->failover.give.mem,
		     r->failover.give.len);
	s->got.avail = r->failover.give.len;
	memset(&r->failover.give, 0, sizeof(r->failover.give));
}

static bool grow(struct rdma_bytebuf *a)
{
	uint32_t room = a->room ? 2 * a->room : 65536;
	uint8_t *mem = bytebuf_map(room);

	if (!mem)
		return false;
	if (a->len)
		memcpy(mem, a->mem, a->len);
	bytebuf_unmap(a->mem, a->room);
	a->mem = mem;
	a->room = room;
	return true;
}

ssize_t bytebuf_pull(struct sock *s, int fd, size_t n)
{
	struct rdma_bytebuf *a = &s->rd->failover.stash;
	ssize_t got;

	if (a->len == a->room && !grow(a))
		return -ENOMEM;
	if (n > a->room - a->len)
		n = a->room - a->len;
	got = tcp_sink(s, fd, a->mem + a->len, n);
	if (got > 0) {
		a->len += (uint32_t)got;
		s->ar.kept += (uint64_t)got;
	}
	return got;
}

void bytebuf_use(struct sock *s, size_t n)
{
	if (n)
		shorten(&s->rd->failover.stash, n);
}

void failover_ahead(struct sock *s, const uint8_t *p, size_t n)
{
	struct rdma_bytebuf *a = &s->rd->failover.stash;
	uint8_t *mem;

	if (!n || s->conn.error)
		return;
	mem = bytebuf_map(a->len + n);
	if (!mem) {
		s->conn.fault = "no memory";
		pump_fail(s, -ENOMEM);
		return;
	}
	if (a->len)
		memcpy(mem, a->mem, a->len);
	memcpy(mem + a->len, p, n);
	bytebuf_unmap(a->mem, a->room);
	a->mem = mem;
	a->len += (uint32_t)n;
	a->room = a->len;
}

/* What lies on the anchor, and in front of it what was taken already. */
ssize_t bytebuf_glance(struct sock *s, int fd, uint8_t *buf, size_t size)
{
	const struct rdma_bytebuf *a = &s->rd->failover.stash;
	size_t first = front_kept(s), n = a->len - first;
	ssize_t more = 0;

	n = n < size ? n : size;
	if (n)
		memcpy(buf, a->mem + first, n);
	if (n < size)
		more = sys_recv(fd, buf + n, size - n, MSG_PEEK | MSG_DONTWAIT);
	return more > 0 ? (ssize_t)n + more : n ? (ssize_t)n : more;
}

bool bytebuf_swallow(struct sock *s, int fd, uint8_t *buf, size_t n)
{
	struct rdma_bytebuf *a = &s->rd->failover.stash;
	size_t first = front_kept(s), part = a->len - first;

	part = n < part ? n : part;
	cut(a, first, part);
	n -= part;
	return !n || sys_recv(fd, buf, n, MSG_DONTWAIT) == (ssize_t)n;
}

void bytebuf_init(struct rdma *r)
{
	r->failover.bytebuf.end.ops = &bytebuf_ops;
}

void bytebuf_drop(struct rdma *r)
{
	if (r->failover.bytebuf.mem)
		release(&r->failover.bytebuf.end);
	if (r->failover.stash.len)
		shorten(&r->failover.stash, r->failover.stash.len);
}

void failover_drop(struct rdma *r)
{
	rdma_give_end(r);
	rdma_put_drop(r);
	bytebuf_unmap(r->failover.out, r->failover.out_len);
	r->failover.out = NULL;
	bytebuf_drop(r);
	failover_confirmed(r);
}

void rdma_give_end(struct rdma *r)
{
	if (r->failover.give.mem)
		bytebuf_unmap(r->failover.give.mem,
			      r->failover.give.len + WIRE_BSDH);
	memset(&r->failover.give, 0, sizeof(r->failover.give));
}

void rdma_put_end(struct rdma *r)
{
	bytebuf_unmap(r->failover.put.mem, r->failover.put.len);
	memset(&r->failover.put, 0, sizeof(r->failover.put));
}

void rdma_put_drop(struct rdma *r)
{
	if (r->failover.put.mem)
		rdma_put_end(r);
}
