/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How a sock over RDMA ends: what its peer's death looks like, close() of the
 * last number while bytes are under way, and the end of the process.
 */

#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include "socket/rdma.h"

#define LINGER_NS 60000000000ull /* as long as TCP keeps an orphan */

bool rdma_was_reset(const struct sock *s)
{
	if (__atomic_load_n(&s->peer->reset, __ATOMIC_ACQUIRE))
		return true;
	/* its DisConn came: it ended in order and said what it took; and what
	 * went to the anchor is the kernel's to judge */
	return !s->conn.dis_rcvd && anc_state(s->tx) != ANC_RAW &&
	       s->at.sent > __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);
}

/*
 * DisConn is queued as soon as the reader knows of the lift. Who has sent his
 * own gets no word out once ours has come, and his knowing is what the token
 * waits for.
 */
bool rdma_may_end(struct sock *s, bool closes)
{
	struct rdma *r = s->rd;

	conn_spare(&s->conn, false); /* nothing more will be sent */
	if (r->state == RDMA_UP &&
	    (anc_state(s->tx) == ANC_RISING || !remote_seen(&r->words)))
		return false;
	conn_shutdown(&s->conn, clock_ns(), closes);
	pump_control(s);
	return !r->mark.token_due;
}

/* Is each direction the anchor's, or has it ended in order, all arrived? */
static bool bare(const struct sock *s)
{
	return (anc_state(s->tx) == ANC_RAW ||
		(s->conn.dis_sent && !mend_unacked(s->rd, NULL))) &&
	       (anc_state(s->rx) == ANC_RAW || s->conn.dis_rcvd);
}

void rdma_lost(struct sock *s, int error)
{
	if (!bare(s)) {
		log_note("fd %d: the RDMA connection broke (%d), on over TCP",
			 sock_fd(s), error);
		page_add(fallbacks_for[WHY_RDMA_LOST], 1);
		sock_why(s, WHY_RDMA_LOST);
		return;
	}
	log_note("fd %d: the RDMA connection ended (%d), nothing was on it",
		 sock_fd(s), error);
	if (s->stats.why == WHY_PAIRED)
		sock_why(s, WHY_WAITING);
}

/* Sleepers come out by the end of their socket. */
static void ended(struct sock *s)
{
	struct rdma *r = s->rd;

	zcr_over(s);
	zcr_sink_over(s);
	r->state = RDMA_ENDED;
	r->due.changed = true;
	if (r->far >= 0)
		sys_shutdown(r->far, SHUT_WR);
	lift_orphan(s);
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
		mend_begin(s, error ? error : -ECONNRESET);
	if (s->conn.error && r->state == RDMA_UP)
		ended(s);
}

/* --- home behind both ends --------------------------------------------- */

static bool peer_may_write(int fd)
{
	struct tcp_info i = { .tcpi_state = TCP_CLOSE };
	socklen_t len = sizeof(i);

	return sys_getsockopt(fd, IPPROTO_TCP, TCP_INFO, &i, &len) ||
	       i.tcpi_state == TCP_ESTABLISHED ||
	       i.tcpi_state == TCP_FIN_WAIT1 || i.tcpi_state == TCP_FIN_WAIT2;
}

bool rdma_fin_came(const struct sock *s, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };
	struct timespec now = { 0, 0 };

	/* POLLERR alone is what MSG_ZEROCOPY says */
	return sys_ppoll(&p, 1, &now, NULL) == 1 &&
	       (p.revents & (POLLRDHUP | POLLHUP)) &&
	       !(s->eos.shut_rd && peer_may_write(fd));
}

bool rdma_cut_short(struct sock *s, int fd, size_t n)
{
	uint8_t buf[RESUME_RECORD];

	/* behind a FIN nothing comes, so what is there now is all */
	return rdma_fin_came(s, fd) &&
	       larder_glance(s, fd, buf, sizeof(buf)) == (ssize_t)n &&
	       larder_swallow(s, fd, buf, n);
}

/*
 * Nothing can be handed back any more: once the FIN is there all that is unread
 * lies here, but for what is in front of x, and it goes into a stand-in. What
 * lies behind on the anchor are token and bells.
 */
bool rdma_over(struct sock *s, int fd)
{
	struct anc_dir *d = s->rx;
	enum anc_state st = anc_state(d);
	uint64_t n, front;

	if (st == ANC_RAW || st == ANC_GONE || s->orphan)
		return false;
	if (s->eos.fin_due || __atomic_load_n(&d->rawrx, __ATOMIC_SEQ_CST) ||
	    !rdma_fin_came(s, fd) || pump_poll(s) || !rdma_silent(s) ||
	    rdma_api->flushed(s->rd->end) != 1)
		return true;
	if (st == ANC_RESUME && !rdma_back_home(s, fd))
		return false;
	if (st == ANC_SPILL && raw_where(s, &n) == ANC_AT_ANCHOR)
		return false;
	n = __atomic_load_n(&d->x, __ATOMIC_ACQUIRE);
	front = s->ar.taken < n ? n - s->ar.taken : 0;
	while (s->ar.kept < front && larder_pull(s, fd, front - s->ar.kept) > 0)
		;
	rdma_token_read(s, fd);
	if (s->ar.kept < front ||
	    (s->rd->mark.token_wait && s->rd->mark.hidden))
		return true;
	while (raw_throw(s, fd, UINT64_MAX) > 0)
		;
	s->ar.bells = __atomic_load_n(&d->bells, __ATOMIC_ACQUIRE);
	ended(s);
	return false;
}

/*
 * What is not yet out, or the peer's record that is to come: a closed socket
 * would answer it by a reset, and the peer lose what it has not read.
 */
