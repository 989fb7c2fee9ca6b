/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Threads inside, and memory that waits for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/guard.h"

/* --- something that is retired --------------------------------------------- */

struct thing {
	struct retired retired; /* first: they are one */
	uint32_t sleepers;
	uint32_t freed;
};

static bool thing_idle(struct retired *r)
{
	return !__atomic_load_n(&((struct thing *)r)->sleepers,
				__ATOMIC_SEQ_CST);
}

static void thing_free(struct retired *r)
{
	__atomic_add_fetch(&((struct thing *)r)->freed, 1, __ATOMIC_SEQ_CST);
}

static void retire(struct thing *t)
{
	t->freed = 0;
	t->retired.weight = 1;
	t->retired.idle = thing_idle;
	t->retired.free = thing_free;
	guard_retire(&t->retired);
}

static bool is_freed(const struct thing *t)
{
	int i;

	for (i = 0; i < 4; i++)
		guard_reap();
	return __atomic_load_n(&t->freed, __ATOMIC_SEQ_CST) == 1;
}

/* --- another thread, step by step ------------------------------------------ */

static int to_other[2], from_other[2];
static struct thing *seen; /* by the other thread */

static void step(char what)
{
	char done;

	assert_int_equal(write(to_other[1], &what, 1), 1);
	assert_int_equal(read(from_other[0], &done, 1), 1);
}

static void *other(void *arg)
{
	uint64_t was = 0, slept = 0;
	struct guard_call call = { 0 };
	char what;

	while (read(to_other[0], &what, 1) == 1) {
		switch (what) {
		case 'e':
			was = guard_enter();
			break;
		case 'l':
			guard_leave(was);
			break;
		case 's': /* counted, and outside */
			__atomic_add_fetch(&seen->sleepers, 1,
					   __ATOMIC_SEQ_CST);
			slept = guard_sleep();
			break;
		case 'w': /* inside again, and then counted out */
			guard_wake(slept);
			__atomic_sub_fetch(&seen->sleepers, 1,
					   __ATOMIC_SEQ_CST);
			break;
		case 'c':
			call = guard_call_by(
				guard_self(), 7,
				(uintptr_t)__builtin_frame_address(0));
			guard_call_on(guard_self(), seen);
			break;
		case 'j': /* out of it, as its own handler would */
			guard_jumping((uintptr_t)__builtin_frame_address(0) +
				      4096);
			break;
		case 'd':
			guard_call_end(guard_self(), call);
			break;
		}
		if (what == 'q')
			arg = NULL;
		if (write(from_other[1], &what, 1) != 1 || what == 'q')
			break;
	}
	return arg;
}

static pthread_t other_thread;

static int begin(void **state)
{
	(void)state;
	return pipe(to_other) || pipe(from_other) ||
	       pthread_create(&other_thread, NULL, other, NULL);
}

static int end(void **state)
{
	int i;

	(void)state;
	step('q');
	pthread_join(other_thread, NULL);
	for (i = 0; i < 2; i++) {
		close(to_other[i]);
		close(from_other[i]);
	}
	return 0;
}

static void t_waits(void **state)
{
	static struct thing t;

	(void)state;
	step('e');
	retire(&t);
	assert_false(is_freed(&t));
	step('l');
	assert_true(is_freed(&t));
}

/*
 * A sleeper counts itself. It is awake and inside before it counts itself out,
 * and uses what it slept in behind that.
 */
static void t_sleeps(void **state)
{
	static struct thing t;

	(void)state;
	seen = &t;
	step('e');
	step('s');
	retire(&t);
	assert_false(is_freed(&t));
	step('w');
	assert_false(is_freed(&t));
	step('l');
	assert_true(is_freed(&t));
}

static void t_calls(void **state)
{
	static struct thing a, b;

	(void)state;
	seen = &a;
	assert_false(guard_elsewhere(7, &a));
	step('e');
	step('c');
	assert_false(guard_elsewhere(7, &a));
	assert_true(guard_elsewhere(7, &b));
	assert_false(guard_elsewhere(8, &b));
	step('s'); /* asleep or not */
	assert_true(guard_elsewhere(7, &b));
	step('w');
	step('d');
	assert_false(guard_elsewhere(7, &b));
	step('l');
}

/* --- one thread -------------------------------------------------------------- */

static void t_nests(void **state)
{
	uint64_t was = guard_enter(), inner, slept;

	(void)state;
	assert_int_equal(was, 0);
	assert_true(guard_inside());
	inner = guard_enter();
	assert_int_not_equal(inner, 0);
	/* as in a handler: the interrupted call stays inside */
	slept = guard_sleep();
	assert_true(guard_inside());
	guard_wake(slept);
	guard_leave(inner);
	assert_true(guard_inside());
	slept = guard_sleep();
	assert_false(guard_inside());
	guard_wake(slept);
	assert_true(guard_inside());
	guard_leave(was);
	assert_false(guard_inside());
}

