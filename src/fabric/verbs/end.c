/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* One end: its birth, the states of its queue pair, its death. */

#include <stdlib.h>

#include "base/sys.h"
#include "base/text.h"
#include "fabric/verbs/int.h"

#define ACK_TIMEOUT 16 /* 4.096 us x 2^16 = 0.27 s; with 6 retries 1.9 s */
#define RETRIES	    6 /* 7 would mean for ever on rxe (rdma-facts.md 1.3) */
#define RNR_RETRIES 7 /* for ever: a credit was given, the receive will come */
#define RNR_TIMER   1 /* 0.01 ms; 0 is the longest, 655 ms (1.4) */

struct vend *end_new(struct verbs *v, struct rdma_cm_id *id, uint64_t tag,
		     bool active)
{
	struct vend *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->end.ops = v->ops;
	e->end.max_msg = VERBS_RCV_MAX;
	e->owner.kind = OWNER_END;
	e->v = v;
	e->id = id;
	e->tag = tag;
	e->active = active;
	e->rd_atom = RD_ATOM;
	list_init(&e->due_at);
	list_init(&e->timed);
	list_add(&v->ends, &e->all);
	id->context = &e->owner;
	return e;
}

static int qp_new(struct vend *e)
{
	struct device *d = e->dev;
	struct ibv_qp_init_attr init = {
		.qp_context = e,
		.cap = { .max_send_wr = SQ_LEN,
			 .max_recv_wr = SLOTS,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = VERBS_INLINE },
		.qp_type = IBV_QPT_RC,
	};
	uint32_t vector = d->next_vector++ % d->vectors;

	ear_new(e);
	e->cq = ibv_create_cq(d->ctx, CQ_LEN, e, e->chan ? e->chan : d->chan,
			      (int)vector);
	if (!e->cq)
		return mem_err(e, cm_err(-1), 0);
	init.send_cq = init.recv_cq = e->cq;
	e->qp = ibv_create_qp(d->pd, &init);
	if (!e->qp) { /* no device must be able to send inline */
		init.cap.max_inline_data = 0;
		e->qp = ibv_create_qp(d->pd, &init);
	}
	if (!e->qp)
		return mem_err(e, cm_err(-1), 0);
	e->inline_max = init.cap.max_inline_data < VERBS_INLINE ?
				init.cap.max_inline_data :
				VERBS_INLINE;
	return 0;
}

/*
 * What the device says of a queue pair's way: the P_Key is not in its table,
 * the GID has no entry, the next hop is not known.
 */
static int path_err(struct vend *e, enum ibv_qp_state state, int err)
{
	if (err != -EINVAL && err != -ETIMEDOUT && err != -EHOSTUNREACH &&
	    err != -ENETUNREACH)
		return err;
	verbs_say_once(e->v, LOG_WARN,
		       "RDMA device %s/%d: the path to the peer cannot be used "
		       "(%s, error %d): look at P_Key and GID",
		       ibv_get_device_name(e->dev->dev), (int)e->id->port_num,
		       state == IBV_QPS_INIT ? "INIT" : "RTR", -err);
	return -ENETUNREACH;
}

/* The state that the CM has the attributes for, with ours where they differ. */
static int qp_state(struct vend *e, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };
	int mask, ret;

	ret = cm_err(rdma_init_qp_attr(e->id, &attr, &mask));
	if (ret)
		return path_err(e, state, ret);
	/* Advertised memory is all that a peer can reach, by its keys. */
	if (mask & IBV_QP_ACCESS_FLAGS)
		attr.qp_access_flags = IBV_ACCESS_REMOTE_READ |
				       IBV_ACCESS_REMOTE_WRITE;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		attr.min_rnr_timer = RNR_TIMER;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		attr.max_dest_rd_atomic = (uint8_t)e->rd_atom;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		attr.max_rd_atomic = (uint8_t)e->rd_atom;
	if (mask & IBV_QP_TIMEOUT)
		attr.timeout = ACK_TIMEOUT;
	if (mask & IBV_QP_RETRY_CNT)
		attr.retry_cnt = RETRIES;
	if (mask & IBV_QP_RNR_RETRY)
		attr.rnr_retry = RNR_RETRIES;
	return path_err(e, state, -ibv_modify_qp(e->qp, &attr, mask));
}

int end_build(struct vend *e)
{
	int ret;

	if (e->dev->rd_atom < e->rd_atom)
		e->rd_atom = e->dev->rd_atom;
	ret = qp_new(e);
	if (!ret)
		ret = qp_state(e, IBV_QPS_INIT);
	if (!ret)
		ret = region_new(e, &e->rest, REST_LEN);
	if (ret)
		return ret;
	tx_init(e);
	return rx_init(e);
}

int end_ready(struct vend *e)
{
	int ret = qp_state(e, IBV_QPS_RTR);

	return ret ? ret : qp_state(e, IBV_QPS_RTS);
}

/* Off every list of struct verbs. */
static void unlink_end(struct vend *e)
{
	list_del(&e->all);
	list_del(&e->due_at);
	list_del(&e->timed);
}

void end_free(struct vend *e)
{
	unsigned int i;

	unlink_end(e);
	/* The id first: the CM must not hear of a queue pair that is gone. */
	if (e->id)
		rdma_destroy_id(e->id);
	if (e->qp)
		ibv_destroy_qp(e->qp);
	if (e->cq)
		ibv_destroy_cq(e->cq);
	ear_free(e);
	for (i = 0; i < REGIONS; i++)
		if (e->mine[i])
			ibv_dereg_mr(e->mine[i]);
	for (i = 0; i < SENT_BULK; i++)
		region_free(e, &e->tx.larger[i]);
	region_free(e, &e->rx.load);
	region_free(e, &e->rest);
	if (e->dev)
		device_put(e->v, e->dev);
	free(e);
}

void end_destroy(struct end *end)
{
	struct vend *e = vend_of(end);
	struct verbs *v = e->v;
	CALM;

	if (verbs_enter(v)) {
		event_late(e, &e->die);
		return;
	}
	end_free(e);
	lock_drop(&v->lock);
}

static void region_forget(struct region *r)
{
	if (r->mr)
		sys_munmap(r->mem, r->len);
}

/* Another thread may have been at the lists: they are not touched. */
void end_forget(struct vend *e)
{
	unsigned int i;

	for (i = 0; i < SENT_BULK; i++)
		region_forget(&e->tx.larger[i]);
	region_forget(&e->rx.load);
	region_forget(&e->rest);
	ear_forget(e);
	free(e);
}

void end_trim(struct end *end)
{
	struct vend *e = vend_of(end);

	cq_reap(e);
	tx_trim(e);
	rx_trim(e);
}

void verbs_info(const struct end *end, struct verbs_info *i)
{
	const struct vend *e = (const struct vend *)(const void *)end;
	struct text t;

	*i = (struct verbs_info){ 0 };
	t = (struct text)TEXT_IN(i->device);
	if (e->dev) {
		text_add(&t, "%s/%d", ibv_get_device_name(e->dev->dev),
			 (int)e->id->port_num);
		i->soft = e->dev->soft;
		i->iwarp = e->dev->iwarp;
	}
	i->registered = e->registered;
	i->posted = e->rx.posted;
	i->rcv_size = rx_smallest(e);
}
