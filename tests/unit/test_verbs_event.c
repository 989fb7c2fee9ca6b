/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fabric/verbs/int.h"

/* event.c alone: what else it would call is not reached from here. */
void end_stop(struct vend *e)
{
	(void)e;
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

void addr_plain(union verbs_addr *a)
{
	(void)a;
	fail();
}

static struct verbs v;
static struct vend end;

static int begin(void **state)
{
	(void)state;
	v = (struct verbs){ .ep = -1, .bell = -1 };
	list_init(&v.due);
	list_init(&v.timed);
	end = (struct vend){ .v = &v, .state = V_UP, .error = -EPROTO };
	list_init(&end.due_at);
	list_init(&end.timed);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_broken_end_is_told_of, begin),
		cmocka_unit_test_setup(who_is_inside_stays_inside, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
