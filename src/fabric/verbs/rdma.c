/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* RDMA operations for transfers without a copy, and their completions. */

#include "fabric/verbs/int.h"

#define DONES (SQ_RDMA * 2)

static int op(struct end *end, enum ibv_wr_opcode what, const void *mem,
	      uint64_t vaddr, uint32_t rkey, size_t len, uint64_t id)
{
	struct vend *e = vend_of(end);
	struct ibv_sge sge = { .addr = (uintptr_t)mem };
	struct ibv_send_wr wr = { .sg_list = &sge, .opcode = what };
	struct sent s = { .kind = SENT_RDMA, .id = id, .len = (uint32_t)len };
	int ret;

	if (e->error)
		return -ECONNRESET;
	if (len > INT32_MAX)
		return -EINVAL;
	if (e->tx.rdma + (e->dones.tail - e->dones.head) >= SQ_RDMA)
		return -EAGAIN;
	/* Without bytes: the probe of a keep-alive [5.4]. */
	if (len) {
		ret = mem_lkey(e, mem, len, what == IBV_WR_RDMA_READ,
			       &sge.lkey);
		if (ret)
			return ret;
		sge.length = (uint32_t)len;
		wr.num_sge = 1;
	}
	wr.wr.rdma.remote_addr = vaddr;
	wr.wr.rdma.rkey = rkey;
	e->tx.rdma++;
	return tx_post(e, &wr, &s);
}

int rdma_op_read(struct end *end, void *to, uint64_t vaddr, uint32_t rkey,
		 size_t len, uint64_t id)
{
	/* the other side answers none, or our device cannot ask */
	if (!vend_of(end)->rd_atom)
		return -EOPNOTSUPP;
	return op(end, IBV_WR_RDMA_READ, to, vaddr, rkey, len, id);
}

int rdma_op_write(struct end *end, const void *from, uint64_t vaddr,
		  uint32_t rkey, size_t len, uint64_t id)
{
	return op(end, IBV_WR_RDMA_WRITE, from, vaddr, rkey, len, id);
}

void rdma_op_note(struct vend *e, const struct sent *s, int status)
{
	e->tx.rdma--;
	e->dones.q[e->dones.tail++ % DONES] = (struct fab_done){
		.id = s->id,
		.status = status,
		.len = status ? 0 : s->len,
	};
}

int rdma_op_done(struct end *end, struct fab_done *d)
{
	struct vend *e = vend_of(end);

	if (e->dones.head == e->dones.tail)
		cq_reap(e);
	if (e->dones.head == e->dones.tail)
		return 0;
	*d = e->dones.q[e->dones.head++ % DONES];
	return 1;
}

/* --- what the peer may read -------------------------------------------- */

/*
 * A region of its own for each source, which ends with it: its key is good for
 * nothing else and for no longer. The end of a region is waited for by the
 * device, so the memory is the program's when unlend() returns, whatever the
 * peer does; a read that comes later breaks the connection.
 */
int rdma_op_lend(struct end *end, const void *mem, uint32_t len, uint32_t *rkey)
{
	struct vend *e = vend_of(end);
	int ret;

	if (e->error)
		return -ECONNRESET;
	if (e->src.mr)
		return -EBUSY;
	/* without a right to write it may be read-only memory */
	ret = verbs_reg(end, (void *)(uintptr_t)mem, len, true, false, &e->src);
	if (!ret)
		*rkey = e->src.rkey;
	return ret;
}

/*
 * The messages say how much was read, and a source is not called back at once.
 */
int64_t rdma_op_lent(struct end *end, bool back)
{
	(void)end;
	(void)back;
	return -EINPROGRESS;
}

void rdma_op_unlend(struct end *end)
{
	struct vend *e = vend_of(end);

	if (e->src.mr)
		verbs_dereg(end, &e->src);
}

/* --- what the peer may write ------------------------------------------- */

/*
 * As a source: a region of its own, which the device has done with at its end.
 */
int rdma_op_sink(struct end *end, void *mem, uint32_t len, uint32_t *rkey)
{
	struct vend *e = vend_of(end);
	int ret;

	if (e->error)
		return -ECONNRESET;
	if (e->sink.mr)
		return -EBUSY;
	ret = verbs_reg(end, mem, len, false, true, &e->sink);
	if (!ret)
		*rkey = e->sink.rkey;
	return ret;
}

void rdma_op_unsink(struct end *end)
{
	struct vend *e = vend_of(end);

	if (e->sink.mr)
		verbs_dereg(end, &e->sink);
}
