/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Home over RDMA: unread bytes handed back (anchor.md 6.1). There is no memory
 * that both ends can see, so in RESTORING the reader sends what its program has
 * not read, in Back messages. The writer puts it on the anchor when it has all
 * of it, behind a record: "here lie the bytes again from offset `from` on". The
 * reader takes that record, and then its own copy is void and the anchor is
 * the program's, or another program's.
 *
 * Each fallback goes this way, also with nothing to hand back. So the reader
 * never reads from TCP what the writer may yet put a record in front of,
 * whenever the queue pair breaks: as long as the record has not come its own
 * copy counts (anc_rx.unsure), and the writer writes none of it without the
 * record.
 */

#include "fabric/shm/shm.h"
#include "sdp_proto/wire.h"
#include "socket/handover/handover.h"

/* --- the reader -------------------------------------------------------- */

/* All that is unread moves into memory of its own. */
int rdma_give_begin(struct sock *s)
{
	struct rdma_given *g;
	size_t n = s->got.avail + s->ar.kept;
	struct iovec iov;
	struct cursor c = { .iov = &iov, .left = 1 };

	if (likely(!s->rd))
		return 0;
	g = &s->rd->failover.give;
	if (__atomic_load_n(&s->rx->sent, __ATOMIC_ACQUIRE) !=
	    s->ar.taken + n) {
		s->conn.fault = "not all that was sent has come";
		return pump_fail(s, -EPROTO);
	}
	g->at = 0;
	g->len = n;
	if (n) {
		g->mem = bytebuf_map(n + WIRE_BSDH);
		if (!g->mem)
			return -ENOMEM;
		iov = (struct iovec){ g->mem + WIRE_BSDH, n };
		if (keep_unread(s, &c) != (ssize_t)n) {
			bytebuf_unmap(g->mem, n + WIRE_BSDH);
			g->mem = NULL;
			return pump_fail(s, -EPROTO);
		}
		n = s->got.avail;
		pump_recv(s, NULL, n, false, true);
		COUNT(s, bytes_sdp_rx, -n);
		keep_drop(s);
	}
	rdma_marker_end(s); /* where nothing was sent there is none */
	__atomic_store_n(&s->ar.unsure, true, __ATOMIC_SEQ_CST);
	return 0;
}

void rdma_give(struct sock *s)
{
	struct conn_offer offer = { 0 };
	struct rdma *r = s->rd;
	struct conn_op op;
	uint32_t room;
	uint8_t *mem;
	size_t most;

	if (anc_state(s->rx) != ANC_RESTORING || !s->ar.unsure ||
	    r->state != RDMA_UP || s->conn.error)
		return;
	/* all of it, when W has said that it is in RESTORING (resume.h) */
	most = r->failover.give.len -
	       (r->failover.give.len && !remote_sure(&r->words));
	while (r->failover.give.at < most && (room = FAB(s)->room(END(s)))) {
		offer.back = most - r->failover.give.at;
		conn_next(&s->conn, clock_ns(), &offer, room, &op);
		if (op.type != CONN_SEND)
			break;
		mem = FAB(s)->buf(END(s), op.hdr_len + op.payload);
		if (!mem) {
			pump_fail(s, -EPROTO);
			return;
		}
		memcpy(mem, op.hdr, op.hdr_len);
		memcpy(mem + op.hdr_len,
		       r->failover.give.mem + WIRE_BSDH + r->failover.give.at,
		       op.payload);
		capture_sent(s, mem, op.hdr_len + op.payload);
		FAB(s)->send(END(s), op.hdr_len + op.payload, op.solicited);
		COUNT(s, msgs_tx, 1);
		r->failover.give.at += op.payload;
	}
}

void rdma_given(struct sock *s)
{
	rdma_give_end(s->rd);
	__atomic_store_n(&s->ar.unsure, false, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&s->waits.in_gen, 1, __ATOMIC_RELAXED);
	s->rd->due.changed = true;
	rdma_tell(s, false);
	rdma_owe(s);
}

