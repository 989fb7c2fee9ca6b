/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Calls that wait until a connection is on TCP, or on SDP. */

#include <sys/ioctl.h>

#include <linux/sockios.h>

#include "base/proc.h"
#include "socket/stream/stream.h"

/* A peer that has not answered by then may be stopped: fallback_rouse(). */
#define ROUSE_NS 5000000u
/* By then one that is stopped has neither read nor asked for the ring's bytes. */
#define LEAVE_NS 20000000u

static int tx_fallback(struct sock *s, int fd, enum reason why)
{
	fallback_serve(s, fd);
	switch (anc_state(s->tx)) {
	case ANC_SWITCHING:
	case ANC_LIFTED:
		return lift_stall(s, fd, why, s->peer_gone) ||
				       s->fallback.stand ?
			       -EAGAIN :
			       0;
	case ANC_RESTORING:
		return s->peer_gone && !carrier_puts_back(s) ? 0 : -EAGAIN;
	case ANC_RECALLED:
		/* it stays unanswered */
		if (s->fallback.passed && carrier_shared(s))
			return 0;
		/* fallthrough */
	case ANC_PAUSED:
		return s->peer_gone ? 0 : -EAGAIN;
	default:
		return s->fallback.stand && !s->peer_gone ? -EAGAIN : 0;
	}
}

/*
 * The library will not be where the connection is any more, and the peer has not
 * read all that is in the ring: if it has to fall back itself then, it is too
 * late.
 */
static bool leaves_bytes(struct sock *s, enum reason why, enum anc_state tx)
{
	return (fallback_executes || why == WHY_FD_PASSED || why == sock_off) &&
	       s->paired && carrier_puts_back(s) && !s->peer_gone &&
	       tx == ANC_DRAINING && !s->fallback.passed &&
	       __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE) < s->at.y;
}

/*
 * Its background thread asks for those bytes (life/service.c), if the anchor
 * takes them: else they would wait there for a program that need not read.
 */
static void say_so(struct sock *s, int fd)
{
	uint64_t left =
		s->at.y - __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);
	socklen_t len = sizeof(int);
	int room = 0, queued = 0;

	if (__atomic_load_n(&s->own->leaves, __ATOMIC_RELAXED) ||
	    sys_getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, &len) ||
	    sys_ioctl(fd, SIOCOUTQ, &queued) || queued > room / 2 ||
	    left > (uint64_t)(room / 2 - queued))
		return;
	__atomic_store_n(&s->own->leaves, ANC_LEAVES, __ATOMIC_SEQ_CST);
	ring_service(s);
}

/*
 * It has only too much to do, or too little of a processor. Of a process that
 * has ended others have the connection.
 */
static bool peer_runs(const struct sock *s)
{
	int pid = s->seek.pair.peer_pid;
	char state = pid > 0 ? proc_state_of(pid) : 'R';

	return state != 'T' && state != 't';
}

static bool stands_for(int fd, uint64_t inode)
{
	struct stat st;

	return fd >= 0 && !sys_fstat(fd, &st) && st.st_ino == inode;
}

/*
 * Lock held: by which number has this process got it, now? The caller's may be
 * closed by another thread by now, and be something else; the last known one
 * is something else in a child of vfork(). -1: it is the others' business, or
 * none's.
 */
static int number(struct sock *s, int fd)
{
	int known = sock_fd(s);
	uint64_t inode = sock_inode(s);

	if (!holder_of(s, sock_pid) || !inode)
		return -1;
	if (stands_for(fd, inode))
		return fd;
	return known != fd && stands_for(known, inode) ? known : -1;
}

void sock_fallback_begin(struct sock *s, int fd, enum reason why)
{
	if (sock_lock(s))
		return;
	fd = number(s, fd);
	if (fd < 0) {
		sock_unlock(s);
		return;
	}
	if (s->seek.pair.state != PAIR_DONE && sock_holders(s) == 1)
		pair_cancel(&s->seek.pair);
	fallback_pin(s);
	user_takes(s);
	rdma_unspare(s);
	if (s->paired && sock_lifted(s)) {
		s->fallback.due = true;
		tx_fallback(s, fd, why);
		fallback_rx(s, fd, why);
		if (leaves_bytes(s, why, anc_state(s->tx)))
			say_so(s, fd);
	}
	sock_unlock(s);
}

static void serve_one(struct sock *s, void *arg)
{
	(void)arg;
	if (lock_try(&s->lock))
		return;
	fallback_serve(s, sock_anchor(s));
	sock_unlock(s);
}

/*
 * Another thread closed it meanwhile: nothing is left to bring back to TCP.
 * A process that has it still is free to lift it; `tx` are the words that were
 * held.
 */
