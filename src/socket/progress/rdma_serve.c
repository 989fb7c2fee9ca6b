/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the service thread does for a sock over RDMA that is up: it pays what
 * the table in rdma.h says that it owes.
 */

#include "base/scratch.h"
#include "socket/progress/progress.h"

#define TRY_NS	    250000000ull
#define TRY_MOST_NS 8000000000ull
#define SPARE_NS    1000000000ull /* so long a program may take to send */
#define DEAD_NS \
	2000000000ull /* a peer that ends says so, and is gone by then */
#define APART_NS    250000000ull /* after a fork, and twice as long each time */
#define APART_STEPS 8u
#define APART_REST  8u /* so many times as long without one: as the first */

/* Does any thread wait for what a completion may bring? */
static bool awaited(const struct sock *s)
{
	return (__atomic_load_n(&s->rx->armed, __ATOMIC_SEQ_CST) & ANC_WAKE) ||
	       s->waits.writers || s->waits.full ||
	       s->rd->words.wait_no != s->rd->words.wait_done;
}

/*
 * Does it wait for what only the other end can say? That one may be silent for
 * good, and a queue pair that nothing is sent on does not break. So it is tried
 * now and then; our word once more would need credits, and they may be out.
 */
static bool waits(const struct sock *s)
{
	enum anc_state tx = anc_state(s->tx), rx = anc_state(s->rx);

	return s->ar.unsure || rx == ANC_RECALLED || rx == ANC_PAUSED ||
	       (tx >= ANC_RECALLED && tx <= ANC_RESTORING) ||
	       (tx != ANC_TCP && tx != ANC_GONE && !remote_seen(&s->rd->words));
}

/*
 * ... and what that end says when its program has come by: that x was passed,
 * that a receive of before the lift is over, how much is taken. One that waits
 * for room stalls after a while, and then waits for one of these words.
 */
static bool waits_long(const struct sock *s)
{
	const struct rdma *r = s->rd;
	enum anc_state tx = anc_state(s->tx);

	/* once it is LIFTED the credits tell that, and the answer may wait */
	if (r->words.wait_no != r->words.wait_done && tx != ANC_LIFTED)
		return true;
	return tx != ANC_TCP && tx != ANC_GONE &&
	       (r->mark.ahead ||
		__atomic_load_n(&s->tx->tcp_rx, __ATOMIC_SEQ_CST));
}

/* The longer it waits already, the more seldom. */
static void try_it(struct sock *s)
{
	struct rdma *r = s->rd;
	uint64_t now = clock_ns(),
		 apart = r->load.tried_at - r->load.waits_since;

	if (r->state != RDMA_UP || (!waits(s) && !waits_long(s))) {
		r->load.waits_since = 0;
		return;
	}
	if (!r->load.waits_since) {
		r->load.waits_since = r->load.tried_at = now;
		return;
	}
	if (apart < TRY_NS)
		apart = TRY_NS;
	if (now <
	    r->load.tried_at + (apart < TRY_MOST_NS ? apart : TRY_MOST_NS))
		return;
	r->load.tried_at = now;
	rdma_api->probe(r->end);
}

/* Is there something that no event announces? */
static bool unsettled(const struct sock *s)
{
	enum anc_state tx = anc_state(s->tx);

	return s->rd->state != RDMA_UP || s->rd->mark.marker_due ||
	       s->rd->watch.dead_at ||
	       (s->eos.fin_due && (!s->conn.dis_sent || s->conn.dis_rcvd)) ||
	       rdma_marker_urgent(s) || rdma_update_waits(s) || waits(s) ||
	       tx == ANC_RECALLED || tx == ANC_PAUSED || tx == ANC_RESTORING;
}

/*
 * While the program is at work its own calls find what comes, and no arming
 * wakes this thread for each message. The next look does it, once it is quiet.
 */
void rdma_readable(struct sock *s)
{
	struct rdma *r = s->rd;

	bool busy = r->due.active;

	if (r->state == RDMA_FAILOVER)
		r->due.restless = true;
	if (r->state != RDMA_UP)
		return;
	r->due.serving = true;
	r->due.active = false;
	r->due.restless = true;
	r->due.calm = false;
	do {
		if (pump_poll(s))
			break;
		pump_control(s);
		rdma_wake_writers(s);
		r->due.calm = busy && !awaited(s) && !unsettled(s);
		if (busy && !awaited(s))
			break;
		rdma_arm(s);
	} while (fab_pending(s));
	r->due.serving = false;
}

/*
 * May what lies on the anchor be judged? In front of x a record is not to be
 * seen yet, and a receive that began in TCP may have taken what is not counted:
 * rdma_took() or rdma_left() asks once more, a thread woken by what comes
 * later judges it itself.
 */
static bool may_look(const struct sock *s)
{
	return !__atomic_load_n(&s->rx->tcp_rx, __ATOMIC_SEQ_CST) &&
	       s->ar.taken >= __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE);
}

