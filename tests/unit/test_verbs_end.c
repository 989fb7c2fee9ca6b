/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs_util.h"

/*
 * How an end is built on a device that is made up: what its queue pair is told
 * (rdma-facts.md 1.3, 1.4), what memory it has, and what is said when the
 * device refuses.
 */

static const struct fabric_ops made_up = { .name = "made up" };
static struct verbs v;
static struct vend *end;
static struct ibv_device name = { .name = "made0" };
static struct device dev;
static struct rdma_cm_id id;
static struct ibv_cq cq;
static struct ibv_qp qp;
static struct ibv_mr mr;
static struct ibv_qp_attr told[8]; /* by state */
static int refuse_mr, refuse_cq, refuse_attr, refuse_modify; /* errno */
static uint32_t inline_most, queue_pairs;
static unsigned int access_was;

void tx_init(struct vend *e)
{
	(void)e;
}

int rx_init(struct vend *e)
{
	(void)e;
	return 0;
}

uint32_t rx_smallest(const struct vend *e)
{
	(void)e;
	return 0;
}

void tx_trim(struct vend *e)
{
	(void)e;
}

void ear_new(struct vend *e)
{
	(void)e;
}

void ear_free(struct vend *e)
{
	(void)e;
}

void ear_forget(struct vend *e)
{
	(void)e;
}

void rx_trim(struct vend *e)
{
	(void)e;
}

void cq_reap(struct vend *e)
{
	(void)e;
}

void event_late(struct vend *e, bool *what)
{
	(void)e;
	(void)what;
}

void device_put(struct verbs *of, struct device *d)
{
	(void)of;
	(void)d;
}

int rdma_destroy_id(struct rdma_cm_id *gone)
{
	(void)gone;
	return 0;
}

int rdma_init_qp_attr(struct rdma_cm_id *of, struct ibv_qp_attr *attr,
		      int *mask)
{
	(void)of;
	if (refuse_attr) {
		errno = refuse_attr;
		return -1;
	}
	/* what rdma_cm says, as it was found on Soft-RoCE */
	attr->qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC;
	attr->timeout = 19;
	attr->retry_cnt = 7;
	attr->min_rnr_timer = 0;
	*mask = IBV_QP_STATE;
	if (attr->qp_state == IBV_QPS_INIT)
		*mask |= IBV_QP_ACCESS_FLAGS;
	if (attr->qp_state == IBV_QPS_RTR)
		*mask |= IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_DEST_RD_ATOMIC;
	if (attr->qp_state == IBV_QPS_RTS)
		*mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			 IBV_QP_MAX_QP_RD_ATOMIC;
	return 0;
}

int ibv_modify_qp(struct ibv_qp *of, struct ibv_qp_attr *attr, int mask)
{
	(void)of;
	(void)mask;
	if (refuse_modify)
		return refuse_modify;
	told[attr->qp_state] = *attr;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *context,
			     struct ibv_comp_channel *channel, int vector)
{
	(void)ctx;
	(void)cqe;
	(void)context;
	(void)channel;
	(void)vector;
	errno = refuse_cq;
	return refuse_cq ? NULL : &cq;
}

int ibv_destroy_cq(struct ibv_cq *gone)
{
	(void)gone;
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	(void)pd;
	assert_ptr_equal(init->send_cq, &cq);
	if (init->cap.max_inline_data > inline_most) {
		errno = EINVAL;
		return NULL;
	}
	queue_pairs++;
	return &qp;
}

int ibv_destroy_qp(struct ibv_qp *gone)
{
	(void)gone;
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
	(void)pd;
	(void)iova;
	access_was = access;
	mr = (struct ibv_mr){ .addr = addr, .length = len };
	errno = refuse_mr;
	return refuse_mr ? NULL : &mr;
}

int ibv_dereg_mr(struct ibv_mr *gone)
{
	(void)gone;
	return 0;
}

const char *ibv_get_device_name(struct ibv_device *of)
{
	return of->name;
}

static int begin(void **state)
{
	(void)state;
	v = (struct verbs){ .ops = &made_up, .ep = -1, .kick = -1 };
	list_init(&v.ends);
	list_init(&v.due);
	list_init(&v.timed);
	dev = (struct device){ .dev = &name, .vectors = 1, .rd_atom = 4 };
	refuse_mr = refuse_cq = refuse_attr = refuse_modify = 0;
	inline_most = 512;
	queue_pairs = 0;
	memset(told, 0, sizeof(told));
	end = end_new(&v, &id, 1, true);
	assert_non_null(end);
	end->dev = &dev;
	return 0;
}

