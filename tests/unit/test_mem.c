/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* test_mem.c - what is remembered of the program's memory */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sys/mman.h>

#include "base/mem.h"

/* Of a buffer of any usual size no page is asked for again. */
static void mem_remembers_both_ends(void **state)
{
	size_t n, at = 16;
	int write;
	char *mem;

	(void)state;
	for (n = 4096; n <= 16 << 20; n *= 2)
		for (write = 0; write < 2; write++) {
			mem = mmap(NULL, n + 4096, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			assert_ptr_not_equal(mem, MAP_FAILED);
			assert_true(mem_good(mem + at, n, write));
			assert_int_equal(munmap(mem, n + 4096), 0);
			/* so taking it away again is not found out */
			assert_true(mem_good(mem + at, n, write));
		}
	assert_false(mem_good(NULL, 1, false));
}

/* A server has a buffer for each connection. */
static void mem_remembers_hundreds(void **state)
{
	const size_t pages = 300;
	char *mem = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t i, left = 0;

	(void)state;
	assert_ptr_not_equal(mem, MAP_FAILED);
	for (i = 0; i < pages; i++)
		assert_int_equal(mem_front_copied(mem + i * 4096, 9, true), 9);
	assert_int_equal(munmap(mem, pages * 4096), 0);
	for (i = 0; i < pages; i++)
		left += mem_front_copied(mem + i * 4096, 9, true) == 9;
	assert_true(left > pages / 4 * 3);
	/* what else is touched is asked for by itself */
	assert_false(mem_good(mem, 9, true));
	mem_forget();
	for (i = 0; i < pages; i++)
		assert_int_equal(mem_front_copied(mem + i * 4096, 9, true), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mem_remembers_both_ends),
		cmocka_unit_test(mem_remembers_hundreds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