bool rdma_called(struct sock *s)
{
	struct rdma *r = s->rd;
	struct resume in = { .marker = r->mark.marker_rx,
			     .secret = r->mark.secret_rx };
	struct pollfd p = { .fd = s->waits.orphan_fd >= 0 ? s->waits.orphan_fd :
							    sock_fd(s),
			    .events = POLLIN };
	struct timespec now = { 0, 0 };
	const size_t size = 4096;
	SCRATCH(room);
	uint8_t *buf;
	int fd = p.fd;
	ssize_t n;
	bool dead;

	lift_strayed(s, fd, 0);
	if (anc_state(s->rx) != ANC_TCP && !may_look(s))
		return false;
	r->failover.called = false;
	if (fd < 0 || anc_state(s->rx) == ANC_TCP)
		return false;
	buf = scratch_take(&room, size);
	if (!buf) {
		r->failover.called = true; /* once more, when there is memory */
		return false;
	}
	if (sys_ppoll(&p, 1, &now, NULL) != 1)
		return false;
	/*
	 * told once, not for us; without the end it is what MSG_ZEROCOPY says
	 */
	dead = (p.revents & POLLERR) && (p.revents & POLLHUP);
	n = dead ? 0 : sys_recv(fd, buf, size, MSG_PEEK | MSG_DONTWAIT);
	sock_eats(s, n);
	if ((dead || s->eos.eaten) && !r->watch.dead_at)
		r->watch.dead_at = clock_ns();
	if (n <= 0)
		return false;
	in.marker_got = RDMA_MARKER;
	if (r->mark.marker_wait)
		in.marker_got = (uint8_t)(s->ar.kicks - r->mark.marker_at);
	resume_begin(&in, ANC_LIFTED, r->mark.marker_wait, false);
	return resume_called(&in, buf, (size_t)n);
}

void rdma_look_after(struct sock *s)
{
	struct rdma *r = s->rd;
	int fd = s->waits.orphan_fd >= 0 ? s->waits.orphan_fd : sock_fd(s);
	uint64_t moved = s->at.sent + s->ar.taken;
	bool quiet = moved == r->load.idle_moved,
	     busy = r->due.active && !quiet;
	/*
	 * told before a long send is over, too: a killed process tells nothing
	 */
	bool read = s->ar.taken == r->load.idle_taken;

	if (r->state != RDMA_UP) {
		r->due.restless = anc_state(s->tx) == ANC_RESTORING;
		fallback_serve(s, fd);
		return;
	}
	if (s->conn.error) {
		rdma_api->disconnect(r->end);
		rdma_down(s, s->conn.error);
		return;
	}
	/* first this: a look that is owed from here on is said behind it */
	__atomic_store_n(&r->due.restless, false, __ATOMIC_SEQ_CST);
	r->due.active = r->due.cqwait_owed = false;
	if ((r->failover.called && rdma_called(s)) ||
	    (r->watch.dead_at && clock_ns() > r->watch.dead_at + DEAD_NS))
		failover_begin(s, -ECONNRESET);
	r->due.serving = true;
	r->load.idle_moved = moved;
	r->load.idle_taken = s->ar.taken;
	if (s->conn.spare && clock_ns() > r->due.spare_at + SPARE_NS)
		rdma_spared(s);
	if (conn_on_timer(&s->conn, clock_ns()))
		pump_fail(s, -ETIMEDOUT);
	do {
		if (pump_poll(s))
			break;
		pump_control(s);
		fallback_serve(s, fd);
		/* its writer waits, and the program may not come by */
		fallback_abandoned(s, fd);
		rdma_marker_write(s, fd);
		rdma_marker_read(s, fd);
		rdma_passed(s);
		rdma_tell(s, read && !s->conn.spare);
		/* its own calls find what comes: see rdma_readable() */
		if (busy && !awaited(s) && !unsettled(s))
			break;
		rdma_arm(s);
	} while (fab_pending(s));
	try_it(s);
	/* a thread was inside when it became TCP */
	if (unlikely(quiet && !s->ar.based && anc_state(s->rx) == ANC_TCP))
		lift_base(s, fd);
	rdma_slim(s, quiet);
	r->due.serving = false;
	r->due.calm = busy && !r->due.restless && !s->conn.spare &&
		      (r->due.cqwait_by || !awaited(s)) && !unsettled(s);
	if (!quiet || s->conn.spare || unsettled(s) ||
	    (r->due.cqwait_lent && !r->due.cqwait_by))
		r->due.restless = true;
	r->due.cqwait_owed = r->due.cqwait_lent && r->due.restless;
}

void rdma_parts(struct sock *s)
{
	struct rdma *r = s->rd;
	uint64_t now = clock_ns();

	if (!r)
		return;
	if (now > r->apart_till + APART_REST * (APART_NS << r->forks))
		r->forks = 0;
	r->apart_till = now + (APART_NS << r->forks);
	if (r->forks < APART_STEPS)
		r->forks++;
}

/*
 * The children that had it, too, are gone, or have closed it. What one that was
 * killed in a receive had taken is found out first.
 */
void rdma_reunite(struct sock *s)
{
	if (clock_ns() < s->rd->apart_till || !rdma_alone(s))
		return;
	lift_strayed(s, sock_fd(s), 0);
	if (s->in.strayed)
		return;
	s->fallback.apart = false;
	fallback_left(s);
	rdma_tell(s, true);
	log_debug("fd %d: nobody else's any more", sock_fd(s));
}

void rdma_down(struct sock *s, int error)
{
	struct rdma *r = s->rd;

	if (r->down)
		return;
	r->down = true;
	if (!s->conn.error)
		pump_poll(s);
	if (!s->conn.error)
		failover_begin(s, error ? error : -ECONNRESET);
	if (s->conn.error && r->state == RDMA_UP)
		rdma_ended(s);
}

bool rdma_old_gone(struct sock *s)
{
	struct rdma *r = s->rd;

	if (__atomic_load_n(&s->in.lookers, __ATOMIC_SEQ_CST)) {
		r->due.restless = true;
		return false;
	}
	r->old->ops->destroy(r->old);
	r->old = NULL;
	return true;
}
