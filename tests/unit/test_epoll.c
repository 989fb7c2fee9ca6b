/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* epoll over a socket room of knobs and the real kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "preload/epoll/epset.h"
#include "ready_util.h"

#define ADD  EPOLL_CTL_ADD
#define MOD  EPOLL_CTL_MOD
#define DEL  EPOLL_CTL_DEL
#define ET   ((uint32_t)EPOLLET)
#define ONE  ((uint32_t)EPOLLONESHOT)
#define WORD 0xfeedfacecafebeefull

static int set_new(void)
{
	return ep_born(epoll_create1(0));
}

static void set_close(int ep)
{
	ep_fd_closing(ep, NULL, false);
	assert_false(fdt_has_set(ep));
	close(ep);
}

/* Nothing may be left of a test. */
static int clean(void **state)
{
	(void)state;
	return ep_nregs || ep_nodd;
}

static void t_cold(void **state)
{
	struct sock *s = fake_new();
	int ep = set_new();

	(void)state;
	assert_int_equal(set_ctl(ep, ADD, s->fd, EPOLLIN, WORD), 0);
	assert_int_equal(set_one(ep, WORD, 0), 0);
	assert_int_equal(write(s->peer, "x", 1), 1);
	assert_int_equal(set_one(ep, WORD, -1), EPOLLIN);
	assert_int_equal(s->looks, 0);
	assert_int_equal(set_ctl(ep, MOD, s->fd, EPOLLOUT, WORD + 1), 0);
	assert_int_equal(set_one(ep, WORD + 1, -1), EPOLLOUT);
	fake_close(s);
	assert_int_equal(set_one(ep, WORD, 0), 0);
	set_close(ep);
}

static void t_errors(void **state)
{
	struct sock *s = fake_new();
	int ep = set_new(), i;

	(void)state;
	for (i = 0; i < 2; i++) {
		assert_int_equal(set_ctl(ep, MOD, s->fd, EPOLLIN, 1), -ENOENT);
		assert_int_equal(set_ctl(ep, DEL, s->fd, EPOLLIN, 1), -ENOENT);
		assert_int_equal(set_ctl(ep, ADD, s->fd, EPOLLIN, 1), 0);
		assert_int_equal(set_ctl(ep, ADD, s->fd, EPOLLIN, 1), -EEXIST);
		assert_int_equal(set_ctl(ep, 77, s->fd, EPOLLIN, 1), -EINVAL);
		assert_int_equal(do_epoll_ctl(ep, MOD, s->fd, NULL), -EFAULT);
		assert_int_equal(set_one(ep, 1, 0), 0);
		assert_int_equal(set_ctl(ep, DEL, s->fd, EPOLLIN, 1), 0);
		if (!i)
			fake_pair(s);
	}
	assert_int_equal(set_ctl(s->fd, ADD, s->fd, EPOLLIN, 1), -EINVAL);
	assert_false(fdt_has_set(s->fd));
	fake_close(s);
	set_close(ep);
}

static void t_level(void **state)
{
	struct sock *s = fake_new();
	int ep = set_new(), i;
	unsigned int w, c;

	(void)state;
	assert_int_equal(set_ctl(ep, ADD, s->fd, EPOLLIN, WORD), 0);
	fake_pair(s);
	assert_int_equal(set_one(ep, WORD, 0), 0);
	fake_data(s);
	assert_int_equal(set_one(ep, WORD, -1), EPOLLIN);
	w = waits;
	c = ctls;
	for (i = 0; i < 80; i++)
		assert_int_equal(set_one(ep, WORD, -1), EPOLLIN);
	/* user space answers; the kernel is asked once for what else it has */
	assert_int_equal(waits - w, 80);
	assert_int_equal(ctls, c);
	fake_take(s);
	assert_int_equal(set_one(ep, WORD, 1), 0);
	fake_close(s);
	set_close(ep);
}

static void t_edge(void **state)
{
	struct sock *s = fake_new();
	int ep = set_new();

	(void)state;
	fake_pair(s);
	assert_int_equal(set_ctl(ep, ADD, s->fd, EPOLLIN | EPOLLOUT | ET, WORD),
			 0);
	assert_int_equal(set_one(ep, WORD, -1), EPOLLOUT);
	assert_int_equal(set_one(ep, WORD, 0), 0);
	fake_data(s);
	assert_int_equal(set_one(ep, WORD, -1), EPOLLIN | EPOLLOUT);
	assert_int_equal(set_one(ep, WORD, 1), 0);
	fake_data(s);
	assert_int_equal(set_one(ep, WORD, -1), EPOLLIN | EPOLLOUT);
	fake_take(s);
	fake_room(s, false);
	assert_int_equal(set_one(ep, WORD, 1), 0);
	fake_room(s, true);
	assert_int_equal(set_one(ep, WORD, -1), EPOLLOUT);
	assert_int_equal(set_one(ep, WORD, 0), 0);
	assert_int_equal(set_ctl(ep, MOD, s->fd, EPOLLOUT | ET, WORD), 0);
	assert_int_equal(set_one(ep, WORD, 0), EPOLLOUT);
	fake_close(s);
	set_close(ep);
}

