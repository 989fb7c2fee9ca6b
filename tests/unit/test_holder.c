/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A process that is killed inside of calls is counted out by the others. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "socket/life/life.h"

/* Children share both. */
static struct sock *s;
static struct anc_dir *words; /* of a pairing */
static int ready[2];

static int begin(void **state)
{
	(void)state;
	s = store_get();
	words = mmap(NULL, sizeof(*words) * 2, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (!s || words == MAP_FAILED || pipe(ready))
		return -1;
	s->waits.orphan_fd = s->waits.wake = s->seek.pair.fd = -1;
	s->seek.look = LOOK_NEVER;
	s->tx = &s->local[0];
	s->rx = &s->local[1];
	s->mem.holder[0].pid = sock_pid;
	s->mem.holder[0].fds = 1;
	return 0;
}

static int end(void **state)
{
	bool counted = s->in.users || s->waits.sleepers || s->lock.word;

	(void)state;
	sock_bury(s);
	return counted || munmap(words, sizeof(*words) * 2) ||
	       close(ready[0]) || close(ready[1]);
}

static void receives(void)
{
	static struct tcp_rx in;

	if (!tcp_rx_enter(&in, s))
		_exit(1);
}

static void sends(void)
{
	static struct tcp_tx in;

	if (!tcp_tx_enter(&in, s))
		_exit(1);
}

static void sleeps(void)
{
	sock_sleep(s);
}

static void closes(void)
{
	sock_stays(s);
	s->mem.holder[1].fds = 0;
}

static void locks(void)
{
	lock_forked();
	if (sock_lock(s))
		_exit(1);
}

/* In a handler, which lies deeper by a signal's frame at least. */
static __attribute__((noinline)) void sends_deeper(void)
{
	char frame[4096];
	struct tcp_tx in;

	__asm__ volatile("" : : "r"(frame) : "memory");
	if (!tcp_tx_enter(&in, s))
		_exit(1);
	__asm__ volatile("" : : "r"(frame) : "memory");
}

static void does_all(void)
{
	struct tcp_rx in;

	sleeps();
	if (!tcp_rx_enter(&in, s))
		_exit(1);
	sends_deeper();
}

/* And another of its threads has closed it. */
static void receives_closed(void)
{
	receives();
	s->mem.holder[1].fds = 0;
}

/* A child has the sock, too, and is killed behind the beginning of `call`. */
static pid_t killed(void (*call)(void))
{
	int status;
	char byte;
	pid_t pid = fork();

	if (!pid) {
		sock_pid = getpid();
		tcp_forked();
		holder_new(s, sock_pid, -1);
		call();
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(s->mem.holder[1].pid, pid);
	return pid;
}

static void nobody_is_inside(void)
{
	assert_int_equal(s->local[1].tcp_rx, 0);
	assert_int_equal(s->rx->tcp_rx, 0);
	assert_int_equal(s->in.carry, 0);
	assert_int_equal(s->in.tcp_tx, 0);
	assert_int_equal(s->in.users, 0);
	assert_int_equal(s->waits.asleep_anchor, 0);
	assert_int_equal(s->waits.watched, 0);
}

static void t_receive(void **state)
{
	(void)state;
	killed(receives);
	assert_int_equal(s->rx->tcp_rx, 1);
	assert_int_equal(s->in.users, 1);
	assert_int_equal(sock_holders(s), 1);
	nobody_is_inside();
	assert_int_equal(s->mem.holder[1].pid, 0);
	assert_true(s->in.strayed); /* it may have taken something */
	assert_false(s->fallback.pinned);
}

static void t_send(void **state)
{
	(void)state;
	killed(sends);
	assert_int_equal(s->in.tcp_tx, 1);
	assert_int_equal(sock_holders(s), 1);
	nobody_is_inside();
	assert_true(s->in.unsent &&
		    s->fallback.pinned); /* what went is not known */
	assert_false(s->in.strayed);
}

static void t_sleep(void **state)
{
	(void)state;
	killed(sleeps);
	assert_int_equal(s->waits.asleep_anchor, 1);
	assert_int_equal(sock_holders(s), 1);
	nobody_is_inside();
	assert_false(s->in.strayed || s->fallback.pinned);
}

/* In the middle of a close, too: its memory goes. */
static void t_close(void **state)
{
	(void)state;
	killed(closes);
	assert_int_equal(s->in.users, 1);
	assert_int_equal(sock_holders(s), 1);
	nobody_is_inside();
	assert_int_equal(s->mem.holder[1].pid, 0);
	assert_false(s->in.strayed || s->fallback.pinned);
}

/*
 * The lock of a sock that another process uses: only the user moves the stream,
 * so that is whole; it may be half moved if the user was killed.
 */
static void t_locked(void **state)
{
	pid_t pid;

	(void)state;
	s->tx = words;
	s->paired = true;
	words->state = ANC_LIFTED;
	s->user = getppid();
	killed(locks);
	assert_int_equal(sock_lock(s), 0);
	assert_int_equal(s->conn.error, 0);
	sock_unlock(s);
	assert_int_equal(sock_holders(s), 1);
	pid = killed(locks);
	s->user = pid;
	assert_int_equal(sock_lock(s), 0);
	assert_int_equal(s->conn.error, -ECONNRESET);
	sock_unlock(s);
	s->paired = false;
}

/* The marker of the lift was left to a thread inside since before. */
static void t_before_the_pairing(void **state)
{
	(void)state;
	killed(receives);
	lift_adopt(s, &words[0], &words[1]);
	assert_int_equal(s->in.carry, 1);
	assert_int_equal(s->rx->tcp_rx, 1);
	assert_int_equal(sock_holders(s), 1);
	nobody_is_inside();
}

static void t_behind_the_pairing(void **state)
{
	(void)state;
	lift_adopt(s, &words[0], &words[1]);
	killed(receives);
	assert_int_equal(words[1].tcp_rx, 1);
	assert_int_equal(sock_holders(s), 1);
	nobody_is_inside();
}

/* Our own threads are still inside. */
static void t_others(void **state)
{
	struct tcp_rx rx = { 0 };
	uint32_t number;

	(void)state;
	assert_true(tcp_rx_enter(&rx, s));
	number = sock_sleep(s);
	killed(does_all);
	assert_int_equal(s->rx->tcp_rx, 2);
	assert_int_equal(s->in.tcp_tx, 1);
	assert_int_equal(s->in.users, 3);
	assert_int_equal(s->waits.asleep_anchor, 2);
	assert_int_equal(sock_holders(s), 1);
	assert_int_equal(s->rx->tcp_rx, 1);
	assert_int_equal(s->in.tcp_tx, 0);
	assert_int_equal(s->in.users, 1);
	assert_int_equal(s->waits.asleep_anchor, 1);
	sock_awake(s, number);
	rx.back = true;
	tcp_rx_leave(&rx);
	nobody_is_inside();
	assert_int_equal(sock_holders(s), 1);
	nobody_is_inside();
}

/*
 * A process that has closed it has no say in it: it is left to those that have
 * it.
 */
static void t_stranger(void **state)
{
	pid_t pid;

	(void)state;
	pid = killed(receives);
	s->mem.holder[0].pid = 0;
	assert_int_equal(sock_holders(s), 0);
	assert_int_equal(s->mem.holder[1].pid, pid);
	assert_int_equal(s->rx->tcp_rx, 1);
	s->mem.holder[0].pid = sock_pid;
	assert_int_equal(sock_holders(s), 1);
	assert_int_equal(s->mem.holder[1].pid, 0);
	nobody_is_inside();
}

static void t_closed(void **state)
{
	(void)state;
	killed(receives_closed);
	assert_int_equal(s->rx->tcp_rx, 1);
	assert_int_equal(sock_holders(s), 1);
	nobody_is_inside();
	assert_int_equal(s->mem.holder[1].pid, 0);
}

/* The place is kept until this thread is out. */
static void t_closed_here(void **state)
{
	struct tcp_rx rx = { 0 };

	(void)state;
	assert_true(tcp_rx_enter(&rx, s));
	s->mem.holder[0].fds = 0;
	assert_int_equal(sock_holders(s), 0);
	assert_null(holder_of(s, sock_pid));
	assert_int_equal(s->mem.holder[0].pid, sock_pid);
	rx.back = true;
	tcp_rx_leave(&rx);
	nobody_is_inside();
	assert_int_equal(sock_holders(s), 0);
	assert_int_equal(s->mem.holder[0].pid, 0);
}

/* Many processes, also where another sock with as many lay before. */
static void t_many(void **state)
{
	struct holder *h;
	int i, round;

	(void)state;
	for (round = 0; round < 2; round++) {
		for (i = 1; i < SOCK_HOLDERS; i++) {
			h = holder_new(s, -i, i);
			assert_non_null(h);
			assert_false(holder_inside(h));
			h->inside[HOLDS_TX] = 1;
		}
		assert_null(holder_new(s, -i, i));
		assert_int_equal(sock_holders(s), SOCK_HOLDERS);
		for (i = 1; i < SOCK_HOLDERS; i++) {
			assert_int_equal(holder_of(s, -i)->fd, i);
			assert_int_equal(holder_at(s, (uint32_t)i)->pid, -i);
		}
		assert_null(holder_at(s, SOCK_HOLDERS));
		s->mem.holders = 0; /* as in a sock that comes to lie there */
	}
}

/* Killed between a count and its part of it. */
static void t_lost(void **state)
{
	struct tcp_rx rx = { 0 };
	uint32_t number = sock_sleep(s);

	(void)state;
	assert_true(tcp_rx_enter(&rx, s));
	lift_adopt(s, &words[0], &words[1]);
	assert_int_equal(s->rx->tcp_rx,
			 1); /* the marker's, while we are inside */
	assert_false(holders_lost(s));
	s->in.tcp_tx++;
	assert_true(holders_lost(s));
	s->in.tcp_tx--;
	s->rx->tcp_rx++;
	assert_true(holders_lost(s));
	s->rx->tcp_rx--;
	s->local[1].tcp_rx++;
	assert_true(holders_lost(s));
	s->local[1].tcp_rx--;
	s->waits.asleep_anchor++;
	assert_true(holders_lost(s));
	s->waits.asleep_anchor--;
	assert_false(holders_lost(s));
	rx.back = true;
	tcp_rx_leave(&rx);
	sock_awake(s, number);
	nobody_is_inside();
	assert_false(holders_lost(s));
}

static pthread_barrier_t meets;
static struct guard *inside;

static void *stays_inside(void *arg)
{
	GUARDED(in);

	(void)arg;
	inside = guard_own;
	pthread_barrier_wait(&meets);
	pthread_barrier_wait(&meets);
	return NULL;
}

/*
 * A child may hear of its fork twice, and in between a handler of the program
 * has made a thread, which is in a call: it keeps its place.
 */
static void t_heard_twice(void **state)
{
	pthread_t thread;
	uint32_t tid;

	(void)state;
	pthread_barrier_init(&meets, NULL, 2);
	assert_false(pthread_create(&thread, NULL, stays_inside, NULL));
	pthread_barrier_wait(&meets);
	tid = inside->tid;
	sock_renamed();
	assert_true(tid && inside->epoch);
	assert_int_equal(inside->tid, tid);
	pthread_barrier_wait(&meets);
	assert_false(pthread_join(thread, NULL));
	pthread_barrier_destroy(&meets);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		T(t_receive),
		T(t_send),
		T(t_sleep),
		T(t_close),
		T(t_locked),
		T(t_before_the_pairing),
		T(t_behind_the_pairing),
		T(t_others),
		T(t_stranger),
		T(t_closed),
		T(t_closed_here),
		T(t_many),
		T(t_lost),
		T(t_heard_twice),
	};

	sock_pid = getpid();

	sock_setup(&(struct sock_hooks){ 0 });
	return cmocka_run_group_tests(tests, NULL, NULL);
}
