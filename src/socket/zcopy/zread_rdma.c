/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Read Zcopy between hosts (D10): a receive reads what the other end has lent
 * (zcopy_rdma.c) into the program's memory, registered for as long.
 *
 * It reads under the lock, without sleeping for long, and with its signals
 * blocked: no thread leaves it while the device writes. It gives the queue pair
 * up after READ_NS. Each call costs a report and the writer's waking up, so it
 * reads as much as the last one's pace allows in READ_AIM, or in half of what
 * the writer waits for; and begins no more of it when that time is over, or a
 * signal has come. It does so in pieces, of which the next is on its way while
 * one is waited for: the device has a beginning of its own for each, and
 * registering takes time, too.
 *
 * A device that is slow works on the processors: while it is at it, a waiting
 * thread leaves them alone for half of the time that the last bytes took, and
 * for more where another piece follows, of which nothing is lost by coming
 * late.
 */

#include "socket/zcopy/zcopy.h"

#define READ_NS	  1000000000u /* for an RDMA Read */
#define READ_AIM  20000000u /* that a call ought to take at most */
#define READ_MIN  (256u << 10) /* but so much is always read at once, */
#define READ_MAX  (4u << 20) /* and never more */
#define AHEAD	  2u /* pieces under way */
#define PIECES	  4u /* of what a call reads, */
#define PIECE_MIN (256u << 10) /* none smaller than that */
#define PACE_MIN  (32u << 10) /* less shows how far it is, not how fast */
#define LOOKS	  400 /* at its completion, before naps */
#define NAP_MIN	  20000 /* naps are of this part of the time so far */
#define NAP_PART  24u
#define NAP_MORE  6u /* where another piece follows */
#define NAP_MAX	  1000000
#define NAP_LONG  10000000u /* at the beginning, at most */
#define LONG_NS	  1000000u /* what is slept through to begin with */

/* An RDMA Read of the next bytes, and the memory they go to. */
struct piece {
	struct verbs_region mr;
	uint64_t id;
	uint32_t len;
	int status; /* it could not be begun, or 0 */
};

void zcr_offered(struct sock *s)
{
	if (s->opt.nonblock || s->zc.rx_off || settings.zcopy == SET_ZCOPY_NO)
		zc_refuse(s);
}

/* Its writer goes on by copy behind twice that time. */
static uint64_t aim_ns(void)
{
	uint64_t aim = zcr_patience_ns() / 2;

	return aim < READ_AIM ? aim : READ_AIM;
}

size_t zcr_read_most(const struct sock *s)
{
	uint64_t n = s->zc.pace ? aim_ns() * 1024u / s->zc.pace : READ_MIN;

	if (n < READ_MIN)
		return READ_MIN;
	return n < READ_MAX ? (size_t)n : READ_MAX;
}

/* --- waiting for the device -------------------------------------------- */

static void nap(uint64_t ns)
{
	struct timespec ts = { 0, NAP_MIN };

	if (ns > NAP_MIN)
		ts.tv_nsec = (long)ns;
	sys_ppoll(NULL, 0, &ts, NULL);
}

/* This operation is done: *d. */
static bool completed(struct sock *s, uint64_t id, struct fab_done *d)
{
	while (FAB(s)->done(END(s), d) == 1) {
		if (d->id == s->zc.writing)
			s->zc.writing = 0;
		if (d->id == id)
			return true;
	}
	return false;
}

/*
 * After a first nap of `ns`, if that is any, and then naps of a `part` of the
 * time so far. False: the first was too long.
 */
static bool complete(struct sock *s, uint64_t id, uint64_t ns,
		     unsigned int part, struct fab_done *d)
{
	uint64_t begun = clock_ns(), gone = 0;
	unsigned int looks = 0;

	if (ns) {
		nap(ns < NAP_LONG ? ns : NAP_LONG);
		if (completed(s, id, d))
			return false;
		looks = LOOKS;
	}
	/* one that was kept off the processor all the time looks, too */
	while (!completed(s, id, d)) {
		gone = clock_ns() - begun;
		if (gone >= READ_NS) {
			/* with the queue pair down no answer can come */
			rdma_api->disconnect(s->rd->end);
			*d = (struct fab_done){ .id = id,
						.status = -ETIMEDOUT };
			break;
		}
		if (looks++ < LOOKS)
			clock_relax();
		else
			nap(gone / part < NAP_MAX ? gone / part : NAP_MAX);
	}
	return true;
}

void zcr_completion(struct sock *s, uint64_t id, struct fab_done *d)
{
	complete(s, id, 0, NAP_PART, d);
}

