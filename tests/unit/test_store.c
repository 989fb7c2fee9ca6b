/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* When is the memory of a sock used again? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "socket/life/life.h"

#define MANY 200 /* more than one chunk has */

/* What is retired is looked at twice. */
static void reap_twice(void)
{
	int i;

	for (i = 0; i < 3; i++)
		guard_reap();
}

/* Looks at everything left behind; is `s` given out again? */
static bool used_again(const struct sock *s)
{
	struct sock *got[MANY];
	bool found = false;
	int i, turn;

	for (turn = 0; turn < 2; turn++) {
		for (i = 0; i < MANY; i++) {
			got[i] = store_get();
			assert_non_null(got[i]);
			found = found || got[i] == s;
		}
		for (i = 0; i < MANY; i++)
			if (got[i] != s)
				sock_bury(got[i]);
		reap_twice();
	}
	return found;
}

/* The memory that this process left to a child which is done with it. */
static struct sock *left_behind(void)
{
	struct sock *s = store_get();

	assert_non_null(s);
	s->mem.buried = 1;
	return s;
}

static void t_inherited(void **state)
{
	struct sock *s = left_behind();

	(void)state;
	store_inherited(s);
	assert_true(used_again(s));
}

static void t_sleeper(void **state)
{
	struct sock *s = left_behind();

	(void)state;
	s->waits.sleeper[SOCK_SLEEPERS - 1].tid = lock_tid();
	store_inherited(s);
	assert_false(used_again(s));
	s->waits.sleeper[SOCK_SLEEPERS - 1].tid = 0;
	assert_int_equal(lock_take(&s->lock), 0);
	assert_false(used_again(s));
	lock_drop(&s->lock);
	assert_true(used_again(s));
}

/* One that was killed in there has left its name, and its lock. */
static void t_killed(void **state)
{
	struct sock *s = left_behind();
	pid_t dead = fork();

	(void)state;
	if (!dead)
		_exit(0);
	assert_int_equal(waitpid(dead, NULL, 0), dead);
	s->waits.sleeper[0].tid = (uint32_t)dead;
	s->lock.word = (uint32_t)dead | LOCK_WAITERS;
	s->waits.sleepers = s->waits.readers = s->in.users = 1;
	store_inherited(s);
	assert_true(used_again(s));
}

/* A process that closes it is off the holders, and not done with it yet. */
static void t_closing(void **state)
{
	struct sock *s = store_get();
	int ready[2], status;
	pid_t pid;
	char byte;

	(void)state;
	assert_non_null(s);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		lock_forked();
		if (lock_take(&s->lock) || write(ready[1], "x", 1) != 1)
			_exit(1);
		pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	store_inherited(s);
	assert_false(used_again(s));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(used_again(s));
	close(ready[0]);
	close(ready[1]);
}

/* One that sleeps in poll() while the sock is closed counts for that one. */
static void t_poll(void **state)
{
	struct sock *s = store_get(), *again;
	uint32_t old, number;
	uint64_t was;

	(void)state;
	assert_non_null(s);
	old = sock_sleep(s);
	number = sock_sleep(s);
	assert_int_equal(s->waits.asleep_anchor, 2);
	assert_int_equal(s->waits.watched, 2);
	sock_awake(s, number);
	assert_int_equal(s->waits.asleep_anchor, 1);
	assert_int_equal(s->waits.watched, 1);
	guard_begin(true);
	was = guard_enter();
	sock_bury(s);
	reap_twice(); /* this thread may still look at it */
	guard_leave(was);
	again = store_get();
	assert_ptr_not_equal(again, s);
	sock_bury(again);
	reap_twice();
	assert_false(s->waits.asleep_anchor_gen == number);
	while ((again = store_get()) != s)
		assert_non_null(again);
	sock_awake(s, old);
	assert_int_equal(s->waits.asleep_anchor, 0);
	assert_int_equal(s->waits.watched, 0);
	number = sock_sleep(s);
	sock_awake(s, old);
	assert_int_equal(s->waits.asleep_anchor, 1);
	assert_int_equal(s->waits.watched, 1);
	sock_awake(s, number);
	assert_int_equal(s->waits.asleep_anchor, 0);
	assert_int_equal(s->waits.watched, 0);
	sock_bury(s);
}

/* --- what a process keeps of a sock that it left to its child ------------- */

