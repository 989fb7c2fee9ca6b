/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Waiting (D7): spin for a bounded time while that has lately paid (spin.c),
 * then sleep in the kernel on the wake-up socket, so that signals,
 * SA_RESTART, time-outs and cancellation come out as for a kernel socket.
 *
 * A signal during the spin is as one that came just before the call: the
 * spin is always the beginning of a wait.
 */

#include "socket/wait/wait.h"

#define FEW	  256u /* bytes, of as many messages as bytes have credits */
#define CREDIT_NS 20000000u /* longer than the other end takes to look */

/* --- sleeping ---------------------------------------------------------- */

int wait_until(struct pollfd *p, uint64_t deadline)
{
	uint64_t now = clock_ns(), left = deadline > now ? deadline - now : 0;
	struct timespec ts = { .tv_sec = (time_t)(left / 1000000000u),
			       .tv_nsec = (long)(left % 1000000000u) };

	return hooks.ppoll(p, 1, &ts, NULL);
}

static void rested(struct sock **s)
{
	__atomic_sub_fetch(&(*s)->in.resting, 1, __ATOMIC_SEQ_CST);
	sock_stay_ends(*s);
}

/*
 * A thread that shuts the direction down meanwhile sees that this thread
 * sleeps, and has the kernel bring it out; else this thread sees that it is
 * shut down.
 */
int wait_rest(struct sock *s, int fd, uint64_t deadline)
{
	__attribute__((cleanup(rested))) struct sock *in = sock_stays(s);
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	int saved = errno, n;

	__atomic_add_fetch(&in->in.resting, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&s->eos.fin_due, __ATOMIC_SEQ_CST))
		return -EPIPE;
	n = (int)tcp_said(wait_until(&p, deadline), saved);
	return n ? n : -EAGAIN;
}

int wait_next(struct sock *s, int fd, uint64_t deadline, bool some)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLPRI };
	int saved = errno, n;

	if (option_lowat(s) && deadline == UINT64_MAX)
		return fd;
	n = (int)tcp_said(wait_until(&p, deadline), saved);
	/* closed meanwhile, the number may be another socket's */
	if (n > 0 && sock_here(s) && !(some && sock_atmark(s, fd) == 1)) {
		fd = sock_at(s, fd);
		return fd < 0 ? -EBADF : fd;
	}
	return n < 0 ? n : -EAGAIN;
}

int wait_queue(struct sock *s, int fd, uint64_t deadline, bool part)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timespec ms = { 0, 1000000 };
	uint32_t ran = sigdefer_handlers();
	SLEEP(in);
	int ret;

	rdma_unspare(s);
	wait_away(&in, s, false);
	ret = hooks.ppoll(&p, 1, &ms, NULL) < 0 ? -errno : 0;
	if (ret > 0 || __atomic_load_n(&s->rx->tcp_rx, __ATOMIC_RELAXED))
		sys_ppoll(NULL, 0, &ms, NULL);
	wait_back(&in);
	ret = sleep_heeded(ret, deadline, part);
	ret = sleep_ended(ret, part, ran);
	return ret ? ret : clock_ns() >= deadline ? -EAGAIN : 0;
}

/* -errno of the kernel's sleep, or 0 after anything that needs a new look */
static int sleep_locked(struct sock *s, uint64_t deadline, bool writer,
			struct beside also)
{
	SLEEP(in);
	uint32_t eaten = s->waits.rung_eaten;
	int saved = errno, ret;
	uint64_t at;

	rdma_unspare(s);
	spin_to_sleep(s);
	also.stops = sleep_limit(s, deadline, also) && also.stops;
	wait_away(&in, s, writer);
	at = clock_ns();
	ret = sleep_on(s, deadline, also);
	page_slept(clock_ns() - at);
	if (ret == 1)
		page_add(wakeups_rx, 1);
	if (ret == 0 && (s->eos.shut_rd || s->waits.deaf)) {
		/* that brought the readers out; only room counts */
		struct timespec nap = { 0, 1000000 };

		if (hooks.ppoll(NULL, 0, &nap, NULL) < 0)
			ret = -errno;
		else
			ret = 1;
	}
	errno = saved;
	wait_back(&in);
	spin_awake(s);
	if (unlikely(ret == AGAIN) && !sock_here(s))
		return -EBADF; /* a handler of this thread's has closed it */
	if (unlikely(ret == 0 || ret == -ECONNRESET || ret == -EBADF)) {
		if (!sock_here(s))
			return -EBADF;
		lift_peer_gone(s);
		return 0;
	}
	/* the byte that woke us is there, whether its number is yet or not */
	if (ret == 1 && eaten == s->waits.rung_eaten)
		s->waits.rung_seen = eaten + 1;
	return ret > 0 ? 0 : ret;
}

