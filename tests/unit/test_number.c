/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* By which number a process has a sock, when another one of it goes. */
#include "both_util.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

static int table; /* the number that the table has for it */

static int another(const struct sock *s, int but)
{
	return s == &sock && table != but ? table : -1;
}

static bool has(int n, const struct sock *s)
{
	return s == &sock && n == table;
}

/* A sock with two numbers, fd and what this returns. */
static int duplicated(void)
{
	int copy = dup(fd);
	struct stat st;

	assert_true(copy >= 0);
	table = fd;
	assert_int_equal(fstat(fd, &st), 0);
	sock.id.inode = st.st_ino;
	sock_hold(&sock);
	assert_int_equal(sock_fd(&sock), fd);
	return copy;
}

static void becomes_another(int n)
{
	int null = open("/dev/null", O_RDONLY);

	assert_true(null >= 0);
	assert_int_equal(dup2(null, n), n);
	close(null);
}

/* Closed unseen: the first one is still there. */
static void t_copy(void **state)
{
	int copy = duplicated();

	(void)state;
	becomes_another(copy);
	table = fd;
	sock_forget(&sock, copy);
	assert_int_equal(sock_fd(&sock), fd);
	assert_true(sock.paired);
	close(copy);
}

/* It was the first one: the copy is left. */
static void t_first(void **state)
{
	int copy = duplicated();

	(void)state;
	becomes_another(fd);
	table = copy;
	sock_forget(&sock, fd);
	assert_int_equal(sock_fd(&sock), copy);
	assert_true(sock.paired);
	close(copy);
}

/* The last one is something else by now, and nothing is done to that. */
static void t_last(void **state)
{
	int other = writer.fd, keeps = dup(fd);
	struct linger l = { 0, 0 };
	socklen_t len = sizeof(l);
	struct stat st;
	char byte;

	(void)state;
	assert_int_equal(fstat(fd, &st), 0);
	sock.id.inode = st.st_ino;
	sock.opt.linger0 = true;
	sock.stats.row_pid = 0;
	lifts(); /* a kick lies there */
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(dup2(other, fd), fd);
	table = -1;
	sock_forget(&sock, fd);
	assert_false(sock.paired);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len), 0);
	assert_int_equal(l.l_onoff, 0);
	assert_int_equal(recv(fd, &byte, 1, 0), 1);
	close(keeps);
}

/* dup2() put another file there; the old one stands aside, to be closed. */
static void t_replaced(void **state)
{
	int copy = duplicated(), aside = dup(fd);

	(void)state;
	becomes_another(fd);
	table = copy;
	sock_close_at(&sock, fd, aside);
	assert_int_equal(sock_fd(&sock), copy);
	close(aside);
	close(copy);
}

/*
 * A walk over all numbers got to it while it was closed: what is said of it holds,
 * but the number is not a name for it any more.
 */
static void t_going(void **state)
{
	int copy = duplicated();

	(void)state;
	table = copy;
	sock_close(&sock, fd);
	becomes_another(fd);
	sock_exec(&sock, fd, false);
	assert_int_equal(sock_fd(&sock), copy);
	close(copy);
}

/* Nor is it by itself where it is still taken for one. */
static void t_stale(void **state)
{
	int copy = duplicated();

	(void)state;
	table = copy;
	sock_close(&sock, fd);
	becomes_another(fd);
	sock.mem.holder[0].fd = fd;
	assert_int_equal(sock_anchor(&sock), copy);
	close(copy);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, one_host, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(t_copy),	  CASE(t_first), CASE(t_last),
		CASE(t_replaced), CASE(t_going), CASE(t_stale),
	};
	const struct sock_hooks lent = {
		.recv = recv, .ppoll = ppoll, .another = another, .has = has
	};

	alarm(120);
	sock_setup(&lent);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
