/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The descriptor table: fdtable.c alone, its neighbours played here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "preload/preload.h"
#include "preload/ready.h"

static const struct guarded in; /* nothing frees anything here */

/* --- the neighbours ---------------------------------------------------- */

struct sock {
	int refs;
	uint64_t inode;
};

static int closings, last_closings, dups, children, forgotten;

bool sock_hold(struct sock *s)
{
	s->refs++;
	return true;
}

void sock_forget(struct sock *s, int fd)
{
	s->refs--;
	forgotten = fd;
}

uint64_t sock_inode(struct sock *s)
{
	return s->inode;
}

static void closing(int fd, struct sock *s, bool last_number)
{
	(void)s;
	closings++;
	last_closings += last_number;
	fdt_take_set(fd);
}

/* asked about every number: only epoll.c knows which are sets */
static void dup_of(int from, int to)
{
	if (!fdt_set(&in, from))
		return;
	fdt_put_set(to, fdt_set(&in, from));
	dups++;
}

static void parent_forked(void)
{
}

static void child(void)
{
	children++;
	fdt_forked();
}

/* --- the table --------------------------------------------------------- */

static void put_and_take(void **state)
{
	struct sock a = { 1, 1 }, b = { 1, 2 };

	(void)state;
	assert_null(fdt_sock(&in, 5));
	assert_int_equal(fdt_put_sock(5, &a), 0);
	assert_int_equal(fdt_put_sock(70000, &b), 0);
	assert_ptr_equal(fdt_sock(&in, 5), &a);
	assert_ptr_equal(fdt_sock(&in, 70000), &b);
	assert_null(fdt_sock(&in, 6));
	assert_int_equal(fdt_any, 2);
	assert_int_equal(fdt_top(), 70000);
	assert_ptr_equal(fdt_take_sock(5), &a);
	assert_null(fdt_take_sock(5));
	assert_int_equal(fdt_any, 1);
	assert_ptr_equal(fdt_take_sock(70000), &b);
	assert_int_equal(fdt_any, 0);
	assert_null(fdt_at(70000));
}

static void numbers_out_of_range(void **state)
{
	struct sock a = { 1, 1 };

	(void)state;
	fdt_put_sock(3, &a);
	assert_null(fdt_sock(&in, -1));
	assert_null(fdt_sock(&in, INT32_MIN));
	assert_null(fdt_sock(&in, FDT_ROOT * FDT_LEAF));
	assert_null(fdt_sock(&in, INT32_MAX));
	assert_int_not_equal(fdt_put_sock(FDT_ROOT * FDT_LEAF, &a), 0);
	assert_int_not_equal(fdt_put_sock(-1, &a), 0);
	assert_int_equal(fdt_any, 1);
	assert_ptr_equal(fdt_take_sock(3), &a);
}

static void walk(void **state)
{
	struct sock a = { 1, 11 }, b = { 1, 12 };
	struct epset *set = (struct epset *)&a;
	int fd;

	(void)state;
	assert_int_equal(fdt_next(0), -1);
	fdt_put_sock(0, &a);
	fdt_put_sock(255, &b);
	fdt_put_set(256, set);
	fdt_put_sock(3000, &b);
	assert_int_equal(fdt_next(0), 0);
	assert_int_equal(fdt_next(1), 255);
	assert_int_equal(fdt_next(256), 256);
	assert_int_equal(fdt_next(257), 3000);
	assert_int_equal(fdt_next(3001), -1);
	assert_ptr_equal(fdt_by_inode(12, &fd), &b);
	assert_int_equal(fd, 255);
	assert_null(fdt_by_inode(13, &fd));
	fdt_take_sock(0);
	fdt_take_sock(255);
	fdt_take_set(256);
	fdt_take_sock(3000);
}

