/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Home (D4): both directions back on the anchor, so that code libsdp does not
 * see reads and writes the true stream. Our transmit direction spills by our
 * own decision; the receive direction is asked for, and what our program has
 * not consumed is written to the anchor by the peer (anchor.md 6.1).
 */

#include "socket/impl.h"

#define CHUNK 16384

/* --- writer's part ----------------------------------------------------- */

/*
 * Writes the stream bytes the reader could not keep to the anchor. They lie
 * in our own ring still. True when all of them are out.
 */
static bool write_back(struct sock *s, int fd)
{
	uint8_t buf[CHUNK];

	while (s->resume_at < s->at.sent) {
		uint64_t back = s->at.sent - s->resume_at;
		ssize_t n =
			pump_unread(s, back, buf, back < CHUNK ? back : CHUNK);

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

/*
 * A half-closed direction keeps its anchor open until the reader has the last
 * byte, so that it could still come home; then the kernel's FIN follows.
 */
static void finish(struct sock *s, int fd)
{
	switch (anc_state(s->tx)) {
	case ANC_LIFTED:
		if (!s->orphan &&
		    s->at.sent !=
			    __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE))
			return;
		if (anc_spill(s->tx, &s->at, true))
			return; /* asked home this instant: after that */
		ring_note(s);
		break;
	case ANC_ASKED:
	case ANC_PAUSED:
	case ANC_RESUME:
		if (!s->orphan)
			return;
		break;
	default:
		break;
	}
	s->fin_due = false;
	sys_shutdown(fd, SHUT_WR);
}

void home_serve(struct sock *s, int fd)
{
	uint64_t from;

	if (likely(anc_state(s->tx) <= ANC_SPILL && !s->fin_due) ||
	    !s->paired || fd < 0)
		return;
	switch (anc_state(s->tx)) {
	case ANC_ASKED:
		if (__atomic_load_n(&s->tx->rawrx, __ATOMIC_SEQ_CST)) {
			/* its sleepers on the anchor come out first */
			ring_reader(s, fd);
			ring_note(s);
			break;
		}
		if (!anc_answer(s->tx, &s->at)) {
			s->resume_at = 0;
			ring_note(s);
		}
		break;
	case ANC_RESUME:
		if (!s->resume_at) {
			if (anc_resume_from(s->tx, &s->at, &from)) {
				pump_fail(s, -EPROTO);
				return;
			}
			s->resume_at = from;
		}
		if (write_back(s, fd)) {
			anc_resumed(s->tx);
			ring_note(s);
		}
		break;
	default:
		break;
	}
	if (s->fin_due)
		finish(s, fd);
}

/* --- reader's part ----------------------------------------------------- */

/* Take exactly the bells that are still on the anchor. */
static int all_bells(struct sock *s, int fd)
{
	int64_t n;
	char sink[256];

	while ((n = anc_bells(s->rx, &s->ar)) > 0) {
		ssize_t got = sys_recv(fd, sink,
				       n < 256 ? (size_t)n : sizeof(sink),
				       MSG_DONTWAIT);
		if (got <= 0)
			return got == -EAGAIN ? -EAGAIN : 0;
		s->ar.bells += (uint64_t)got;
	}
	return (int)n;
}

/* The peer's process is gone: nothing can be put back by it. */
static int dead_home(struct sock *s, int fd)
{
	if (!s->conn.error)
		pump_poll(s);
	if (s->rx_avail)
		return standin_take(s, fd);
	lift_unpaired(s, WHY_CLOSED);
	return 0;
}

/* Lock held: 0 home, -EAGAIN not yet, other: cannot be. */
int home_rx(struct sock *s, int fd)
{
	uint64_t n;
	int ret;

	switch (anc_state(s->rx)) {
	case ANC_RAW:
		return 0;
	case ANC_LIFTED:
		if (s->orphan)
			break;
		anc_ask(s->rx);
		ring_note(s);
		ring_service(s);
		return -EAGAIN;
	case ANC_ASKED:
		if (s->orphan)
			break;
		ring_service(s);
		return -EAGAIN;
	case ANC_PAUSED:
		if (s->orphan)
			break;
		if (__atomic_load_n(&s->rx->rawrx, __ATOMIC_SEQ_CST))
			return -EAGAIN;
		if (pump_poll(s))
			return -ECONNRESET;
		ret = all_bells(s, fd);
		if (ret)
			return ret;
		s->rx_stale = s->rx_avail > 0;
		s->stale_from = s->ar.taken;
		if (anc_come_home(s->rx, &s->ar, s->rx_stale))
			return 0;
		ring_note(s);
		ring_service(s);
		return -EAGAIN;
	case ANC_RESUME:
		return s->orphan ? -ECONNRESET : -EAGAIN;
	case ANC_SPILL:
		if (pump_poll(s))
			return -ECONNRESET;
		ret = anc_where(s->rx, &s->ar, &n);
		if (ret == ANC_AT_BELLS &&
		    __atomic_load_n(&s->rx->rawrx, __ATOMIC_SEQ_CST))
			return -EAGAIN;
		if (ret == ANC_AT_BELLS)
			return all_bells(s, fd) < 0 ? -EPROTO : -EAGAIN;
		if (ret == ANC_AT_ANCHOR)
			return 0;
		if (!s->orphan && wake_hung_up(s))
			lift_orphan(s);
		return s->orphan ? dead_home(s, fd) : -EBUSY;
	default:
		return 0;
	}
	return dead_home(s, fd);
}

static int tx_home(struct sock *s, int fd, enum reason why)
{
	home_serve(s, fd);
	switch (anc_state(s->tx)) {
	case ANC_LIFTED:
		return lift_spill(s, fd, why, s->orphan) ? -EAGAIN : 0;
	case ANC_ASKED:
	case ANC_PAUSED:
	case ANC_RESUME:
		return s->orphan ? 0 : -EAGAIN;
	default:
		return 0;
	}
}

void home_abandoned(struct sock *s, int fd)
{
	enum anc_state rx = anc_state(s->rx);

	if (unlikely(rx == ANC_ASKED || rx == ANC_PAUSED) && !s->homing)
		home_rx(s, fd);
}

static void pin(struct sock *s)
{
	if (!(s->pins & 1) && !anc_busy(s->tx))
		s->pins |= 1;
	if (!(s->pins & 2) && !anc_busy(s->rx))
		s->pins |= 2;
}

void sock_home_begin(struct sock *s, int fd, enum reason why)
{
	if (sock_lock(s))
		return;
	if (s->pair.state != PAIR_DONE && sock_holders(s) == 1)
		pair_cancel(&s->pair);
	pin(s);
	if (s->paired && sock_lifted(s)) {
		tx_home(s, fd, why);
		home_rx(s, fd);
	}
	sock_unlock(s);
}

static void serve_one(struct sock *s, void *arg)
{
	(void)arg;
	if (lock_try(&s->lock))
		return;
	home_serve(s, sock_fd(s));
	sock_unlock(s);
}

int sock_home(struct sock *s, int fd, enum reason why)
{
	uint64_t until =
		clock_ns() + (uint64_t)settings.home_timeout_ms * 1000000u;
	struct timespec ts = { 0, 1000000 };
	bool was = sock_lifted(s);
	int tx, rx;

	if (sock_lock(s))
		return -EAGAIN;
	s->homes++;
	s->homing++;
	sock_unlock(s);
	for (;;) {
		lock_take(&s->lock);
		tx = s->paired ? tx_home(s, fd, why) : 0;
		rx = s->paired ? home_rx(s, fd) : 0;
		if ((tx != -EAGAIN && rx != -EAGAIN) || clock_ns() > until)
			break;
		sock_unlock(s);
		/* the other end may be ours: its part is done right here */
		service_each(serve_one, NULL);
		if (s->wake >= 0) {
			struct pollfd p = { .fd = s->wake, .events = POLLIN };

			sys_ppoll(&p, 1, &ts, NULL);
			sock_rang(s, fd);
		}
	}
	s->homing--;
	pin(s);
	if (!tx && !rx) {
		if (was)
			COUNT(s, homecomings, 1);
		s->why = WHY_NONE;
		sock_why(s, why);
	}
	sock_unlock(s);
	sock_changed(s);
	if (tx || rx)
		log_warn("fd %d could not come home (%s): tx %s, rx %s", fd,
			 reason_text(why), anc_state_name(anc_state(s->tx)),
			 anc_state_name(anc_state(s->rx)));
	return tx || rx ? -EAGAIN : 0;
}

void sock_unpin(struct sock *s)
{
	if (sock_lock(s))
		return;
	if (s->homes && --s->homes == 0) {
		if (s->pins & 1)
			anc_idle(s->tx);
		if (s->pins & 2)
			anc_idle(s->rx);
		s->pins = 0;
	}
	sock_unlock(s);
}

static void begin_one(struct sock *s, void *why)
{
	sock_home_begin(s, sock_fd(s), *(enum reason *)why);
}

static void home_one(struct sock *s, void *why)
{
	sock_home(s, sock_fd(s), *(enum reason *)why);
}

enum reason sock_off;

void sock_home_all(enum reason why)
{
	sock_off = why;
	service_each(begin_one, &why);
	service_each(home_one, &why);
	service_stop();
	settings.lift_after_messages = LOOK_NEVER;
	settings.path = SET_PATH_VERBS; /* nothing is lifted any more */
}

/* --- descriptors run short -------------------------------------------- */

struct coldest {
	struct sock *s;
	uint64_t moved;
};

static void colder(struct sock *s, void *arg)
{
	struct coldest *c = arg;
	uint64_t moved = s->at.sent + s->ar.taken;

	if (s->wake < 0 || s->orphan || s->rx_avail)
		return;
	if (!c->s || moved < c->moved) {
		c->s = s;
		c->moved = moved;
	}
}

/* The connection that moved least gives its wake-up socket (EMFILE). */
int sock_yield_fd(void)
{
	struct coldest c = { 0 };
	int wake;

	service_each(colder, &c);
	if (!c.s || sock_home(c.s, sock_fd(c.s), WHY_NO_FD) || sock_lock(c.s))
		return -EMFILE;
	wake = c.s->wake;
	if (wake >= 0) {
		service_del(c.s);
		lift_orphan(c.s);
		lift_unpaired(c.s, WHY_NO_FD);
		c.s->wake = -1;
	}
	sock_unlock(c.s);
	if (wake < 0)
		return -EMFILE;
	sock_changed(c.s);
	fd_unhide(wake);
	sys_close(wake);
	return 0;
}