static int left(struct sock *s, const struct anc_dir *tx)
{
	s->fallback.falling_back--;
	fallback_unpin(s, s->tx == tx && carrier_shared(s));
	sock_unlock(s);
	sock_stay_ends(s);
	return 0;
}

static uint64_t limit_ns(void)
{
	return (uint64_t)settings.fallback_timeout_ms * 1000000u;
}

uint64_t sock_fallback_limit(void)
{
	return clock_ns() + limit_ns();
}

int sock_fallback(struct sock *s, int fd, enum reason why)
{
	return sock_fallback_until(s, fd, why, sock_fallback_limit());
}

/* How far the two directions are: 0 home, -EAGAIN not yet, other: cannot be. */
struct way_back {
	enum reason why;
	uint64_t until;
	int tx, rx;
	bool late;
	bool yields; /* for another process that has it, too */
};

/* Its reader has asked for what is unread, since it was looked at. */
static bool asked_back(const struct sock *s, enum anc_state tx)
{
	return s->paired && !s->peer_gone &&
	       !(s->fallback.passed && carrier_shared(s)) &&
	       tx >= ANC_RECALLED && tx <= ANC_RESTORING;
}

/* Lock held: a step of each. */
static void go_back(struct sock *s, int fd, struct way_back *b)
{
	enum anc_state tx;
	uint64_t now;

	holders_sweep(s);
	if (b->yields && s->peer_gone) {
		b->tx = 0;
		b->rx = -ENOTCONN;
		return;
	}
	rdma_look_for_peer(s);
	b->tx = s->paired ? tx_fallback(s, fd, b->why) : 0;
	b->rx = s->paired ? fallback_rx(s, fd, b->why) : 0;
	if (!b->tx || !b->rx)
		fallback_pin(s);
	now = clock_ns();
	tx = anc_state(s->tx);
	if (!b->tx && asked_back(s, tx))
		b->tx = -EAGAIN;
	if (!b->tx && now < b->until && leaves_bytes(s, b->why, tx)) {
		say_so(s, fd);
		if (now + limit_ns() < b->until + LEAVE_NS ||
		    (s->own->leaves && peer_runs(s)))
			b->tx = -EAGAIN;
	}
	b->late = now > b->until;
	if (b->rx == -EAGAIN && b->why != WHY_FD_SHARED &&
	    now + limit_ns() > b->until + ROUSE_NS)
		fallback_rouse(s);
	/* the peer has all that is missing, and goes on by itself */
	if (b->late && b->rx == -EAGAIN && carrier_puts_back(s) &&
	    anc_state(s->rx) == ANC_RESTORING)
		b->rx = 0;
	if (!b->rx && rdma_unheld(s)) {
		rdma_tell(s, true);
		b->rx = -EAGAIN;
	}
	/* the peer was quick to leave the anchor again */
	if (!b->rx && !(s->fallback.pins & 2) && anc_state(s->rx) != ANC_GONE)
		b->rx = -EAGAIN;
}

/* Lock held. `was`: it was lifted. */
static void is_back(struct sock *s, enum reason why, bool was)
{
	s->fallback.due = false;
	if (was) {
		COUNT(s, fallbacks, 1);
		page_add(fallbacks_for[why], 1);
		sock_event(s, EVENT_FALLBACK, why);
	}
	s->stats.why = WHY_NONE;
	sock_why(s, why);
}

/* An answer takes a thread's waking, and what it finds to be done. */
static void nap(uint32_t ns)
{
	struct timespec ts = { .tv_nsec = (long)ns };
	uint64_t was = guard_sleep();

	sys_ppoll(NULL, 0, &ts, NULL);
	guard_wake(was);
}

/* Lock held: so often it was given to another process, which writes, too. */
static void passed(struct sock *s, uint32_t times)
{
	s->fallback.passed = times;
	if (s->paired && carrier_shared(s))
		__atomic_store_n(&s->own->leaves, times ? ANC_LEFT : 0,
				 __ATOMIC_SEQ_CST);
}

void sock_not_passed(struct sock *s)
{
	if (sock_lock(s))
		return;
	if (s->fallback.passed)
		passed(s, s->fallback.passed - 1);
	fallback_serve(s, sock_anchor(s)); /* it may have been asked */
	fallback_unpin(s, true);
	sock_unlock(s);
}

