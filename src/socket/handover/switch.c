/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Switching (D3): the writer of a paired connection decides where its next
 * byte goes. It leaves the anchor for the ring as soon as both ends are known
 * to count every byte, or at a moment when nothing is under way; and the ring
 * for the anchor when it must.
 */

#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <linux/sockios.h>

#include "socket/handover/handover.h"

/* --- to the ring ------------------------------------------------------- */

/*
 * No Nagle, for the kicks' sake. Set even where it is on: that sends what the
 * last call left lying with MSG_MORE, which the reader has to take before the
 * ring.
 */
static void options_ours(struct sock *s, int fd)
{
	socklen_t len = sizeof(int);
	int on = 1, off = 0;

	if (s->opt.nodelay < 0 &&
	    sys_getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &s->opt.nodelay, &len))
		s->opt.nodelay = 0;
	len = sizeof(int);
	if (s->opt.cork < 0 &&
	    sys_getsockopt(fd, IPPROTO_TCP, TCP_CORK, &s->opt.cork, &len))
		s->opt.cork = 0;
	if (s->opt.cork)
		sys_setsockopt(fd, IPPROTO_TCP, TCP_CORK, &off, sizeof(off));
	s->opt.corked = s->opt.cork > 0;
	sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	window_begin(s, fd);
	alive_begin(s, fd);
}

void lift_left(struct sock *s, int fd)
{
	if (s->opt.nodelay == 0)
		sys_setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &s->opt.nodelay,
			       sizeof(int));
	if (s->opt.cork > 0)
		sys_setsockopt(fd, IPPROTO_TCP, TCP_CORK, &s->opt.cork,
			       sizeof(int));
	s->opt.nodelay = s->opt.cork = -1;
	s->opt.corked = false;
	alive_end(s, fd);
}

/* Nothing of ours is under way, by the counts and by the kernel's word. */
static bool drained(struct sock *s, int fd)
{
	struct diag d;
	int queued = 0;

	if (__atomic_load_n(&s->in.tcp_tx, __ATOMIC_SEQ_CST) ||
	    s->at.sent != __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE))
		return false;
	/* there the reader's word is all; acknowledgements take their time */
	if (!carrier_shared(s))
		return true;
	if (sys_ioctl(fd, SIOCOUTQ, &queued) || queued)
		return false;
	if (diag_peer(fd, &d))
		return false;
	if (d.rqueue) {
		/* more lies there than was counted: foreign code writes */
		s->fallback.pinned = true;
		sock_why(s, WHY_FOREIGN_IO);
		return false;
	}
	return true;
}

/* The switch itself, as anc_switch(). */
static int leave_anchor(struct sock *s, int fd)
{
	int ret = -EAGAIN;

	/* TCP senders look here after they counted themselves in */
	__atomic_store_n(&s->in.switching, 1, __ATOMIC_SEQ_CST);
	if (drained(s, fd))
		ret = anc_switch(s->tx, &s->at, false);
	else if (!s->fallback.pinned && lift_audited(s) &&
		 !__atomic_load_n(&s->in.tcp_tx, __ATOMIC_SEQ_CST))
		ret = anc_switch(s->tx, &s->at, true);
	if (ret >= 0)
		lift_sent_base(s, fd);
	__atomic_store_n(&s->in.switching, 0, __ATOMIC_SEQ_CST);
	return ret;
}

/* A thread of R that sleeps in the kernel comes out by a byte on the anchor. */
static void first_kick(struct sock *s, int fd)
{
	static const char kick;

	anc_kick(s->tx, &s->at);
	if (sock_eats(s, sys_send(fd, &kick, 1, MSG_DONTWAIT | MSG_NOSIGNAL)) ==
	    1)
		return;
	__atomic_store_n(&s->tx->kicks, --s->at.kicks, __ATOMIC_SEQ_CST);
	ring_kick_owed(s);
}