static void t_oneshot(void **state)
{
	struct sock *s = fake_new();
	int ep = set_new(), i;

	(void)state;
	assert_int_equal(set_ctl(ep, ADD, s->fd, EPOLLIN | ONE, WORD), 0);
	for (i = 0; i < 3; i++) {
		if (i == 1)
			fake_pair(s);
		if (i == 2)
			fake_home(s);
		if (i == 1)
			fake_data(s);
		else
			assert_int_equal(write(s->peer, "x", 1), 1);
		assert_int_equal(set_ctl(ep, MOD, s->fd, EPOLLIN | ONE, WORD),
				 0);
		assert_int_equal(set_one(ep, WORD, -1), EPOLLIN);
		assert_int_equal(set_one(ep, WORD, 1), 0);
		assert_int_equal(set_ctl(ep, MOD, s->fd, EPOLLIN | ONE, WORD),
				 0);
		assert_int_equal(set_one(ep, WORD, -1), EPOLLIN);
		fake_take(s);
	}
	fake_close(s);
	set_close(ep);
}

/* The anchor is always writable; while OUT is ours that must not show. */
static void t_narrow(void **state)
{
	struct sock *s = fake_new();
	int ep = set_new();
	unsigned int w;

	(void)state;
	assert_int_equal(set_ctl(ep, ADD, s->fd, EPOLLIN | EPOLLOUT, WORD), 0);
	assert_int_equal(set_one(ep, WORD, 0), EPOLLOUT);
	fake_pair(s);
	fake_room(s, false);
	assert_int_equal(set_one(ep, WORD, 0), 0);
	w = waits;
	assert_int_equal(set_one(ep, WORD, 30), 0);
	assert_true(waits - w < 6); /* it sleeps */
	/* kicks are not for the program, and do not keep it awake */
	assert_int_equal(write(s->peer, "\0\0", 2), 2);
	w = waits;
	assert_int_equal(set_one(ep, WORD, 30), 0);
	assert_true(waits - w < 8);
	/* home: all of the program's mask counts again, at once */
	fake_home(s);
	assert_int_equal(set_one(ep, WORD, -1), EPOLLOUT);
	assert_int_equal(write(s->peer, "x", 1), 1);
	assert_int_equal(set_one(ep, WORD, -1), EPOLLIN | EPOLLOUT);
	fake_close(s);
	set_close(ep);
}

/* A level that is the kernel's is reported again and again. */
static void t_hangup(void **state)
{
	struct sock *s = fake_new();
	int ep = set_new(), i;
	uint32_t got;

	(void)state;
	assert_int_equal(set_ctl(ep, ADD, s->fd, EPOLLIN | EPOLLRDHUP, WORD),
			 0);
	fake_pair(s);
	assert_int_equal(set_one(ep, WORD, 0), 0);
	fake_data(s);
	shutdown(s->peer, SHUT_WR);
	for (i = 0; i < 20; i++) {
		got = set_one(ep, WORD, -1);
		assert_true(got & EPOLLIN);
		if (got & EPOLLRDHUP)
			break;
	}
	assert_true(i < 20);
	fake_take(s);
	for (i = 0; i < 5; i++)
		assert_int_equal(set_one(ep, WORD, -1), EPOLLRDHUP);
	fake_close(s);
	set_close(ep);
}

