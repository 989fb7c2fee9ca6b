/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How many receives an end has posted, and how large: few small ones at rest
 * (F16), more and larger ones under load. The receiver decides, and says what
 * it has (conn_say_rcvbuf()): larger when none of the small ones is left,
 * smaller before the first small one is posted. A peer that does not know such
 * words is given more, of the size that it knows.
 */

#include "socket/transport/transport.h"

#define BUSY_BYTES 32768u /* so much under pressure deserves more receives */
#define ANSWERED   (VERBS_RCV_REST - 1u) /* credits behind one message */
#define SLIM_NS	   1000000000ull /* so long it is quiet */
/* Its last credits are the program's: rdma_spare(). */
static bool may_say(const struct sock *s)
{
	return !s->conn.spare || s->conn.credits > CONN_SPARE;
}

static void say(struct sock *s, uint32_t size)
{
	if (!conn_say_rcvbuf(&s->conn, size))
		log_debug("fd %d: receives of %u bytes", sock_fd(s), size);
	pump_control(s);
}

/*
 * More receives help a peer that has to wait for credits. One that asks and
 * is answered, a message at a time, never waits: its few stay in the caches.
 */
void rdma_grow(struct sock *s)
{
	struct rdma *r = s->rd;
	uint64_t moved = s->conn.rx_stream;
	int n = -EOPNOTSUPP;

	if (conn_peer_view(&s->conn) < ANSWERED)
		r->load.pressed += moved - r->load.seen_rx;
	r->load.seen_rx = moved;
	if (END(s)->depth > VERBS_RCV_REST || r->load.pressed < BUSY_BYTES)
		return;
	r->load.pressed = 0;
	if (!window_may_post(s, VERBS_RCV_SIZE * VERBS_RCV_MOST))
		return;
	if (conn_sizes(&s->conn) &&
	    window_may_post(s, (uint64_t)VERBS_RCV_BULK * VERBS_RCV_MOST))
		n = rdma_api->resize(END(s), VERBS_RCV_BULK, VERBS_RCV_MOST);
	r->load.bulk = n >= 0;
	r->load.sizing |= r->load.bulk;
	if (n < 0)
		n = rdma_api->resize(END(s), VERBS_RCV_SIZE, VERBS_RCV_MOST);
	if (n > 0)
		conn_reposted(&s->conn, (uint32_t)n);
	sock_publish(s);
}

void rdma_sized(struct sock *s)
{
	struct rdma *r = s->rd;
	struct verbs_info i;

	if (!rdma_here(s) || r->state != RDMA_UP || s->conn.error)
		return;
	if (!r->load.bulk) {
		if (!conn_rcvbuf_heard(&s->conn))
			return;
		r->load.sizing = false;
		rdma_api->resize(END(s), VERBS_RCV_SIZE, VERBS_RCV_REST);
	} else if (may_say(s)) {
		rdma_api->info(END(s), &i);
		if (i.rcv_size < VERBS_RCV_BULK)
			return;
		r->load.sizing = false;
		say(s, VERBS_RCV_BULK);
	}
}

/* Back to what every message of the peer fits into: the Hello's size. */
static void shrink(struct sock *s)
{
	struct rdma *r = s->rd;
	uint32_t size = VERBS_RCV_SIZE;

	if (r->load.bulk && may_say(s)) {
		r->load.bulk = false;
		r->load.sizing = true;
		say(s, VERBS_RCV_SIZE);
	}
	if (r->load.bulk || (r->load.sizing && !conn_rcvbuf_heard(&s->conn)))
		size = VERBS_RCV_BULK;
	else
		r->load.sizing = false;
	rdma_api->resize(r->end, size, VERBS_RCV_REST);
}

bool rdma_may_rise(struct sock *s)
{
	rdma_tell(s, false);
	if (s->conn.credits <= CONN_SPARE || s->conn.want ||
	    FAB(s)->room(END(s)) < CONN_SPARE_ROOM || !failover_keep(s))
		return false;
	rdma_spare(s, 0);
	return true;
}

/*
 * What an end got under load is given back when it is quiet (F16). A posted
 * receive can only be used up, by messages: the peer is asked for so many that
 * all are which are posted now, and few take their places (conn_burn()).
 */
void rdma_slim(struct sock *s, bool quiet)
{
	struct rdma *r = s->rd;
	uint64_t now = clock_ns();
	struct verbs_info i;

	/* the look at it may have found it broken, and let it go */
	if (r->state != RDMA_UP) {
		r->load.fat = false;
		r->load.quiet_at = now;
		return;
	}
	rdma_api->info(r->end, &i);
	r->load.fat = i.registered > VERBS_IDLE_MAX && !s->got.avail &&
		      !s->conn.error;
	if (!r->load.fat || !quiet) {
		r->load.quiet_at = now;
		return;
	}
	if (now < r->load.quiet_at + SLIM_NS)
		return;
	shrink(s);
	r->load.pressed = 0;
	FAB(s)->trim(r->end);
	rdma_api->info(r->end, &i);
	r->load.fat = i.registered > VERBS_IDLE_MAX;
	r->load.quiet_at = now;
	sock_publish(s);
	if (!r->load.fat)
		return;
	r->words.burn_no = (uint8_t)(r->words.burn_no + i.posted);
	rdma_tell(s, false);
}
