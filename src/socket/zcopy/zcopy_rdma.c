/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Zero copy between hosts (D10): memory registered for one transfer, read by
 * the other end's device.
 *
 * How much was read is known by messages only, and a source that is called back
 * is here when the other end has answered. So a send that wants its memory
 * waits for the answer, for BACK_NS at most, counted from when something was
 * last read, or the device still wrote; that moves it by MOVES_NS at most.
 * A thread that cannot wait, and that send when nothing came, gives the queue
 * pair up: what was lent and not reported is copied behind the record of
 * rdma_failover.c and counts as sent, as it would in the buffers of TCP, and
 * the reader drops what it has of it already. So the count is exact without an
 * answer. Then the region goes, and nothing reads the memory any more.
 */

#include "base/ucopy.h"
#include "sdp_proto/wire.h"
#include "socket/zcopy/zcopy.h"

#define REG_LEAST (256u << 10) /* where registering begins to pay */
uint32_t zcr_least(const struct sock *s, uint32_t least)
{
	if (!s->rd || s->zc.asked || settings.zcopy == SET_ZCOPY_ALWAYS)
		return least;
	return least < REG_LEAST ? REG_LEAST : least;
}

/* --- the writer -------------------------------------------------------- */

bool zcr_may(struct sock *s)
{
	return rdma_here(s) && s->rd->failover.confirmed &&
	       !s->fallback.stand && rdma_anchor_free(s);
}

/*
 * The peer has reported a part of the source; what hears of its end is in
 * freed.
 */
int zcr_reported(struct sock *s)
{
	uint32_t was = s->zc.done;
	int ret;

	if (s->zc.wrote)
		return zcw_heard(s);
	if (!s->conn.src_count)
		return 0;
	ret = zc_count(s, (int64_t)s->conn.src[0].done);
	if (s->zc.done != was)
		rdma_wake(s);
	return ret;
}

void zcr_over(struct sock *s)
{
	if (s->zc.out != ZC_OUT || !rdma_here(s))
		return;
	if (s->zc.wrote)
		zcw_over(s);
	else
		FAB(s)->unlend(END(s));
	s->zc.out = ZC_OVER;
}

int zcr_freed(struct sock *s)
{
	struct conn_freed f;

	while (conn_freed(&s->conn, &f)) {
		if (f.sink) {
			if (zcr_sunk(s, &f))
				return -EPROTO;
			continue;
		}
		if (!zc_live(s) || s->zc.out != ZC_OUT)
			continue; /* late: the queue pair was given up */
		if (s->zc.wrote || f.key != s->zc.rkey ||
		    zc_count(s, (int64_t)f.bytes))
			return -EPROTO;
		zcr_over(s);
		rdma_wake(s);
	}
	return 0;
}

bool zcr_recall(struct sock *s)
{
	if (!rdma_here(s))
		return false;
	if (s->conn.error || s->rd->state != RDMA_UP) {
		zcr_over(s);
		return true;
	}
	if (s->zc.wrote)
		zcw_done(s);
	if (!s->zc.back_at) {
		s->zc.back_at = clock_ns();
		page_add(zcopy_cancelled, 1);
		conn_cancel_sources(&s->conn);
		pump_control(s);
	}
	return s->zc.out != ZC_OUT;
}

size_t zcr_left(const struct sock *s)
{
	return s->zc.out == ZC_OUT ? s->zc.len - s->zc.done : 0;
}

size_t zcr_unacked(struct sock *s)
{
	struct rdma *r = s->rd;

	if (!rdma_here(s) || r->state != RDMA_UP || !r->end)
		return 0;
	pump_poll(s);
	if (rdma_api->flushed(r->end))
		return 0;
	return failover_unacked(r, NULL) + zcr_left(s);
}

/*
 * By the kernel: another thread of the program may have unmapped it, which
 * the device did not mind.
 */
static bool fetched(uint8_t *to, const uint8_t *from, size_t n)
{
	struct iovec near = { to, n }, far = { (void *)(uintptr_t)from, n };
	ssize_t got = sys_call6(SYS_process_vm_readv, sock_pid, (long)&near, 1,
				(long)&far, 1, 0);

	if (got == -EPERM || got == -ENOSYS)
		return ucopy(to, from, n); /* a sandbox */
	return got == (ssize_t)n;
}

bool zcr_sent(struct sock *s, uint8_t *to)
{
	size_t n = zcr_left(s);

	if (!n)
		return true;
	if (!fetched(to, s->zc.mem + s->zc.done, n))
		return false;
	s->zc.done = s->zc.len;
	anc_sent(s->tx, &s->at, n);
	COUNT(s, bytes_tcp_tx, n);
	return true;
}
