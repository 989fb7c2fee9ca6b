/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a sock over RDMA ends: what its peer's death looks like, close() of the
 * last number while bytes are under way, and the end of the process.
 */

#include <sys/ioctl.h>

#include "socket/life/life.h"

#define LINGER_NS 60000000000ull /* as long as TCP keeps an orphan */

/* --- home behind both ends --------------------------------------------- */

/*
 * What is not yet out, or the peer's record that is to come: a closed socket
 * would answer it by a reset, and the peer lose what it has not read.
 */
static bool mends(const struct rdma *r)
{
	return r->state == RDMA_FAILOVER &&
	       (r->failover.out || !r->failover.mended);
}

bool rdma_unread(const struct sock *s, int fd)
{
	enum anc_state st = anc_state(s->rx);
	int64_t kicks;
	int n;

	if (likely(!s->rd))
		return false;
	kicks = st == ANC_TCP ? 0 : anc_kicks(s->rx, &s->ar);

	/*
	 * brought back to TCP: what the kernel has may be for the process that
	 * was given it
	 */
	if (s->fallback.callers)
		return false;
	if ((st == ANC_SWITCHING || st == ANC_DRAINING) &&
	    s->ar.taken < remote_awaited(s->rx))
		return true;
	/* while it is LIFTED a kick may be there before its word */
	if ((st != ANC_TCP && st != ANC_DRAINING) || kicks < 0 ||
	    sys_ioctl(fd, FIONREAD, &n))
		return false;
	return n > kicks;
}

bool rdma_linger(struct sock *s, int fd)
{
	struct rdma *r = s->rd;
	int orphan;

	zc_seize(s);
	if (!rdma_here(s) || r->lingers || s->conn.error || s->opt.linger0 ||
	    s->peer_gone || (r->state != RDMA_UP && !mends(r)))
		return false;
	if (anc_state(s->tx) == ANC_TCP && anc_state(s->rx) == ANC_TCP)
		return false;
	if (!s->eos.shut_rd) {
		pump_poll(s);
		if (s->got.avail || s->ar.kept || s->conn.error ||
		    rdma_unread(s, fd))
			return false; /* a reset, as on TCP */
	}
	orphan = sys_fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (orphan < 0)
		return false;
	s->waits.orphan_fd = fd_hide(orphan);
	if (s->waits.orphan_fd < 0)
		return false;
	r->lingers = r->due.restless = true;
	r->seek.give_up_at = clock_ns() + LINGER_NS;
	if (tx_by_ring(s) || anc_state(s->tx) == ANC_RECALLED)
		rdma_may_end(s, true);
	if (mends(r) &&
	    !s->eos.shut_wr) /* its end need not wait for the peer's */
		s->eos.shut_wr = s->eos.fin_due = true;
	fallback_serve(s, s->waits.orphan_fd);
	rdma_tell(s, true);
	rdma_arm(s);
	service_poke(service_id());
	return true;
}

enum anc_state rdma_gone(struct sock *s)
{
	enum anc_state was = anc_gone(s->rx);

	if (s->rd && was == ANC_LIFTED)
		s->rd->rx_whole = true;
	return was;
}

/*
 * The program is done with it: has all been said? The last word is that it is
 * gone, or the peer would take the end for a broken queue pair.
 */
static bool told_all(struct sock *s)
{
	struct rdma *r = s->rd;

	/* what comes to a closed socket is answered by a reset */
	if (r->mark.marker_due || r->mark.marker_wait ||
	    conn_wants_send(&s->conn) || anc_state(s->tx) == ANC_SWITCHING ||
	    anc_state(s->tx) == ANC_RECALLED ||
	    anc_state(s->tx) == ANC_PAUSED || anc_state(s->tx) == ANC_RESTORING)
		return false;
	if (anc_state(s->rx) != ANC_GONE && anc_state(s->rx) > ANC_SWITCHING) {
		rdma_gone(s);
		rdma_tell(s, true);
		if (conn_wants_send(&s->conn))
			return false;
	}
	return rdma_api->flushed(r->end) != 0;
}

