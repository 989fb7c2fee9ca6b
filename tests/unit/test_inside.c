/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Jumps that are told of: what of a thread's calls they leave, and what not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "socket/life/life.h"

static struct sock s;

static int setup(void **state)
{
	(void)state;
	memset(&s, 0, sizeof(s));
	s.rx = &s.local[1];
	s.tx = &s.local[0];
	s.stats.row = &sock_spare;
	s.stats.row_pid = sock_pid;
	s.waits.wake = s.waits.orphan_fd = -1;
	return 0;
}

static void nobody(void)
{
	assert_int_equal(s.local[1].tcp_rx + s.in.users + s.in.tcp_tx, 0);
	assert_int_equal(s.waits.readers + s.waits.writers + s.waits.sleepers,
			 0);
	assert_false(sock_within());
}

static uintptr_t here(const void *frame)
{
	return (uintptr_t)frame;
}

/* A receive that a handler leaves: to its caller's frame. */
__attribute__((noinline)) static void receive_left(uintptr_t to)
{
	struct tcp_rx in = { 0 };

	assert_true(tcp_rx_enter(&in, &s));
	assert_true(s.local[1].tcp_rx > 0);
	assert_true(sock_within());
	sock_jumping(to);
}

__attribute__((noinline)) static void send_left(uintptr_t to)
{
	struct tcp_tx in = { NULL, false };

	assert_true(tcp_tx_enter(&in, &s));
	assert_int_equal(s.in.tcp_tx, 1);
	sock_jumping(to);
}

__attribute__((noinline)) static void sleep_left(uintptr_t to)
{
	struct sleep in = { NULL, { 0 } };

	assert_int_equal(lock_take(&s.lock), 0);
	wait_away(&in, &s, false);
	assert_int_equal(s.waits.readers, 1);
	sock_jumping(to);
}

static void t_left(void **state)
{
	int frame;

	(void)state;
	receive_left(here(&frame));
	nobody();
	assert_true(s.in.strayed);
	send_left(here(&frame));
	nobody();
	assert_true(s.fallback.pinned);
	sleep_left(here(&frame));
	nobody();
	assert_int_equal(s.lock.word, 0);
}

/* The handler's own, or what is no stack pointer: nothing is left. */
static void stay(const void *frame)
{
	sock_jumping(0);
	sock_jumping(here(frame) - 4096);
	sock_jumping(here(frame) + (1ul << 31));
	sock_jumping(UINTPTR_MAX);
}

__attribute__((noinline)) static void stays(void)
{
	struct sleep sleep = { NULL, { 0 } };
	struct tcp_rx in = { 0 };
	struct tcp_tx out = { NULL, false };

	assert_true(tcp_rx_enter(&in, &s));
	stay(&in);
	assert_int_equal(s.local[1].tcp_rx, 1);
	in.back = true;
	tcp_rx_leave(&in);
	nobody();
	assert_true(tcp_tx_enter(&out, &s));
	stay(&out);
	assert_int_equal(s.in.tcp_tx, 1);
	tcp_tx_done(&out, &s, -EINTR);
	nobody();
	assert_int_equal(lock_take(&s.lock), 0);
	wait_away(&sleep, &s, true);
	stay(&sleep);
	assert_int_equal(s.waits.writers, 1);
	wait_back(&sleep);
	sock_unlock(&s);
	nobody();
}

static void t_stays(void **state)
{
	(void)state;
	stays();
	assert_false(s.fallback.pinned || s.in.strayed);
}

static void nested(int depth, uintptr_t to);

/* What the kernel leaves on the stack for a handler, and more. */
__attribute__((noinline)) static void handler(int depth, uintptr_t to)
{
	volatile char frame[2048];

	frame[0] = 1;
	if (depth)
		nested(depth - 1, to);
	else
		receive_left(to ? to : here((const void *)frame));
	assert_int_equal(frame[0], 1);
}

/* Handlers receive, too: `to` leaves all of them, 0 the innermost. */
__attribute__((noinline)) static void nested(int depth, uintptr_t to)
{
	struct tcp_rx in = { 0 };
	uint32_t n = s.local[1].tcp_rx;

	assert_true(tcp_rx_enter(&in, &s));
	handler(depth, to);
	assert_int_equal(s.local[1].tcp_rx, to ? 0 : n + 1);
	if (!to)
		tcp_rx_leave(&in);
}

