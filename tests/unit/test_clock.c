/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The library's clock, in a program whose own clock stands still. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/vdso.h"

/* As a preloaded library has it: FAKETIME="2001-09-09 01:46:40". */
int clock_gettime(clockid_t id, struct timespec *ts)
{
	(void)id;
	*ts = (struct timespec){ 1000000000, 0 };
	return 0;
}

static uint64_t kernel_ns(void)
{
	struct timespec ts;

	assert_int_equal(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts), 0);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void is_the_kernels(void **state)
{
	uint64_t before, now, behind;
	int i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		before = kernel_ns();
		now = clock_ns();
		behind = kernel_ns();
		assert_in_range(now, before, behind);
	}
	assert_in_range(clock_coarse_ns(), now - 100000000u, behind);
}

static void goes_on(void **state)
{
	const struct timespec nap = { .tv_nsec = 2000000 };
	uint64_t begun = clock_ns();

	(void)state;
	assert_int_equal(syscall(SYS_nanosleep, &nap, NULL), 0);
	assert_true(clock_ns() - begun >= 2000000u);
}

static void is_read_in_user_space(void **state)
{
	(void)state;
#if defined(__x86_64__) || defined(__aarch64__)
	if (getauxval(AT_SYSINFO_EHDR)) {
		clock_ns();
		assert_ptr_equal(clock_source, vdso_symbol(
#ifdef __x86_64__
						       "__vdso_clock_gettime"
#else
						       "__kernel_clock_gettime"
#endif
						       ));
	}
#endif
	assert_null(vdso_symbol("__vdso_no_such_name"));
	assert_null(vdso_symbol(""));
}

static void spins_are_counted(void **state)
{
	uint64_t left = clock_looks(50000), end = clock_ns() + 50000;

	(void)state;
	while (left && clock_ns() < end)
		left--;
	assert_true(left > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_the_kernels),
		cmocka_unit_test(goes_on),
		cmocka_unit_test(is_read_in_user_space),
		cmocka_unit_test(spins_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
