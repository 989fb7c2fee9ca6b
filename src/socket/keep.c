/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a reader that wants home takes off the anchor before its turn, and how
 * the writer puts it back (anchor.md 6.1). Behind a spill the stream lies in
 * the ring first and then on the anchor; nobody can put the ring's bytes in
 * front of those. So the reader takes the anchor's into the attic, memory that
 * both ends can map and that outlives an exec, and the writer writes ring and
 * attic to the anchor anew, in order.
 *
 * s->ar.kept counts the bytes, s->kept_at is where the first one lies.
 */

#include "base/scratch.h"
#include "socket/rdma.h"

#define CHUNK 16384

/* Between hosts each end has one of its own: s->rd->stash. */
static int attic_open(struct shm_attic *a, const struct sock *s, bool tx)
{
	if (s->rd) {
		a->mem = s->rd->stash.mem;
		return 0;
	}
	return END(s) == &s->shm.end ? shm_attic_open(a, &s->shm, tx) : -ENODEV;
}

/* --- reader's part ----------------------------------------------------- */

/* A receive into the attic; as recv(), -ENOBUFS when it is full. */
static ssize_t pull(struct sock *s, int fd, struct shm_attic *a, uint64_t n)
{
	uint64_t end = s->kept_at + s->ar.kept;
	ssize_t got;

	if (end >= SHM_ATTIC)
		return -ENOBUFS;
	if (n > SHM_ATTIC - end)
		n = SHM_ATTIC - end;
	if (s->rd)
		return larder_pull(s, fd, n);
	got = raw_sink(s, fd, a->mem + end, n);
	if (got > 0)
		s->ar.kept += (uint64_t)got;
	return got;
}

int keep_bells(struct sock *s, int fd)
{
	int64_t n;
	char sink[256];

	lift_strayed(s, fd, 0);
	while ((n = anc_bells(s->rx, &s->ar)) > 0) {
		ssize_t got = raw_sink(s, fd, sink,
				       n < 256 ? (size_t)n : sizeof(sink));
		if (got == -EAGAIN)
			return -EAGAIN;
		/* FIN or error instead: W died between count and bell */
		s->ar.bells += (uint64_t)(got > 0 ? got : n);
	}
	return (int)n;
}

/* One step of keep_pull(): 1 again, 0 not now. */
static int pull_step(struct sock *s, int fd, struct shm_attic *a, int where,
		     uint64_t n)
{
	int ret;

	if (__atomic_load_n(&s->rx->rawrx, __ATOMIC_SEQ_CST))
		return 0;
	if (where == ANC_AT_BELLS && s->rd && s->rd->token_wait) {
		rdma_token_read(s, fd);
		return !s->rd->token_wait;
	}
	if (where == ANC_AT_BELLS)
		return !keep_bells(s, fd);
	if (!a->map) {
		ret = attic_open(a, s, false);
		if (ret)
			return ret;
	}
	return pull(s, fd, a, n) > 0;
}

int keep_pull(struct sock *s, int fd)
{
	struct shm_attic a = { 0 };
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
	if (a.map)
		shm_attic_close(&a, true);
	return ret == 2 ? 1 : ret;
}

/*
 * The writer is dead: what it left on the anchor, behind the ring or in front
 * of it, with its last word. 0, or what the kernel refused.
 */
int keep_rest(struct sock *s, int fd)
{
	uint64_t x = __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);
	uint64_t front = s->ar.taken < x ? x - s->ar.taken : 0;
	struct shm_attic a = { 0 };
	int ret = attic_open(&a, s, false);

	if (ret)
		return ret;
	while (s->ar.kept < front && pull(s, fd, &a, front - s->ar.kept) > 0)
		;
	if (s->ar.kept >= front) {
		keep_bells(s, fd);
		while (pull(s, fd, &a, SHM_ATTIC) > 0)
			;
	}
	if (a.map)
		shm_attic_close(&a, true);
	return 0;
}

void keep_drop(struct sock *s)
{
	if (s->rd)
		larder_use(s, s->ar.kept);
	s->ar.kept = 0;
	s->kept_at = 0;
}

ssize_t keep_take(struct sock *s, struct cursor *c, uint64_t skip, size_t n,
		  bool peek)
{
	struct shm_attic a = { 0 };
	int ret;

	if (n > s->ar.kept - skip)
		n = s->ar.kept - skip;
	if (!n)
		return 0;
	ret = attic_open(&a, s, false);
	if (ret)
		return ret;
	if (c)
		cursor_put(c, a.mem + s->kept_at + skip, n);
	if (!peek) {
		if (s->rd)
			larder_use(s, n);
		else
			s->kept_at += n;
		s->ar.kept -= n;
		if (!s->ar.kept)
			s->kept_at = 0;
		COUNT(s, bytes_tcp_rx, n);
	}
	if (a.map)
		shm_attic_close(&a, peek || s->ar.kept);
	return (ssize_t)n;
}

