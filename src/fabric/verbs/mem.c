/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Registered memory. Message memory is of the end alone and has no remote
 * access. It is mapped shared: a fork makes no copies of it, and the pages that
 * the device knows stay the parent's whatever the kernel does (rdma-facts.md
 * 5; ibv_fork_init() would do harm).
 */

#include <sys/mman.h>

#include "base/sys.h"
#include "fabric/verbs/int.h"

/* Rings of queues are locked as messages are, on most devices. */
int mem_err(struct vend *e, int err, size_t len)
{
	uint64_t lim[2] = { 0 };

	if (err != -ENOMEM)
		return err;
	sys_call6(SYS_prlimit64, 0, RLIMIT_MEMLOCK, 0, (long)lim, 0, 0);
	if (lim[0] != RLIM64_INFINITY)
		verbs_say_once(e->v, LOG_WARN,
			       "RDMA: no memory for %zu bytes more: the limit "
			       "of locked memory is %llu; a connection needs "
			       "%u, and up to %u when it is busy: set ulimit "
			       "-l unlimited, or LimitMEMLOCK=infinity",
			       len, (unsigned long long)lim[0], REST_LEN,
			       REST_LEN + BULK_TX + LOAD_RX);
	return err;
}

int region_new(struct vend *e, struct region *r, size_t len)
{
	void *mem = sys_mmap(NULL, len, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int err;
	CALM;

	if (sys_is_err(mem))
		return -ENOMEM;
	r->mr = ibv_reg_mr(e->dev->pd, mem, len, IBV_ACCESS_LOCAL_WRITE);
	if (!r->mr) {
		err = mem_err(e, cm_err(-1), len);
		sys_munmap(mem, len);
		return err;
	}
	r->mem = mem;
	r->len = len;
	e->registered += (uint32_t)len;
	return 0;
}

void region_free(struct vend *e, struct region *r)
{
	CALM;

	if (!r->mr)
		return;
	ibv_dereg_mr(r->mr);
	sys_munmap(r->mem, r->len);
	e->registered -= (uint32_t)r->len;
	*r = (struct region){ 0 };
}

static int mine(struct vend *e, void *mem, size_t len, unsigned int access,
		struct verbs_region *r)
{
	unsigned int i;
	struct ibv_mr *mr;
	CALM;

	for (i = 0; i < REGIONS && e->mine[i]; i++)
		;
	if (i == REGIONS)
		return -ENOMEM;
	mr = ibv_reg_mr(e->dev->pd, mem, len, access);
	if (!mr)
		return cm_err(-1);
	e->mine[i] = mr;
	e->local[i] = access & IBV_ACCESS_LOCAL_WRITE;
	r->mr = mr;
	r->lkey = mr->lkey;
	r->rkey = mr->rkey;
	return 0;
}

int verbs_reg(struct end *end, void *mem, size_t len, bool remote_read,
	      bool remote_write, struct verbs_region *r)
{
	struct vend *e = vend_of(end);
	unsigned int access = IBV_ACCESS_LOCAL_WRITE;

	/* What the peer reads may be read-only memory, so ask for no more. */
	if (remote_read)
		access = IBV_ACCESS_REMOTE_READ;
	if (remote_write)
		access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	if (remote_read && remote_write)
		access |= IBV_ACCESS_REMOTE_READ;
	/* The target of an RDMA Read on iWARP is written from afar [2.6]. */
	if (e->dev->iwarp && !remote_read)
		access |= IBV_ACCESS_REMOTE_WRITE;
	return mine(e, mem, len, access, r);
}

/* Our own device may read what it knows, that needs no right. */
int verbs_reg_from(struct end *end, const void *mem, size_t len,
		   struct verbs_region *r)
{
	return mine(vend_of(end), (void *)(uintptr_t)mem, len, 0, r);
}

void verbs_dereg(struct end *end, struct verbs_region *r)
{
	struct vend *e = vend_of(end);
	unsigned int i;
	CALM;

	for (i = 0; i < REGIONS; i++) {
		if (!r->mr || e->mine[i] != r->mr)
			continue;
		ibv_dereg_mr(e->mine[i]);
		e->mine[i] = NULL;
	}
	*r = (struct verbs_region){ 0 };
}

int mem_lkey(struct vend *e, const void *mem, size_t len, bool into,
	     uint32_t *lkey)
{
	uintptr_t at = (uintptr_t)mem, from;
	unsigned int i;

	for (i = 0; i < REGIONS; i++) {
		if (!e->mine[i] || (into && !e->local[i]))
			continue;
		from = (uintptr_t)e->mine[i]->addr;
		if (at < from || at - from > e->mine[i]->length ||
		    e->mine[i]->length - (at - from) < len)
			continue;
		*lkey = e->mine[i]->lkey;
		return 0;
	}
	return -EFAULT;
}