static bool mends(const struct rdma *r)
{
	return r->state == RDMA_MENDING && (r->mend.out || !r->mend.mended);
}

bool rdma_unread(const struct sock *s, int fd)
{
	enum anc_state st = anc_state(s->rx);
	int64_t bells = st == ANC_RAW ? 0 : anc_bells(s->rx, &s->ar);
	int n;

	/* brought home: what the kernel has may be for who was given it */
	if (s->fallback.homes)
		return false;
	if ((st == ANC_RISING || st == ANC_SPILL) &&
	    s->ar.taken < remote_awaited(s->rx))
		return true;
	/* while it is LIFTED a bell may be there before its word */
	if ((st != ANC_RAW && st != ANC_SPILL) || bells < 0 ||
	    sys_ioctl(fd, FIONREAD, &n))
		return false;
	return n > bells;
}

bool rdma_linger(struct sock *s, int fd)
{
	struct rdma *r = s->rd;
	int ghost;

	zc_seize(s);
	if (!rdma_here(s) || s->conn.error || s->opt.linger0 || s->orphan ||
	    (r->state != RDMA_UP && !mends(r)))
		return false;
	if (anc_state(s->tx) == ANC_RAW && anc_state(s->rx) == ANC_RAW)
		return false;
	if (!s->eos.shut_rd) {
		pump_poll(s);
		if (s->got.avail || s->ar.kept || s->conn.error ||
		    rdma_unread(s, fd))
			return false; /* a reset, as on TCP */
	}
	ghost = sys_fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (ghost < 0)
		return false;
	s->waits.ghost = fd_hide(ghost);
	if (s->waits.ghost < 0)
		return false;
	r->lingers = r->due.restless = true;
	r->seek.give_up_at = clock_ns() + LINGER_NS;
	if (tx_by_ring(s) || anc_state(s->tx) == ANC_ASKED)
		rdma_may_end(s, true);
	if (mends(r) &&
	    !s->eos.shut_wr) /* its end need not wait for the peer's */
		s->eos.shut_wr = s->eos.fin_due = true;
	home_serve(s, s->waits.ghost);
	rdma_tell(s, true);
	rdma_arm(s);
	service_poke(service_id());
	return true;
}

/*
 * The program is done with it: has all been said? The last word is that it is
 * gone, or the peer would take the end for a broken queue pair.
 */
static bool told_all(struct sock *s)
{
	struct rdma *r = s->rd;

	/* what comes to a closed socket is answered by a reset */
	if (r->mark.token_due || r->mark.token_wait ||
	    conn_wants_send(&s->conn) || anc_state(s->tx) == ANC_RISING ||
	    anc_state(s->tx) == ANC_ASKED || anc_state(s->tx) == ANC_PAUSED ||
	    anc_state(s->tx) == ANC_RESUME)
		return false;
	if (anc_state(s->rx) != ANC_GONE && anc_state(s->rx) > ANC_RISING) {
		anc_gone(s->rx);
		rdma_tell(s, true);
		if (conn_wants_send(&s->conn))
			return false;
	}
	return rdma_api->flushed(r->end) != 0;
}

bool rdma_lingered(struct sock *s)
{
	struct rdma *r = s->rd;

	/* broken: until the peer's record was taken, else it gets a reset */
	if (r->state != RDMA_UP)
		return r->state != RDMA_MENDING || s->orphan ||
		       clock_ns() > r->seek.give_up_at;
	if (!s->conn.error && !r->down) {
		pump_poll(s);
		home_serve(s, s->waits.ghost);
		rdma_tell(s, true);
		if (anc_state(s->tx) == ANC_RISING)
			lift_spill(s, s->waits.ghost, WHY_CLOSED, true);
		else if (tx_by_ring(s) || anc_state(s->tx) == ANC_ASKED)
			rdma_may_end(s, true);
		rdma_token_write(s, s->waits.ghost);
	}
	if (s->conn.error || r->down || clock_ns() > r->seek.give_up_at)
		return true;
	return told_all(s);
}

/*
 * Not paired, who stays begins anew. Else he goes on by the words, which lie
 * here, and the anchor; nobody sleeps on a socket that only we could ring.
 */
void rdma_leave(struct sock *s)
{
	struct rdma *r = s->rd;

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

/* --- exit -------------------------------------------------------------- */

#define EXIT_NS 1000000000u

static void bid_farewell(struct sock *s, void *arg)
{
	int *left = arg, fd;

	if (!rdma_here(s) || lock_mine(&s->lock))
		return;
	if (lock_try(&s->lock)) {
		++*left; /* the service thread is at it */
		return;
	}
	if (!rdma_here(s) || !s->paired || s->conn.error)
		goto out;
	fd = s->waits.ghost >= 0 ? s->waits.ghost : sock_fd(s);
	if (s->rd->state == RDMA_MENDING) {
		home_serve(s, fd);
		*left += s->rd->mend.out || s->rd->mend.put.mem ||
			 !s->rd->mend.mended;
	} else if (s->rd->state == RDMA_UP) {
		if (tx_by_ring(s))
			rdma_may_end(s, false);
		pump_poll(s);
		home_serve(s, fd);
		rdma_tell(s, true);
		rdma_token_write(s, fd);
		*left += !told_all(s);
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

bool rdma_all_home(const struct sock *s)
{
	return !s->paired ||
	       (anc_state(s->tx) == ANC_RAW && anc_state(s->rx) == ANC_RAW &&
		!s->fallback.pins && !s->got.avail && !s->eos.rx_eof &&
		!s->eos.shut_wr && !s->eos.shut_rd && !s->orphan);
}
