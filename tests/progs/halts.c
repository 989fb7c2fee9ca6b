/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * halts - what ends a sleeping call though nothing came: a stop with SIGCONT
 * behind it, where signal(7) says so, and a handler with SA_RESTART that
 * changes what the call is made again with. And what is refused at once.
 */
#include "prog.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG_MS	 100000
#define SHORT_MS 300

static struct link a, b; /* calls are made on a */
static int to_helper[2];
static pid_t helper;

static void limit(int fd, int opt, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };

	CHECK(!setsockopt(fd, SOL_SOCKET, opt, &tv, sizeof(tv)));
}

/* --- stopped ------------------------------------------------------------ */

/* For each byte the parent is stopped once, when it is found asleep. */
static void helps(pid_t parent)
{
	unsigned int slept;
	char c;

	while (read(to_helper[0], &c, 1) == 1) {
		for (slept = 0; slept < 10; prog_nap_ms(5))
			slept = prog_state(parent) == 'S' ? slept + 1 : 0;
		CHECK(!kill(parent, SIGSTOP));
		while (prog_state(parent) != 'T')
			prog_nap_ms(1);
		CHECK(!kill(parent, SIGCONT));
	}
	_exit(0);
}

static void helper_starts(void)
{
	pid_t parent = getpid();

	CHECK(!pipe2(to_helper, O_CLOEXEC));
	helper = fork();
	CHECK(helper >= 0);
	if (!helper) {
		CHECK(!close(to_helper[1]));
		helps(parent);
	}
}

static void helper_ends(void)
{
	CHECK(!close(to_helper[0]) && !close(to_helper[1]));
	prog_reap(helper, 0);
}

static void stop_soon(void)
{
	CHECK(write(to_helper[1], "x", 1) == 1);
}

/* Of these a receive with a time limit, and what epoll waits for, end. */
static void stopped_run(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct pollfd p = { .events = POLLIN };
	struct timeval tv = { 0, SHORT_MS * 1000 };
	char buf[64];
	struct iovec iov = { buf, sizeof(buf) };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int set, round;
	fd_set r;

	(void)e;
	helper_starts();
	link_self(&a, &b, 0);
	set = epoll_create1(EPOLL_CLOEXEC);
	CHECK(set >= 0 && !epoll_ctl(set, EPOLL_CTL_ADD, a.fd, &ev));
	for (round = 0; round < 2; round++) {
		limit(a.fd, SO_RCVTIMEO, LONG_MS + round);
		stop_soon();
		FAILS(recv(a.fd, buf, 1, 0), EINTR);
		stop_soon();
		FAILS(read(a.fd, buf, 1), EINTR);
		stop_soon();
		FAILS(readv(a.fd, &iov, 1), EINTR);
		stop_soon();
		FAILS(recvmsg(a.fd, &m, 0), EINTR);
		stop_soon();
		FAILS(recv(a.fd, buf, 10, MSG_PEEK), EINTR);
		stop_soon();
		FAILS(recv(a.fd, buf, 10, MSG_WAITALL), EINTR);
		link_put(&b, 3);
		stop_soon();
		CHECK(recv(a.fd, buf, 10, MSG_WAITALL) == 3);
		flow_check(&a.rx, buf, 3);
		stop_soon();
		FAILS(epoll_wait(set, &ev, 1, LONG_MS), EINTR);
		/* without a limit that same part, but nothing is not told */
		limit(a.fd, SO_RCVTIMEO, 0);
		link_put(&b, 3);
		stop_soon();
		CHECK(recv(a.fd, buf, 10, MSG_WAITALL) == 3);
		flow_check(&a.rx, buf, 3);
		/* these go on, for the rest of their time */
		p.fd = a.fd;
		stop_soon();
		CHECK(!poll(&p, 1, SHORT_MS));
		FD_ZERO(&r);
		FD_SET(a.fd, &r);
		tv.tv_usec = SHORT_MS * 1000;
		stop_soon();
		CHECK(!select(a.fd + 1, &r, NULL, NULL, &tv));
	}
	limit(a.fd, SO_RCVTIMEO, SHORT_MS);
	FAILS(recv(a.fd, buf, 1, 0), EAGAIN);
	link_put(&b, 100);
	link_get(&a, 100);
	helper_ends();
	CHECK(!close(set));
	link_close(&a);
	link_close(&b);
}