/*
 * On a busy machine it is the sleep that is measured, and would make the next
 * one as long: a thread that slept too long sleeps in none of the next 4, 8,
 * ... 512.
 */
static void overslept(struct sock *s, uint64_t ns, bool too_long)
{
	struct zc *z = &s->zc;

	if (too_long) {
		z->awakes = z->awakes ? 2 * z->awakes : 4;
		if (z->awakes > 512)
			z->awakes = 512;
		z->awake = z->awakes;
	} else if (ns) {
		z->awakes = 0;
	}
}

/* Waits for it; `more`: the device has the next one already. */
static void await(struct sock *s, const struct piece *p, bool more,
		  struct fab_done *d)
{
	uint64_t ns = s->zc.pace * p->len / 1024;

	if (ns < LONG_NS)
		ns = 0;
	if (more) {
		complete(s, p->id, ns - ns / 4, NAP_MORE, d);
		return;
	}
	if (s->zc.awake) {
		s->zc.awake--;
		ns = 0;
	}
	overslept(s, ns, !complete(s, p->id, ns / 2, NAP_PART, d));
}

/* --- reading ----------------------------------------------------------- */

/*
 * The next bytes of what is lent, `len` at most: false, there are none. What
 * cannot be registered beside `another` piece may well be by itself.
 */
static bool begin(struct sock *s, uint8_t *to, size_t len, bool another,
		  struct piece *p)
{
	struct conn_op op;

	if (!conn_read(&s->conn, len, &op))
		return false;
	*p = (struct piece){ .id = ++s->zc.reads, .len = (uint32_t)op.len };
	p->status = rdma_api->reg(END(s), to, op.len, false, false, &p->mr);
	if (p->status) {
		zc_unregistered(s, p->status);
		s->zc.rx_off = (p->status == -ENOMEM && !another) ||
			       p->status == -EOPNOTSUPP;
		return true;
	}
	p->status = FAB(s)->read(END(s), to, op.vaddr, op.rkey, op.len, p->id);
	s->zc.rx_off = p->status == -EOPNOTSUPP;
	return true;
}

/* The oldest piece ends: its bytes that are the stream's now. */
static uint32_t finish(struct sock *s, struct piece *p, bool more)
{
	struct fab_done d = { .id = p->id, .status = p->status };

	if (s->zc.broke) {
		d.status = s->zc.broke;
	} else if (!d.status) {
		await(s, p, more, &d);
		s->zc.broke = d.status;
	}
	/* from here on no device writes to this memory */
	rdma_api->dereg(END(s), &p->mr);
	if (d.status)
		d.len = 0;
	return conn_on_done(&s->conn, CONN_READ, d.len) ? 0 : (uint32_t)d.len;
}

/* A signal has come that is let in when this turn is over. */
static bool signalled(uint64_t mask)
{
	uint64_t come = 0;

	sys_call6(SYS_rt_sigpending, (long)&come, 8, 0, 0, 0, 0);
	return come & ~mask;
}

static size_t read_on(struct sock *s, uint8_t *to, size_t n, uint64_t until,
		      uint64_t mask)
{
	size_t piece = n / PIECES < PIECE_MIN ? PIECE_MIN : n / PIECES;
	size_t begun = 0, done = 0;
	unsigned int first = 0, next = 0;
	struct piece q[AHEAD], *p;
	bool on = true;
	uint32_t got;

	for (;;) {
		while (on && begun < n && next - first < AHEAD) {
			p = &q[next % AHEAD];
			if (!begin(s, to + begun,
				   n - begun < piece ? n - begun : piece,
				   first != next, p))
				break;
			next++;
			begun += p->len;
			on = !p->status;
		}
		if (first == next)
			return done;
		p = &q[first++ % AHEAD];
		got = finish(s, p, first != next);
		done += got;
		on = on && got == p->len && clock_ns() < until &&
		     !signalled(mask);
	}
}

size_t zcr_read(struct sock *s, void *to, size_t n)
{
	uint64_t all = UINT64_MAX, mask, since;
	size_t done;

	sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&mask, 8,
		  0, 0);
	since = clock_ns();
	done = read_on(s, to, n, since + aim_ns(), mask);
	if (s->zc.broke)
		s->zc.pace = 0;
	else if (done >= PACE_MIN)
		s->zc.pace = (clock_ns() - since) * 1024 / done + 1;
	sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, 0, 8, 0, 0);
	return done;
}

void zcr_took(struct sock *s)
{
	rdma_report(s);
	if (unlikely(s->zc.broke))
		zcr_broke(s);
}

void zcr_broke(struct sock *s)
{
	if (!s->zc.broke)
		return;
	reports.broke(s, s->zc.broke);
	s->zc.broke = 0;
}
