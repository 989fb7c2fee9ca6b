/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fabric/verbs/int.h"

/*
 * event.c and dispatch.c alone: what else it would call is not reached from
 * here.
 */
static unsigned int left, gone;

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)attr;
	(void)mask;
	return 0;
}

void end_leave(struct vend *e)
{
	(void)e;
	left++;
}

void end_free(struct vend *e)
{
	list_del(&e->all);
	list_del(&e->due_at);
	gone++;
}

void cm_events(struct verbs *v)
{
	(void)v;
	fail();
}

void device_completions(struct device *d)
{
	(void)d;
	fail();
}

void device_async(struct verbs *v, struct device *d)
{
	(void)v;
	(void)d;
	fail();
}

bool ear_event(struct verbs *v, void *who)
{
	(void)v;
	(void)who;
	return false;
}

static struct verbs v;
static struct vend end;

static int begin(void **state)
{
	(void)state;
	v = (struct verbs){ .ep = -1, .kick = -1 };
	list_init(&v.due);
	list_init(&v.timed);
	list_init(&v.requests);
	list_init(&v.ends);
	left = gone = 0;
	end = (struct vend){ .v = &v, .state = V_UP, .error = -EPROTO };
	list_init(&end.due_at);
	list_init(&end.timed);
	list_add(&v.ends, &end.all);
	return 0;
}

static void a_broken_end_is_told_of(void **state)
{
	(void)state;
	event_broken(&end);
	assert_int_equal(end.state, V_DOWN);
	assert_int_equal(end.why, -EPROTO);
	assert_int_equal(end.due, 1u << VE_DOWN);
	assert_int_equal(v.lock.word, 0);
}

/* A receive that cannot be posted while prepare() builds the end. */
static void who_is_inside_stays_inside(void **state)
{
	(void)state;
	end.state = V_PREPARED;
	assert_int_equal(lock_take(&v.lock), 0);
	event_broken(&end);
	assert_true(lock_mine(&v.lock));
	assert_int_equal(end.state, V_PREPARED);
	assert_int_equal(end.due, 0);
	lock_drop(&v.lock);
}

/* A signal handler that closes what this thread is at work on. */
static void who_is_inside_goes_when_it_is_out(void **state)
{
	struct verbs_event ev;

	(void)state;
	end.due = 1u << VE_READABLE;
	list_add(&v.due, &end.due_at);
	assert_int_equal(lock_take(&v.lock), 0);
	assert_int_equal(verbs_enter(&v), -EDEADLK);
	event_late(&end, &end.leave);
	assert_int_equal(verbs_event(&v, &ev), 0);
	assert_true(lock_mine(&v.lock));
	assert_int_equal(verbs_patience(&v), 0);
	assert_true(lock_mine(&v.lock));
	assert_int_equal(left, 0);
	lock_drop(&v.lock);
	assert_int_equal(verbs_event(&v, &ev), 1);
	assert_int_equal(left, 1);
	assert_int_equal(ev.type, VE_READABLE);

	/* of what is destroyed nothing is told any more */
	end.due = 1u << VE_READABLE;
	list_add(&v.due, &end.due_at);
	event_late(&end, &end.die);
	assert_int_equal(verbs_event(&v, &ev), 0);
	assert_int_equal(gone, 1);
	assert_int_equal(left, 1);
	assert_int_equal(v.lock.word, 0);
}

/*
 * Of a host that is silent the kernel says so after 102 s (rdma-facts.md 1.6).
 */
static void our_own_time_is_up(void **state)
{
	struct verbs_event ev;

	(void)state;
	end.state = V_CONNECTING;
	event_limit(&end, 3000);
	assert_in_range(verbs_patience(&v), 1, 3000000000ull);
	assert_int_equal(verbs_event(&v, &ev), 0);
	end.deadline = 1;
	assert_int_equal(verbs_patience(&v), 0);
	assert_int_equal(verbs_event(&v, &ev), 1);
	assert_int_equal(ev.type, VE_FAILED);
	assert_int_equal(ev.error, -ETIMEDOUT);
	assert_true(verbs_patience(&v) == UINT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_broken_end_is_told_of, begin),
		cmocka_unit_test_setup(who_is_inside_stays_inside, begin),
		cmocka_unit_test_setup(who_is_inside_goes_when_it_is_out,
				       begin),
		cmocka_unit_test_setup(our_own_time_is_up, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