void wait_apart(struct sock *s)
{
	struct pollfd p = { .fd = s->waits.wake, .events = POLLIN };
	struct timespec ms = { 0, 1000000 };
	uint64_t was = guard_sleep();

	sys_ppoll(&p, 1, &ms, NULL);
	guard_wake(was);
	sock_rang(s, false);
}

/* Is there room that a thread was refused and has not noticed yet? */
bool wait_room_due(struct sock *s)
{
	return s->waits.full &&
	       ((s->waits.writers && pump_room(s)) ||
		(__atomic_load_n(&s->waits.asleep_anchor, __ATOMIC_RELAXED) &&
		 pump_roomy(s)));
}

/*
 * In the middle of a fallback there is nothing to sleep on: our own thread
 * may make the next move, and rings no thread for it.
 */
static int nap_locked(struct sock *s)
{
	struct timespec ms = { 0, 1000000 };
	int saved = errno, ret;
	SLEEP(in);

	rdma_unspare(s);
	holders_sweep(s);
	wait_away(&in, s, false);
	ret = hooks.ppoll(NULL, 0, &ms, NULL) < 0 ? -errno : 0;
	errno = saved;
	wait_back(&in);
	/* a child may have no service thread that hears of the peer's end */
	if (s->paired && sock_here(s) && carrier_shared(s) && !s->peer_gone &&
	    !s->eos.shut_rd && wake_hung_up(s))
		lift_peer_gone(s);
	return ret;
}

/* As sleep_on() sleeps. */
static enum spin_how how_to_spin(uint64_t deadline, int also, bool part)
{
	if (also >= 0)
		return SPIN_DEAF;
	return deadline == UINT64_MAX && !part ? SPIN_RESTARTS : SPIN_ENDS;
}

/*
 * To be woken by completions: on the ear, if only what is returned (or a signal
 * put off, by `signals`) is to end the sleep; -1: by the service thread.
 */
static int arm_room(struct sock *s, int signals)
{
	int ear = -1;

	if (signals >= 0 && carrier_ear_free(s, true))
		ear = rdma_cqwait_take(s, true);
	if (unlikely(ear >= 0))
		rdma_cqwait_arm(s);
	else
		rdma_arm(s);
	return ear;
}

/* Armed, and after a last look: to sleep. */
static int sleep_read(struct sock *s, int fd, uint64_t deadline,
		      enum anc_state was, uint32_t gen, struct beside also)
{
	uint32_t mark = ring_mark(s);

	anc_arm(s->rx, ANC_WAKE);
	if (unlikely(also.ear >= 0))
		rdma_cqwait_arm(s);
	else
		rdma_arm(s);
	if (s->waits.writers) {
		/* the byte may be theirs: they are rung again */
		__atomic_store_n(&s->tx->wait, ANC_WAIT_ROOM, __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	}
	/* over RDMA the service thread may have taken it in meanwhile, */
	if (fab_pending(s) || anc_state(s->rx) != was || s->waits.in_gen != gen)
		return 0;
	/* or have heard of the marker while no thread slept */
	if (marker_waits(s) && marker_complete(s, fd))
		return 0;
	if (!wait_room_due(s))
		ring_eat(s, mark);
	return sleep_locked(s, deadline, false, also);
}

bool wait_idle(struct sock *s)
{
	return s->paired && !s->peer_gone && !s->conn.error && !s->got.avail &&
	       !s->eos.rx_eof && !s->eos.shut_rd && !s->fallback.falling_back &&
	       !s->eos.fin_due && anc_state(s->rx) == ANC_LIFTED &&
	       anc_state(s->tx) <= ANC_DRAINING && !zc_here(s) &&
	       anc_kicks(s->rx, &s->ar) <= 0;
}

/* Woken there: is there nothing to be looked at but completions? */
static bool undisturbed(struct sock *s, uint32_t gen)
{
	if (s->paired && !s->conn.error && fab_pending(s))
		pump_poll(s);
	if (!wait_idle(s) || s->waits.in_gen != gen ||
	    !carrier_ear_free(s, false) || marker_waits(s) || s->ar.unsure)
		return false;
	pump_control(s);
	return true;
}

/*
 * Woken by each completion itself, which may be nothing to the receive. ppoll()
 * is never restarted after a handler, a receive is: so signals are put off as
 * sigblock.h has it, and until there is something to be received: one that came
 * between two sleeps ends the second.
 */
static int sleep_ear(struct sock *s, int fd, uint64_t deadline,
		     enum anc_state was, uint32_t gen, bool part)
{
	struct sigblock h
		__attribute__((cleanup(sigblock_drop))) = { .fd = -1 };
	bool restarts = true;
	int ret;

