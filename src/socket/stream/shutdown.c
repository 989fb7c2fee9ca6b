/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Half-close. */

#include "socket/stream/stream.h"

/* Or sleeps until it may go on there. */
static bool sends_in_kernel(const struct sock *s)
{
	return __atomic_load_n(&s->in.tcp_tx, __ATOMIC_SEQ_CST) ||
	       __atomic_load_n(&s->in.resting, __ATOMIC_SEQ_CST);
}

/*
 * One in poll() waits for room on the anchor, which has none: the kernel alone
 * can bring it out.
 */
static bool polls_in_kernel(const struct sock *s, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	struct timespec now = { 0, 0 };

	return __atomic_load_n(&s->waits.asleep_anchor, __ATOMIC_SEQ_CST) &&
	       sys_ppoll(&p, 1, &now, NULL) == 0;
}

/*
 * Nothing goes out any more, and a program is told so by room: once, as news.
 * Those that wait in the ring look again before long (wait.h).
 */
static void ends(struct sock *s)
{
	if (!s->eos.shut_wr)
		__atomic_add_fetch(&s->waits.out_gen, 1, __ATOMIC_RELAXED);
	s->waits.full = false;
	s->eos.shut_wr = s->eos.fin_due = true;
}

/*
 * True: the FIN is taken care of. DisConn goes out as the last message. The
 * kernel's FIN follows as soon as the reader has taken the last byte
 * (fallback.c, finish()): at once when it has already, else by our next call or
 * the service thread.
 */
static bool shut_write(struct sock *s, int fd)
{
	uint64_t until =
		clock_ns() + (uint64_t)settings.fallback_timeout_ms * 1000000u;
	int err = 0;

	while (s->paired && !err) {
		fallback_serve(s, fd = sock_at(s, fd));
		switch (anc_state(s->tx)) {
		case ANC_SWITCHING:
		case ANC_LIFTED:
			zc_recall(s);
			zc_settled(s);
			carrier_shut(s);
			pump_control(s);
			ends(s);
			ring_note(s);
			fallback_serve(s, fd);
			return true;
		case ANC_DRAINING: /* the reader may still ask for bytes */
			if (s->eos.shut_wr && !s->eos.fin_due)
				return false; /* the FIN is out */
			ends(s);
			fallback_serve(s, fd);
			/*
			 * else it is what brings out a thread that sends in the
			 * kernel, or waits there for room
			 */
			__atomic_thread_fence(__ATOMIC_SEQ_CST);
			if (!s->eos.fin_due ||
			    (!sends_in_kernel(s) && !polls_in_kernel(s, fd)))
				return true;
			s->eos.fin_due = false;
			return false;
		case ANC_TCP:
		case ANC_GONE:
			s->eos.shut_wr = true;
			return false;
		default: /* falling back: its bytes go first */
			err = wait_tx(s, fd, until, false);
			break;
		}
	}
	s->eos.shut_wr = true;
	return false;
}

/* Not paired yet, and not to be any more. */
static int shut_tcp(struct sock *s, int fd, int how)
{
	int ret = sys_shutdown(fd, how);

	if (!ret && s->id.phase == PH_CONNECTED) {
		s->eos.shut_wr |= how != SHUT_RD;
		s->eos.shut_rd |= how != SHUT_WR;
	}
	return ret;
}

int sock_shutdown(struct sock *s, int fd, int how)
{
	bool sent = false;
	int ret = 0;

	if (how < SHUT_RD || how > SHUT_RDWR)
		return sys_shutdown(fd, how);
	if (s->paired && unlikely(user_other(s)))
		user_comes_back(s);
	if (sock_lock(s))
		return s->paired ? -EDEADLK : sys_shutdown(fd, how);
	fd = sock_at(s, fd);
	if (!s->paired) {
		ret = shut_tcp(s, fd, how);
		if (how != SHUT_RD)
			order_ended(s);
		sock_unlock(s);
		return ret;
	}
	if (how != SHUT_RD)
		sent = shut_write(s, fd);
	if (how != SHUT_WR) {
		s->eos.shut_rd = true;
		__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
		if (__atomic_load_n(&s->waits.sleepers, __ATOMIC_RELAXED))
			sys_shutdown(s->waits.wake, SHUT_RD);
	}
	if (how != SHUT_RD)
		order_ends(s, fd);
	sock_unlock(s);
	if (sent && how == SHUT_RDWR)
		sys_shutdown(fd, SHUT_RD);
	else if (!sent)
		ret = sys_shutdown(fd, how);
	if (how != SHUT_RD)
		order_ended(s);
	sock_changed(s);
	return ret;
}