/* In order: kept in front of the ring, ring, kept behind. */
bool keep_unread(struct sock *s, struct cursor *c)
{
	uint64_t x = __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);
	uint64_t front = s->ar.taken < x ? x - s->ar.taken : 0;
	size_t ring = s->rx_avail, rest;

	if (front > s->ar.kept) /* lost in the kernel, and what follows it */
		return keep_take(s, c, 0, s->ar.kept, true) >= 0;
	rest = s->ar.kept - front;
	return keep_take(s, c, 0, front, true) == (ssize_t)front &&
	       pump_recv(s, c, ring, true, false) == (ssize_t)ring &&
	       keep_take(s, c, front, rest, true) == (ssize_t)rest;
}

/* The next `skip` bytes of what is unread came by the anchor after all. */
static void skip_unread(struct sock *s, uint64_t skip)
{
	uint64_t x = __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);
	uint64_t front = s->ar.from < x ? x - s->ar.from : 0, n;

	n = skip < front ? skip : front;
	keep_take(s, NULL, 0, n, false);
	skip -= n;
	n = skip < s->rx_avail ? skip : s->rx_avail;
	pump_recv(s, NULL, n, false, true);
	keep_take(s, NULL, 0, skip - n, false);
}

bool keep_revive(struct sock *s)
{
	if (!s->rx_stale || anc_state(s->rx) != ANC_RESUME ||
	    s->ar.taken < s->ar.from)
		return false;
	skip_unread(s, s->ar.taken - s->ar.from);
	s->rx_stale = false;
	anc_revive(s->rx);
	s->ar.based = false;
	return true;
}

/*
 * The peer died while it wrote back what we handed it (RESUME): the rest is
 * still where it was, behind what came by the anchor.
 */
bool keep_revived(struct sock *s, ssize_t n)
{
	bool ret;

	if (n != 0 && n != -ECONNRESET)
		return false;
	if (sock_lock(s))
		return false;
	ret = keep_revive(s);
	if (ret)
		lift_orphan(s);
	sock_unlock(s);
	return ret;
}

/* --- writer's part ----------------------------------------------------- */

/* Up to n bytes from offset s->resume_at on, from wherever they lie. */
static ssize_t piece(struct sock *s, struct shm_attic *a, uint8_t *buf,
		     size_t room)
{
	uint64_t at, n;
	bool attic;
	int ret;

	attic = anc_in_attic(&s->at, s->resume_from, s->resume_at, &at, &n);
	if (n > room)
		n = room;
	if (!attic) {
		/* the ring's last byte is the one in front of y */
		uint64_t end = s->at.y < s->at.sent ? s->at.y : s->at.sent;

		return pump_unread(s, end - s->resume_at, buf, n);
	}
	if (!a->map) {
		ret = attic_open(a, s, true);
		if (ret)
			return ret;
	}
	memcpy(buf, a->mem + s->resume_kept + at, n);
	return (ssize_t)n;
}

/* True when all of it is out, or never will be. */
static bool write_back(struct sock *s, int fd, struct shm_attic *a)
{
	SCRATCH(room);
	uint8_t *buf;
	ssize_t n;

	if (s->resume_at >= s->at.sent)
		return true;
	buf = scratch_take(&room, CHUNK);
	if (!buf)
		return false; /* the background thread tries again */
	while (s->resume_at < s->at.sent) {
		n = piece(s, a, buf, CHUNK);
		if (n <= 0) {
			pump_fail(s, -EPROTO);
			return true;
		}
		n = sys_send(fd, buf, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n == -EAGAIN)
			return false;
		if (n < 0)
			return true; /* the program will meet the error */
		s->resume_at += (uint64_t)n;
	}
	return true;
}

void keep_put_back(struct sock *s, int fd)
{
	struct shm_attic a = { 0 };
	bool done;

	if (s->rd) {
		rdma_put_back(s, fd);
		return;
	}
	if (!s->resuming) {
		if (anc_resume_from(s->tx, &s->at, SHM_ATTIC, &s->resume_from,
				    &s->resume_kept)) {
			pump_fail(s, -EPROTO);
			return;
		}
		s->resume_at = s->resume_from;
		s->resuming = true;
	}
	done = write_back(s, fd, &a);
	if (a.map)
		shm_attic_close(&a, !done);
	if (!done) {
		__atomic_store_n(&s->tx->brim, 1, __ATOMIC_SEQ_CST);
		return;
	}
	s->resuming = false;
	anc_resumed(s->tx);
	ring_note(s);
}