/* Deleting and adding a lifted socket is done without the kernel. */
static void t_deleted(void **state)
{
	struct sock *s = fake_new();
	int ep = set_new(), i;
	unsigned int c;

	(void)state;
	assert_int_equal(set_ctl(ep, ADD, s->fd, EPOLLIN, WORD), 0);
	fake_pair(s);
	assert_int_equal(set_one(ep, WORD, 0), 0);
	c = ctls;
	for (i = 0; i < 5; i++) {
		assert_int_equal(set_ctl(ep, DEL, s->fd, 0, 0), 0);
		fake_data(s);
		assert_int_equal(set_one(ep, WORD, 1), 0);
		assert_int_equal(set_ctl(ep, ADD, s->fd, EPOLLIN, WORD + 1), 0);
		assert_int_equal(set_one(ep, WORD + 1, -1), EPOLLIN);
		assert_int_equal(set_ctl(ep, MOD, s->fd, EPOLLOUT, WORD), 0);
		assert_int_equal(set_one(ep, WORD, -1), EPOLLOUT);
		fake_take(s);
	}
	assert_int_equal(ctls, c);
	/* what the kernel reports of a deleted one is not for the program */
	assert_int_equal(set_ctl(ep, DEL, s->fd, 0, 0), 0);
	assert_int_equal(write(s->peer, "\0", 1), 1);
	assert_int_equal(set_one(ep, WORD, 1), 0);
	assert_int_equal(set_ctl(ep, DEL, s->fd, 0, 0), -ENOENT);
	/* a deleted one that falls back is gone for good */
	assert_int_equal(set_ctl(ep, ADD, s->fd, EPOLLIN, WORD), 0);
	assert_int_equal(set_one(ep, WORD, 0), 0);
	assert_int_equal(set_ctl(ep, DEL, s->fd, 0, 0), 0);
	fake_home(s);
	assert_int_equal(write(s->peer, "x", 1), 1);
	assert_int_equal(set_one(ep, WORD, 1), 0);
	assert_int_equal(ep_nregs, 0);
	assert_int_equal(set_ctl(ep, ADD, s->fd, EPOLLIN, WORD), 0);
	assert_int_equal(set_one(ep, WORD, 0), EPOLLIN);
	fake_close(s);
	set_close(ep);
}

/* Others in the set are seen while a hot one is always ready. */
static void t_fair(void **state)
{
	struct sock *s = fake_new();
	struct epoll_event ev[4];
	int ep = set_new(), other = eventfd(1, 0), i;

	(void)state;
	assert_int_equal(set_ctl(ep, ADD, other, EPOLLIN, 5), 0);
	assert_int_equal(set_ctl(ep, ADD, s->fd, EPOLLIN, WORD), 0);
	fake_pair(s);
	fake_data(s);
	for (i = 0; i < 10; i++) {
		assert_int_equal(do_epoll_wait(ep, ev, 4, -1), 2);
		assert_int_equal(ev[0].data.u64, WORD);
		assert_int_equal(ev[1].data.u64, 5);
	}
	close(other);
	fake_close(s);
	set_close(ep);
}

static void t_rotate(void **state)
{
	struct epoll_event ev[3];
	struct sock *s[10];
	int ep = set_new(), seen[10] = { 0 }, i, k, n;

	(void)state;
	for (i = 0; i < 10; i++) {
		s[i] = fake_new();
		assert_int_equal(
			set_ctl(ep, ADD, s[i]->fd, EPOLLIN, (uint64_t)i), 0);
		fake_pair(s[i]);
		fake_data(s[i]);
	}
	for (k = 0; k < 4; k++) {
		n = do_epoll_wait(ep, ev, 3, -1);
		assert_int_equal(n, 3);
		while (n--)
			seen[ev[n].data.u64]++;
	}
	for (i = 0; i < 10; i++) {
		assert_in_range(seen[i], 1, 2);
		fake_close(s[i]);
	}
	assert_int_equal(ep_nregs, 0);
	set_close(ep);
}

/* One that is long quiet is not looked at any more, and comes back itself. */
static void t_quiet(void **state)
{
	struct sock *s[50], *busy = fake_new();
	struct epoll_event ev[64];
	int ep = set_new(), i, k;
	uint32_t looks = 0;

	(void)state;
	for (i = 0; i < 50; i++) {
		s[i] = fake_new();
		assert_int_equal(
			set_ctl(ep, ADD, s[i]->fd, EPOLLIN, (uint64_t)i), 0);
		fake_pair(s[i]);
	}
	assert_int_equal(set_ctl(ep, ADD, busy->fd, EPOLLIN, WORD), 0);
	fake_pair(busy);
	fake_data(busy);
	for (k = 0; k < 200; k++)
		assert_int_equal(set_one(ep, WORD, -1), EPOLLIN);
	for (i = 0; i < 50; i++)
		looks += s[i]->looks + s[i]->asked;
	for (k = 0; k < 100; k++)
		assert_int_equal(set_one(ep, WORD, -1), EPOLLIN);
	for (i = 0; i < 50; i++)
		looks -= s[i]->looks + s[i]->asked;
	assert_int_equal(looks, 0);
	fake_take(busy);
	for (i = 0; i < 50; i++) {
		fake_data(s[i]);
		assert_int_equal(do_epoll_wait(ep, ev, 64, -1), 1);
		assert_int_equal(ev[0].data.u64, i);
		fake_take(s[i]);
	}
	for (i = 0; i < 50; i++)
		fake_close(s[i]);
	fake_close(busy);
	set_close(ep);
}