/* --- made again ----------------------------------------------------------- */

static void on_nonblock(int sig)
{
	(void)sig;
	prog_nonblock(a.fd, true);
}

static void on_limit(int sig)
{
	(void)sig;
	limit(a.fd, SO_RCVTIMEO, 20);
	limit(a.fd, SO_SNDTIMEO, 20);
}

static void on_nothing(int sig)
{
	(void)sig;
}

/*
 * Again and again: the first may come before the call. But for a limit, which
 * holds from before the call as well: with one, a signal ends the call.
 */
static void handler(void (*fn)(int sig))
{
	struct sigaction sa = { .sa_handler = fn, .sa_flags = SA_RESTART };
	struct itimerval it = { { 0, 50000 }, { 0, 50000 } };

	if (fn == on_limit)
		it.it_interval.tv_usec = 0;
	if (!fn)
		memset(&it, 0, sizeof(it));
	else
		CHECK(!sigaction(SIGALRM, &sa, NULL));
	CHECK(!setitimer(ITIMER_REAL, &it, NULL));
}

static void as_before(void)
{
	handler(NULL);
	prog_nonblock(a.fd, false);
	limit(a.fd, SO_RCVTIMEO, 0);
	limit(a.fd, SO_SNDTIMEO, 0);
}

static void again_run(struct end *e)
{
	void (*const how[])(int sig) = { on_nonblock, on_limit };
	char buf[64];
	size_t i;

	(void)e;
	link_self(&a, &b, 0);
	for (i = 0; i < ARRAY_SIZE(how); i++) {
		handler(how[i]);
		FAILS(recv(a.fd, buf, 10, 0), EAGAIN);
		as_before();
		handler(how[i]);
		FAILS(recv(a.fd, buf, 10, MSG_WAITALL), EAGAIN);
		as_before();
		handler(how[i]);
		FAILS(recv(a.fd, buf, 10, MSG_PEEK), EAGAIN);
		as_before();
		/* a part is an answer, whatever the handler did */
		link_put(&b, 5);
		handler(on_nothing);
		CHECK(recv(a.fd, buf, 10, MSG_WAITALL) == 5);
		as_before();
		flow_check(&a.rx, buf, 5);
	}
	link_put(&b, 100);
	link_get(&a, 100);
	link_close(&a);
	link_close(&b);
}

/* All that goes in, so that the next send has to wait. */
static void fill(int fd)
{
	static char some[65536];

	limit(fd, SO_SNDTIMEO, SHORT_MS);
	while (send(fd, some, sizeof(some), 0) > 0)
		;
	while (send(fd, some, 1, 0) > 0)
		;
	CHECK(errno == EAGAIN);
	limit(fd, SO_SNDTIMEO, 0);
}

static void full_run(struct end *e)
{
	void (*const how[])(int sig) = { on_nonblock, on_limit };
	size_t i;

	(void)e;
	for (i = 0; i < ARRAY_SIZE(how); i++) {
		link_self(&a, &b, 0);
		fill(a.fd);
		handler(how[i]);
		FAILS(send(a.fd, "x", 1, 0), EAGAIN);
		as_before();
		link_close(&a);
		link_close(&b);
	}
}

/* --- left by a jump -------------------------------------------------------- */

static sigjmp_buf back;
static void *back_unsaid[5];

static void on_jump(int sig)
{
	(void)sig;
	siglongjmp(back, 1);
}

/* Past libc: the library is not told of it. */
static void on_unsaid(int sig)
{
	(void)sig;
	__builtin_longjmp(back_unsaid, 1);
}