bool rdma_lingered(struct sock *s)
{
	struct rdma *r = s->rd;

	if (!r || !r->lingers)
		return true;
	/* broken: until the peer's record was taken, else it gets a reset */
	if (r->state != RDMA_UP)
		return r->state != RDMA_FAILOVER || s->peer_gone ||
		       clock_ns() > r->seek.give_up_at;
	if (!s->conn.error && !r->down) {
		pump_poll(s);
		fallback_serve(s, s->waits.orphan_fd);
		rdma_tell(s, true);
		if (anc_state(s->tx) == ANC_SWITCHING)
			lift_stall(s, s->waits.orphan_fd, WHY_CLOSED, true);
		else if (tx_by_ring(s) || anc_state(s->tx) == ANC_RECALLED)
			rdma_may_end(s, true);
		rdma_marker_write(s, s->waits.orphan_fd);
	}
	if (s->conn.error || r->down || clock_ns() > r->seek.give_up_at)
		return true;
	return told_all(s);
}

/*
 * Not paired, a process that stays begins anew. Else it goes on by the words,
 * which lie here, and the anchor; none sleeps on a socket that only we could
 * ring.
 */
void rdma_leave(struct sock *s)
{
	struct rdma *r = s->rd;

	if (!r || r->owner != sock_pid)
		return;
	if (!s->paired) {
		rdma_detach(s);
		return;
	}
	if (r->far < 0)
		return;
	fd_unhide(r->far);
	sys_close(r->far);
	r->far = -1;
}

/*
 * Nothing but kicks lies on the anchor then. One may be there before its word,
 * or be under way: a socket that is closed answers that by a reset, which takes
 * no end away that came before it.
 */
void rdma_fin_first(struct sock *s, int fd)
{
	int kicks = 0;

	if (!s->rd || !s->rd->rx_whole || s->fallback.passed ||
	    __atomic_load_n(&s->rx->y, __ATOMIC_ACQUIRE) != ANC_OPEN)
		return;
	sys_shutdown(fd, SHUT_WR);
	if (!sys_ioctl(fd, FIONREAD, &kicks))
		ring_throw(s, fd, kicks);
}

/* --- exit -------------------------------------------------------------- */

#define EXIT_NS 1000000000u

static void bid_farewell(struct sock *s, void *arg)
{
	int *left = arg, fd;

	if (!sock_here(s) || !rdma_here(s) || lock_mine(&s->lock))
		return;
	if (lock_try(&s->lock)) {
		++*left; /* the service thread is at it */
		return;
	}
	if (!sock_here(s) || !rdma_here(s) || !s->paired || s->conn.error)
		goto out;
	fd = s->waits.orphan_fd >= 0 ? s->waits.orphan_fd : sock_fd(s);
	if (s->rd->state == RDMA_FAILOVER) {
		fallback_serve(s, fd);
		*left += s->rd->failover.out || s->rd->failover.put.mem ||
			 !s->rd->failover.mended;
	} else if (s->rd->state == RDMA_UP) {
		if (tx_by_ring(s))
			rdma_may_end(s, false);
		pump_poll(s);
		fallback_serve(s, fd);
		rdma_tell(s, true);
		rdma_marker_write(s, fd);
		if (!told_all(s))
			++*left;
		else if (rdma_alone(s) && !s->got.avail && !s->ar.kept)
			rdma_fin_first(s, fd);
	}
out:
	sock_unlock(s);
}

/*
 * What was sent lies in this process's memory until it has arrived; the kernel
 * does not keep it for a program that has ended.
 */
void rdma_exit(void)
{
	uint64_t until = clock_ns() + EXIT_NS;
	struct timespec nap = { 0, 200000 };
	int left;

	if (!rdma_api)
		return;
	do {
		left = 0;
		service_each(bid_farewell, &left);
		if (left)
			sys_ppoll(NULL, 0, &nap, NULL);
	} while (left && clock_ns() < until);
}
