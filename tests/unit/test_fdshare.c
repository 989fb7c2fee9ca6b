/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How many numbers the library may have, and which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "socket/core/fdshare.h"
#include "socket/core/pair.h"

static void set_limit(rlim_t n)
{
	struct rlimit rl;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &rl), 0);
	rl.rlim_cur = n;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &rl), 0);
}

static void t_parts(void **state)
{
	(void)state;
	assert_int_equal(fd_share_of(0), 0);
	assert_int_equal(fd_share_of(6), 1);
	assert_int_equal(fd_share_of(20), 5);
	assert_int_equal(fd_share_of(32), 8);
	assert_int_equal(fd_share_of(128), 8);
	assert_int_equal(fd_share_of(1024), 64);
	assert_int_equal(fd_share_of(1000000000), 62500000);
	assert_int_equal(fd_share_of(UINT64_MAX), INT32_MAX);
}

static int hide_one(void)
{
	int fd = fd_hide(open("/dev/null", O_RDONLY));

	assert_true(fd >= 0);
	return fd;
}

static void drop(int fd)
{
	fd_unhide(fd);
	close(fd);
}

/*
 * The limit is read again at the 64th question, or when it is known to differ.
 */
static void t_left(void **state)
{
	int fd[8], i;

	(void)state;
	set_limit(128);
	fd_share_learn();
	assert_int_equal(fd_share(), 8);
	for (i = 0; i < 8; i++) {
		assert_true(fd_share_left());
		fd[i] = hide_one();
		assert_in_range(fd[i], 96, 127);
	}
	assert_int_equal(fd_hidden_count(), 8);
	assert_false(fd_share_left());
	set_limit(192);
	for (i = 0; i < 54; i++)
		assert_false(fd_share_left());
	assert_true(fd_share_left());
	set_limit(128);
	fd_share_learn();
	assert_false(fd_share_left());
	for (i = 0; i < 8; i++)
		drop(fd[i]);
	fd_unhide(fd[0]);
	assert_int_equal(fd_hidden_count(), 0);
}

/* A program that was short of one gets what is left, for a while. */
static void t_short(void **state)
{
	int fd;

	(void)state;
	set_limit(128);
	fd_share_learn();
	fd = hide_one();
	fd_share_short();
	assert_int_equal(fd_share(), 1);
	assert_false(fd_share_left());
	drop(fd);
	assert_true(fd_share_left());
	usleep(1100000);
	assert_int_equal(fd_share(), 8);
}

/* A number that the program wants: what is there has another one. */
static void t_move(void **state)
{
	struct stat a, b;
	int fd, was;

	(void)state;
	fd = was = hide_one();
	assert_false(fd_move(&fd, fd + 1));
	assert_int_equal(fstat(fd, &a), 0);
	assert_true(fd_move(&fd, was));
	assert_int_not_equal(fd, was);
	assert_true(fd_hidden(fd));
	assert_false(fd_hidden(was));
	assert_int_equal(fd_hidden_count(), 1);
	assert_int_equal(fstat(fd, &b), 0);
	assert_int_equal(a.st_ino, b.st_ino);
	/* no other gets it before the program does */
	assert_int_equal(fcntl(was, F_GETFD), FD_CLOEXEC);
	close(was);
	drop(fd);
}

static void t_next(void **state)
{
	int a, b;

	(void)state;
	set_limit(128);
	assert_int_equal(fd_hidden_next(0), -1);
	b = hide_one();
	a = hide_one();
	assert_true(a < b);
	assert_int_equal(fd_hidden_next(0), a);
	assert_int_equal(fd_hidden_next((unsigned int)a), a);
	assert_int_equal(fd_hidden_next((unsigned int)a + 1), b);
	assert_int_equal(fd_hidden_next((unsigned int)b + 1), -1);
	assert_int_equal(fd_hidden_next(UINT32_MAX), -1);
	drop(a);
	drop(b);
}

/* The upper quarter is the program's: nothing new, but what is there stays. */
static void t_full(void **state)
{
	int fd, was, last = dup(0);

	(void)state;
	set_limit(64);
	fd = was = hide_one();
	for (fd = 48; fd < 64; fd++)
		if (fd != was)
			assert_int_equal(dup2(0, fd), fd);
	assert_int_equal(fd_hide(last), -EMFILE);
	fd = was;
	assert_true(fd_move(&fd, was));
	assert_in_range(fd, 3, 47);
	assert_true(fd_hidden(fd));
	drop(fd);
	for (fd = 48; fd < 64; fd++)
		close(fd);
	set_limit(128);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_parts), cmocka_unit_test(t_left),
		cmocka_unit_test(t_short), cmocka_unit_test(t_move),
		cmocka_unit_test(t_next),  cmocka_unit_test(t_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
