/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* poll and select over a socket room of knobs and the real kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "ready_util.h"

static int one(int fd, int events, int ms)
{
	struct pollfd p = { .fd = fd, .events = (short)events, .revents = 77 };
	int n = do_poll(&p, 1, ms);

	assert_int_equal(n, p.revents ? 1 : 0);
	return p.revents;
}

static void t_cold(void **state)
{
	struct sock *s = fake_new();

	(void)state;
	assert_int_equal(one(s->fd, POLLIN, 0), 0);
	assert_int_equal(one(s->fd, POLLIN | POLLOUT, -1), POLLOUT);
	assert_int_equal(write(s->peer, "x", 1), 1);
	assert_int_equal(one(s->fd, POLLIN, -1), POLLIN);
	assert_int_equal(s->looks, 0);
	fake_close(s);
}

static void t_lifted(void **state)
{
	struct sock *s = fake_new();
	unsigned int k;

	(void)state;
	fake_pair(s);
	assert_int_equal(one(s->fd, POLLIN, 0), 0);
	fake_data(s);
	k = polls;
	assert_int_equal(one(s->fd, POLLIN, -1), POLLIN);
	assert_int_equal(one(s->fd, POLLIN | POLLOUT, 5), POLLIN | POLLOUT);
	assert_int_equal(one(s->fd, POLLRDNORM, 5), POLLRDNORM);
	assert_int_equal(polls, k); /* the kernel was not asked */
	fake_take(s);
	fake_room(s, false);
	/* the anchor is writable, and has a kick */
	assert_int_equal(write(s->peer, "\0", 1), 1);
	assert_int_equal(one(s->fd, POLLIN | POLLOUT, 0), 0);
	k = polls;
	assert_int_equal(one(s->fd, POLLIN | POLLOUT, 30), 0);
	assert_true(polls - k < 6); /* it sleeps */
	shutdown(s->peer, SHUT_WR);
	assert_int_equal(one(s->fd, POLLRDHUP, -1), POLLRDHUP);
	fake_close(s);
}

/* A kick that must stay unread does not keep a sleeper busy. */
static void t_stuck(void **state)
{
	struct sock *s = fake_new();
	unsigned int k = polls;

	(void)state;
	fake_pair(s);
	fake_room(s, false);
	fake_data(s);
	shutdown(s->peer, SHUT_WR); /* readable for ever */
	assert_int_equal(one(s->fd, POLLOUT, 100), 0);
	assert_true(polls - k < 20);
	fake_close(s);
}

static struct sock *lifts;

static void is_lifted(void)
{
	fake_pair(lifts);
	assert_int_equal(write(lifts->peer, "\0", 1), 1);
}

static void fills(void)
{
	fake_data(lifts);
}

static void is_reset(void)
{
	lifts->ours = lifts->now = 0;
	assert_int_equal(shutdown(lifts->peer, SHUT_RDWR), 0);
}

/*
 * All of an end is told, though the socket becomes the kernel's alone between a
 * look and the kernel's answer, and though the kernel is in the midst of it.
 */
static void t_reset(void **state)
{
	const int ends = POLLIN | POLLHUP;
	int i;

	(void)state;
	for (i = 0; i < 6; i++) {
		lifts = fake_new();
		fake_pair(lifts);
		if (i & 1) /* half of it was told by the look */
			lifts->ours = lifts->now = EPOLLRDHUP | EPOLLHUP;
		fake_meanwhile = is_reset;
		if (i >= 4)
			fake_hidden = POLLIN;
		assert_int_equal(one(lifts->fd, POLLIN, i < 2 ? -1 : 1000),
				 ends);
		assert_null(fake_meanwhile);
		assert_int_equal(fake_hidden, 0);
		fake_close(lifts);
	}
}

/*
 * A socket is lifted behind the look, and in front of the kernel's answer: the
 * kick on its anchor is nothing to read.
 */