static void duplicates(void **state)
{
	struct sock a = { 1, 1 };
	struct epset *set = (struct epset *)&a;

	(void)state;
	fdt_put_sock(4, &a);
	assert_int_equal(fdt_other(&a, 4), -1);
	fdt_dup(4, 9);
	assert_int_equal(a.refs, 2);
	assert_int_equal(fdt_other(&a, 4), 9);
	assert_int_equal(fdt_other(&a, 9), 4);
	fdt_take_sock(4);
	assert_int_equal(fdt_other(&a, 9), -1);
	fdt_take_sock(9);

	fdt_put_set(7, set);
	fdt_dup(7, 8);
	assert_ptr_equal(fdt_set(&in, 8), set);
	assert_int_equal(dups, 1);
	fdt_take_set(7);
	fdt_take_set(8);
	fdt_dup(20, 21); /* a stranger: nothing */
	assert_int_equal(fdt_any, 0);
}

/* A number given out again loses what the table believed. */
static void remains_are_forgotten(void **state)
{
	struct sock a = { 1, 1 };

	(void)state;
	closings = last_closings = 0;
	fdt_forget(30);
	assert_int_equal(closings, 0);
	fdt_put_sock(30, &a);
	fdt_forget(30);
	assert_null(fdt_sock(&in, 30));
	assert_int_equal(a.refs, 0);
	assert_int_equal(forgotten, 30);
	assert_int_equal(closings, 1);
	assert_int_equal(last_closings, 1);
}

static void stale_by_inode(void **state)
{
	struct sock a = { 1, 0 };
	struct entered e;
	struct stat st;
	int p[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p), 0);
	assert_int_equal(fstat(p[0], &st), 0);
	a.inode = st.st_ino;
	fdt_put_sock(p[0], &a);
	fdt_begin_checked(&e, p[0]);
	assert_ptr_equal(e.sock, &a);
	assert_true(guard_inside());
	assert_false(fdt_stale(&e, -EAGAIN));
	assert_false(fdt_stale(&e, 10));
	assert_false(fdt_stale(&e, -EBADF)); /* it is what it was */

	assert_int_equal(dup2(open("/dev/null", O_RDONLY), p[0]), p[0]);
	assert_true(fdt_stale(&e, -ENOTSOCK));
	fdt_leave(&e);
	assert_false(guard_inside());
	assert_null(fdt_sock(&in, p[0]));
	assert_int_equal(a.refs, 0);

	/* a file that is no socket, though the number is right */
	a.refs = 1;
	assert_int_equal(fstat(p[0], &st), 0);
	a.inode = st.st_ino;
	fdt_put_sock(p[0], &a);
	fdt_begin_checked(&e, p[0]);
	assert_null(e.sock);
	fdt_leave(&e);

	/* a socket, but another one */
	a.refs = 1;
	assert_int_equal(fstat(p[1], &st), 0);
	a.inode = st.st_ino + 1;
	fdt_put_sock(p[1], &a);
	fdt_begin_checked(&e, p[1]);
	assert_null(e.sock);
	fdt_leave(&e);
	assert_false(guard_inside());
	close(p[0]);
	close(p[1]);
}

/* --- whose it is ------------------------------------------------------- */