/* Lock held. True: the next byte goes to the ring. */
static bool switch_tx(struct sock *s, int fd)
{
	int ret;

	if (!s->paired || s->peer_gone || never_lift(s) || s->eos.shut_wr ||
	    __atomic_load_n(&s->tx->state, __ATOMIC_ACQUIRE) != ANC_TCP ||
	    !__atomic_load_n(&s->peer->ready, __ATOMIC_ACQUIRE) ||
	    clock_ns() < s->fallback.lift_not_before || !zc_settled(s) ||
	    !zc_left(s))
		return false;
	if (!carrier_may_rise(s) ||
	    (unlikely(user_other(s)) && user_parts(s)) ||
	    user_inside_elsewhere(s))
		return false;
	ring_put_begin(s); /* the reader may ask before the first kick is out */
	ret = leave_anchor(s, fd);
	if (ret < 0) {
		ring_put_end(s);
		conn_spare(&s->conn, false);
		return false;
	}
	__atomic_store_n(&s->own->leaves, 0, __ATOMIC_RELAXED);
	options_ours(s, fd);
	if (!carrier_rises(s, ret) && !ret)
		first_kick(s, fd);
	ring_put_end(s);
	ring_note(s);
	carrier_risen(s);
	s->waits.full = false;
	s->id.met = true;
	sock_is_lifted(s);
	log_note("LIFT: fd %d: transmits over SDP (%s) from offset %llu", fd,
		 FAB(s)->name, (unsigned long long)s->at.x);
	return true;
}

void lift_try_tx(struct sock *s, int fd)
{
	struct anc_side *peer = s->peer; /* closed meanwhile: NULL */
	struct anc_dir *tx = s->tx;
	bool done = false;

	if (!tx || !peer || anc_state(tx) != ANC_TCP)
		return;
	if (unlikely(s->fallback.apart))
		user_rests(s);
	if (never_lift(s) || s->peer_gone ||
	    !__atomic_load_n(&peer->ready, __ATOMIC_ACQUIRE))
		return;
	carrier_ask(s);
	if (!lift_audited(s) &&
	    s->at.sent != __atomic_load_n(&tx->taken, __ATOMIC_ACQUIRE))
		return;
	if (lock_try(&s->lock))
		return;
	done = switch_tx(s, fd);
	sock_unlock(s);
	if (done)
		sock_changed(s);
}

bool lift_tx(struct sock *s, int fd)
{
	if (!sock_up(s, fd))
		return false;
	if (s->paired)
		lift_try_tx(s, fd);
	return s->paired && tx_state_seen(s) != ANC_TCP &&
	       tx_state_seen(s) != ANC_DRAINING && tx_state_seen(s) != ANC_GONE;
}

/* --- back to the anchor ------------------------------------------------ */

int lift_stall(struct sock *s, int fd, enum reason why, bool fin)
{
	int ret;

	if (unlikely(s->window.holdback))
		holdback_show(s);
	ret = carrier_may_stall(s, fd, fin);
	if (ret)
		return ret;
	if (!zc_recall(s)) /* y counts what was read */
		return -EBUSY;
	carrier_stand(s, fin);
	ret = anc_stall(s->tx, &s->at, fin);
	if (ret) {
		__atomic_store_n(&s->fallback.stand, 0, __ATOMIC_SEQ_CST);
		return ret;
	}
	if (s->fallback.stalls < 255)
		s->fallback.stalls++;
	if (s->fallback.stalls >= 2)
		s->fallback.lift_not_before = clock_ns() + 1000000000u;
	s->waits.full = false;
	lift_left(s, fd);
	ring_note(s);
	sock_event(s, EVENT_STALL, why);
	if (why == WHY_STALLED) /* others are fallbacks, asked for */
		page_add(stalls, 1);
	if (!s->fallback.falling_back && !s->fallback.due && !fin)
		page_add(fallbacks_for[why], 1);
	sock_why(s, why);
	log_debug("fd %d: transmits over TCP again: %s", fd, reason_text(why));
	return 0;
}
