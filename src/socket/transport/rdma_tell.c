/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Between hosts: state messages to the other end, wake-ups here, and what is
 * owed to the background thread.
 */

#include "socket/transport/transport.h"

/*
 * The last credits are for what the program was told that it can send, and
 * words can wait for that. But a peer that can send anyway does not need them.
 */
static bool spared(const struct sock *s)
{
	return s->conn.spare && tx_by_ring(s) &&
	       conn_spared(&s->conn, FAB(s)->room(END(s)));
}

void rdma_tell(struct sock *s, bool idle)
{
	struct rdma *r = s->rd;
	uint8_t out[REMOTE_LEN];
	enum remote_half h;

	if (!rdma_here(s) || r->state != RDMA_UP || s->conn.error)
		return;
	for (h = 0; h < REMOTE_HALVES; h++) {
		if (unlikely(spared(s))) {
			r->due.restless = true;
			return;
		}
		if (!remote_make(&r->words, h, idle, out))
			continue;
		conn_words(&s->conn, h, out);
		pump_control(s);
	}
	pump_control(s);
}

void rdma_ask(struct sock *s)
{
	if (!rdma_here(s) || s->rd->state != RDMA_UP || pump_poll(s) ||
	    s->at.sent == __atomic_load_n(&s->tx->taken, __ATOMIC_ACQUIRE))
		return;
	__atomic_store_n(&s->tx->wait, 1, __ATOMIC_SEQ_CST);
	rdma_tell(s, false);
	rdma_arm(s);
}

/* A record may lie behind the bytes that were in front of x. */
static void took_to_x(struct sock *s)
{
	if (unlikely(s->rd->failover.called) &&
	    s->ar.taken >= __atomic_load_n(&s->rx->x, __ATOMIC_ACQUIRE))
		rdma_owe(s);
}

void rdma_took(struct sock *s)
{
	took_to_x(s);
	if (unlikely(rdma_update_waits(s)) && !s->rd->due.restless)
		rdma_owe(s);
	if (!__atomic_load_n(&s->rx->wait, __ATOMIC_SEQ_CST))
		return;
	if (anc_state(s->rx) == ANC_SWITCHING &&
	    s->ar.taken < remote_awaited(s->rx))
		return;
	if (anc_state(s->rx) > ANC_SWITCHING)
		__atomic_store_n(&s->rx->wait, 0, __ATOMIC_SEQ_CST);
	rdma_tell(s, false);
}

void rdma_took_tcp(struct sock *s)
{
	took_to_x(s);
	if (likely(!__atomic_load_n(&s->rx->wait, __ATOMIC_SEQ_CST)) ||
	    s->ar.taken < remote_awaited(s->rx))
		return;
	if (lock_try(&s->lock)) {
		rdma_owe(s);
		return;
	}
	if (s->paired && s->rd)
		rdma_tell(s, false);
	sock_unlock(s);
}

void rdma_left(struct sock *s)
{
	struct anc_dir *d = __atomic_load_n(&s->rx, __ATOMIC_SEQ_CST);

	if (s->paired && anc_state(d) != ANC_TCP &&
	    !__atomic_load_n(&d->tcp_rx, __ATOMIC_SEQ_CST))
		rdma_owe(s);
}

void rdma_owe(struct sock *s)
{
	struct rdma *r = s->rd;

	if (!r)
		return; /* detached meanwhile */
	r->due.calm = false;
	r->due.restless = true;
	if (!r->due.serving)
		service_poke(service_id());
}

void rdma_failed(struct sock *s)
{
	__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
	s->rd->due.changed = true;
	rdma_wake(s);
	rdma_owe(s);
}

void rdma_wake(struct sock *s)
{
	static const char byte;

	spin_rung(s);
	if (s->rd->far >= 0 &&
	    sys_send(s->rd->far, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1)
		__atomic_add_fetch(&s->peer->rung, 1, __ATOMIC_RELEASE);
}

void rdma_arm(struct sock *s)
{
	if (!rdma_here(s) || s->rd->state != RDMA_UP)
		return;
	rdma_cqwait_back(s);
	rdma_api->arm(s->rd->end, false);
}

void rdma_wake_writers(struct sock *s)
{
	if ((s->waits.writers || s->waits.full) && tx_by_ring(s) &&
	    pump_room(s))
		rdma_wake(s);
}

/*
 * With few receives left a credit update waits for its time, and the peer,
 * perhaps, for the update: the service thread sends it.
 */
bool rdma_update_waits(const struct sock *s)
{
	return (s->conn.update_late || s->conn.spare) &&
	       conn_view_low(&s->conn) && s->rd->state == RDMA_UP &&
	       !s->conn.error;
}

void rdma_spare(struct sock *s, uint64_t by)
{
	if (!rdma_here(s) || s->rd->state != RDMA_UP)
		return;
	conn_spare(&s->conn, true);
	s->rd->due.spare_at = clock_ns();
	s->rd->due.spare_by = by;
}

void rdma_spare_ends(struct sock *s, bool look)
{
	uint64_t by = s->rd->due.spare_by, wait = ready_wait();

	if (!by || (by >> 32 == wait >> 32 && (!look || by != wait)))
		rdma_spared(s);
}

void rdma_spared(struct sock *s)
{
	conn_spare(&s->conn, false);
	rdma_tell(s, false);
}

/*
 * An update without hurry is left to the program's answer, to its next wait, or
 * to the service thread. Else one that came with a question has one sent in
 * front of each answer, and the two ends go on like that: twice the messages,
 * and a thread is woken for each.
 */
void rdma_report(struct sock *s)
{
	if (s->rd->due.serving || s->got.avail || !conn_can_wait(&s->conn))
		pump_control(s);
}