static void t_nested(void **state)
{
	int frame;

	(void)state;
	nested(2, here(&frame));
	nobody();
	nested(2, 0);
	nobody();
}

/* Counted out by mistake, the call comes back: it is not counted out again. */
__attribute__((noinline)) static void comes_back(uintptr_t to)
{
	struct tcp_tx out = { NULL, false };
	struct tcp_rx in = { 0 };

	assert_true(tcp_rx_enter(&in, &s));
	sock_jumping(to);
	nobody();
	tcp_rx_leave(&in);
	nobody();
	assert_true(tcp_tx_enter(&out, &s));
	sock_jumping(to);
	nobody();
	tcp_tx_done(&out, &s, 0);
	nobody();
}

static void t_back(void **state)
{
	int frame;

	(void)state;
	comes_back(here(&frame));
}

/* A child counts nothing out that its parent counted in: both come back. */
__attribute__((noinline)) static void forked(uintptr_t to)
{
	struct tcp_rx in = { 0 };

	assert_true(tcp_rx_enter(&in, &s));
	tcp_forked();
	if (to) {
		sock_jumping(to);
		assert_int_equal(s.local[1].tcp_rx, 1);
	} else {
		tcp_rx_leave(&in);
	}
	assert_int_equal(s.local[1].tcp_rx, 1);
	assert_int_equal(s.in.users, 1);
	setup(NULL);
}

static void t_forked(void **state)
{
	int frame;

	(void)state;
	forked(0);
	forked(here(&frame));
	assert_false(sock_within());
}

/* --- other stacks --------------------------------------------------------- */

#define STACK (4ul << 20) /* the thread sanitizer needs a megabyte */

/* Of a program that has threads of its own: it will come back to this one. */
static void *elsewhere(void *arg)
{
	struct tcp_rx in = { 0 };

	assert_true(tcp_rx_enter(&in, &s));
	sock_jumping((uintptr_t)arg);
	assert_int_equal(s.local[1].tcp_rx, 1);
	tcp_rx_leave(&in);
	nobody();
	return NULL;
}

static void t_elsewhere(void **state)
{
	char *mem = mmap(NULL, 3 * STACK, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t t;

	(void)state;
	assert_true(mem != MAP_FAILED);
	assert_int_equal(mprotect(mem + 2 * STACK, 4096, PROT_NONE), 0);
	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstack(&attr, mem, 2 * STACK), 0);
	assert_int_equal(pthread_create(&t, &attr, elsewhere,
					mem + 2 * STACK + 8192),
			 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(pthread_attr_destroy(&attr), 0);
	munmap(mem, 3 * STACK);
}

/* --- a handler on a stack of its own -------------------------------------- */

static char stack[65536];
static uintptr_t jump_to;

static void on_stack(int sig)
{
	(void)sig;
	sock_jumping(jump_to);
	/* this stack may be small */
	assert_int_equal(s.local[1].tcp_rx, 1);
}

__attribute__((noinline)) static void receive_apart(uintptr_t to, bool leave)
{
	struct tcp_rx in = { 0 };

	assert_true(tcp_rx_enter(&in, &s));
	jump_to = to;
	assert_int_equal(raise(SIGUSR1), 0);
	tcp_jumped(here(&in) - 65536); /* from deeper */
	assert_int_equal(s.local[1].tcp_rx, leave ? 0 : 1);
	if (!leave)
		tcp_rx_leave(&in);
}

static void t_apart(void **state)
{
	struct sigaction sa = { .sa_handler = on_stack,
				.sa_flags = SA_ONSTACK };
	stack_t ss = { .ss_sp = stack, .ss_size = sizeof(stack) };
	stack_t none = { .ss_flags = SS_DISABLE };
	int frame;

	(void)state;
	assert_int_equal(sigaltstack(&ss, NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, &sa, NULL), 0);
	receive_apart((uintptr_t)stack + 60000, false);
	nobody();
	receive_apart(here(&frame), true);
	nobody();
	assert_int_equal(sigaltstack(&none, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(t_left, setup),
		cmocka_unit_test_setup(t_stays, setup),
		cmocka_unit_test_setup(t_nested, setup),
		cmocka_unit_test_setup(t_back, setup),
		cmocka_unit_test_setup(t_forked, setup),
		cmocka_unit_test_setup(t_elsewhere, setup),
		cmocka_unit_test_setup(t_apart, setup),
	};
	const struct sock_hooks none = { .recv = NULL };

	sock_setup(&none);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