static int over(void **state)
{
	(void)state;
	end_free(end);
	return 0;
}

static void retries_end_and_stalls_are_short(void **state)
{
	(void)state;
	assert_int_equal(end_build(end), 0);
	assert_int_equal(end_ready(end), 0);
	/* 7 would be for ever on rxe; two seconds in all */
	assert_in_range(told[IBV_QPS_RTS].retry_cnt, 1, 6);
	assert_in_range(told[IBV_QPS_RTS].timeout, 1, 16);
	/* 0 is 655 ms; a receive that was promised is waited for */
	assert_int_equal(told[IBV_QPS_RTR].min_rnr_timer, 1);
	assert_int_equal(told[IBV_QPS_RTS].rnr_retry, 7);
	assert_int_equal(told[IBV_QPS_INIT].qp_access_flags,
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
}

static void messages_are_nobody_elses(void **state)
{
	struct verbs_info info;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(end_build(end), 0);
	/* the peer has no right to this memory, whatever key it says */
	assert_int_equal(access_was, IBV_ACCESS_LOCAL_WRITE);
	verbs_info(&end->end, &info);
	assert_in_range(info.registered, 1, VERBS_IDLE_MAX);
	assert_string_equal(info.device, "made0/0");
	/*
	 * Shared, so a fork copies no page that the device knows; and what the
	 * child forgets goes from the child alone.
	 */
	memset(end->rest.mem, 1, end->rest.len);
	pid = fork();
	if (!pid) {
		uint8_t *mem = end->rest.mem;
		unsigned char page;

		end_forget(end);
		_exit(mincore(mem, 1, &page) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(end->rest.mem[0], 1);
}

static void a_device_without_inline_sends(void **state)
{
	(void)state;
	inline_most = 0;
	assert_int_equal(end_build(end), 0);
	assert_int_equal(queue_pairs, 1);
	assert_int_equal(end->inline_max, 0);
}

/* The limit, by its number, and what to set; once. */
static void too_little_locked_memory_is_named(void **state)
{
	struct rlimit lim = { 16384, 16384 };

	(void)state;
	assert_int_equal(setrlimit(RLIMIT_MEMLOCK, &lim), 0);
	lines = 0;
	refuse_mr = ENOMEM;
	assert_int_equal(end_build(end), -ENOMEM);
	assert_int_equal(lines, 1);
	assert_non_null(strstr(said, "the limit of locked memory is 16384;"));
	assert_non_null(strstr(said, "set ulimit -l unlimited"));
	refuse_mr = 0;
	refuse_cq = ENOMEM;
	assert_int_equal(end_build(end), -ENOMEM);
	assert_int_equal(lines, 1);
	/* another error has another reason */
	refuse_cq = EMFILE;
	assert_int_equal(end_build(end), -EMFILE);
	assert_int_equal(lines, 1);
}

static void a_path_that_is_none_is_said_so(void **state)
{
	(void)state;
	lines = 0;
	refuse_modify = EINVAL;
	assert_int_equal(end_build(end), -ENETUNREACH);
	assert_int_equal(lines, 1);
	assert_non_null(strstr(said, "made0/0"));
	assert_non_null(strstr(said, "P_Key and GID"));
	refuse_modify = 0;
	assert_int_equal(end_build(end), 0);
	refuse_modify = ETIMEDOUT;
	assert_int_equal(end_ready(end), -ENETUNREACH);
	/* other credentials (1.1) are no matter of the path */
	refuse_modify = 0;
	refuse_attr = EACCES;
	assert_int_equal(end_ready(end), -EACCES);
	assert_int_equal(lines, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			retries_end_and_stalls_are_short, begin, over),
		cmocka_unit_test_setup_teardown(messages_are_nobody_elses,
						begin, over),
		cmocka_unit_test_setup_teardown(a_device_without_inline_sends,
						begin, over),
		cmocka_unit_test_setup_teardown(
			too_little_locked_memory_is_named, begin, over),
		cmocka_unit_test_setup_teardown(a_path_that_is_none_is_said_so,
						begin, over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