static int bring_back(struct sock *s, int fd, struct way_back *b)
{
	enum anc_state tx_state, rx_state;
	const struct anc_dir *words;
	enum reason why = b->why;
	bool was;

	tcp_jumped((uintptr_t)__builtin_frame_address(0));
	if (sock_lock(s))
		return -EAGAIN;
	if (!sock_here(s)) { /* closed while the lock was waited for */
		sock_unlock(s);
		return 0;
	}
	user_takes(s);
	rdma_unspare(s);
	was = sock_lifted(s) || s->fallback.due;
	words = s->tx;
	s->fallback.callers++;
	s->fallback.falling_back++;
	sock_stays(s);
	sock_unlock(s);
	for (;;) {
		lock_take(&s->lock);
		fd = number(s, fd);
		if (fd < 0)
			return left(s, words);
		go_back(s, fd, b);
		if ((b->tx != -EAGAIN && b->rx != -EAGAIN) || b->late)
			break;
		sock_unlock(s);
		/* the other end may be ours: its part is done right here */
		service_each(serve_one, NULL);
		if (s->peer_gone) /* its wake-up socket has hung up */
			nap(1000000);
		else if (s->waits.wake >= 0)
			wait_apart(s);
	}
	s->fallback.falling_back--;
	/* on one host the reader counts what came behind y */
	if (!carrier_shared(s) && s->paired &&
	    anc_state(s->tx) == ANC_DRAINING &&
	    (why == WHY_EXEC || why == WHY_FD_SHARED))
		s->fallback.given = true;
	if (!b->tx && !b->rx)
		is_back(s, why, was);
	if (why == WHY_FD_PASSED) /* back or not: it can be undone */
		passed(s, s->fallback.passed + 1);
	/* with the peer gone a stand-in would be this process's alone */
	if (b->rx == -ENOTCONN)
		__atomic_store_n(&s->user, 0, __ATOMIC_RELAXED);
	tx_state = anc_state(s->tx);
	rx_state = anc_state(s->rx);
	sock_unlock(s);
	sock_changed(s);
	sock_stay_ends(s);
	if ((!b->tx && !b->rx) || b->rx == -ENOTCONN)
		return 0;
	log_warn("fd %d could not fall back (%s): tx %s, rx %s", fd,
		 reason_text(why), anc_state_name(tx_state),
		 anc_state_name(rx_state));
	return -EAGAIN;
}

int sock_fallback_until(struct sock *s, int fd, enum reason why, uint64_t until)
{
	struct way_back b = { .why = why, .until = until };

	return bring_back(s, fd, &b);
}

/* Longer than a user, or a writer, that runs takes to bring it back. */
#define ANSWER_NS 20000000u
/* And one that gets a processor now and then. */
#define BUSY_NS	  200000000u

/* True: the user has not brought it back yet, and was asked at *since. */
static bool user_awaited(struct sock *s, uint64_t until, uint64_t *since)
{
	bool wait;

	if (sock_lock(s))
		return false;
	wait = sock_here(s) && user_asks(s);
	if (wait && clock_ns() > until) {
		user_takes(s);
		wait = false;
	}
	*since = s->fallback.asked_at;
	sock_unlock(s);
	return wait;
}

static uint32_t longer(uint32_t ns)
{
	return ns < 1000000 ? ns * 2 : ns;
}

/* What was not there for this call is an edge when it is there. */
static int user_late(struct sock *s)
{
	__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&s->waits.out_gen, 1, __ATOMIC_RELAXED);
	sock_changed(s);
	return -EAGAIN;
}

/* It is awaited; as user_comes(). */
static int comes(struct sock *s, uint64_t deadline, bool part, uint64_t until,
		 uint64_t since)
{
	int saved = errno, err;
	uint32_t ns = 50000;
	SOCK_STAYS(stays, s);

	do {
		struct timespec ts = { .tv_nsec = (long)ns };

		ns = longer(ns);
		if (clock_ns() >= (deadline ? deadline : since + ANSWER_NS))
			return user_late(s);
		if (!deadline) {
			nap((uint32_t)ts.tv_nsec);
			continue;
		}
		err = hooks.ppoll(NULL, 0, &ts, NULL) < 0 ? -errno : 0;
		errno = saved;
		if (!err)
			continue;
		err = sleep_heeded(err, deadline, part);
		if (err)
			return err;
		if (s->opt.nonblock) /* the call is made again */
			deadline = 0;
	} while (user_awaited(s, until, &since));
	return 0;
}

int user_comes(struct sock *s, uint64_t deadline, bool part)
{
	uint64_t until = sock_fallback_limit(), since;

	return user_awaited(s, until, &since) ?
		       comes(s, deadline, part, until, since) :
		       0;
}

void user_comes_back(struct sock *s)
{
	uint64_t until = sock_fallback_limit(), since;
	uint32_t ns = 50000;
	SOCK_STAYS(stays, s);

	for (; user_awaited(s, until, &since); ns = longer(ns))
		nap(ns);
}