static void t_between(void **state)
{
	struct sock *s = fake_new();
	struct pollfd p[2];
	struct timeval zero = { 0, 0 };
	fd_set r;
	int i;

	(void)state;
	fake_pair(s);
	for (i = 0; i < 4; i++) {
		lifts = fake_new();
		p[0] = (struct pollfd){ .fd = s->fd, .events = POLLIN };
		p[1] = (struct pollfd){ .fd = lifts->fd, .events = POLLIN };
		fake_take(s);
		if (i != 2)
			fake_data(s);
		fake_meanwhile = is_lifted;
		if (i < 2) {
			assert_int_equal(do_poll(p, 2, i - 1), 1);
			assert_int_equal(p[0].revents, POLLIN);
			assert_int_equal(p[1].revents, 0);
		} else if (i == 2) { /* nothing at all, while it spins */
			fake_spin_ns = 30000000;
			assert_int_equal(do_poll(p, 2, 40), 0);
			fake_spin_ns = 0;
		} else {
			FD_ZERO(&r);
			FD_SET(s->fd, &r);
			FD_SET(lifts->fd, &r);
			assert_int_equal(do_select(FD_SETSIZE, &r, NULL, NULL,
						   &zero),
					 1);
			assert_false(FD_ISSET(lifts->fd, &r));
		}
		assert_null(fake_meanwhile);
		/* and what comes behind the kick is told */
		fake_take(s);
		fake_meanwhile = fills;
		assert_int_equal(do_poll(p, 2, -1), 1);
		assert_int_equal(p[1].revents, POLLIN);
		fake_meanwhile = NULL;
		fake_close(lifts);
	}
	fake_close(s);
}

struct waiter {
	pthread_t t;
	struct sock *s;
	int other, events, got;
	bool by_select;
};

static void *wait_there(void *arg)
{
	struct waiter *w = arg;
	struct pollfd p[2] = { { .fd = w->other, .events = POLLIN },
			       { .fd = w->s->fd, .events = (short)w->events } };
	fd_set r, wr;

	if (!w->by_select) {
		w->got = do_poll(p, 2, 100000) == 1 ? p[1].revents : -1;
		return NULL;
	}
	FD_ZERO(&r);
	FD_ZERO(&wr);
	FD_SET(w->other, &r);
	FD_SET(w->s->fd, w->events & POLLIN ? &r : &wr);
	w->got = -1;
	if (do_select(FD_SETSIZE, &r, &wr, NULL, NULL) == 1)
		w->got = FD_ISSET(w->s->fd, &r)	 ? POLLIN :
			 FD_ISSET(w->s->fd, &wr) ? POLLOUT :
						   -1;
	return NULL;
}

static void t_asleep(void **state)
{
	struct waiter w = { .other = eventfd(0, 0), .events = POLLIN };
	int i;

	(void)state;
	for (i = 0; i < 12; i++) {
		int kind = i / 2 % 3;

		w.s = fake_new();
		w.by_select = i % 2;
		w.events = kind == 2 ? POLLOUT : POLLIN;
		if (kind) {
			fake_pair(w.s);
			fake_room(w.s, false);
		}
		assert_int_equal(pthread_create(&w.t, NULL, wait_there, &w), 0);
		if (i > 5)
			usleep(3000);
		switch (kind) {
		case 0: /* lifted while it sleeps */
			fake_pair(w.s);
			assert_int_equal(write(w.s->peer, "\0", 1), 1);
			if (i > 5)
				usleep(2000);
			fake_data(w.s);
			break;
		case 1:
			fake_data(w.s);
			break;
		default:
			fake_room(w.s, true);
			break;
		}
		pthread_join(w.t, NULL);
		assert_int_equal(w.got, w.events);
		fake_close(w.s);
	}
	close(w.other);
}

/*
 * A thread asleep in the kernel since before the pairing is counted: what
 * it is lifted by stays on the anchor until that thread is out, though another
 * one may read it. `other` of the last two is warm.
 */
