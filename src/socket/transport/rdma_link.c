/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A sock over RDMA: its words as messages (remote.h), and the wake-up socket's
 * bytes.
 */

#include "socket/transport/transport.h"

/* --- becoming one ------------------------------------------------------ */

static int wake_pair(struct sock *s)
{
	const int type = SOCK_STREAM | SOCK_CLOEXEC;
	int fd[2], ret = (int)sys_call6(SYS_socketpair, AF_UNIX, type, 0,
					(long)fd, 0, 0);
	if (ret)
		return ret;
	fd[0] = fd_hide(fd[0]);
	fd[1] = fd_hide(fd[1]);
	if (fd[0] >= 0 && fd[1] >= 0) {
		s->waits.wake = fd[0];
		s->waits.wake_ms = 0;
		s->rd->far = fd[1];
		return 0;
	}
	for (ret = 0; ret < 2; ret++)
		if (fd[ret] >= 0) {
			fd_unhide(fd[ret]);
			sys_close(fd[ret]);
		}
	return -EMFILE;
}

/* Up once more: both directions are TCP, counts of bytes go on. */
static void forget_words(struct sock *s)
{
	struct rdma *r = s->rd;

	if (r->words.reader_busy)
		anc_idle(s->tx); /* that was said of the one before */
	memset(&r->words, 0, sizeof(r->words));
	s->tx->epoch = s->rx->epoch = 0;
	s->ar.base += (int64_t)s->ar.kicks;
	s->at.kicks = s->ar.kicks = s->tx->kicks = s->rx->kicks = 0;
	s->tx->wait = s->rx->wait = 0;
	s->ar.unsure = false;
	r->mark.ahead = false;
	r->mark.marker_at = r->mark.hidden = r->mark.marker_due = 0;
	r->mark.marker_wait = r->mark.eof_hidden = false;
	s->fallback.lift_not_before = clock_ns() + 100000000u;
}

int rdma_up(struct sock *s)
{
	struct rdma *r = s->rd;
	int ret = s->paired ? 0 : wake_pair(s);

	if (ret)
		return ret;
	if (s->paired) {
		forget_words(s);
		lift_base(s, sock_anchor(s));
	}
	r->state = RDMA_UP;
	r->load.bulk = r->load.sizing = false;
	r->due.cqwait_lent = r->due.cqwait_owed = false;
	r->due.cqwait_by = 0;
	r->load.seen_rx = r->load.pressed = 0;
	r->failover.confirmed = true; /* of what was never lifted */
	remote_init(&r->words, &r->mirror, &s->at, &s->ar);
	s->own = r->words.own;
	s->peer = r->words.peer;
	spin_bound(s);
	window_begin(s, sock_fd(s));
	s->end = r->end;
	s->end_pid = sock_pid;
	reports.zc_paired(s);
	if (!s->paired) {
		lift_adopt(s, r->words.tx, r->words.rx);
		s->seek.look = lift_audit(s, sock_fd(s));
	}
	s->own->reset = s->opt.linger0;
	s->own->ready = 1;
	__atomic_store_n(&s->paired, true, __ATOMIC_SEQ_CST);
	service_add(s);
	r->due.changed = r->due.restless = true;
	rdma_tell(s, true);
	rdma_arm(s);
	service_poke(service_id());
	return 0;
}

/* --- words ------------------------------------------------------------- */

/* The lift of the peer's direction: its marker is the next on the anchor. */
static void lifted_rx(struct sock *s, struct rdma *r)
{
	r->mark.marker_wait = true;
	r->mark.marker_at = s->ar.kicks;
	r->due.restless |= rdma_marker_urgent(s);
	rdma_anchor_watch(s, s->waits.orphan_fd >= 0 ? s->waits.orphan_fd :
						       sock_fd(s));
}

int rdma_words(struct sock *s, const uint8_t *in)
{
	struct rdma *r = s->rd;
	enum anc_state was = anc_state(s->rx), now;
	int news;

	if (!rdma_here(s))
		return -EPROTO;
	if (r->state != RDMA_UP || rdma_silent(s))
		return 0; /* too late: rdma_failover.c and rdma_last_word() */
	news = remote_take(&r->words, in);
	if (news < 0) {
		s->conn.fault = "words that cannot be true";
		return news;
	}
	now = anc_state(s->rx);
	if ((was == ANC_TCP || was == ANC_RESTORING) &&
	    (now == ANC_SWITCHING || now == ANC_LIFTED || now == ANC_DRAINING))
		lifted_rx(s, r);
	/* all in front of x is taken, and no marker comes before our answer */
	if (now == ANC_LIFTED && was != ANC_LIFTED && r->mark.marker_wait)
		lift_base(s, s->waits.orphan_fd >= 0 ? s->waits.orphan_fd :
						       sock_fd(s));
	return news;
}