	if (!sigblock_begin(&h))
		return sleep_read(s, fd, deadline, was, gen,
				  (struct beside){ -1, -1, part, true });
	do {
		struct beside also = { h.fd, rdma_cqwait_take(s, false), false,
				       false };

		ret = sleep_read(s, fd, deadline, was, gen, also);
		rdma_cqwait_leave(s);
		if ((!ret || ret == -EINTR) && !undisturbed(s, gen)) {
			ret = 0;
			break;
		}
	} while (!ret);
	if (ret == -EINTR) {
		ret = sigblock_heed(s, &h, &restarts);
		if (deadline == UINT64_MAX && restarts && !part)
			ret = 0;
	}
	sigblock_end(s, &h);
	return ret;
}

static int wait_read(struct sock *s, int fd, uint64_t deadline,
		     enum anc_state was, int also, bool part)
{
	uint32_t gen = s->waits.in_gen;
	int ret;

	if (was != ANC_LIFTED) {
		ret = sleep_heeded(nap_locked(s), deadline, part);
		return ret ? ret : clock_ns() >= deadline ? -EAGAIN : 0;
	}
	carrier_report(s);
	ret = spin_rx(s, was, deadline, how_to_spin(deadline, also, part));
	if (ret)
		return ret > 0 ? 0 : ret;
	if (!s->paired || s->peer_gone)
		return 0;
	if (unlikely(carrier_ear_free(s, false)) && also < 0)
		return sleep_ear(s, fd, deadline, was, gen, part);
	return sleep_read(s, fd, deadline, was, gen,
			  (struct beside){ also, -1, part, true });
}

int wait_rx(struct sock *s, int fd, uint64_t deadline, enum anc_state was,
	    bool part)
{
	return wait_read(s, fd, deadline, was, -1, part);
}

int wait_sink(struct sock *s, int fd, uint64_t deadline, int signals)
{
	return wait_read(s, fd, deadline, ANC_LIFTED, signals, false);
}

uint64_t wait_full(struct sock *s, uint64_t now)
{
	uint64_t taken = __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE);

	taken += carrier_progress(s);
	if (!s->waits.full || taken != s->waits.taken_seen) {
		s->waits.full = true;
		s->waits.full_since = now;
		s->waits.taken_seen = taken;
	}
	return s->waits.full_since + carrier_stall_ns(s);
}

int wait_lent(struct sock *s, uint64_t until, int signals)
{
	struct beside also = { signals, -1, false, false };
	uint32_t mark;
	int ret = 0;

	if (carrier_shared(s) && spin_tx(s))
		return 0;
	if (!carrier_shared(s) && !tx_by_ring(s))
		return nap_locked(s);
	mark = ring_mark(s);
	/* for others, too: before the source's end there is no room */
	if (carrier_shared(s))
		__atomic_store_n(&s->tx->wait, ANC_WAIT_LENT, __ATOMIC_SEQ_CST);
	also.ear = arm_room(s, signals);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (!pump_poll(s) && s->zc.out == ZC_OUT && tx_by_ring(s) &&
	    !s->peer_gone) {
		if (ring_may_eat(s))
			ring_eat(s, mark);
		ret = sleep_locked(s, until, true, also);
	}
	rdma_cqwait_leave(s);
	return ret;
}

/* Armed, and after a last look: to sleep until there is room. */
static int sleep_write(struct sock *s, int fd, uint64_t deadline, int signals,
		       bool stops)
{
	struct beside also = { signals, -1, false, stops };
	uint32_t mark = ring_mark(s);
	uint64_t now, limit;
	int ret;

	__atomic_store_n(&s->tx->wait, ANC_WAIT_ROOM, __ATOMIC_SEQ_CST);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	rdma_tell(s, false);
	also.ear = arm_room(s, signals);
	if (pump_poll(s) || pump_room(s) || !tx_by_ring(s) || s->peer_gone)
		return 0;
	now = clock_ns();
	limit = wait_full(s, now);
	/* the peer alone would end it: was the direction ended here? */
	if (window_waits(s, false))
		limit = now + WAIT_ENDED_MS * 1000000u;
	if (now >= limit) {
		if (!lift_stall(s, fd, WHY_STALLED, false))
			return 0;
		limit = now + 1000000u;
	}
	if (ring_may_eat(s))
		ring_eat(s, mark);
	ret = sleep_locked(s, limit < deadline ? limit : deadline, true, also);
	if (ret == -EAGAIN && clock_ns() < deadline)
		ret = 0;
	return ret;
}

