/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Signals for the process while a thread holds them back: whose are they? The
 * first thread is kept from taking its own as one is that waits in vfork().
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/hold.h"

#define CHILD_NS 20000000 /* so long the first thread can take nothing */
#define ROUNDS	 10

static pthread_t first;
static atomic_int by_first, by_other;
static atomic_bool *busy; /* shared with the child */

static void on_signal(int sig)
{
	(void)sig;
	if (pthread_equal(pthread_self(), first))
		atomic_fetch_add(&by_first, 1);
	else
		atomic_fetch_add(&by_other, 1);
}

/* ThreadSanitizer puts handlers off until the next call that can wait. */
static void settle(void)
{
	usleep(1000);
}

/* In the kernel until its child has ended, whatever it lets in. */
static void be_busy(void)
{
	const struct timespec nap = { .tv_nsec = CHILD_NS };
	long pid = sys_call6(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0, 0);

	if (!pid) {
		atomic_store(busy, true);
		sys_call3(SYS_nanosleep, (long)&nap, 0, 0);
		sys_call3(SYS_exit_group, 0, 0, 0);
	}
	assert_true(pid > 0);
	while (waitpid((pid_t)pid, NULL, 0) != pid)
		;
	settle();
}

/* `how` the first thread takes it. */
static void reset(int how)
{
	struct sigaction sa = { .sa_handler = on_signal };
	sigset_t usr1;

	first = pthread_self();
	atomic_store(&by_first, 0);
	atomic_store(&by_other, 0);
	atomic_store(busy, false);
	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	assert_int_equal(sigaction(SIGUSR1, &sa, NULL), 0);
	assert_int_equal(pthread_sigmask(how, &usr1, NULL), 0);
}

static void let_in(void)
{
	sigset_t usr1;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &usr1, NULL), 0);
}

static void *holds(void *arg)
{
	struct hold h = { .on = false };
	bool own = arg != NULL;

	let_in();
	while (!atomic_load(busy))
		usleep(100);
	hold_signals(&h);
	if (own)
		pthread_kill(pthread_self(), SIGUSR1);
	else
		kill(getpid(), SIGUSR1);
	hold_end(&h);
	settle();
	return NULL;
}

static void run(void *own)
{
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, holds, own), 0);
	be_busy();
	assert_int_equal(pthread_join(t, NULL), 0);
}

/* A slow machine may need more than the patience now and then. */
static void test_first(void **state)
{
	int i, kept = 0;

	(void)state;
	for (i = 0; i < ROUNDS; i++) {
		reset(SIG_UNBLOCK);
		run(NULL);
		assert_int_equal(by_first + by_other, 1);
		kept += atomic_load(&by_first);
	}
	assert_true(kept > ROUNDS / 2);
}

/* The first thread does not let it in. */
static void test_other(void **state)
{
	(void)state;
	reset(SIG_BLOCK);
	run(NULL);
	assert_int_equal(by_first, 0);
	assert_int_equal(by_other, 1);
}

/* Meant for the thread that holds it. */
static void test_own(void **state)
{
	(void)state;
	reset(SIG_UNBLOCK);
	run(&first);
	assert_int_equal(by_first, 0);
	assert_int_equal(by_other, 1);
}

/* The first thread itself is not kept from its own. */
static void test_alone(void **state)
{
	struct hold h = { .on = false };

	(void)state;
	reset(SIG_UNBLOCK);
	hold_signals(&h);
	kill(getpid(), SIGUSR1);
	assert_int_equal(by_first, 0);
	hold_end(&h);
	settle();
	assert_int_equal(by_first, 1);
}

static void test_status(void **state)
{
#define HEAD "Name:\tx\nState:\tS (sleeping)\nGroups:\t0 1 2\n"
#define PEND "SigPnd:\t0000000000000000\nShdPnd:\t0000000000000e00\n"
	static const char dead[] = "Name:\tx\nState:\tZ (zombie)\n" PEND
				   "SigBlk:\t0000000000000000\n";

	(void)state;
	assert_int_equal(hold_lets_in(HEAD PEND "SigBlk:\t0000000000000200\n"),
			 0xc00);
	assert_int_equal(hold_lets_in(dead), 0);
	assert_int_equal(hold_lets_in(HEAD), 0);
	assert_int_equal(hold_lets_in(HEAD PEND), 0);
	assert_int_equal(hold_lets_in(HEAD PEND "SigBlk:\t0000"), 0);
	assert_int_equal(hold_lets_in(""), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),  cmocka_unit_test(test_other),
		cmocka_unit_test(test_own),    cmocka_unit_test(test_alone),
		cmocka_unit_test(test_status),
	};

	busy = mmap(NULL, sizeof(*busy), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (busy == MAP_FAILED)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
