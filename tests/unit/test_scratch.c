/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

#include "base/guard.h"
#include "base/scratch.h"

/* A piece lies where the one before it ends, and again when that is given. */
static void pieces(void **state)
{
	void *first, *again;

	(void)state;
	{
		SCRATCH(a);
		SCRATCH(b);

		first = scratch_take(&a, 100);
		assert_non_null(first);
		assert_int_equal((uintptr_t)first % 16, 0);
		memset(first, 1, 100);
		again = scratch_take(&b, 5000);
		assert_true((char *)again >= (char *)first + 100);
		memset(again, 2, 5000);
		assert_int_equal(((char *)first)[99], 1);
	}
	{
		SCRATCH(a);

		assert_ptr_equal(scratch_take(&a, 1), first);
	}
}

/* What does not fit is mapped, and everything comes back. */
static void large(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 100; i++) {
		SCRATCH(a);
		SCRATCH(b);
		SCRATCH(c);

		memset(scratch_take(&a, 20000), 1, 20000);
		memset(scratch_take(&b, 20000), 2, 20000);
		memset(scratch_take(&c, 1 << 20), 3, 1 << 20);
		assert_int_equal(a.mapped, 0);
		assert_int_equal(b.mapped, 20000);
		assert_int_equal(c.mapped, 1 << 20);
		assert_int_equal(*(char *)a.at, 1);
	}
}

static jmp_buf out;

static __attribute__((noinline)) void left(void)
{
	struct scratch a = { NULL, 0 };

	scratch_take(&a, 8000);
	scratch_jumping((uintptr_t)__builtin_frame_address(0) + 256);
	longjmp(out, 1);
}

/* Frames that a jump leaves keep nothing; one that it returns to, its piece. */
static void jumped(void **state)
{
	volatile int i;

	(void)state;
	for (i = 0; i < 50; i++) {
		SCRATCH(mine);
		SCRATCH(next);
		void *at = scratch_take(&mine, 64);

		memset(at, 7, 64);
		if (!setjmp(out))
			left();
		assert_int_equal(((char *)mine.at)[63], 7);
		scratch_take(&next, 8000);
		assert_int_equal(next.mapped, 0);
	}
}

static void *take_one(void *arg)
{
	SCRATCH(a);

	(void)arg;
	return scratch_take(&a, 64);
}

#define THREADS 1000
#define MOST	300

static bool knows(void **all, size_t n, const void *p)
{
	while (n--)
		if (all[n] == p)
			return true;
	return false;
}

/* Each thread has its own; those that have ended leave theirs to the next. */
static void threads(void **state)
{
	void *seen[MOST], *own, *one;
	pthread_t t;
	SCRATCH(a);
	size_t n = 0;
	int i;

	(void)state;
	own = scratch_take(&a, 64);
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_create(&t, NULL, take_one, NULL), 0);
		assert_int_equal(pthread_join(t, &one), 0);
		assert_ptr_not_equal(one, own);
		if (knows(seen, n, one))
			continue;
		assert_true(n < MOST);
		seen[n++] = one;
	}
}

__attribute__((unused)) static void *limited(void *arg)
{
	SCRATCH(a);
	void *p;

	/* its slot may be one whose mapping a thread before it has made */
	guard_own = guard_slot();
	guard_own->scratch = NULL;
	if (setrlimit(RLIMIT_AS, arg))
		return NULL;
	p = scratch_take(&a, 20000);
	if (p)
		memset(p, 1, 20000);
	return a.mapped ? NULL : p;
}

/* The program's address space is used up. */
__attribute__((unused)) static void none_left(void **state)
{
	struct rlimit was, none = { 1 << 20, 0 };
	pthread_t t;
	void *one;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &was), 0);
	none.rlim_max = was.rlim_max;
	assert_int_equal(pthread_create(&t, NULL, limited, &none), 0);
	assert_int_equal(pthread_join(t, &one), 0);
	assert_int_equal(setrlimit(RLIMIT_AS, &was), 0);
	assert_non_null(one);
}

#define GUESTS 100 /* threads, one after the other */
#define KEPT   16 /* far fewer places than threads, a few being slow to die */

static void *guest(void *arg)
{
	SCRATCH(a);

	(void)arg;
	return scratch_take(&a, 100);
}

/* Threads that come and go use each other's memory. */
static void guests(void **state)
{
	void *place[GUESTS], *at;
	int i, j, n = 0;
	pthread_t th;

	(void)state;
	for (i = 0; i < GUESTS; i++) {
		assert_int_equal(pthread_create(&th, NULL, guest, NULL), 0);
		assert_int_equal(pthread_join(th, &at), 0);
		assert_non_null(at);
		for (j = 0; j < n && place[j] != at; j++)
			;
		if (j == n)
			place[n++] = at;
	}
	assert_in_range(n, 1, KEPT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces),
		cmocka_unit_test(large),
		cmocka_unit_test(jumped),
		cmocka_unit_test(threads),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		/* a sanitizer is past every limit of its address space */
		cmocka_unit_test(none_left),
#endif
		cmocka_unit_test(guests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
