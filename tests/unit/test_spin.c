/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Spinning in poll() and epoll_wait() keeps the sockets that are looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "preload/epoll/epset.h"
#include "ready_util.h"

#define LONG_NS 1000000000u
#define WORD	7u

struct wait {
	pthread_t t;
	int ep, fd; /* one of them -1 */
	int ms;
};

static void *wait_there(void *arg)
{
	struct wait *w = arg;
	struct pollfd p = { .fd = w->fd, .events = POLLIN };
	struct epoll_event ev;

	if (w->ep >= 0)
		do_epoll_wait(w->ep, &ev, 1, w->ms);
	else
		do_poll(&p, 1, w->ms);
	return NULL;
}

/* Kept off its processor in the middle of a look, while it is closed. */
static void closed_under(struct wait *w, struct sock *s)
{
	fake_spin_ns = LONG_NS;
	w->ms = 1000; /* it has not ended before it looks */
	s->stuck = true;
	assert_int_equal(pthread_create(&w->t, NULL, wait_there, w), 0);
	while (!s->asked)
		usleep(100);
	ep_fd_closing(s->fd, s, true);
	assert_ptr_equal(fdt_take_sock(s->fd), s);
	assert_int_equal(s->stays, 1);
	s->stuck = false;
	pthread_join(w->t, NULL);
	assert_int_equal(s->stays, 0);
	fake_spin_ns = 0;
	assert_int_equal(fdt_put_sock(s->fd, s), 0);
}

static void t_epoll_closed(void **state)
{
	struct sock *s = fake_new();
	struct wait w = { .ep = ep_born(epoll_create1(0)), .fd = -1 };

	(void)state;
	fake_pair(s);
	assert_int_equal(set_ctl(w.ep, EPOLL_CTL_ADD, s->fd, EPOLLIN, WORD), 0);
	closed_under(&w, s);
	fake_close(s);
	ep_fd_closing(w.ep, NULL, false);
	close(w.ep);
}

static void t_poll_closed(void **state)
{
	struct sock *s = fake_new();
	struct wait w = { .ep = -1, .fd = s->fd };

	(void)state;
	fake_pair(s);
	closed_under(&w, s);
	fake_close(s);
}

/* The waits end by themselves, and as often as they began. */
static void t_ends(void **state)
{
	struct sock *s = fake_new();
	struct wait by_poll = { .ep = -1, .fd = s->fd, .ms = 100 };
	struct wait by_set = { .ep = ep_born(epoll_create1(0)),
			       .fd = -1,
			       .ms = 100 };

	(void)state;
	fake_pair(s);
	assert_int_equal(
		set_ctl(by_set.ep, EPOLL_CTL_ADD, s->fd, EPOLLIN, WORD), 0);
	fake_spin_ns = 50000;
	wait_there(&by_poll);
	wait_there(&by_set);
	fake_spin_ns = 0;
	assert_true(s->stayed > 0);
	assert_int_equal(s->stays, 0);
	fake_close(s);
	ep_fd_closing(by_set.ep, NULL, false);
	close(by_set.ep);
}

static int still(clockid_t id, struct timespec *ts)
{
	(void)id;
	*ts = (struct timespec){ 1000, 5 };
	return 0;
}

/* Where the clock stands still the kernel's time limits are left. */
static void t_still(void **state)
{
	int (*real)(clockid_t, struct timespec *) = clock_source;

	alarm(30);
	clock_source = still;
	t_ends(state);
	clock_source = real;
	alarm(0);
}

/*
 * Where no thread is going to spin, nothing is kept, and no lock taken for it.
 */
static void t_none(void **state)
{
	struct sock *s = fake_new();
	struct wait by_poll = { .ep = -1, .fd = s->fd, .ms = 100 };
	struct wait by_set = { .ep = ep_born(epoll_create1(0)),
			       .fd = -1,
			       .ms = 100 };

	(void)state;
	fake_pair(s);
	assert_int_equal(
		set_ctl(by_set.ep, EPOLL_CTL_ADD, s->fd, EPOLLIN, WORD), 0);
	wait_there(&by_poll);
	wait_there(&by_set);
	assert_int_equal(s->stayed, 0);
	fake_close(s);
	ep_fd_closing(by_set.ep, NULL, false);
	close(by_set.ep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_epoll_closed),
		cmocka_unit_test(t_poll_closed),
		cmocka_unit_test(t_ends),
		cmocka_unit_test(t_still),
		cmocka_unit_test(t_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