static void t_together(void **state)
{
	struct sock *warm = fake_new();
	int efd = eventfd(0, 0), i, k;
	struct waiter w = { .events = POLLIN };

	(void)state;
	fake_pair(warm);
	for (i = 0; i < 4; i++) {
		w.s = fake_new();
		w.by_select = i % 2;
		w.other = i < 2 ? efd : warm->fd;
		assert_int_equal(pthread_create(&w.t, NULL, wait_there, &w), 0);
		for (k = 0; k < 10000 && !w.s->sleepers; k++)
			usleep(1000);
		assert_int_equal(w.s->sleepers, 1);
		fake_pair(w.s);
		assert_int_equal(write(w.s->peer, "\0", 1), 1);
		fake_data(w.s);
		pthread_join(w.t, NULL);
		assert_int_equal(w.got, POLLIN);
		assert_int_equal(w.s->sleepers, 0);
		fake_close(w.s);
	}
	/* what comes does not wake a wait for something else */
	w.s = fake_new();
	assert_int_equal(one(w.s->fd, POLLPRI, 1), 0);
	assert_int_equal(w.s->slept, 0);
	fake_close(w.s);
	fake_close(warm);
	close(efd);
}

/* More entries than fit on the stack, negative and bad ones among them. */
static void t_large(void **state)
{
	struct pollfd p[200];
	struct sock *s[100];
	int i, k;

	(void)state;
	memset(p, 0, sizeof(p));
	for (i = 0; i < 200; i++)
		p[i].fd = -1 - i;
	for (i = 0; i < 100; i++) {
		s[i] = fake_new();
		if (i % 3)
			fake_pair(s[i]);
		p[2 * i].fd = s[i]->fd;
		p[2 * i].events = POLLIN;
	}
	assert_int_equal(do_poll(p, 200, 1), 0);
	for (i = 0; i < 100; i += 7) {
		if (i % 3)
			fake_data(s[i]);
		else
			assert_int_equal(write(s[i]->peer, "x", 1), 1);
	}
	p[1].fd = 900; /* not open */
	for (k = 0; k < 2; k++)
		assert_int_equal(do_poll(p, 200, k - 1), 16);
	assert_int_equal(p[1].revents, POLLNVAL);
	for (i = 0; i < 100; i++) {
		assert_int_equal(p[2 * i].revents, i % 7 ? 0 : POLLIN);
		assert_true(!p[2 * i + 1].revents || !i);
		fake_close(s[i]);
	}
}

static void on_alarm(int sig)
{
	(void)sig;
}

/* Every 10 ms: one of them comes when the thread is asleep. */
static void alarms(bool on)
{
	struct timeval every = { 0, on ? 10000 : 0 };
	struct itimerval it = { every, every };

	setitimer(ITIMER_REAL, &it, NULL);
}

static void t_signals(void **state)
{
	struct sigaction act = { .sa_handler = on_alarm };
	struct sock *s = fake_new();
	struct timespec ts = { 100, 0 };
	struct timeval tv = { 100, 0 };
	struct pollfd p = { .events = POLLIN };
	sigset_t none, block;
	fd_set r;

	(void)state;
	fake_pair(s);
	p.fd = s->fd;
	assert_int_equal(sigaction(SIGALRM, &act, NULL), 0);
	alarms(true);
	assert_int_equal(do_poll(&p, 1, 100000), -EINTR);
	alarms(false);
	/* pending, and let in by the call's own mask */
	sigemptyset(&none);
	sigemptyset(&block);
	sigaddset(&block, SIGALRM);
	sigprocmask(SIG_BLOCK, &block, NULL);
	raise(SIGALRM);
	assert_int_equal(do_ppoll(&p, 1, &ts, &none), -EINTR);
	raise(SIGALRM);
	FD_ZERO(&r);
	FD_SET(s->fd, &r);
	assert_int_equal(do_pselect(s->fd + 1, &r, NULL, NULL, &ts, &none),
			 -EINTR);
	assert_true(FD_ISSET(s->fd, &r));
	/* but what is ready comes first */
	fake_data(s);
	raise(SIGALRM);
	assert_int_equal(do_ppoll(&p, 1, &ts, &none), 1);
	fake_take(s);
	assert_int_equal(do_ppoll(&p, 1, &ts, &none), -EINTR);
	sigprocmask(SIG_UNBLOCK, &block, NULL);
	alarms(true);
	assert_int_equal(do_select(s->fd + 1, &r, NULL, NULL, &tv), -EINTR);
	alarms(false);
	assert_in_range(tv.tv_sec, 1, 99);
	fake_close(s);
}

