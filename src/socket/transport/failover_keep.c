/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What was sent over RDMA is kept until the reader has confirmed the lift or
 * the return: a queue pair that breaks before leaves it to be sent again.
 */

#include "base/arena.h"
#include "sdp_proto/wire.h"
#include "socket/transport/transport.h"

#define HEAR 2 /* messages of ours, and the peer may need an answer */
#define KEPT RDMA_KEPT

static struct arena kepts = ARENA_INIT(sizeof(struct rdma_kept));

void failover_forked(void)
{
	arena_forked(&kepts);
}

bool failover_keep(struct sock *s)
{
	struct rdma *r = s->rd;

	if (!rdma_here(s) || r->state != RDMA_UP)
		return false;
	if (!r->failover.kept)
		r->failover.kept = arena_get(&kepts);
	if (!r->failover.kept)
		return false;
	r->failover.kept->len = 0;
	r->failover.confirmed = false;
	return true;
}

void failover_confirmed(struct rdma *r)
{
	if (r->failover.kept)
		arena_put(&kepts, r->failover.kept);
	r->failover.kept = NULL;
}

bool failover_room(const struct sock *s)
{
	const struct rdma *r = s->rd;

	return r->state == RDMA_UP &&
	       (r->failover.confirmed ||
		(r->failover.kept && r->failover.kept->len < KEPT));
}

size_t failover_space(const struct sock *s, size_t n)
{
	const struct rdma *r = s->rd;
	size_t left;

	if (!failover_room(s))
		return 0;
	if (r->failover.confirmed)
		return n;
	left = KEPT - r->failover.kept->len;
	return n < left ? n : left;
}

/* Kept first, and sent from there: it cannot be gone, or be others, by then. */
static ssize_t send_kept(struct sock *s, struct cursor *c, size_t n)
{
	struct rdma_kept *k = s->rd->failover.kept;
	struct cursor from = *c;
	struct iovec iov = { k->mem + k->len, n };
	ssize_t done;

	if (!cursor_get(&from, iov.iov_base, n))
		return -EFAULT;
	cursor_set(&from, &iov, 1);
	done = pump_send(s, &from, n);
	if (done > 0) {
		cursor_skip(c, (size_t)done);
		k->len += (uint32_t)done;
	}
	return done;
}

ssize_t failover_send(struct sock *s, struct cursor *c, size_t n)
{
	struct rdma *r = s->rd;
	ssize_t done;

	if (!failover_room(s))
		return 0;
	n = failover_space(s, n);
	done = r->failover.confirmed || c->file ? pump_send(s, c, n) :
						  send_kept(s, c, n);
	if (done > 0 && s->conn.spare)
		rdma_spared(s);
	/* an end that has credits has no other reason to look */
	if (done > 0 && s->conn.mseq_sent - r->load.heard >= HEAR)
		pump_poll(s);
	return done;
}

void failover_seen(struct sock *s)
{
	struct rdma *r = s->rd;
	enum anc_state st = anc_state(s->tx);

	if (!remote_seen(&r->words))
		return;
	if ((st == ANC_LIFTED || st == ANC_RECALLED) && !r->mark.ahead &&
	    !r->failover.confirmed) {
		r->failover.confirmed = true;
		failover_confirmed(r);
		if (s->waits.full || s->waits.writers)
			rdma_wake(s);
	}
	if (s->fallback.stand) {
		__atomic_store_n(&s->fallback.stand, 0, __ATOMIC_SEQ_CST);
		r->due.changed = true;
		rdma_wake(s);
	}
}

/* Where the stream bytes of a message begin; its length if it has none. */
static uint32_t head(const struct fab_msg *m)
{
	uint32_t n = m->len;

	if (n > WIRE_BSDH && m->mem[0] == WIRE_DATA)
		n = WIRE_BSDH;
	else if (n > WIRE_BSDH + 16 && m->mem[0] == WIRE_SRC_AVAIL)
		n = WIRE_BSDH + 16;
	return n;
}

size_t failover_unacked(struct rdma *r, uint8_t *to)
{
	struct fab_msg m;
	uint32_t pos = 0, n;
	size_t sum = 0;

	while (rdma_api->unacked(r->end, &pos, &m) == 1) {
		n = m.len - head(&m);
		if (to && n)
			memcpy(to + sum, m.mem + head(&m), n);
		sum += n;
	}
	return sum;
}
