/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a reader that wants to fall back takes off the anchor before its turn,
 * and how the writer puts it back (anchor.md 6.1). Behind a stall the stream
 * lies in the ring first and then on the anchor; nothing can put the ring's
 * bytes in front of those. So the reader takes the anchor's into the keep area,
 * memory that both ends can map and that outlives an exec, and the writer
 * writes ring and keep area to the anchor anew, in order.
 *
 * s->ar.kept counts the bytes, s->kept_at is where the first one lies.
 */

#include "base/scratch.h"
#include "socket/handover/handover.h"

#define CHUNK	   16384
#define SILENCE_NS 20000000 /* then the dead writer's socket lives elsewhere */

/*
 * Where byte `at` of the keep area, or of this end's own stash, lies: bytes from
 * there, or a negative errno.
 */
static ssize_t keep_at(struct shm_keep *a, const struct sock *s, bool tx,
		       uint64_t at, uint8_t **mem)
{
	if (carrier_has_stash(s))
		return carrier_stash(s, at, mem);
	if (END(s) != &s->shm.end)
		return -ENODEV;
	return shm_keep_at(a, &s->shm, tx, at, mem);
}

/* The kernel is short of something: the next try may be better. */
static bool for_now(ssize_t err)
{
	return err == -EAGAIN || err == -EINTR || err == -ENOMEM ||
	       err == -ENOBUFS;
}

/* --- reader's part ----------------------------------------------------- */

/* A receive into the keep area; as recv(), -ENOBUFS when it is full. */
static ssize_t pull(struct sock *s, int fd, struct shm_keep *a, uint64_t n)
{
	uint64_t end = s->fallback.kept_at + s->ar.kept;
	ssize_t got, room;
	uint8_t *mem;

	if (end >= SHM_KEEP)
		return -ENOBUFS;
	if (n > SHM_KEEP - end)
		n = SHM_KEEP - end;
	if (carrier_has_stash(s))
		return bytebuf_pull(s, fd, n);
	room = keep_at(a, s, false, end, &mem);
	if (room < 0)
		return room;
	got = tcp_sink(s, fd, mem, n < (uint64_t)room ? n : (uint64_t)room);
	if (got > 0)
		s->ar.kept += (uint64_t)got;
	return got;
}

int keep_kicks(struct sock *s, int fd)
{
	int64_t n;

	lift_strayed(s, fd, 0);
	while ((n = anc_kicks(s->rx, &s->ar)) > 0) {
		ssize_t got = tcp_throw(s, fd, (uint64_t)n);

		if (got == -EAGAIN)
			return -EAGAIN;
		/* FIN or error instead: W died between count and kick */
		s->ar.kicks += (uint64_t)(got > 0 ? got : n);
	}
	return (int)n;
}

/* One step of keep_pull(): 1 again, 0 not now, negative: no memory. */
static int pull_step(struct sock *s, int fd, struct shm_keep *a, int where,
		     uint64_t n)
{
	ssize_t got;

	if (__atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST))
		return 0;
	if (where == ANC_AT_KICKS && marker_waits(s))
		return marker_complete(s, fd);
	if (where == ANC_AT_KICKS)
		return !keep_kicks(s, fd);
	got = pull(s, fd, a, n);
	return got > 0 ? 1 : got == -ENOMEM ? -ENOMEM : 0;
}

int keep_pull(struct sock *s, int fd)
{
	struct shm_keep a = { 0 };
	uint64_t n;
	int ret;

	do {
		int where;

		lift_strayed(s, fd, 0);
		where = anc_keep(s->rx, &s->ar, &n);
		ret = 2;
		if (where < 0)
			ret = pump_fail(s, where);
		else if (where != ANC_AT_ANCHOR)
			ret = pull_step(s, fd, &a, where, n);
	} while (ret == 1);
	shm_keep_close(&a);
	return ret == 2 ? 1 : ret;
}

/*
 * The writer is dead: what it left on the anchor, behind the ring or in front
 * of it, with its last word. 0, or why not all of it could be taken: then the
 * rest is still on the anchor.
 */
int keep_rest(struct sock *s, int fd)
{
	uint64_t x = __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);
	uint64_t front = s->ar.taken < x ? x - s->ar.taken : 0;
	struct shm_keep a = { 0 };
	ssize_t n = 1;

	while (s->ar.kept < front && n > 0)
		n = pull(s, fd, &a, front - s->ar.kept);
	if (s->ar.kept >= front) {
		keep_kicks(s, fd);
		do {
			n = pull(s, fd, &a, SHM_KEEP);
		} while (n > 0);
	}
	shm_keep_close(&a);
	return n == -ENOMEM || n == -ENOBUFS ? (int)n : 0;
}

