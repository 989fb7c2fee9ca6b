/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The completion queue, one for each end: so a thread that spins asks for its
 * own end alone and finds nothing of others. Completions are taken into a
 * stash under a lock of their own, by pending() in any thread; what they mean
 * is worked out by the holder of the end.
 */

#include "fabric/verbs/int.h"

#define BATCH 16

static void stash_put(struct stash *s, const struct ibv_wc *wc)
{
	struct done *d = &s->q[s->tail % STASH_LEN];
	bool odd = wc->status == IBV_WC_SUCCESS && wc->wr_id & WR_RECV &&
		   wc->opcode != IBV_WC_RECV;

	/*
	 * opcode, wc_flags and byte_len say nothing if it failed. A peer that
	 * writes with immediate data uses up a receive and puts nothing there.
	 */
	d->wr_id = wc->wr_id;
	d->len = wc->status == IBV_WC_SUCCESS ? wc->byte_len : 0;
	d->status = odd ? STATUS_NONSENSE : (uint16_t)wc->status;
	__atomic_store_n(&s->tail, s->tail + 1, __ATOMIC_RELEASE);
}

/* With the stash's lock held. */
static void stash_fill(struct vend *e)
{
	struct stash *s = &e->stash;
	struct ibv_wc wc[BATCH];
	uint32_t head = __atomic_load_n(&s->head, __ATOMIC_ACQUIRE);
	bool room = STASH_LEN - (s->tail - head) >= BATCH;
	int n = room ? ibv_poll_cq(e->cq, BATCH, wc) : BATCH, i;

	for (i = 0; room && i < n; i++)
		stash_put(s, &wc[i]);
	__atomic_store_n(&s->dry, n < BATCH, __ATOMIC_RELEASE);
}

static bool stash_some(const struct stash *s)
{
	return __atomic_load_n(&s->head, __ATOMIC_RELAXED) !=
	       __atomic_load_n(&s->tail, __ATOMIC_ACQUIRE);
}

bool cq_pending(struct end *end)
{
	struct vend *e = vend_of(end);

	if (stash_some(&e->stash) ||
	    __atomic_load_n(&e->rx.come.head, __ATOMIC_RELAXED) !=
		    __atomic_load_n(&e->rx.come.tail, __ATOMIC_RELAXED))
		return true;
	if (lock_try(&e->stash.lock))
		return false;
	stash_fill(e);
	lock_drop(&e->stash.lock);
	return stash_some(&e->stash);
}

/*
 * A local error of a receive is the peer's doing, a message that does not fit.
 * That of a send is our own device's, which could not send: rxe says so when
 * its link goes down. What is refused to an RDMA operation was lent, and is not
 * any more: its owner had no time to ask for it (zcopy_rdma.c).
 */
static int errno_of(const struct done *d)
{
	switch (d->status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
	case IBV_WC_RESP_TIMEOUT_ERR:
		return -ETIMEDOUT;
	case IBV_WC_WR_FLUSH_ERR:
		return -ECONNRESET;
	case IBV_WC_LOC_QP_OP_ERR:
	case IBV_WC_REM_ACCESS_ERR:
		return d->wr_id & WR_RECV ? -EPROTO : -ECONNRESET;
	default:
		return -EPROTO;
	}
}

void cq_break(struct vend *e, int err)
{
	if (e->error)
		return;
	e->error = err;
	event_broken(e);
}

static void use(struct vend *e, const struct done *d)
{
	int err = errno_of(d);

	if (d->wr_id & WR_RECV) {
		if (err)
			cq_break(e, err);
		else
			e->arrived(e, (uint32_t)d->wr_id, d->len);
		return;
	}
	e->completed(e, (uint32_t)d->wr_id, err);
	if (err)
		cq_break(e, err);
}

/*
 * False: nothing is there, or a signal handler is in the middle of pending().
 */
static bool ask(struct vend *e)
{
	struct stash *s = &e->stash;

	if (lock_take(&s->lock) == -EDEADLK)
		return false;
	stash_fill(e);
	lock_drop(&s->lock);
	return stash_some(s);
}

static void use_found(struct vend *e)
{
	struct stash *s = &e->stash;

	while (stash_some(s)) {
		use(e, &s->q[s->head % STASH_LEN]);
		__atomic_store_n(&s->head, s->head + 1, __ATOMIC_RELEASE);
	}
}

void cq_reap(struct vend *e)
{
	use_found(e);
	while (ask(e)) {
		use_found(e);
		if (cq_dry(e))
			return;
	}
}

bool cq_next(struct vend *e)
{
	if (!stash_some(&e->stash) && !ask(e))
		return false;
	use_found(e);
	return true;
}

bool cq_dry(const struct vend *e)
{
	return __atomic_load_n(&e->stash.dry, __ATOMIC_ACQUIRE) &&
	       !stash_some(&e->stash);
}

int verbs_arm(struct end *end, bool solicited)
{
	struct vend *e = vend_of(end);
	int ret;
	CALM;

	ret = -ibv_req_notify_cq(e->cq, solicited);
	/*
	 * No event tells of what came before. A thread inside pending() may
	 * have it in hand and not in the stash yet: it is waited for.
	 */
	if (lock_take(&e->stash.lock) != -EDEADLK) {
		stash_fill(e);
		lock_drop(&e->stash.lock);
	}
	return ret;
}