/* The record, if it is there. Anything else rdma_failover.c judges. */
static void take_record(struct sock *s, int fd)
{
	uint8_t rec[RESUME_RECORD];
	struct rdma *r = s->rd;
	ssize_t n = sys_recv(fd, rec, sizeof(rec), MSG_PEEK | MSG_DONTWAIT);
	int ret;

	if (n <= 0)
		return;
	ret = resume_given(r->mark.secret_rx, rec, (size_t)n, s->ar.from);
	if (ret < 0)
		reports.broke(s, -ECONNRESET);
	else if (ret &&
		 sys_recv(fd, rec, sizeof(rec), MSG_DONTWAIT) == sizeof(rec))
		rdma_given(s);
}

int rdma_back_to_tcp(struct sock *s, int fd)
{
	if (pump_poll(s))
		return -ECONNRESET;
	if (rdma_failing_over(s))
		return -EAGAIN;
	rdma_give(s);
	if (s->ar.unsure)
		take_record(s, fd);
	return s->ar.unsure || rdma_failing_over(s) ? -EAGAIN : 0;
}

/* --- the writer -------------------------------------------------------- */

/* Room for record and bytes; the record is there already. */
static int put_begin(struct sock *s)
{
	uint64_t from = __atomic_load_n(&s->tx->from, __ATOMIC_ACQUIRE);
	struct rdma_put *p = &s->rd->failover.put;

	if (from > s->at.sent || s->at.sent - from > SHM_KEEP) {
		s->conn.fault = "hands back what was not sent";
		return pump_fail(s, -EPROTO);
	}
	p->len = RESUME_RECORD + (size_t)(s->at.sent - from);
	p->mem = bytebuf_map(p->len);
	if (!p->mem) {
		s->conn.fault = "no memory";
		return pump_fail(s, -ENOMEM);
	}
	resume_give(p->mem, s->rd->mark.secret_tx, from);
	p->got = RESUME_RECORD;
	p->at = 0;
	return 0;
}

int rdma_put_came(struct sock *s, const uint8_t *bytes, uint32_t n)
{
	struct rdma_put *p = &s->rd->failover.put;

	/* given up: its reader keeps it */
	if (s->rd->state != RDMA_UP ||
	    (rdma_silent(s) && anc_state(s->tx) != ANC_RESTORING))
		return 0;
	if (anc_state(s->tx) != ANC_RESTORING || (!p->mem && put_begin(s)) ||
	    n > p->len - p->got) {
		s->conn.fault = "hands back too much";
		return -EPROTO;
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): put_begin() */
	memcpy(p->mem + p->got, bytes, n);
	p->got += n;
	rdma_owe(s);
	return 0;
}

bool rdma_put_whole(const struct rdma *r)
{
	return r->failover.put.mem &&
	       r->failover.put.got == r->failover.put.len;
}

void rdma_put_back(struct sock *s, int fd)
{
	struct rdma *r = s->rd;
	struct rdma_put *p = &r->failover.put;
	ssize_t n = 0;

	if (anc_state(s->tx) != ANC_RESTORING || fd < 0 ||
	    (!p->mem && (r->state != RDMA_UP || put_begin(s))) ||
	    p->got < p->len)
		return;
	r->due.restless = true;
	while (p->at < p->len && n >= 0) {
		n = sys_send(fd, p->mem + p->at, p->len - p->at,
			     MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0)
			p->at += (size_t)n;
	}
	/* then it is out, or the program will meet the error */
	if (n == -EAGAIN ||
	    (r->state == RDMA_UP && !r->words.given && !rdma_silent(s)))
		return;
	rdma_put_end(r);
	anc_resumed(s->tx);
	lift_left(s, fd);
	r->due.changed = true;
	ring_note(s);
	rdma_wake(s);
}
