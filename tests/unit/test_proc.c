/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* test_proc.c - small files of /proc, and what they say of processes */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"

static void proc_reads_small_files(void **state)
{
	char buf[16] = "not empty", small[4], number[16];

	(void)state;
	snprintf(number, sizeof(number), "%d ", getpid());
	assert_int_equal(proc_read(buf, sizeof(buf), "/proc/%s/%s", "self",
				   "stat"),
			 sizeof(buf) - 1);
	assert_memory_equal(buf, number, strlen(number));
	assert_int_equal(proc_read(small, sizeof(small), "/proc/self/stat"), 3);
	assert_int_equal(strlen(small), 3);
	assert_int_equal(proc_read(buf, sizeof(buf), "/proc/self/none"),
			 -ENOENT);
	assert_string_equal(buf, "");
	assert_int_equal(proc_read(small, sizeof(small), "/proc/self"),
			 -EISDIR);
	assert_string_equal(small, "");
	assert_int_equal(proc_read(buf, sizeof(buf), "/proc/%065d/stat", 1),
			 -ENAMETOOLONG);
}

/* Whatever a thread calls itself. */
static void proc_state_stands_behind_the_name(void **state)
{
	char was[16], stat[512];

	(void)state;
	assert_int_equal(prctl(PR_GET_NAME, was), 0);
	assert_int_equal(prctl(PR_SET_NAME, "a) Z (b) T 1"), 0);
	assert_true(proc_read(stat, sizeof(stat), "/proc/%d/stat", getpid()) >
		    0);
	prctl(PR_SET_NAME, was);
	assert_non_null(strstr(stat, "(a) Z (b) T 1) R "));
	assert_int_equal(*proc_state(stat), 'R');
	assert_string_equal(proc_state("1 (a) S 2"), "S 2");
	assert_string_equal(proc_state("1 (a)"), "");
	assert_string_equal(proc_state("1 (a"), "");
	assert_string_equal(proc_state(""), "");
}

static void *outlive(void *arg)
{
	(void)arg;
	pause();
	return NULL;
}

static pid_t child(void (*does)(void))
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	does();
	_exit(0);
}

static void sleeps(void)
{
	pause();
}

/* /proc/PID/stat says Z then. */
static void first_thread_ends(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, outlive, NULL))
		_exit(1);
	pthread_exit(NULL);
}

static void until_state(pid_t pid, char state)
{
	while (proc_state_of(pid) != state)
		sched_yield();
}

static void proc_ended_waited_for_or_not(void **state)
{
	pid_t pid = child(sleeps);

	(void)state;
	assert_int_equal(proc_threads(getpid()), 1);
	assert_false(proc_ended(getpid()));
	assert_false(proc_ended(getppid()));
	assert_false(proc_ended(pid));
	kill(pid, SIGSTOP);
	until_state(pid, 'T');
	assert_false(proc_ended(pid));
	kill(pid, SIGKILL);
	until_state(pid, 'Z');
	assert_int_equal(proc_threads(pid), 1);
	assert_true(proc_ended(pid));
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(proc_ended(pid));
}

static void proc_lives_without_its_first_thread(void **state)
{
	pid_t pid = child(first_thread_ends);

	(void)state;
	until_state(pid, 'Z');
	assert_false(proc_ended(pid));
	/* A sanitizer may have made more of its own. */
	assert_true(proc_threads(pid) >= 2);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(proc_ended(pid));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(proc_reads_small_files),
		cmocka_unit_test(proc_state_stands_behind_the_name),
		cmocka_unit_test(proc_ended_waited_for_or_not),
		cmocka_unit_test(proc_lives_without_its_first_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