/* Memory where a segment would be, left: guard_heavy() says if it still is. */
static void leave(struct sock *s)
{
	struct shm_seg seg = { .len = 4096 };

	seg.mem = sys_mmap(NULL, seg.len, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_false(sys_is_err(seg.mem));
	store_leave(s, seg);
	reap_twice();
}

/* The child sleeps in it, or was killed there: that is no thread of ours. */
static void t_left(void **state)
{
	struct sock *s = store_get();

	(void)state;
	assert_non_null(s);
	s->in.users = 2;
	s->waits.sleepers = s->waits.readers = 1;
	s->waits.sleeper[0].tid = 1; /* a process of its own */
	s->in.inside[1] = 1;
	leave(s);
	assert_int_equal(guard_heavy(), 0);
}

static void t_left_inside(void **state)
{
	struct sock *s = store_get();

	(void)state;
	assert_non_null(s);
	assert_non_null(holder_new(s, sock_pid, 5));
	s->in.users = 1;
	holder_in(s, HOLDS_TX); /* a send that sleeps in the kernel */
	leave(s);
	assert_int_equal(guard_heavy(), 1);
	holder_out(s, HOLDS_TX);
	s->waits.sleepers = s->waits.readers = 1;
	reap_twice();
	assert_int_equal(guard_heavy(), 1); /* it had no room for its name */
	s->waits.sleeper[2].tid = lock_tid();
	reap_twice();
	assert_int_equal(guard_heavy(), 1);
	s->waits.sleeper[2].tid = 1;
	s->in.inside[0] = lock_tid();
	reap_twice();
	assert_int_equal(guard_heavy(), 1);
	s->in.inside[0] = 0;
	reap_twice();
	assert_int_equal(guard_heavy(), 0);
}

/* A thread of ours sends in the kernel when the child is done with it. */
static void t_sender(void **state)
{
	struct sock *s = left_behind();

	(void)state;
	assert_non_null(holder_new(s, sock_pid, 5));
	s->in.users = 1;
	holder_in(s, HOLDS_TX);
	s->mem.holder[0].fds = 0;
	store_inherited(s);
	assert_false(used_again(s));
	holder_out(s, HOLDS_TX);
	assert_true(used_again(s));
}

static jmp_buf out;

static void jumps(struct sock *s)
{
	struct sock_doze in = { NULL };

	assert_true(sock_doze(&in, s));
	assert_true(sock_doze(&in, s));
	assert_int_equal(s->waits.asleep_anchor, 2);
	longjmp(out, 1);
}

/* A handler that does not jump, and polls, too. */
static void returns(struct sock *s)
{
	char frame[4096] __attribute__((unused));
	struct sock_doze in = { NULL };

	frame[0] = 0;
	__asm__ volatile("" : : "r"(frame) : "memory");
	assert_false(sock_doze(&in, s));
	sock_dozed(&in);
	assert_int_equal(s->waits.asleep_anchor, 1);
}

/* A sleep in the kernel's poll() is counted, however it comes out. */
static void t_doze(void **state)
{
	struct sock_doze in = { NULL };
	struct sock *s = store_get();
	int i;

	(void)state;
	assert_non_null(s);
	for (i = 0; i < 2; i++) {
		if (!setjmp(out))
			jumps(s);
		if (i) /* any call tells */
			tcp_jumped((uintptr_t)__builtin_frame_address(0));
		else
			sock_wait_begins();
		assert_int_equal(s->waits.asleep_anchor, 0);
	}
	assert_true(sock_doze(&in, s));
	returns(s);
	tcp_forked(); /* the parent counts itself out */
	sock_dozed(&in);
	assert_int_equal(s->waits.asleep_anchor, 1);
	sock_bury(s);
}

#define CLOSED 1024 /* at once, each while a thread is still inside */

/* No more memory than before is needed for as many again. */
static void t_limbo(void **state)
{
	static struct sock *was[CLOSED];
	int i, j, anew = 0;

	(void)state;
	for (i = 0; i < CLOSED; i++) {
		was[i] = store_get();
		assert_non_null(was[i]);
		was[i]->in.users = 1;
	}
	for (i = 0; i < CLOSED; i++)
		sock_bury(was[i]);
	reap_twice();
	for (i = 0; i < CLOSED; i++) {
		struct sock *s = store_get();

		for (j = 0; j < CLOSED && was[j] != s; j++)
			;
		assert_int_equal(j, CLOSED);
	}
	for (i = 0; i < CLOSED; i++)
		was[i]->in.users = 0;
	reap_twice();
	for (i = 0; i < CLOSED; i++) {
		struct sock *s = store_get();

		for (j = 0; j < CLOSED && was[j] != s; j++)
			;
		anew += j == CLOSED;
	}
	/* what the arena had to spare; its chunks have 64 or more */
	assert_in_range(anew, 0, CLOSED / 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_inherited), cmocka_unit_test(t_sleeper),
		cmocka_unit_test(t_killed),    cmocka_unit_test(t_closing),
		cmocka_unit_test(t_poll),      cmocka_unit_test(t_limbo),
		cmocka_unit_test(t_doze),      cmocka_unit_test(t_left),
		cmocka_unit_test(t_sender),    cmocka_unit_test(t_left_inside),
	};

	sock_pid = getpid();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
