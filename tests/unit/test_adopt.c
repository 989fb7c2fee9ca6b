/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Receives that are inside while both ends' words take over from the local. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "socket/life/life.h"

#define LIMIT_NS 2000000000u /* for all the times */

static struct sock sock;
static struct anc_dir words[2];
static uint32_t begun, inside, done; /* numbers of times */
static bool over;
static uint32_t lag; /* what the reader waits for before it leaves */

static void until(const uint32_t *what, uint32_t no)
{
	uint32_t looks = 0;

	while (__atomic_load_n(what, __ATOMIC_ACQUIRE) < no)
		if (++looks % 1024 == 0)
			sched_yield();
}

static void passes(uint32_t n)
{
	while (n--)
		__asm__ volatile("");
}

static void *reader(void *arg)
{
	uint32_t i;

	(void)arg;
	for (i = 1;; i++) {
		struct tcp_rx in = { 0 };

		until(&begun, i);
		if (__atomic_load_n(&over, __ATOMIC_RELAXED))
			return NULL;
		if (!tcp_rx_enter(&in, &sock))
			abort();
		in.back = true;
		__atomic_store_n(&inside, i, __ATOMIC_RELEASE);
		passes(__atomic_load_n(&lag, __ATOMIC_RELAXED));
		tcp_rx_leave(&in);
		__atomic_store_n(&done, i, __ATOMIC_RELEASE);
	}
}

/* Whenever it leaves, no thread is counted behind it. */
static void test_leaves(void **state)
{
	pthread_t thread;
	uint64_t end = clock_ns() + LIMIT_NS;
	uint32_t i;

	(void)state;
	sock_pid = getpid();
	sock.waits.wake = sock.waits.orphan_fd = -1;
	assert_int_equal(pthread_create(&thread, NULL, reader, NULL), 0);
	for (i = 1; clock_ns() < end; i++) {
		memset(words, 0, sizeof(words));
		sock.tx = &sock.local[0];
		sock.rx = &sock.local[1];
		__atomic_store_n(&lag, i % 64, __ATOMIC_RELAXED);
		__atomic_store_n(&begun, i, __ATOMIC_RELEASE);
		until(&inside, i);
		lift_adopt(&sock, &words[0], &words[1]);
		until(&done, i);
		assert_int_equal(words[1].tcp_rx, 0);
		assert_int_equal(sock.local[1].tcp_rx, 0);
	}
	__atomic_store_n(&over, true, __ATOMIC_RELAXED);
	__atomic_store_n(&begun, i, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_leaves),
	};

	alarm(300);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
