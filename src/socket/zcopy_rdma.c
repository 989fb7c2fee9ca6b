/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Zero copy between hosts (D10): memory registered for one transfer, read by
 * the other end's device.
 *
 * How much was read is known by messages only, and a loan that is called back
 * is here when the other end has answered. So a send that wants its memory
 * waits for the answer, for BACK_NS at most, counted from when something was
 * last read, or the device still wrote; that moves it by MOVES_NS at most.
 * Whoever cannot wait, and that send when nothing came, gives the queue pair
 * up: what was lent and not reported is copied behind the record of mend.c and
 * counts as sent, as it would in the buffers of TCP, and the reader drops what
 * it has of it already. So the count is exact without an answer. Then the
 * region goes, and nobody reads the memory any more.
 */

#include "sdp_proto/wire.h"
#include "socket/rdma.h"

#define BACK_NS	  500000000u /* for the answer of a reader */
#define MOVES_NS  5000000000u /* that this limit moves by */
#define REG_LEAST (256u << 10) /* where registering begins to pay */
#define FARTHER	  10 /* than on this host a reader is, in time */
#define MOST_MS	  1000u

bool zc_live(const struct sock *s)
{
	return !s->rd || (rdma_here(s) && s->rd->state == RDMA_UP);
}

bool zc_shown(const struct sock *s)
{
	return zc_live(s) && !(s->rd && s->rd->mark.token_wait);
}

uint32_t zcr_least(const struct sock *s, uint32_t least)
{
	if (!s->rd || s->zc.asked || settings.zcopy == SET_ZCOPY_ALWAYS)
		return least;
	return least < REG_LEAST ? REG_LEAST : least;
}

/* --- the writer -------------------------------------------------------- */

bool zcr_may(struct sock *s)
{
	return rdma_here(s) && s->rd->mend.confirmed && !s->fallback.stand &&
	       rdma_anchor_free(s);
}

void zc_unregistered(struct sock *s, int err)
{
	uint64_t lim[2] = { 0 };

	page_add(zcopy_unregistered, 1);
	sys_call6(SYS_prlimit64, 0, RLIMIT_MEMLOCK, 0, (long)lim, 0, 0);
	log_once(LOG_NOTE,
		 "fd %d: memory cannot be registered (%d), it is copied; "
		 "ulimit -l is %llu bytes",
		 sock_fd(s), err, (unsigned long long)lim[0]);
}

/* The peer has reported a part of the loan; who hears of its end is in freed. */
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
			if (zc_sunk(s, &f))
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

void zc_seize(struct sock *s)
{
	if (likely(s->zc.out != ZC_OUT))
		return;
	if (!s->rd) {
		zc_recall(s);
		return;
	}
	if (!s->conn.error)
		mend_begin(s, -ECANCELED);
	zcr_over(s);
}

size_t zcr_left(const struct sock *s)
{
	return s->zc.out == ZC_OUT ? s->zc.len - s->zc.done : 0;
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

	if (got == -EPERM || got == -ENOSYS) {
		memcpy(to, from, n); /* a sandbox */
		return true;
	}
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

/*
 * Both lend and wait for one another. In Combined mode the machine takes ours
 * back by itself; in Pipelined mode it is for us to do.
 */
static bool crossed(const struct sock *s)
{
	return !s->zc.wrote && s->conn.peer_src_count &&
	       s->conn.tx_mode == WIRE_PIPELINED;
}

/* Nobody waits any longer: what ends the wait, 0: go on. */
static int impatient(struct sock *s, uint64_t until, uint64_t deadline)
{
	uint64_t now = clock_ns();

	if (!s->paired || s->eos.shut_wr || s->orphan || s->conn.error ||
	    anc_state(s->tx) != ANC_LIFTED || crossed(s) || now >= until)
		return 1;
	return now >= deadline ? -EAGAIN : 0;
}

/* It goes on: more than was `seen` is read, or the device is writing yet. */
static bool goes_on(struct sock *s, uint32_t seen)
{
	bool on = s->zc.done != seen;
	struct fab_done d;

	if (s->zc.out != ZC_OUT || !s->zc.writing || !rdma_here(s))
		return on;
	while (FAB(s)->done(END(s), &d) == 1)
		if (d.id == s->zc.writing)
			s->zc.writing = 0;
	return true;
}

/* Who was asked back is given time for as long as it goes on. */
static void move_limit(struct sock *s, uint64_t *since)
{
	uint64_t now = clock_ns();

	if (!s->zc.back_at)
		return;
	if (!*since)
		*since = s->zc.back_at;
	if (now < *since + MOVES_NS)
		s->zc.back_at = now;
}

/* So long a loan waits without a report: a turn takes its time. */
uint64_t zcr_patience_ns(void)
{
	uint64_t ms = (uint64_t)settings.zcopy_wait_ms * FARTHER;

	return (ms < MOST_MS ? ms : MOST_MS) * 1000000u;
}

int zcr_await(struct sock *s, int fd, uint64_t deadline, int signals)
{
	uint64_t now = clock_ns(), patience = zcr_patience_ns();
	uint64_t left = deadline > now ? deadline - now : 0;
	uint64_t until, since = 0;
	uint32_t seen = 0;
	int err = 0, ret = 0;

	/* the rest is for the copy, which TCP would take at once */
	patience = patience < left / 2 ? patience : left / 2;
	until = now + patience;
	while (s->zc.out == ZC_OUT) {
		if (s->zc.done != seen)
			until = clock_ns() + patience;
		if (goes_on(s, seen))
			move_limit(s, &since);
		seen = s->zc.done;
		if (s->zc.wrote)
			zcw_done(s);
		home_serve(s, fd);
		if (!ret)
			ret = err ? err : impatient(s, until, deadline);
		if (s->zc.out != ZC_OUT || (ret && zc_recall(s)))
			break;
		if (s->zc.back_at && clock_ns() >= s->zc.back_at + BACK_NS) {
			zc_seize(s);
			break;
		}
		err = wait_lent(s,
				s->zc.back_at	 ? s->zc.back_at + BACK_NS :
				until < deadline ? until :
						   deadline,
				signals);
		if (err == -EAGAIN)
			err = 0;
		if (err == -EINTR)
			signals = -1; /* they wait, until the memory is back */
	}
	if (!ret)
		ret = err;
	return ret > 0 || s->zc.done == s->zc.len ? 0 : ret;
}