static bool readable_by(int fd, uint64_t end)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLRDHUP };
	uint64_t now = clock_ns(), was;
	int n = -EINTR;

	for (; n == -EINTR && now < end; now = clock_ns()) {
		struct timespec left = { .tv_nsec = (long)(end - now) };

		was = guard_sleep();
		n = sys_ppoll(&p, 1, &left, NULL);
		guard_wake(was);
	}
	return n > 0;
}

bool peer_writes_back(struct sock *s, int fd, bool *done)
{
	uint64_t since = s->fallback.handed_at, end = since + ANSWER_NS, now;
	uint64_t to = __atomic_load_n(&s->fallback.handed_to, __ATOMIC_RELAXED);
	bool there = false, sent;
	SOCK_STAYS(stays, s);

	if (*done)
		return false;
	while (!there && !s->peer_gone && rx_state_seen(s) == ANC_RESTORING) {
		now = clock_ns();
		if (now >= end && (now >= since + BUSY_NS || !peer_runs(s)))
			return false;
		if (now >= end)
			end = now + ANSWER_NS;
		there = readable_by(fd, end);
	}
	/* the kernel has it, and soon shows it here */
	sent = !there && rx_state_seen(s) != ANC_RESTORING && stream_handed(s);
	if (sent)
		there = readable_by(fd, clock_ns() + ANSWER_NS);
	/* or code that is not seen has taken it: not waited for again */
	if (sent && !there)
		__atomic_compare_exchange_n(&s->fallback.handed_to, &to, 0,
					    false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
	*done = there;
	return there;
}

void user_yields(struct sock *s)
{
	struct way_back b = { .why = WHY_FD_SHARED,
			      .until = sock_fallback_limit(),
			      .yields = true };

	bring_back(s, -1, &b);
	sock_unpin(s); /* it rests there (user.c) */
	__atomic_store_n(&s->fallback.asked_at, 0, __ATOMIC_SEQ_CST);
}

struct all {
	enum reason why;
	uint64_t until;
};

static void begin_one(struct sock *s, void *arg)
{
	const struct all *all = arg;

	sock_fallback_begin(s, -1, all->why);
}

static void fallback_one(struct sock *s, void *arg)
{
	const struct all *all = arg;

	sock_fallback_until(s, -1, all->why, all->until);
}

void sock_fallback_all(enum reason why)
{
	struct all all = { .why = why };

	sock_off = why;
	service_each(begin_one, &all);
	all.until = sock_fallback_limit();
	service_each(fallback_one, &all);
	service_stop();
	settings.lift_after_messages = LOOK_NEVER;
	lift_off = true;
}

/*
 * The stream must be SDP before the program's first byte. The peer may be in
 * this very thread's hands: its part is run from here when it is one of ours.
 * Between hosts the first bytes are what the ends know each other by: a
 * program that asked for the family, and has no other way, sends them by TCP.
 */
int lift_demand(struct sock *s, int fd, bool tx)
{
	uint64_t until =
		clock_ns() + (uint64_t)settings.sdp_timeout_ms * 1000000u;
	struct timespec nap = { 0, 200000 };
	bool timed = (tx ? s->opt.sndtimeo : s->opt.rcvtimeo) != 0, up;
	int n;

	if (s->eos.rst_told || s->eos.shut_wr || (s->id.native && s->id.met))
		return 0;
	for (;;) {
		struct sock *twin;
		int tfd = -1;
		struct diag d;

		if (!s->paired)
			lift_look(s, fd);
		if (s->id.native && carrier_far(s)) {
			s->id.met = true;
			return 0;
		}
		if (s->paired && tx)
			lift_try_tx(s, fd);
		up = s->paired && (!tx || s->id.met);
		if (up || (s->paired && s->peer_gone))
			return 0;
		if (s->seek.look == LOOK_NEVER && !s->paired)
			break;
		if (!diag_peer(fd, &d) && d.inode && hooks.by_inode &&
		    (twin = hooks.by_inode(d.inode, &tfd)) && !twin->paired)
			lift_look(twin, tfd);
		if (clock_ns() > until)
			break;
		if (!tx) {
			/* a reader can wait at the anchor: TCP's own sleep */
			struct pollfd p = { .fd = fd, .events = POLLIN };

			n = hooks.ppoll(&p, 1, &nap, NULL);
			if (n > 0)
				return 0;
		} else {
			n = hooks.ppoll(NULL, 0, &nap, NULL);
		}
		if (n < 0 && (timed || !wait_restarts(UINT64_MAX)))
			return -errno;
		if (nap.tv_nsec < 10000000)
			nap.tv_nsec *= 2;
	}
	log_err("Error connect: failed for SDP fd %d: rule sdp, but %s", fd,
		reason_text(s->stats.why));
	return -ECONNREFUSED;
}