struct waiter {
	pthread_t t;
	int ep;
	uint32_t got;
};

static void *wait_there(void *arg)
{
	struct waiter *w = arg;

	w->got = set_one(w->ep, WORD, 100000);
	return NULL;
}

static void nap(void)
{
	usleep(3000);
}

/* A thread asleep in a set learns of everything. */
static void t_asleep(void **state)
{
	struct sock *s = fake_new(), *t = fake_new();
	struct waiter w = { .ep = set_new() };
	int i;

	(void)state;
	assert_int_equal(set_ctl(w.ep, ADD, t->fd, EPOLLIN, 1), 0);
	for (i = 0; i < 7; i++) {
		assert_int_equal(pthread_create(&w.t, NULL, wait_there, &w), 0);
		if (i % 2)
			nap();
		switch (i) {
		case 0: /* added and paired under its feet */
			assert_int_equal(
				set_ctl(w.ep, ADD, s->fd, EPOLLIN, WORD), 0);
			fake_pair(s);
			assert_int_equal(write(s->peer, "\0", 1), 1);
			fake_data(s);
			ep_risen(s);
			break;
		case 1:
		case 2:
			fake_data(s);
			break;
		case 3: /* found by another thread: no ringing */
			s->armed = false;
			fake_data(s);
			ep_risen(s);
			break;
		case 4:
			assert_int_equal(
				set_ctl(w.ep, MOD, s->fd, EPOLLOUT, WORD), 0);
			break;
		case 5:
			fake_home(s);
			assert_int_equal(write(s->peer, "x", 1), 1);
			break;
		default:
			assert_int_equal(write(s->peer, "x", 1), 1);
			break;
		}
		pthread_join(w.t, NULL);
		assert_int_equal(w.got, i == 4 ? EPOLLOUT : EPOLLIN);
		fake_take(s);
		assert_int_equal(set_ctl(w.ep, MOD, s->fd, EPOLLIN, WORD), 0);
	}
	fake_close(s);
	fake_close(t);
	set_close(w.ep);
}

static void t_nested(void **state)
{
	struct sock *s = fake_new();
	int in = set_new(), out = set_new(), i;
	struct pollfd p = { .fd = out, .events = POLLIN };
	struct waiter w = { .ep = out };

	(void)state;
	assert_int_equal(set_ctl(out, ADD, in, EPOLLIN, WORD), 0);
	assert_int_equal(set_ctl(in, ADD, s->fd, EPOLLIN, 3), 0);
	assert_int_equal(set_one(out, WORD, 0), 0);
	fake_pair(s);
	assert_int_equal(send(s->wake_peer, "", 1, 0), 1);
	assert_int_equal(set_one(out, WORD, 0), 0);
	assert_int_equal(do_poll(&p, 1, 0), 0);
	for (i = 0; i < 4; i++) {
		if (i % 2) {
			assert_int_equal(
				pthread_create(&w.t, NULL, wait_there, &w), 0);
			nap();
			fake_data(s);
			pthread_join(w.t, NULL);
			assert_int_equal(w.got, EPOLLIN);
		} else {
			fake_data(s);
			assert_int_equal(set_one(out, WORD, 0), EPOLLIN);
		}
		assert_int_equal(do_poll(&p, 1, -1), 1);
		assert_int_equal(set_one(in, 3, 0), EPOLLIN);
		fake_take(s);
		assert_int_equal(set_one(out, WORD, 0), 0);
		assert_int_equal(do_poll(&p, 1, 0), 0);
	}
	set_close(in);
	assert_int_equal(set_one(out, WORD, 0), 0);
	set_close(out);
	fake_close(s);
}

/* Two numbers of a set are one set; of a socket, two entries. */
static void t_numbers(void **state)
{
	struct sock *s = fake_new();
	int ep = set_new(), two = dup(ep), fd = dup(s->fd);
	struct epoll_event ev[4];

	(void)state;
	ep_dup(ep, two);
	assert_int_equal(fdt_put_sock(fd, s), 0);
	assert_int_equal(set_ctl(two, ADD, s->fd, EPOLLIN, WORD), 0);
	assert_int_equal(set_ctl(ep, ADD, fd, EPOLLIN, WORD + 1), 0);
	fake_pair(s);
	fake_data(s);
	assert_int_equal(do_epoll_wait(ep, ev, 4, 0), 2);
	set_close(ep);
	assert_int_equal(do_epoll_wait(two, ev, 4, 0), 2);
	assert_int_equal(set_ctl(two, DEL, fd, 0, 0), 0);
	assert_int_equal(set_one(two, WORD, 0), EPOLLIN);
	/* its own number goes first: from now on it is the kernel's */
	ep_fd_closing(s->fd, s, false);
	assert_int_equal(s->fell_back, 1);
	assert_ptr_equal(fdt_take_sock(s->fd), s);
	close(s->fd);
	assert_int_equal(write(s->peer, "x", 1), 1);
	assert_int_equal(set_one(two, WORD, -1), EPOLLIN);
	s->fd = fd;
	fake_close(s);
	assert_int_equal(ep_nregs, 0);
	set_close(two);
}

