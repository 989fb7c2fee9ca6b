/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The numbers of a sock in its processes, fork, and its death. */

#include "socket/life/life.h"

#define LAST_KICK_NS 20000000u

/* --- holders ----------------------------------------------------------- */

/*
 * `leaves`: this process is about to execute another program, which will not
 * have `fd`; else it does have it, or the exec failed.
 */
void sock_exec(struct sock *s, int fd, bool leaves)
{
	struct holder *h;

	if (sock_lock(s))
		return;
	sock_inode_at(s, fd);
	h = holder_of(s, sock_pid);
	if (h) {
		/* closed meanwhile: it may be another's number by now */
		if (!hooks.has || hooks.has(fd, s))
			h->fd = fd;
		h->leaves = leaves;
	}
	sock_unlock(s);
}

/*
 * Unlike that of any other process of the family: with the process id, which
 * has 22 bits at most.
 */
int32_t sock_birth(void)
{
	static uint32_t births;
	uint32_t n = __atomic_add_fetch(&births, 1, __ATOMIC_RELAXED);

	return -(int32_t)((uint32_t)sock_pid << 9 | n % 512);
}

bool sock_fork_before(struct sock *s, int fd, int32_t birth)
{
	struct holder *h;
	bool home = false;

	if (sock_lock(s))
		return false;
	h = holder_of(s, birth);
	if (h) {
		h->fds++;
	} else if (!holder_new(s, birth, sock_fd(s))) {
		/* more processes than we can count: the kernel's for good */
		s->fallback.pinned = true;
		home = s->paired && s->fallback.pins != 3;
		sock_why(s, WHY_FD_SHARED);
	}
	if (unlikely(s->window.holdback))
		holdback_show(s); /* its process may be about to end */
	if (s->paired && !carrier_forks(s)) {
		home = home || s->fallback.pins != 3;
		rdma_parts(s);
	}
	sock_unlock(s);
	if (home)
		sock_fallback_begin(s, fd, WHY_FD_SHARED);
	return home;
}

void sock_fork_wait(struct sock *s, int fd, uint64_t until)
{
	bool apart = s->paired && !carrier_shared(s);
	int ret;

	if (!apart && !s->fallback.pinned)
		return;
	ret = sock_fallback_until(s, fd, WHY_FD_SHARED, until);
	if (apart)
		sock_unpin(s); /* it is the child that needs it from here on */
	/* with unread bytes the peer cannot help */
	if (!ret || carrier_shared(s))
		return;
	/* one more limit, for all of them */
	until += (uint64_t)settings.fallback_timeout_ms * 1000000u;
	failover_now(s, fd, until);
	/* it ended by that: its bytes lie where only this process reads them */
	if (s->peer_gone)
		sock_fallback(s, fd, WHY_FD_SHARED);
}

/* The first of them gives the child its name, parent or child. */
void sock_fork_parent(struct sock *s, int32_t birth, int pid)
{
	struct holder *h;

	if (sock_lock(s))
		return;
	h = holder_of(s, birth);
	if (h)
		h->pid = pid > 0 ? pid : 0;
	sock_unlock(s);
}

/*
 * A pairing under way belongs to the family, as the sock does: its steps are
 * taken by the process that is left alone with it. This process takes part no
 * more.
 */
static void leave_pairing(const struct sock *s)
{
	struct shm_seg seg = s->seek.pair.seg;

	if (s->seek.pair.state == PAIR_DONE || s->seek.pair.fd < 0)
		return;
	fd_unhide(s->seek.pair.fd);
	sys_close(s->seek.pair.fd);
	shm_unmap(&seg);
}

bool sock_fork_child(struct sock *s, int32_t birth)
{
	struct holder *h;
	bool known;

	if (sock_lock(s))
		return false;
	h = holder_of(s, sock_pid);
	if (!h && birth && (h = holder_of(s, birth)))
		h->pid = sock_pid;
	known = h != NULL;
	if (!known)
		leave_pairing(s);
	if (!known && s->paired && s->waits.wake >= 0) {
		fd_unhide(s->waits.wake);
		sys_close(s->waits.wake);
	}
	sock_unlock(s);
	if (h && s->paired)
		service_add(s);
	return known;
}

/* --- death ------------------------------------------------------------- */

