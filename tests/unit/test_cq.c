/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "fabric/verbs/int.h"

/*
 * The completion queue of an end, under a made-up device: a thread that asks
 * pending() beside the one that arms and is about to sleep; and what a failed
 * completion means.
 */

static void arrived(struct vend *e, uint32_t slot, uint32_t len);
static void completed(struct vend *e, uint32_t wr, int err);

static struct vend end = { .arrived = arrived, .completed = completed };
static struct ibv_context ctx;
static struct ibv_cq queue = { .context = &ctx };
static sem_t inside, armed;
static int completions; /* in the queue; guarded by the stash's lock */
static bool may_fail;

void event_broken(struct vend *e)
{
	(void)e;
	assert_true(may_fail);
}

static void arrived(struct vend *e, uint32_t slot, uint32_t len)
{
	(void)e;
	(void)slot;
	(void)len;
	fail();
}

static void completed(struct vend *e, uint32_t wr, int err)
{
	(void)e;
	(void)wr;
	(void)err;
	assert_true(may_fail);
}

/* Takes the completion out, and is held up before it can show it. */
static int slow_poll(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	struct timespec nap = { 0, 20000000 };

	(void)cq;
	(void)max;
	if (!completions)
		return 0;
	completions = 0;
	*wc = (struct ibv_wc){ .status = IBV_WC_SUCCESS, .byte_len = 16 };
	sem_post(&inside);
	sem_wait(&armed);
	nanosleep(&nap, NULL);
	return 1;
}

static int notify(struct ibv_cq *cq, int solicited)
{
	(void)cq;
	(void)solicited;
	pthread_testcancel(); /* it writes to a file, on rxe */
	sem_post(&armed);
	return 0;
}

static void *ask(void *arg)
{
	(void)arg;
	return cq_pending(&end.end) ? &end : NULL;
}

/* No event will come for what was there before: it has to be seen now. */
static void armed_is_never_told_of_nothing(void **state)
{
	pthread_t other;
	void *saw;

	(void)state;
	sem_init(&inside, 0, 0);
	sem_init(&armed, 0, 0);
	ctx.ops.poll_cq = slow_poll;
	ctx.ops.req_notify_cq = notify;
	end.cq = &queue;
	completions = 1;
	assert_int_equal(pthread_create(&other, NULL, ask, NULL), 0);
	sem_wait(&inside);
	assert_int_equal(verbs_arm(&end.end, false), 0);
	assert_true(cq_pending(&end.end));
	pthread_join(other, &saw);
	assert_ptr_equal(saw, &end);
}

/* Cancelled while it arms: its caller holds a lock. */
static void *arming(void *arg)
{
	bool *done = arg;

	pthread_cancel(pthread_self());
	verbs_arm(&end.end, false);
	*done = true;
	pthread_testcancel();
	return NULL;
}

static void nobody_is_cancelled_while_it_arms(void **state)
{
	bool done = false;
	pthread_t thread;
	void *how;

	(void)state;
	sem_init(&armed, 0, 0);
	ctx.ops.req_notify_cq = notify;
	end.cq = &queue;
	completions = 0;
	assert_int_equal(pthread_create(&thread, NULL, arming, &done), 0);
	pthread_join(thread, &how);
	assert_true(done);
	assert_ptr_equal(how, PTHREAD_CANCELED);
}

static struct ibv_wc failure;

static int fail_poll(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	(void)cq;
	(void)max;
	if (!completions)
		return 0;
	completions = 0;
	*wc = failure;
	return 1;
}

/* What becomes of an end whose next completion is that. */
static int broken_by(enum ibv_wc_status status, uint64_t wr_id)
{
	static struct vend one;

	one = (struct vend){ .cq = &queue,
			     .arrived = arrived,
			     .completed = completed };
	ctx.ops.poll_cq = fail_poll;
	failure = (struct ibv_wc){ .status = status, .wr_id = wr_id };
	may_fail = true;
	completions = 1;
	cq_reap(&one);
	may_fail = false;
	return one.error;
}

/*
 * A device that cannot send, its link is down, is no fault of the peer's: the
 * stream goes on elsewhere. What the peer sent and could not be taken is.
 */
static void whose_fault_it_is(void **state)
{
	(void)state;
	assert_int_equal(broken_by(IBV_WC_LOC_QP_OP_ERR, 3), -ECONNRESET);
	assert_int_equal(broken_by(IBV_WC_LOC_QP_OP_ERR, WR_RECV | 3), -EPROTO);
	assert_int_equal(broken_by(IBV_WC_LOC_LEN_ERR, WR_RECV | 3), -EPROTO);
	/* nor is a source that its owner could not wait for */
	assert_int_equal(broken_by(IBV_WC_REM_ACCESS_ERR, 3), -ECONNRESET);
	assert_int_equal(broken_by(IBV_WC_WR_FLUSH_ERR, 3), -ECONNRESET);
	assert_int_equal(broken_by(IBV_WC_RETRY_EXC_ERR, 3), -ETIMEDOUT);
	assert_int_equal(broken_by(IBV_WC_SUCCESS, 3), 0);
}

static int left, asked;

static int many_poll(struct ibv_cq *cq, int max, struct ibv_wc *wc)
{
	int n = left < max ? left : max, i;

	(void)cq;
	for (i = 0; i < n; i++)
		wc[i] = (struct ibv_wc){ .status = IBV_WC_SUCCESS };
	left -= n;
	asked++;
	return n;
}

/* A device is asked no more often than its answers make it necessary. */
static void it_is_asked_once(void **state)
{
	static struct vend one;

	(void)state;
	one = (struct vend){ .cq = &queue,
			     .arrived = arrived,
			     .completed = completed };
	ctx.ops.poll_cq = many_poll;
	may_fail = true;
	assert_false(cq_dry(&one));
	left = 1;
	assert_true(cq_pending(&one.end));
	assert_false(cq_dry(&one));
	assert_true(cq_next(&one));
	assert_int_equal(asked, 1);
	assert_true(cq_dry(&one));
	left = 20;
	assert_true(cq_next(&one));
	assert_int_equal(asked, 2);
	assert_false(cq_dry(&one)); /* it might have had more */
	assert_true(cq_next(&one));
	assert_int_equal(asked, 3);
	assert_int_equal(left, 0);
	assert_true(cq_dry(&one));
	assert_false(cq_next(&one));
	asked = 3;
	/* all there is, behind what another thread found before */
	left = 1;
	assert_true(cq_pending(&one.end));
	left = 20;
	cq_reap(&one);
	assert_int_equal(left, 0);
	assert_int_equal(asked, 6);
	assert_true(cq_dry(&one));
	may_fail = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(armed_is_never_told_of_nothing),
		cmocka_unit_test(nobody_is_cancelled_while_it_arms),
		cmocka_unit_test(whose_fault_it_is),
		cmocka_unit_test(it_is_asked_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