void keep_drop(struct sock *s)
{
	if (carrier_has_stash(s))
		bytebuf_use(s, s->ar.kept);
	s->ar.kept = 0;
	s->fallback.kept_at = 0;
}

/* All n bytes into c, or the errno of what could not be mapped; -EFAULT. */
static int copy(const struct sock *s, struct cursor *c, uint64_t at, size_t n)
{
	struct shm_keep a = { 0 };
	uint8_t *mem;
	ssize_t len = 0;

	while (n) {
		len = keep_at(&a, s, false, at, &mem);
		if (len <= 0)
			break;
		if ((size_t)len > n)
			len = (ssize_t)n;
		if (!cursor_put(c, mem, (size_t)len)) {
			len = -EFAULT;
			break;
		}
		at += (uint64_t)len;
		n -= (size_t)len;
	}
	shm_keep_close(&a);
	return !n ? 0 : len < 0 ? (int)len : -EPROTO;
}

ssize_t keep_take(struct sock *s, struct cursor *c, uint64_t skip, size_t n,
		  bool peek)
{
	struct cursor was;
	int ret;

	if (n > s->ar.kept - skip)
		n = s->ar.kept - skip;
	if (!n)
		return 0;
	if (c) {
		was = *c;
		ret = copy(s, c, s->fallback.kept_at + skip, n);
		if (ret) {
			*c = was;
			return ret;
		}
	}
	if (peek)
		return (ssize_t)n;
	if (carrier_has_stash(s))
		bytebuf_use(s, n);
	else
		s->fallback.kept_at += n;
	s->ar.kept -= n;
	if (!s->ar.kept) {
		if (!carrier_has_stash(s))
			shm_keep_drop(&s->shm, false, s->fallback.kept_at);
		s->fallback.kept_at = 0;
	}
	COUNT(s, bytes_tcp_rx, n);
	return (ssize_t)n;
}

bool keep_short(const struct sock *s)
{
	uint64_t x = __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);

	return s->ar.taken < x && s->ar.kept < x - s->ar.taken;
}

/* In order: kept in front of the ring, ring, kept behind. */
ssize_t keep_unread(struct sock *s, struct cursor *c)
{
	uint64_t x = __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);
	uint64_t front = s->ar.taken < x ? x - s->ar.taken : 0;
	size_t ring = s->got.avail, rest;

	if (keep_short(s)) /* lost in the kernel, and what follows it */
		return keep_take(s, c, 0, s->ar.kept, true);
	rest = s->ar.kept - front;
	if (keep_take(s, c, 0, front, true) != (ssize_t)front ||
	    pump_recv(s, c, ring, true, false) != (ssize_t)ring ||
	    keep_take(s, c, front, rest, true) != (ssize_t)rest)
		return -EPROTO;
	return (ssize_t)(front + ring + rest);
}

/* The next `skip` bytes of what is unread came by the anchor after all. */
static void skip_unread(struct sock *s, uint64_t skip)
{
	uint64_t x = __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);
	uint64_t front = s->ar.from < x ? x - s->ar.from : 0, n;

	n = skip < front ? skip : front;
	keep_take(s, NULL, 0, n, false);
	skip -= n;
	n = skip < s->got.avail ? skip : s->got.avail;
	pump_recv(s, NULL, n, false, true);
	keep_take(s, NULL, 0, skip - n, false);
}

/*
 * What was written back and not received yet. The kernel brings what the dead
 * writer's socket holds as fast as it is taken, its end last. What lies behind
 * all of it is another process's.
 */
static void throw_copy(struct sock *s, int fd)
{
	uint64_t left = anc_unread(&s->ar, s->got.avail + s->ar.kept);
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec most = { .tv_nsec = SILENCE_NS }; /* counted down */
	int more = 1;

	while (left && (more == 1 || more == -EINTR)) {
		ssize_t got = tcp_throw(s, fd, left);

		if (got > 0)
			left -= (uint64_t)got;
		else if (got == -EAGAIN)
			more = sys_ppoll(&p, 1, &most, NULL);
		else
			more = 0; /* its end */
	}
}

int keep_revive(struct sock *s, int fd)
{
	/* others may receive meanwhile: it only goes up */
	uint64_t taken = __atomic_load_n(&s->ar.taken, __ATOMIC_SEQ_CST);

	if (!s->got.stale || anc_state(s->rx) != ANC_RESTORING ||
	    taken < s->ar.from)
		return 0;
	if (!anc_revive_begin(s->rx, &s->ar))
		return -EAGAIN;
	if (fd >= 0)
		throw_copy(s, fd);
	skip_unread(s, s->ar.taken - s->ar.from);
	__atomic_store_n(&s->got.stale, false, __ATOMIC_RELAXED);
	anc_revive(s->rx, &s->ar);
	s->ar.based = false;
	return 1;
}

