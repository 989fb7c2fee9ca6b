/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The bridge's thread and fork() (bridge_run.c). */

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "socket/life/life.h"

#define CHILD_S 60 /* a child that waits for a lock waits for ever */

static int spawned, in_child;

/* As sock_forked(), of which the bridge is the last. */
static void child(void)
{
	struct flow f = { .gate = -1, .listener = -1, .held = -1 };
	sigset_t alrm; /* blocked around pthread_create() */

	sigemptyset(&alrm);
	sigaddset(&alrm, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alrm, NULL);
	alarm(CHILD_S);
	in_child = 1;
	lock_forked();
	bridge_forked();
	_exit(bridge_submit(&f) == -EAGAIN ? 0 : 1);
}

/*
 * The bridge calls this with its lock. A child that is born now has the lock
 * of a thread that it does not have.
 */
int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
		   void *(*run)(void *), void *arg)
{
	int status = -1;
	pid_t pid;

	(void)thread;
	(void)attr;
	(void)run;
	(void)arg;
	spawned++;
	if (in_child)
		return EAGAIN;
	pid = fork();
	if (!pid)
		child();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	return EAGAIN;
}

static void a_fork_while_the_thread_is_started(void **state)
{
	struct flow f = { .gate = -1, .listener = -1, .held = -1 };

	(void)state;
	assert_int_equal(bridge_submit(&f), -EAGAIN);
	assert_int_equal(spawned, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fork_while_the_thread_is_started),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