/* --- waking ------------------------------------------------------------ */

/* Sleepers on the wake-up socket are rung as a peer on this host would. */
static void wake_readers(struct sock *s)
{
	if (!(__atomic_load_n(&s->rx->armed, __ATOMIC_SEQ_CST) & ANC_WAKE))
		return;
	__atomic_and_fetch(&s->rx->armed, ~(uint32_t)ANC_WAKE,
			   __ATOMIC_SEQ_CST);
	if (s->waits.sleepers ||
	    __atomic_load_n(&s->waits.watched, __ATOMIC_SEQ_CST))
		rdma_wake(s);
}

void rdma_polled(struct sock *s, int news, bool in, bool credits)
{
	struct rdma *r = s->rd;
	int fd = s->waits.orphan_fd >= 0 ? s->waits.orphan_fd : sock_fd(s);

	r->load.heard = s->conn.mseq_sent;
	if (credits)
		r->load.given = s->conn.tx_stream;
	r->due.active |= !r->due.serving;
	r->due.fresh = r->due.serving && (r->due.fresh || in);
	if (in) {
		wake_readers(s);
		rdma_grow(s);
	}
	if (unlikely(r->load.sizing))
		rdma_sized(s);
	/* words may have waited for the credits that came */
	rdma_report(s);
	if (unlikely(s->ar.unsure))
		reports.give(s);
	if (unlikely(rdma_update_waits(s)) && !r->due.restless)
		rdma_owe(s);
	if (credits || r->state != RDMA_UP)
		rdma_wake_writers(s);
	if (r->mark.ahead && r->state == RDMA_UP)
		rdma_risen(s);
	if (!news || r->state != RDMA_UP)
		return;
	if (news & REMOTE_VOID)
		s->fallback.pins &= (uint8_t)~2u;
	if (news & REMOTE_SEEN) {
		failover_seen(s);
		rdma_marker_write(s, fd);
	}
	if (news & REMOTE_KICK)
		ring_reader(s, fd);
	if (news & REMOTE_BURN)
		conn_burn(&s->conn, r->words.burn);
	if (news & REMOTE_STATE)
		r->due.changed = true;
	if (news & (REMOTE_STATE | REMOTE_TAKEN))
		rdma_wake(s);
	rdma_passed(s);
	rdma_tell(s, false);
	rdma_marker_read(s, fd);
	rdma_owe(s);
}

/* --- states --------------------------------------------------------------- */

void rdma_moved(struct sock *s)
{
	struct rdma *r = s->rd;

	r->due.shown_rx = (uint8_t)anc_state(s->rx);
	r->due.shown_tx = (uint8_t)anc_state(s->tx);
	if (r->due.shown_rx == ANC_TCP || r->due.shown_rx == ANC_RESTORING)
		rdma_marker_end(s);
	if (r->due.shown_rx == ANC_TCP) {
		lift_base(s, s->waits.orphan_fd >= 0 ? s->waits.orphan_fd :
						       sock_fd(s));
		rdma_anchor_watch(s, -1);
	}
	r->due.changed = true;
	rdma_tell(s, false);
	rdma_owe(s);
}

/* The end stays until no look is under way. */
static bool rdma_glance(struct sock *s)
{
	bool yes;

	__atomic_add_fetch(&s->in.lookers, 1, __ATOMIC_SEQ_CST);
	yes = fab_pending(s);
	__atomic_sub_fetch(&s->in.lookers, 1, __ATOMIC_SEQ_CST);
	return yes;
}

const struct link_ops rdma_link = {
	.words = rdma_words,
	.hide = rdma_hide,
	.polled = rdma_polled,
	.failed = rdma_failed,
	.room = failover_room,
	.tell = rdma_tell,
	.took = rdma_took,
	.may_kick = rdma_may_kick,
	.marker_read = rdma_marker_read,
	.tcp_left = rdma_left,
	.tcp_took = rdma_took_tcp,
	.strayed = rdma_strayed,
	.was_reset = rdma_was_reset,
	.glance = rdma_glance,
	.path = PATH_RDMA,
	.row = rdma_row,
	.names = rdma_shown_names,
	.records = rdma_peer_records,
};