static jmp_buf out;

static __attribute__((noinline)) void goes_inside(bool told)
{
	char frame[4096];

	guard_enter();
	frame[0] = (char)guard_inside();
	__asm__ volatile("" : : "r"(frame) : "memory");
	if (told)
		guard_jumping((uintptr_t)__builtin_frame_address(0) + 4096);
	longjmp(out, 1);
}

static __attribute__((noinline)) void told(bool yes)
{
	uint64_t was;

	if (!setjmp(out))
		goes_inside(yes);
	assert_int_equal(guard_inside(), !yes);
	was = guard_enter();
	assert_int_equal(was, 0); /* the first again */
	guard_leave(was);
	assert_false(guard_inside());
}

/* A jump out of a call, announced or found by the next call. */
static void t_jumps(void **state)
{
	(void)state;
	told(true);
	told(false);
}

static uint64_t in_handler = 99;

static void on_signal(int sig)
{
	(void)sig;
	in_handler = guard_enter();
	guard_leave(in_handler);
}

/* On a stack of its own a handler's frame says nothing. */
static void t_stack(void **state)
{
	struct sigaction sa = { .sa_handler = on_signal,
				.sa_flags = SA_ONSTACK };
	char *mem = malloc(65536);
	stack_t ss = { .ss_sp = mem, .ss_size = 65536 };
	stack_t none = { .ss_flags = SS_DISABLE };
	uint64_t was;

	(void)state;
	assert_non_null(mem);
	assert_int_equal(sigaltstack(&ss, NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, &sa, NULL), 0);
	was = guard_enter();
	raise(SIGUSR1);
	assert_int_not_equal(in_handler, 0);
	assert_true(guard_inside());
	guard_leave(was);
	assert_int_equal(sigaltstack(&none, NULL), 0);
	free(mem);
}

/* --- threads and processes ---------------------------------------------------- */

static void *ends_inside(void *arg)
{
	guard_enter();
	return arg;
}

static void t_ends(void **state)
{
	static struct thing t;
	pthread_t th;

	(void)state;
	assert_int_equal(pthread_create(&th, NULL, ends_inside, NULL), 0);
	pthread_join(th, NULL);
	retire(&t);
	assert_true(is_freed(&t));
}

#define MANY 700 /* more than two lots of slots */

static struct guard *slot[MANY];
static pid_t tid[MANY];
static pthread_barrier_t all;

static void *takes_slot(void *arg)
{
	int i = *(int *)arg;

	guard_leave(guard_enter());
	slot[i] = guard_own;
	tid[i] = (pid_t)syscall(SYS_gettid);
	pthread_barrier_wait(&all);
	return NULL;
}

static int by_address(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t) * (struct guard *const *)a;
	uintptr_t y = (uintptr_t) * (struct guard *const *)b;

	return x < y ? -1 : x > y;
}

/* Living threads share none; those of the dead are used again. */
static void t_slots(void **state)
{
	static int number[MANY];
	pthread_t th[MANY];
	struct guard *first_time[MANY];
	pthread_attr_t small;
	int i, turn, known = 0;

	(void)state;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	for (turn = 0; turn < 2; turn++) {
		pthread_barrier_init(&all, NULL, MANY);
		for (i = 0; i < MANY; i++) {
			number[i] = i;
			assert_int_equal(pthread_create(&th[i], &small,
							takes_slot, &number[i]),
					 0);
		}
		/* joined, it may take a while until the kernel lets it go */
		for (i = 0; i < MANY; i++) {
			pthread_join(th[i], NULL);
			while (!syscall(SYS_tkill, tid[i], 0))
				sched_yield();
		}
		pthread_barrier_destroy(&all);
		qsort(slot, MANY, sizeof(*slot), by_address);
		for (i = 1; i < MANY; i++)
			assert_ptr_not_equal(slot[i], slot[i - 1]);
		if (!turn)
			memcpy(first_time, slot, sizeof(slot));
	}
	for (i = 0; i < MANY; i++)
		known += bsearch(&slot[i], first_time, MANY, sizeof(*slot),
				 by_address) != NULL;
	assert_in_range(known, MANY / 2, MANY);
}

/* The other threads, and what waits for them, are the parent's. */
static void t_fork(void **state)
{
	static struct thing parents, childs;
	uint64_t was;
	int status;
	pid_t pid;

	(void)state;
	step('e');
	retire(&parents);
	was = guard_enter();
	pid = fork();
	if (!pid) {
		guard_forked();
		if (!guard_inside())
			_exit(1);
		guard_leave(was);
		retire(&childs);
		if (!is_freed(&childs))
			_exit(2);
		_exit(is_freed(&parents) ? 3 : 0);
	}
	guard_leave(was);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	step('l');
	assert_true(is_freed(&parents));
}