static int status_of(pid_t pid)
{
	int status = -1;

	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void fork_unseen(void **state)
{
	struct sock a = { 1, 1 };
	pid_t pid;

	(void)state;
	fdt_put_sock(3, &a);
	children = 0;
	assert_true(fdt_is_owner());
	pid = fork();
	if (!pid) /* finds out at its first look, once */
		_exit(fdt_is_owner() && children == 1 && fdt_is_owner() &&
				      children == 1 && fdt_sock(&in, 3) == &a ?
			      0 :
			      1);
	assert_int_equal(status_of(pid), 0);
	assert_true(fdt_is_owner());
	assert_int_equal(children, 0);
	fdt_take_sock(3);
}

static int in_shared_memory(void *arg)
{
	(void)arg;
	_exit(fdt_is_owner() ? 1 : 0);
}

static void vfork_child_is_not_owner(void **state)
{
	static char stack[65536] __attribute__((aligned(16)));
	struct sock a = { 1, 1 };
	pid_t pid;

	(void)state;
	fdt_put_sock(3, &a);
	children = 0;
	fdt_vforked = 1;
	pid = clone(in_shared_memory, stack + sizeof(stack),
		    CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	assert_int_equal(status_of(pid), 0);
	assert_int_equal(children, 0);
	assert_int_equal(fdt_vforked, 1);
	assert_true(fdt_is_owner());
	assert_int_equal(fdt_vforked, 0);
	fdt_take_sock(3);
}

/* --- many hands -------------------------------------------------------- */

#define HANDS  4
#define ROUNDS 20000

static void *hand(void *arg)
{
	int base = *(int *)arg, i;
	struct sock s = { 1, 1 };

	for (i = 0; i < ROUNDS; i++) {
		int fd = base + (i * 37) % 600;

		if (fdt_put_sock(fd, &s) || fdt_sock(&in, fd) != &s ||
		    fdt_take_sock(fd) != &s)
			return arg;
	}
	return NULL;
}

static void threads(void **state)
{
	pthread_t t[HANDS];
	int base[HANDS], i;
	void *bad;

	(void)state;
	for (i = 0; i < HANDS; i++) {
		base[i] = 100000 + i * 600;
		assert_int_equal(pthread_create(&t[i], NULL, hand, &base[i]),
				 0);
	}
	for (i = 0; i < 100; i++) {
		fdt_freeze();
		assert_true(__atomic_load_n(&fdt_any, __ATOMIC_RELAXED) <=
			    HANDS);
		fdt_thaw();
		sched_yield();
	}
	for (i = 0; i < HANDS; i++) {
		pthread_join(t[i], &bad);
		assert_null(bad);
	}
	assert_int_equal(fdt_any, 0);
}

/*
 * The numbers of one sock are found from each other, however far apart they
 * lie.
 */
static void ring(void **state)
{
	const int numbers[] = { 40, 900, 5000, 60000, 41, 7 };
	struct sock a = { 1, 1 }, b = { 1, 2 };
	size_t n = sizeof(numbers) / sizeof(numbers[0]), i, k;

	(void)state;
	assert_int_equal(fdt_put_sock(numbers[0], &a), 0);
	assert_int_equal(fdt_other(&a, numbers[0]), -1);
	for (i = 1; i < n; i++)
		fdt_dup(numbers[i - 1], numbers[i]);
	for (i = 0; i < n; i++) {
		assert_int_equal(fdt_lower(&a, numbers[i]), numbers[i] != 7);
		k = (size_t)(fdt_other(&a, numbers[i]) != numbers[i]);
		assert_true(k && fdt_is(fdt_other(&a, numbers[i]), &a));
		assert_true(fdt_is(fdt_another(&a, numbers[i]), &a));
	}
	/* one that goes is another, but not one to stand for it */
	assert_true(fdt_go(7, &a, false));
	assert_true(fdt_another(&a, 40) != 7);
	/* and one that was replaced is none */
	assert_int_equal(fdt_put_sock(5000, &b), 0);
	assert_int_equal(fdt_other(&b, 5000), -1);
	for (i = 0; i < n; i++)
		if (numbers[i] != 5000 && numbers[i] != 41)
			assert_true(fdt_gone(numbers[i], &a));
	assert_int_equal(fdt_other(&a, 41), -1);
	assert_int_equal(fdt_another(&a, 41), -1);
	assert_false(fdt_lower(&a, 41));
	assert_true(fdt_gone(41, &a));
	assert_true(fdt_gone(5000, &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put_and_take),
		cmocka_unit_test(ring),
		cmocka_unit_test(numbers_out_of_range),
		cmocka_unit_test(walk),
		cmocka_unit_test(duplicates),
		cmocka_unit_test(remains_are_forgotten),
		cmocka_unit_test(stale_by_inode),
		cmocka_unit_test(fork_unseen),
		cmocka_unit_test(vfork_child_is_not_owner),
		cmocka_unit_test(threads),
	};

	fdt_setup(&(struct fdt_above){
		.closing = closing,
		.dup = dup_of,
		.child = child,
		.parent_forked = parent_forked,
	});
	return cmocka_run_group_tests_name("fdtable", tests, NULL, NULL);
}