static void waits(int how, int set)
{
	struct pollfd p[2] = { { .fd = a.fd, .events = POLLIN },
			       { .fd = set, .events = POLLIN } };
	struct epoll_event ev;
	char byte;
	fd_set r;

	switch (how) {
	case 0:
		epoll_wait(set, &ev, 1, LONG_MS);
		break;
	case 1:
		poll(p, 1, LONG_MS);
		break;
	case 2:
		poll(p, 2, LONG_MS);
		break;
	case 3:
		FD_ZERO(&r);
		FD_SET(a.fd, &r);
		select(a.fd + 1, &r, NULL, NULL, NULL);
		break;
	default:
		recv(a.fd, &byte, 1, 0);
	}
	CHECK(!"came out by itself");
}

static __attribute__((noinline)) void jumped_out(int how, int set)
{
	handler(on_jump);
	if (!sigsetjmp(back, 1))
		waits(how, set);
	handler(NULL);
}

static __attribute__((noinline)) void slipped_out(int set)
{
	handler(on_unsaid);
	if (!__builtin_setjmp(back_unsaid))
		waits(0, set);
	handler(NULL);
}

/*
 * No thread sleeps there any more, so that none is woken: the bats test counts.
 */
static void jumps_run(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int set = epoll_create1(EPOLL_CLOEXEC), how;
	sigset_t none;
	char byte;

	(void)e;
	sigemptyset(&none);
	CHECK(set >= 0);
	link_self(&a, &b, 0);
	CHECK(!epoll_ctl(set, EPOLL_CTL_ADD, a.fd, &ev));
	for (how = 0; how < 5; how++) {
		jumped_out(how, set);
		jumped_out(how, set);
	}
	slipped_out(set);
	CHECK(!sigprocmask(SIG_SETMASK, &none, NULL));
	CHECK(!epoll_wait(set, &ev, 1, 20)); /* and shows */
	for (how = 0; how < 2000; how++) {
		link_put(&b, 10);
		CHECK(epoll_wait(set, &ev, 1, LONG_MS) == 1);
		link_get(&a, 10);
		FAILS(recv(a.fd, &byte, 1, MSG_DONTWAIT), EAGAIN);
	}
	CHECK(!close(set));
	link_close(&a);
	link_close(&b);
}

/* --- too many --------------------------------------------------------------- */

static void many_run(struct end *e)
{
	static struct pollfd p[5000];
	const rlim_t most[] = { 40, 1500 };
	struct timespec none = { 0, 0 };
	struct rlimit was, low;
	size_t i, k;

	(void)e;
	link_self(&a, &b, 0);
	for (i = 0; i < ARRAY_SIZE(p); i++)
		p[i] = (struct pollfd){ .fd = i % 3 ? -1 : a.fd,
					.events = POLLIN | POLLOUT };
	CHECK(!getrlimit(RLIMIT_NOFILE, &was));
	for (k = 0; k < ARRAY_SIZE(most); k++) {
		low = was;
		low.rlim_cur = most[k];
		CHECK(!setrlimit(RLIMIT_NOFILE, &low));
		for (i = 0; i < ARRAY_SIZE(p); i++)
			p[i].events = POLLIN; /* for which it is the kernel's */
		FAILS(poll(p, most[k] + 1, 0), EINVAL);
		FAILS(ppoll(p, most[k] + 1, &none, NULL), EINVAL);
		FAILS(poll(p, most[k] + 1, SHORT_MS), EINVAL);
		CHECK(poll(p, most[k], 10) == 0);
		for (i = 0; i < ARRAY_SIZE(p); i++)
			p[i].events = POLLIN | POLLOUT;
		CHECK(poll(p, most[k], 10) == (int)(most[k] + 2) / 3);
	}
	FAILS(poll(p, most[1] + 1, SHORT_MS), EINVAL);
	CHECK(!setrlimit(RLIMIT_NOFILE, &was));
	link_close(&a);
	link_close(&b);
}

static const struct prog_case cases[] = {
	{ "stopped", stopped_run, NULL, CASE_SOLO | CASE_BARE },
	{ "again", again_run, NULL, CASE_SOLO | CASE_BARE },
	{ "full", full_run, NULL, CASE_SOLO | CASE_BARE },
	{ "jumps", jumps_run, NULL, CASE_SOLO | CASE_BARE },
	{ "many", many_run, NULL, CASE_SOLO | CASE_BARE },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