/* Woken there, and still there is no room, nor anything else to be done. */
static bool in_vain(struct sock *s)
{
	if (s->paired && !s->conn.error && fab_pending(s))
		pump_poll(s);
	return s->paired && !s->peer_gone && !s->conn.error &&
	       !s->eos.shut_wr && !s->eos.fin_due && !s->fallback.stand &&
	       tx_by_ring(s) && !pump_room(s) && carrier_ear_free(s, true);
}

/*
 * The same, with its signals as the mask has them. A sleep with a limit is ended
 * by every handler; the call goes on behind those that have SA_RESTART.
 */
static int sleep_interruptible(struct sock *s, int fd, uint64_t deadline,
			       bool part)
{
	uint32_t ran = sigdefer_handlers(), no_restart = sigdefer_no_restart();
	int ret = sleep_write(s, fd, deadline, -1,
			      deadline != UINT64_MAX || part);

	if (ret == -EINTR && deadline == UINT64_MAX && !part &&
	    ran != sigdefer_handlers() && no_restart == sigdefer_no_restart())
		return 0;
	return sleep_heeded(ret, deadline, part);
}

/*
 * Over RDMA by its own ear, as a receive (sleep_ear()): through the service
 * thread each completion costs two wake-ups, and the lock between them. A
 * signal that came with one, or between two sleeps, ends the send as well.
 */
int wait_tx(struct sock *s, int fd, uint64_t deadline, bool part)
{
	struct sigblock h
		__attribute__((cleanup(sigblock_drop))) = { .fd = -1 };
	bool restarts;
	int ret;

	if (!tx_by_ring(s)) {
		ret = sleep_heeded(nap_locked(s), deadline, part);
		return ret ? ret : clock_ns() >= deadline ? -EAGAIN : 0;
	}
	if (spin_tx(s))
		return 0;
	if (likely(!carrier_ear_free(s, true)) || !sigblock_begin(&h))
		return sleep_interruptible(s, fd, deadline, part);
	do {
		ret = sleep_write(s, fd, deadline, h.fd, false);
		rdma_cqwait_leave(s);
		if (!ret && sigblock_pending(&h))
			ret = -EINTR;
	} while (!ret && in_vain(s));
	if (ret == -EINTR) {
		ret = sigblock_heed(s, &h, &restarts);
		if (deadline == UINT64_MAX && restarts && !part)
			ret = 0;
	}
	sigblock_end(s, &h);
	return ret;
}

bool credit_comes(struct sock *s, int fd, uint64_t *until)
{
	uint64_t now;

	if (likely(!carrier_credit_due(s, FEW)))
		return false;
	now = clock_ns();
	if (!*until)
		*until = now + CREDIT_NS;
	return now < *until && !wait_tx(s, fd, *until, false);
}

/*
 * Room, or something else, is waited for. Behind a handler a call that has sent
 * nothing is made again, as the kernel does: with what the handler has made of
 * O_NONBLOCK and SO_SNDTIMEO.
 */
int sleep_for_room(struct sock *s, int fd, struct load *w)
{
	uint32_t ran = sigdefer_handlers();
	bool part = load_part(w);
	int err = wait_tx(s, fd, load_deadline(s, w), part);

	err = sleep_ended(err, part, ran);
	if (!err && unlikely(ran != sigdefer_handlers())) {
		w->nonblock = s->opt.nonblock || (w->flags & MSG_DONTWAIT);
		w->deadline = 0;
	}
	return err;
}

/*
 * With one watcher no other thread can miss a byte that is eaten here. With
 * more, bytes go only when armed and nothing is left to do (ring.c).
 */
void sock_rang(struct sock *s, bool asleep)
{
	uint32_t mark;
	bool gone = false;

	if (!s->paired || sock_lock(s))
		return;
	if (s->paired && sock_here(s) && !s->peer_gone && s->waits.wake >= 0) {
		mark = ring_mark(s);
		if (s->waits.watched > 1 || s->waits.readers ||
		    s->waits.writers ||
		    __atomic_load_n(&s->waits.asleep_anchor, __ATOMIC_RELAXED) >
			    asleep) {
			anc_arm(s->rx, ANC_WAKE);
			if (s->waits.writers)
				__atomic_store_n(&s->tx->wait, 1,
						 __ATOMIC_SEQ_CST);
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
			if (sock_pending(s) || s->got.avail || s->eos.rx_eof ||
			    zc_here(s) || wait_room_due(s))
				mark = s->waits.rung_eaten;
		} else if (mark == s->waits.rung_eaten) {
			mark++; /* readable: one is there, numbered or not */
		}
		if (mark != s->waits.rung_eaten)
			page_add(wakeups_rx, 1);
		ring_eat(s, mark);
		if (wake_hung_up(s) && !s->eos.shut_rd) {
			lift_peer_gone(s);
			gone = true;
		}
	}
	sock_unlock(s);
	if (gone)
		sock_changed(s);
}