/* A word of the program's that looks like one of ours. */
static void t_collision(void **state)
{
	struct sock *s = fake_new();
	int ep = set_new(), other = eventfd(1, 0);
	uint64_t bad;

	(void)state;
	assert_int_equal(set_ctl(ep, ADD, s->fd, EPOLLIN, WORD), 0);
	bad = ep_word(ep_tag, true, 3, 4, 5);
	assert_int_equal(set_ctl(ep, ADD, other, EPOLLIN, bad), 0);
	assert_int_equal(set_one(ep, bad, 0), EPOLLIN);
	assert_int_equal(set_ctl(ep, MOD, other, EPOLLIN, bad + 1), 0);
	assert_int_equal(set_one(ep, bad + 1, 0), EPOLLIN);
	assert_int_equal(set_ctl(ep, DEL, other, 0, 0), 0);
	assert_int_equal(set_one(ep, bad, 0), 0);
	close(other);
	fake_close(s);
	set_close(ep);
}

/* A child that waits in its parent's set: everything is the kernel's there. */
static void t_fork(void **state)
{
	struct sock *s = fake_new();
	int ep = set_new(), st;
	pid_t pid;

	(void)state;
	assert_int_equal(set_ctl(ep, ADD, s->fd, EPOLLIN, WORD), 0);
	fake_pair(s);
	assert_int_equal(set_one(ep, WORD, 0), 0);
	pid = fork();
	if (!pid) {
		lock_forked();
		ep_forked();
		st = set_one(ep, WORD, 0) != 0 || s->fell_back != 1 ||
		     write(s->peer, "x", 1) != 1 ||
		     set_one(ep, WORD, -1) != EPOLLIN ||
		     set_ctl(ep, MOD, s->fd, EPOLLOUT, 9) != 0 ||
		     set_one(ep, 9, -1) != EPOLLOUT ||
		     set_ctl(ep, MOD, s->fd, EPOLLIN, WORD) != 0;
		_exit(st);
	}
	ep_parent_forked();
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	fake_home(s); /* what the child did, seen from here */
	assert_int_equal(set_one(ep, WORD, -1), EPOLLIN);
	fake_close(s);
	set_close(ep);
}

static void t_many(void **state)
{
	static struct sock *s[300];
	int ep = set_new(), i, k;

	(void)state;
	for (k = 0; k < 2; k++) {
		for (i = 0; i < 300; i++) {
			s[i] = fake_new();
			assert_int_equal(set_ctl(ep, ADD, s[i]->fd, EPOLLIN,
						 (uint64_t)i),
					 0);
		}
		assert_int_equal(ep_nregs, 300);
		for (i = 299; i >= 0; i--) {
			assert_int_equal(write(s[i]->peer, "x", 1), 1);
			assert_int_equal(set_one(ep, (uint64_t)i, 0), EPOLLIN);
			fake_close(s[i]);
		}
		assert_int_equal(ep_nregs, 0);
	}
	set_close(ep);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(t_cold, clean),
		cmocka_unit_test_teardown(t_errors, clean),
		cmocka_unit_test_teardown(t_level, clean),
		cmocka_unit_test_teardown(t_edge, clean),
		cmocka_unit_test_teardown(t_oneshot, clean),
		cmocka_unit_test_teardown(t_narrow, clean),
		cmocka_unit_test_teardown(t_hangup, clean),
		cmocka_unit_test_teardown(t_deleted, clean),
		cmocka_unit_test_teardown(t_fair, clean),
		cmocka_unit_test_teardown(t_rotate, clean),
		cmocka_unit_test_teardown(t_quiet, clean),
		cmocka_unit_test_teardown(t_asleep, clean),
		cmocka_unit_test_teardown(t_nested, clean),
		cmocka_unit_test_teardown(t_numbers, clean),
		cmocka_unit_test_teardown(t_collision, clean),
		cmocka_unit_test_teardown(t_fork, clean),
		cmocka_unit_test_teardown(t_many, clean),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