/* Another thread has found it so since: by a stand-in, or as RECALLED. */
static bool revived_since(const struct sock *s)
{
	return !s->got.stale &&
	       (s->fallback.substituted || anc_state(s->rx) == ANC_RECALLED);
}

bool keep_revived(struct sock *s, int fd, ssize_t n)
{
	bool again;
	int ret;

	if (n != 0 && n != -ECONNRESET)
		return false;
	if (sock_lock(s))
		return false;
	ret = keep_revive(s, -1);
	again = ret || revived_since(s);
	if (ret > 0)
		lift_peer_gone(s);
	if (ret < 0) /* it has received before the end and not counted yet */
		ring_take_kicks(s, fd, 0);
	sock_unlock(s);
	return again;
}

/* --- writer's part ----------------------------------------------------- */

/* Up to n bytes from offset s->resume_at on, from wherever they lie. */
static ssize_t piece(struct sock *s, struct shm_keep *a, uint8_t *buf,
		     size_t room)
{
	uint64_t at, n;
	uint8_t *mem;
	ssize_t len;
	bool kept;

	kept = anc_in_keep(&s->at, s->fallback.resume_from,
			   s->fallback.resume_at, &at, &n);
	if (n > room)
		n = room;
	if (!kept) {
		/* the ring's last byte is the one in front of y */
		uint64_t end = s->at.y < s->at.sent ? s->at.y : s->at.sent;

		return pump_unread(s, end - s->fallback.resume_at, buf, n);
	}
	len = keep_at(a, s, true, s->fallback.resume_kept + at, &mem);
	if (len <= 0)
		return len;
	if (n > (uint64_t)len)
		n = (uint64_t)len;
	memcpy(buf, mem, n);
	return (ssize_t)n;
}

/*
 * What the program sent cannot be put back, so the stream must not end as if
 * that was all: both ends are told a reset.
 */
static void give_up(struct sock *s, int fd)
{
	pump_fail(s, -EPROTO);
	__atomic_store_n(&s->own->reset, 1, __ATOMIC_RELEASE);
	tcp_abort(fd);
}

/*
 * 0: all of it is out, or the anchor is dead; -EAGAIN: it takes no more now;
 * -ENOMEM: not yet either, or not by this number, which is not the anchor any
 * more: the service thread tries again; else: never.
 */
static int write_back(struct sock *s, int fd, struct shm_keep *a)
{
	SCRATCH(room);
	uint8_t *buf = scratch_take(&room, CHUNK);
	ssize_t n;

	if (!buf)
		return -ENOMEM;
	while (s->fallback.resume_at < s->at.sent) {
		n = piece(s, a, buf, CHUNK);
		if (n <= 0)
			return for_now(n) ? -ENOMEM : -EPROTO;
		n = sys_send(fd, buf, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (for_now(n) || n == -EBADF || n == -ENOTSOCK)
			return n == -EAGAIN ? -EAGAIN : -ENOMEM;
		if (n < 0)
			return 0; /* the program will meet the error */
		s->fallback.resume_at += (uint64_t)n;
	}
	return 0;
}

/*
 * What the reader had taken off the anchor, from the keep area's first byte on.
 */
static uint64_t keep_end(const struct sock *s)
{
	return s->fallback.resume_kept + (s->at.sent - s->fallback.resume_from);
}

void keep_put_back(struct sock *s, int fd)
{
	struct shm_keep a = { 0 };
	int err;

	if (!carrier_puts_back(s)) {
		rdma_put_back(s, fd);
		return;
	}
	if (!s->fallback.resuming) {
		if (anc_resume_from(s->tx, &s->at, SHM_KEEP,
				    &s->fallback.resume_from,
				    &s->fallback.resume_kept)) {
			give_up(s, fd);
			return;
		}
		s->fallback.resume_at = s->fallback.resume_from;
		s->fallback.resuming = true;
	}
	err = write_back(s, fd, &a);
	shm_keep_close(&a);
	if (err == -EAGAIN)
		__atomic_store_n(&s->tx->brim, 1, __ATOMIC_SEQ_CST);
	if (err == -EAGAIN || err == -ENOMEM)
		return;
	s->fallback.resuming = false;
	if (err) {
		give_up(s, fd);
		return;
	}
	/* until then its reader may need them, should this process die */
	anc_resumed(s->tx);
	shm_keep_drop(&s->shm, true, keep_end(s));
	ring_note(s);
}