static void t_select(void **state)
{
	struct sock *s = fake_new(), *c = fake_new();
	struct timeval tv = { 0, 20000 }, zero = { 0, 0 };
	struct timespec bad = { 0, -5 };
	int gone = dup(s->fd);
	fd_set r, w, x;

	(void)state;
	fake_pair(s);
	FD_ZERO(&r);
	FD_ZERO(&w);
	FD_ZERO(&x);
	FD_SET(s->fd, &r);
	FD_SET(s->fd, &w);
	FD_SET(s->fd, &x);
	FD_SET(c->fd, &r);
	assert_int_equal(do_select(FD_SETSIZE, &r, &w, &x, NULL), 1);
	assert_true(!FD_ISSET(s->fd, &r) && FD_ISSET(s->fd, &w));
	assert_true(!FD_ISSET(s->fd, &x) && !FD_ISSET(c->fd, &r));
	FD_SET(s->fd, &r);
	fake_data(s);
	assert_int_equal(do_select(FD_SETSIZE, &r, &w, NULL, &zero), 2);
	assert_true(FD_ISSET(s->fd, &r) && FD_ISSET(s->fd, &w));
	fake_take(s);
	assert_int_equal(do_select(FD_SETSIZE, &r, NULL, NULL, &tv), 0);
	assert_false(FD_ISSET(s->fd, &r));
	assert_int_equal(tv.tv_sec + tv.tv_usec, 0);
	FD_SET(s->fd, &r);
	close(gone);
	FD_SET(gone, &r);
	assert_int_equal(do_select(FD_SETSIZE, &r, NULL, NULL, &zero), -EBADF);
	assert_true(FD_ISSET(s->fd, &r) && FD_ISSET(gone, &r));
	assert_int_equal(do_select(-1, &r, NULL, NULL, &zero), -EINVAL);
	assert_int_equal(do_pselect(s->fd + 1, &r, NULL, NULL, &bad, NULL),
			 -EINVAL);
	/* hang-up is for readers; a wait for urgent data sleeps on */
	shutdown(s->peer, SHUT_RDWR);
	FD_ZERO(&x);
	FD_SET(s->fd, &x);
	tv = (struct timeval){ 0, 20000 };
	assert_int_equal(do_select(s->fd + 1, NULL, NULL, &x, &tv), 0);
	fake_close(s);
	fake_close(c);
}

/* Sets longer than FD_SETSIZE. */
static void t_select_long(void **state)
{
	struct rlimit rl;
	unsigned long set[4096 / 64] = { 0 };
	struct sock *s = fake_new();
	int high, low = s->fd;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &rl), 0);
	rl.rlim_cur = rl.rlim_max < 4096 ? rl.rlim_max : 4096;
	if (rl.rlim_cur < 3100 || setrlimit(RLIMIT_NOFILE, &rl)) {
		fake_close(s);
		skip();
	}
	high = fcntl(low, F_DUPFD, 3000);
	assert_true(high >= 3000);
	assert_ptr_equal(fdt_take_sock(low), s);
	close(low);
	s->fd = high;
	assert_int_equal(fdt_put_sock(high, s), 0);
	fake_pair(s);
	fake_data(s);
	set[high / 64] |= 1ul << (high % 64);
	set[0] |= 1; /* standard input, whatever it is */
	assert_true(do_select(high + 1, (void *)set, NULL, NULL, NULL) >= 1);
	assert_true(set[high / 64] >> (high % 64) & 1);
	fake_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_cold),    cmocka_unit_test(t_lifted),
		cmocka_unit_test(t_stuck),   cmocka_unit_test(t_asleep),
		cmocka_unit_test(t_large),   cmocka_unit_test(t_signals),
		cmocka_unit_test(t_select),  cmocka_unit_test(t_select_long),
		cmocka_unit_test(t_between), cmocka_unit_test(t_together),
		cmocka_unit_test(t_reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