/* --- many at once --------------------------------------------------------------- */

#define READERS 3
#define NODES	96
#define SWAPS	5000
#define GOOD	0x600d600du

struct node {
	struct retired retired;
	uint32_t word, sleepers;
	uint32_t unused;
};

static struct node nodes[NODES];
static struct node *shared;
static bool stop;

static bool node_idle(struct retired *r)
{
	return !__atomic_load_n(&((struct node *)r)->sleepers,
				__ATOMIC_SEQ_CST);
}

static void node_free(struct retired *r)
{
	struct node *n = (struct node *)r;

	n->word = 0; /* plain, as memory that is another's */
	__atomic_store_n(&n->unused, 1, __ATOMIC_RELEASE);
}

static void *reads(void *arg)
{
	uint64_t was, slept;
	struct node *n;
	uintptr_t bad = 0;
	uint32_t i = 0;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		was = guard_enter();
		n = __atomic_load_n(&shared, __ATOMIC_ACQUIRE);
		bad += n->word != GOOD;
		if (++i % 64 == 0) {
			__atomic_add_fetch(&n->sleepers, 1, __ATOMIC_SEQ_CST);
			slept = guard_sleep();
			sched_yield();
			guard_wake(slept);
			bad += n->word != GOOD;
			__atomic_sub_fetch(&n->sleepers, 1, __ATOMIC_SEQ_CST);
		}
		bad += n->word != GOOD;
		guard_leave(was);
	}
	return arg ? arg : (void *)bad;
}

static struct node *fresh(void)
{
	int i;

	for (;;) {
		for (i = 0; i < NODES; i++)
			if (__atomic_load_n(&nodes[i].unused,
					    __ATOMIC_ACQUIRE)) {
				nodes[i].unused = 0;
				nodes[i].word = GOOD;
				return &nodes[i];
			}
		guard_reap();
		sched_yield();
	}
}

static void swaps(void)
{
	pthread_t th[READERS];
	struct node *old;
	void *bad;
	int i;

	memset(nodes, 0, sizeof(nodes));
	for (i = 0; i < NODES; i++)
		nodes[i].unused = 1;
	stop = false;
	shared = fresh();
	for (i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&th[i], NULL, reads, NULL), 0);
	for (i = 0; i < SWAPS; i++) {
		old = __atomic_exchange_n(&shared, fresh(), __ATOMIC_ACQ_REL);
		old->retired.weight = 1;
		old->retired.idle = node_idle;
		old->retired.free = node_free;
		guard_retire(&old->retired);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < READERS; i++) {
		pthread_join(th[i], &bad);
		assert_null(bad);
	}
	for (i = 0; i < 4; i++)
		guard_reap();
}

static void t_exchanges(void **state)
{
	(void)state;
	assert_true(guard_exchanges);
	swaps();
}

static void t_barriers(void **state)
{
	(void)state;
	guard_begin(true);
	swaps();
}

/* A thread that is asleep in the kernel by a number, outside, and jumps out. */
static void t_jumps_out_of_a_number(void **state)
{
	(void)state;
	seen = NULL;
	step('c');
	assert_true(guard_elsewhere(7, state));
	step('j');
	assert_false(guard_elsewhere(7, state));
	step('c');
	step('d');
	assert_false(guard_elsewhere(7, state));
}

static bool told_7(void)
{
	return guard_self()->number == 8;
}

/* One that was not announced shows at the next call. */
static void t_left_a_number(void **state)
{
	const uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	struct guard *g = guard_self();

	(void)state;
	guard_call_by(g, 7, frame);
	guard_call_left(g, 7, frame - 64); /* a handler's */
	assert_true(told_7());
	guard_call_left(g, 9, frame); /* the same function's second one */
	assert_true(told_7());
	guard_call_left(g, 7, frame);
	assert_false(guard_told());
	guard_call_by(g, 7, frame);
	guard_call_left(g, 9, frame + 64);
	assert_false(guard_told());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_exchanges),
		cmocka_unit_test(t_barriers),
		cmocka_unit_test_setup_teardown(t_jumps_out_of_a_number, begin,
						end),
		cmocka_unit_test(t_left_a_number),
		cmocka_unit_test_setup_teardown(t_waits, begin, end),
		cmocka_unit_test_setup_teardown(t_sleeps, begin, end),
		cmocka_unit_test_setup_teardown(t_calls, begin, end),
		cmocka_unit_test(t_nests),
		cmocka_unit_test(t_jumps),
		cmocka_unit_test(t_stack),
		cmocka_unit_test(t_ends),
		cmocka_unit_test(t_slots),
		cmocka_unit_test_setup_teardown(t_fork, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