/* What of ours must be reset, not closed: the program left bytes unread. */
static bool unread(struct sock *s, int fd)
{
	if (!s->paired || s->eos.shut_rd)
		return false;
	if (!s->conn.error)
		pump_poll(s);
	/* handed back: what lies here still came by the anchor, or comes */
	if (s->got.stale && carrier_puts_back(s))
		return anc_unread(&s->ar, s->got.avail + s->ar.kept) > 0;
	return s->got.avail > 0 || s->ar.kept > 0 || zc_here(s) ||
	       rdma_unread(s, fd);
}

/*
 * One left unread would make the kernel say reset. The peer puts no more, now
 * that the direction is gone, but the last may be under way: for as long as
 * `putting` is up (anchor.h, rule 5), though not all that holds it up is a kick.
 */
static void drop_kicks(struct sock *s, int fd)
{
	uint64_t end = clock_ns() + LAST_KICK_NS;
	struct timespec nap = { 0, 50000 };
	bool more = true;

	while (more) {
		/* before they are counted; between hosts it is never up */
		more = __atomic_load_n(&s->rx->putting, __ATOMIC_SEQ_CST) &&
		       clock_ns() < end;
		ring_throw(s, fd, anc_kicks(s->rx, &s->ar));
		if (more)
			sys_ppoll(NULL, 0, &nap, NULL);
	}
}

static void close_lifted(struct sock *s, int fd)
{
	struct linger reset = { 1, 0 };
	bool abort, restoring;

	zc_seize(s);
	carrier_closes(s);
	fallback_serve(s, fd); /* bytes falling back go first */
	/* what failed here is no orderly end for the other one */
	abort = (!s->fallback.passed && (unread(s, fd) || s->opt.linger0)) ||
		(s->conn.error && !s->conn.dis_rcvd && tx_ours(s));
	/* where it goes on, it is still to come */
	restoring = s->fallback.passed && carrier_puts_back(s) && !abort &&
		    anc_state(s->rx) == ANC_RESTORING;
	if (abort) {
		__atomic_store_n(&s->own->reset, 1, __ATOMIC_RELEASE);
		sys_setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset,
			       sizeof(reset));
	} else if (!restoring && rdma_gone(s) != ANC_TCP) {
		drop_kicks(s, fd);
	}
	/* a reset is no orderly end: its reader must not take it for one */
	if (tx_by_ring(s) && !abort) {
		conn_shutdown(&s->conn, clock_ns(), true);
		pump_control(s);
	}
	if (anc_state(s->tx) == ANC_LIFTED && anc_stall(s->tx, &s->at, true))
		fallback_serve(s, fd);
	if (!restoring)
		anc_gone(s->rx);
	ring_note(s);
	if (!abort)
		rdma_fin_first(s, fd);
}

/* Other processes hold it: what this one has of it goes. */
static void leave_to_others(struct sock *s)
{
	if (s->waits.wake >= 0) {
		fd_unhide(s->waits.wake);
		sys_close(s->waits.wake);
	}
	carrier_forgo(s);
	/* our mapping only: the other holders have theirs */
	if (s->paired)
		store_leave(s, s->seek.pair.seg);
	leave_pairing(s);
	row_close(s);
	store_inherited(s);
}

/* The last number of this process went. `last`: of all processes. */
static void release(struct sock *s, int fd, bool last)
{
	int wake = s->waits.wake;

	if (s->paired || served_early(s))
		service_del(s);
	if (last && unlikely(s->bridged.word))
		bridge_left(s);
	if (last)
		capture_left(s);
	if (!last) {
		if (s->eos.fin_due) /* another process may not learn when */
			fallback_serve(s, fd);
		fallback_left(s);
		if (s->paired && user_elsewhere(s))
			user_shown(s);
		rdma_leave(s);
		leave_to_others(s);
		return;
	}
	if (s->paired) {
		close_lifted(s, fd);
		if (wake >= 0) {
			fd_unhide(wake);
			sys_close(wake);
		}
		s->paired = false;
		s->tx = &s->local[0];
		s->rx = &s->local[1];
	} else {
		pair_cancel(&s->seek.pair);
	}
	rdma_detach(s);
	row_close(s);
}

/*
 * What the peer has handed back it gets by the anchor alone, wherever it is now;
 * the kernel did not take all of it yet, which was reason enough for it to go.
 */
static bool write_back_pending(const struct sock *s)
{
	return s->paired && carrier_puts_back(s) && !s->opt.linger0 &&
	       !s->conn.error && anc_state(s->tx) == ANC_RESTORING &&
	       (s->peer_gone ||
		__atomic_load_n(&s->tx->brim, __ATOMIC_ACQUIRE)) &&
	       service_running();
}

