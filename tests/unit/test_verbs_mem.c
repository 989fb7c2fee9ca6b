/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "verbs_util.h"

/*
 * The program's memory and the device, made up: which rights are given, for how
 * long, and what is refused before it reaches the queue pair.
 */

#define LIVE 20

static struct vend end;
static struct device dev;
static struct ibv_mr mrs[LIVE];
static uint32_t made, live, posted;
static unsigned int last_access;
static int refuse; /* errno of the next registration */
static struct ibv_send_wr last_wr;
static uint32_t last_lkey;

void cq_reap(struct vend *e)
{
	(void)e;
}

int tx_post(struct vend *e, struct ibv_send_wr *wr, struct sent *s)
{
	(void)e;
	(void)s;
	last_wr = *wr;
	last_lkey = wr->sg_list->lkey;
	posted++;
	return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	return ibv_reg_mr_iova2(pd, addr, len, (uintptr_t)addr,
				(unsigned int)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len,
				uint64_t iova, unsigned int access)
{
	struct ibv_mr *mr = mrs;

	(void)pd;
	assert_int_equal(iova, (uintptr_t)addr);
	if (refuse) {
		errno = refuse;
		return NULL;
	}
	while (mr->length)
		mr++;
	*mr = (struct ibv_mr){ .addr = addr, .length = len };
	mr->lkey = ++made;
	mr->rkey = made + 1000;
	last_access = access;
	live++;
	return mr;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	assert_true(mr->length);
	mr->length = 0;
	live--;
	return 0;
}

static int begin(void **state)
{
	(void)state;
	memset(&end, 0, sizeof(end));
	memset(mrs, 0, sizeof(mrs));
	dev = (struct device){ 0 };
	end.dev = &dev;
	end.rd_atom = 4;
	live = posted = 0;
	refuse = 0;
	return 0;
}

static void a_source_may_be_read_and_no_more(void **state)
{
	static uint8_t mem[4096];
	uint32_t key, other;

	(void)state;
	assert_int_equal(rdma_op_lend(&end.end, mem, 4096, &key), 0);
	assert_int_equal(last_access, IBV_ACCESS_REMOTE_READ);
	assert_int_equal(live, 1);
	/* one at a time */
	assert_int_equal(rdma_op_lend(&end.end, mem, 4096, &other), -EBUSY);
	assert_int_equal(rdma_op_lent(&end.end, true), -EINPROGRESS);
	rdma_op_unlend(&end.end);
	assert_int_equal(live, 0);
	rdma_op_unlend(&end.end);
	/* another key for the same memory */
	assert_int_equal(rdma_op_lend(&end.end, mem, 4096, &other), 0);
	assert_int_not_equal(key, other);
	rdma_op_unlend(&end.end);
	assert_int_equal(live, 0);
}

static void what_cannot_be_registered_is_not_lent(void **state)
{
	uint8_t mem[64] = { 0 };
	uint32_t key;

	(void)state;
	refuse = ENOMEM;
	assert_int_equal(rdma_op_lend(&end.end, mem, 64, &key), -ENOMEM);
	refuse = EFAULT;
	assert_int_equal(rdma_op_lend(&end.end, mem, 64, &key), -EFAULT);
	refuse = 0;
	assert_int_equal(rdma_op_lend(&end.end, mem, 64, &key), 0);
	rdma_op_unlend(&end.end);
	end.error = -EPROTO;
	assert_int_equal(rdma_op_lend(&end.end, mem, 64, &key), -ECONNRESET);
	assert_int_equal(live, 0);
}

static void our_own_buffer_is_not_the_peers(void **state)
{
	struct verbs_region r;
	uint8_t mem[64] = { 0 };

	(void)state;
	assert_int_equal(verbs_reg(&end.end, mem, 64, false, false, &r), 0);
	assert_int_equal(last_access, IBV_ACCESS_LOCAL_WRITE);
	verbs_dereg(&end.end, &r);
	/* there the answer to a read is written from afar */
	dev.iwarp = true;
	assert_int_equal(verbs_reg(&end.end, mem, 64, false, false, &r), 0);
	assert_int_equal(last_access,
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	verbs_dereg(&end.end, &r);
	assert_null(r.mr);
	assert_int_equal(live, 0);
}

static void only_registered_memory_is_read_into(void **state)
{
	static uint8_t mem[4096];
	struct verbs_region r;
	struct end *e = &end.end;

	(void)state;
	assert_int_equal(rdma_op_read(e, mem, 1, 2, 64, 9), -EFAULT);
	assert_int_equal(verbs_reg(e, mem + 64, 1024, false, false, &r), 0);
	assert_int_equal(rdma_op_read(e, mem, 1, 2, 128, 9), -EFAULT);
	assert_int_equal(rdma_op_read(e, mem + 64, 1, 2, 1025, 9), -EFAULT);
	assert_int_equal(posted, 0);
	assert_int_equal(rdma_op_read(e, mem + 64, 77, 2, 1024, 9), 0);
	assert_int_equal(posted, 1);
	assert_int_equal(last_wr.opcode, IBV_WR_RDMA_READ);
	assert_int_equal(last_wr.wr.rdma.remote_addr, 77);
	assert_int_equal(last_wr.wr.rdma.rkey, 2);
	verbs_dereg(e, &r);
	assert_int_equal(rdma_op_read(e, mem + 64, 77, 2, 64, 9), -EFAULT);
}

static void a_sink_may_be_written_and_no_more(void **state)
{
	static uint8_t mem[4096];
	uint32_t key, source, other;

	(void)state;
	assert_int_equal(rdma_op_sink(&end.end, mem, 4096, &key), 0);
	assert_int_equal(last_access,
			 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	/* one at a time, and a source beside it */
	assert_int_equal(rdma_op_sink(&end.end, mem, 4096, &other), -EBUSY);
	assert_int_equal(rdma_op_lend(&end.end, mem, 4096, &source), 0);
	assert_int_equal(live, 2);
	rdma_op_unsink(&end.end);
	assert_int_equal(live, 1);
	rdma_op_unsink(&end.end);
	rdma_op_unlend(&end.end);
	assert_int_equal(live, 0);
	assert_int_equal(rdma_op_sink(&end.end, mem, 4096, &other), 0);
	assert_int_not_equal(key, other);
	rdma_op_unsink(&end.end);
	refuse = ENOMEM;
	assert_int_equal(rdma_op_sink(&end.end, mem, 4096, &key), -ENOMEM);
	refuse = 0;
	end.error = -EPROTO;
	assert_int_equal(rdma_op_sink(&end.end, mem, 4096, &key), -ECONNRESET);
	assert_int_equal(live, 0);
}

/* It may be read-only memory, and the peer has no part in it. */
static void what_is_written_from_needs_no_right(void **state)
{
	static const uint8_t mem[4096];
	struct verbs_region r;
	struct end *e = &end.end;

	(void)state;
	assert_int_equal(rdma_op_write(e, mem, 1, 2, 64, 9), -EFAULT);
	assert_int_equal(verbs_reg_from(e, mem, 1024, &r), 0);
	assert_int_equal(last_access, 0);
	assert_int_equal(rdma_op_write(e, mem, 77, 2, 1025, 9), -EFAULT);
	assert_int_equal(rdma_op_write(e, mem, 77, 2, 1024, 9), 0);
	assert_int_equal(last_wr.opcode, IBV_WR_RDMA_WRITE);
	assert_int_equal(last_wr.wr.rdma.remote_addr, 77);
	assert_int_equal(last_wr.wr.rdma.rkey, 2);
	verbs_dereg(e, &r);
	assert_int_equal(live, 0);
}

/* The same bytes may be lent, or written from, and read into beside that. */
static void a_read_goes_where_it_may_write(void **state)
{
	static uint8_t mem[4096];
	struct verbs_region from, to;
	struct end *e = &end.end;
	uint32_t key;

	(void)state;
	assert_int_equal(verbs_reg_from(e, mem, 4096, &from), 0);
	assert_int_equal(rdma_op_lend(e, mem, 4096, &key), 0);
	assert_int_equal(rdma_op_read(e, mem, 77, 2, 64, 9), -EFAULT);
	assert_int_equal(verbs_reg(e, mem + 64, 1024, false, false, &to), 0);
	assert_int_equal(rdma_op_read(e, mem + 64, 77, 2, 1024, 9), 0);
	assert_int_equal(last_lkey, to.lkey);
	assert_int_equal(rdma_op_read(e, mem, 77, 2, 1024, 9), -EFAULT);
	assert_int_equal(rdma_op_write(e, mem + 64, 77, 2, 1024, 9), 0);
	verbs_dereg(e, &to);
	assert_int_equal(rdma_op_read(e, mem + 64, 77, 2, 64, 9), -EFAULT);
	rdma_op_unlend(e);
	verbs_dereg(e, &from);
	assert_int_equal(live, 0);
}

/* The connection manager's word: the other side answers no reads. */
static void without_depth_nothing_is_read(void **state)
{
	uint8_t mem[64] = { 0 };
	struct verbs_region r;

	(void)state;
	end.rd_atom = 0;
	assert_int_equal(verbs_reg(&end.end, mem, 64, false, false, &r), 0);
	assert_int_equal(rdma_op_read(&end.end, mem, 1, 2, 64, 9), -EOPNOTSUPP);
	assert_int_equal(posted, 0);
	verbs_dereg(&end.end, &r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_source_may_be_read_and_no_more, begin),
		cmocka_unit_test_setup(what_cannot_be_registered_is_not_lent,
				       begin),
		cmocka_unit_test_setup(our_own_buffer_is_not_the_peers, begin),
		cmocka_unit_test_setup(only_registered_memory_is_read_into,
				       begin),
		cmocka_unit_test_setup(a_sink_may_be_written_and_no_more,
				       begin),
		cmocka_unit_test_setup(what_is_written_from_needs_no_right,
				       begin),
		cmocka_unit_test_setup(a_read_goes_where_it_may_write, begin),
		cmocka_unit_test_setup(without_depth_nothing_is_read, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
