/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Filters of system calls: how many there are, and what is believed about them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/seccomp.h"

#define MODE "Seccomp:\t"
#define SOME "Seccomp_filters:\t"

static int filters_in(const char *text, size_t len)
{
	char name[] = "/tmp/test_seccomp.XXXXXX";
	int fd = mkstemp(name), n;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), len);
	close(fd);
	n = seccomp_filters(name);
	unlink(name);
	return n;
}

static int filters_of(const char *text)
{
	return filters_in(text, strlen(text));
}

static void filters_are_counted(void **state)
{
	(void)state;
	assert_int_equal(filters_of("Name:\tx\n" MODE "2\n" SOME "3\n"), 3);
	assert_int_equal(filters_of("Name:\tx\n" MODE "0\n" SOME "0\n"), 0);
	/* before Linux 5.9, and a kernel that has none */
	assert_int_equal(filters_of("Name:\tx\n" MODE "2\n"),
			 SECCOMP_UNCOUNTED);
	assert_int_equal(filters_of("Name:\tx\nPid:\t7\n"), 0);
	/* a name cannot pretend: it has no line of its own */
	assert_int_equal(filters_of("Name:\t" MODE "2\n" MODE "0\n"), 0);
	assert_true(seccomp_filters("/nothing") < SECCOMP_UNCOUNTED);
}

/* The list of groups stands in front, of any length. */
static void filters_behind_a_long_line(void **state)
{
	static const char tail[] = "\n" MODE "2\n" SOME "11\n";
	static char text[2000];
	size_t n;

	(void)state;
	for (n = 400; n < 1200; n++) {
		memset(text, '7', sizeof(text));
		memcpy(text, "Groups:\t", 8);
		memcpy(text + n, tail, strlen(tail));
		assert_int_equal(filters_in(text, n + strlen(tail)), 11);
	}
}

static void who_is_believed(void **state)
{
	(void)state;
	assert_true(seccomp_word("trust", 1));
	assert_true(seccomp_word("trust", SECCOMP_UNCOUNTED));
	assert_true(seccomp_word("probed:2", 2));
	assert_false(seccomp_word("probed:2", 3));
	assert_false(seccomp_word("probed:2", 1));
	assert_false(seccomp_word("probed:2x", 2));
	assert_false(seccomp_word("probed:", 1));
	assert_false(seccomp_word("probed:-1", SECCOMP_UNCOUNTED));
	assert_false(seccomp_word("probed:0", 0));
	assert_false(seccomp_word("", 1));
	assert_false(seccomp_word("trusted", 1));
}

/* Exits 0 when a process with `n` filters of its own is seen as it is. */
static void filtered(int n)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { 1, code };
	int before = seccomp_filters("/proc/self/status"), i, now;

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	for (i = 0; i < n; i++)
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
			_exit(2);
	now = seccomp_filters("/proc/self/status");
	_exit(now == SECCOMP_UNCOUNTED ? 0 : now != before + n);
}

static void own_filters_are_seen(void **state)
{
	int n, status;
	pid_t pid;

	(void)state;
	for (n = 0; n < 3; n++) {
		pid = fork();
		assert_true(pid >= 0);
		if (!pid)
			filtered(n);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(filters_are_counted),
		cmocka_unit_test(filters_behind_a_long_line),
		cmocka_unit_test(who_is_believed),
		cmocka_unit_test(own_filters_are_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