/*
 * A thread of this process sleeps in the sock whose last number goes, in the
 * kernel's receive or on the wake-up socket: in the kernel it would keep the
 * open file. Or there is something to be written yet. It keeps a number that is
 * not seen, and the stream goes its way.
 */
static bool orphan_begin(struct sock *s, int fd)
{
	int orphan;

	if (!s->paired || (!sleeper_others(s) && !write_back_pending(s)))
		return false;
	orphan = sys_fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (orphan < 0)
		return false;
	orphan = fd_hide(orphan);
	__atomic_store_n(&s->waits.orphan_fd, orphan, __ATOMIC_SEQ_CST);
	/* one that came out of the kernel just before looked in vain */
	if (orphan >= 0 && write_back_pending(s))
		service_poke(service_id());
	if (orphan < 0 || sleeper_others(s) || write_back_pending(s))
		return orphan >= 0;
	__atomic_store_n(&s->waits.orphan_fd, -1, __ATOMIC_SEQ_CST);
	fd_unhide(orphan);
	sys_close(orphan);
	return false;
}

/* But for sends in the kernel, which have the open file by themselves. */
static bool inside(const struct sock *s)
{
	uint32_t sends = __atomic_load_n(&s->in.tcp_tx, __ATOMIC_SEQ_CST);

	return __atomic_load_n(&s->in.users, __ATOMIC_SEQ_CST) > sends;
}

void sock_orphan_end(struct sock *s)
{
	bool over = false;
	int orphan = -1;

	if (sock_lock(s))
		return;
	if (s->waits.orphan_fd >= 0 && s->mem.closer == sock_pid &&
	    !sleeper_others(s) && !inside(s) && !write_back_pending(s) &&
	    rdma_lingered(s)) {
		orphan = s->waits.orphan_fd;
		__atomic_store_n(&s->waits.orphan_fd, -1, __ATOMIC_SEQ_CST);
		/* only now: the sleeper had to get what came meanwhile */
		over = !rdma_linger(s, orphan);
		if (over)
			release(s, orphan, true);
	}
	sock_unlock(s);
	if (orphan < 0)
		return;
	fd_unhide(orphan);
	sys_close(orphan);
	if (over)
		sock_bury(s);
}

/* Counts one number less; true when it was this process's last. */
static bool drop(struct sock *s, int fd, bool *last)
{
	struct holder *h = holder_of(s, sock_pid);

	*last = false;
	s->mem.parted = true;
	if (!h)
		return false;
	if (h->fds > 1) {
		h->fds--;
		if (h->fd == fd)
			h->fd = -1;
		return false;
	}
	__atomic_store_n(&s->mem.closer, sock_pid, __ATOMIC_SEQ_CST);
	/* as long as it has it: the dead are counted out */
	*last = sock_holders(s) == 1;
	h->fds = 0;
	if (!holder_inside(h))
		h->pid = 0;
	if (!*last)
		s->mem.closer = 0;
	return true;
}

/* True: by `fd` it is still lifted. */
static bool close_at(struct sock *s, int fd, int at)
{
	bool last, gone, lifted;

	tcp_jumped((uintptr_t)__builtin_frame_address(0));
	if (sock_lock(s))
		return true;
	lifted = s->paired;
	order_ends(s, at);
	gone = drop(s, fd, &last);
	lifted = lifted || (!gone && !never_lift(s));
	if (!gone && hooks.another && sock_fd(s) < 0) {
		struct holder *h = holder_of(s, sock_pid);
		int other = hooks.another(s, fd);

		/* another number stands for it from now on */
		if (h && other >= 0) {
			h->fd = other;
			sock_publish(s);
		}
	}
	if (gone && last && (orphan_begin(s, at) || rdma_linger(s, at)))
		gone = false;
	if (gone)
		release(s, at, last);
	sock_unlock(s);
	if (gone && last)
		sock_bury(s);
	return lifted;
}

void sock_close_at(struct sock *s, int fd, int at)
{
	close_at(s, fd, at);
}

bool sock_close(struct sock *s, int fd)
{
	return close_at(s, fd, fd);
}

void sock_forget(struct sock *s, int fd)
{
	struct stat st;
	bool ours = !sys_fstat(fd, &st) && st.st_ino == sock_inode_at(s, fd);

	sock_close_at(s, fd, ours ? fd : -1);
}
