/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>

#include "fabric/verbs/int.h"

/*
 * The module's calls from a signal handler that interrupted this very thread
 * while it was inside (-EDEADLK): the lock is not theirs, so it must not be
 * dropped, and nothing of librdmacm be touched (here: ids that are NULL).
 */

static const struct verbs_api *api;
static struct verbs v;
static struct vend end;

static int load(void **state)
{
	void *lib = dlopen(".libs/libsdp-verbs.so", RTLD_NOW | RTLD_LOCAL);

	(void)state;
	api = lib ? dlsym(lib, "libsdp_verbs") : NULL;
	return api ? 0 : -1;
}

static int begin(void **state)
{
	(void)state;
	v = (struct verbs){ .ep = -1, .kick = -1 };
	list_init(&v.ends);
	list_init(&v.due);
	list_init(&v.timed);
	list_init(&v.requests);
	end = (struct vend){ .v = &v, .state = V_UP };
	list_init(&end.due_at);
	list_init(&end.timed);
	list_add(&v.ends, &end.all);
	return 0;
}

static void a_handler_drops_no_lock(void **state)
{
	struct verbs_request request = { .dead = true };
	uint8_t data[VERBS_REP_LEN] = { 0 };
	union verbs_addr to = { .sa.sa_family = AF_INET };
	struct end *e;

	(void)state;
	assert_int_equal(lock_take(&v.lock), 0);
	assert_int_equal(api->listen(&v, AF_INET, 0), -EDEADLK);
	api->unlisten(&v, 1);
	assert_int_equal(api->dial(&v, NULL, &to, 0, &e), -EDEADLK);
	assert_int_equal(api->dial_native(&v, &to, &to, 0, &e), -EDEADLK);
	assert_int_equal(api->connect(&end.end, data), -EDEADLK);
	assert_int_equal(api->establish(&end.end), -EDEADLK);
	assert_int_equal(api->prepare(&v, &request, 0, &e), -EDEADLK);
	assert_int_equal(api->accept(&end.end, data), -EDEADLK);
	assert_int_equal(api->refuse(&v, &request, NULL, 0), -EDEADLK);
	api->hold(&v);
	assert_true(lock_mine(&v.lock));
	api->resume(&v);
	assert_true(lock_mine(&v.lock));
	api->disconnect(&end.end);
	assert_true(lock_mine(&v.lock));
	assert_int_equal(end.state, V_UP);
	api->close(&v);
	assert_true(lock_mine(&v.lock));
	lock_drop(&v.lock);
}

/* What could not be done is made up for by the next event(). */
static void the_end_goes_later(void **state)
{
	struct verbs_event ev;

	(void)state;
	end.state = V_CONNECTING;
	assert_int_equal(lock_take(&v.lock), 0);
	api->disconnect(&end.end);
	lock_drop(&v.lock);
	assert_int_equal(end.state, V_CONNECTING);
	assert_int_equal(api->event(&v, &ev), 1);
	assert_int_equal(ev.type, VE_FAILED);
	assert_int_equal(ev.error, -ECANCELED);
	assert_int_equal(v.lock.word, 0);
}

static void a_fork_holds_and_resumes(void **state)
{
	(void)state;
	api->hold(&v);
	assert_true(lock_mine(&v.lock));
	api->resume(&v);
	assert_int_equal(v.lock.word, 0);
	api->resume(&v);
	assert_int_equal(v.lock.word, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_handler_drops_no_lock, begin),
		cmocka_unit_test_setup(the_end_goes_later, begin),
		cmocka_unit_test_setup(a_fork_holds_and_resumes, begin),
	};

	return cmocka_run_group_tests(tests, load, NULL);
}
