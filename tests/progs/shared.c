/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shared - calls on a connection that another process has used last, which is
 * stopped: none waits longer than the program lets it.
 */
#include "prog.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define WARM	40
#define FRAME	64
#define LIMIT	300 /* ms */
#define SOON	1000 /* ms: less than the library's own limit */
#define MOMENT	50 /* ms: the peer's bytes are here */
#define LOOKS	50
#define AT_MOST 5000 /* ms */

static struct end *end; /* the tester's copy */
static pid_t user;

/* --- the user ------------------------------------------------------------ */

static void user_stops(void)
{
	CHECK(!kill(user, SIGSTOP));
	while (prog_state(user) != 'T')
		prog_nap_ms(1);
	prog_nap_ms(MOMENT); /* its other threads */
}

/*
 * Main is the user. Of its child and grandchild one lets it go on when the
 * other has failed.
 */
static void run(struct end *e, void (*test)(void))
{
	pid_t pid, child;
	int status;

	prog_warm(&e->l, false, WARM);
	user = getpid();
	end = e;
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		user_stops();
		child = fork();
		if (!child) {
			test();
			_exit(0);
		}
		CHECK(child > 0 && waitpid(child, &status, 0) == child);
		CHECK(!kill(user, SIGCONT));
		_exit(!WIFEXITED(status) || WEXITSTATUS(status));
	}
	prog_reap(pid, 0);
	e->l.rx.off += FRAME;
	e->l.tx.off += FRAME;
	prog_visit(e, FRAME);
	prog_tell(e, 0);
}

static void peer_run(struct end *e)
{
	prog_warm(&e->l, true, WARM);
	prog_host(e);
}

/* --- the one that shares it ---------------------------------------------- */

static ssize_t gets(int flags)
{
	char buf[FRAME];
	ssize_t n = recv(end->l.fd, buf, sizeof(buf), flags);

	if (n > 0)
		flow_check(&end->l.rx, buf, (size_t)n);
	return n;
}

/* Where the kernel has the stream the call has something to do. */
static ssize_t done(ssize_t n)
{
	CHECK(n > 0 || (n < 0 && errno == EAGAIN));
	return n > 0 ? n : 0;
}

static ssize_t puts_some(size_t rest, int flags)
{
	struct flow next = end->l.tx;
	char buf[FRAME];
	ssize_t n;

	flow_fill(&next, buf, rest);
	n = done(send(end->l.fd, buf, rest, flags));
	end->l.tx.off += (uint64_t)n;
	return n;
}

static void in_time(int64_t began)
{
	CHECK(prog_now_ms() - began < SOON);
}

static void ready(short events)
{
	struct pollfd p = { .fd = end->l.fd, .events = events };

	CHECK(poll(&p, 1, AT_MOST) == 1 && p.revents == events);
}

/* The rest of a frame each way, with the user there again. */
static void the_rest(ssize_t rx, ssize_t tx)
{
	CHECK(!kill(user, SIGCONT));
	while (rx < FRAME) {
		ready(POLLIN);
		rx += done(gets(MSG_DONTWAIT));
	}
	while (tx < FRAME) {
		ready(POLLOUT);
		tx += puts_some((size_t)(FRAME - tx), MSG_DONTWAIT);
	}
	CHECK(prog_hear(end) == FRAME);
}

static void at_once(int flags)
{
	int64_t began = prog_now_ms();
	ssize_t rx = 0, tx = 0;
	int i;

	for (i = 0; i < LOOKS; i++)
		FAILS(gets(flags), EAGAIN);
	prog_tell(end, FRAME);
	prog_nap_ms(MOMENT);
	for (i = 0; i < LOOKS; i++) {
		if (rx < FRAME)
			rx += done(gets(flags));
		if (tx < FRAME)
			tx += puts_some((size_t)(FRAME - tx), flags);
	}
	in_time(began);
	the_rest(rx, tx);
}

static void dontwait(void)
{
	at_once(MSG_DONTWAIT);
}

static void nonblock(void)
{
	prog_nonblock(end->l.fd, true);
	at_once(0);
	prog_nonblock(end->l.fd, false);
}

static void limit(int option, int ms)
{
	struct timeval tv = { .tv_usec = ms * 1000 };

	CHECK(!setsockopt(end->l.fd, SOL_SOCKET, option, &tv, sizeof(tv)));
}

static void limits(void)
{
	int64_t began;
	ssize_t tx;

	limit(SO_RCVTIMEO, LIMIT);
	limit(SO_SNDTIMEO, LIMIT);
	began = prog_now_ms();
	FAILS(gets(0), EAGAIN);
	CHECK(prog_now_ms() - began >= LIMIT - 10);
	in_time(began);
	prog_tell(end, FRAME);
	prog_nap_ms(MOMENT);
	began = prog_now_ms();
	tx = puts_some(FRAME, 0);
	in_time(began);
	the_rest(0, tx);
	limit(SO_RCVTIMEO, 0);
	limit(SO_SNDTIMEO, 0);
}

static void *receives(void *arg)
{
	gets(0);
	return arg;
}

static void cancels(void)
{
	int64_t began = prog_now_ms();
	pthread_t t;
	void *ret;

	CHECK(!pthread_create(&t, NULL, receives, NULL));
	prog_nap_ms(LIMIT);
	CHECK(!pthread_cancel(t));
	CHECK(!pthread_join(t, &ret) && ret == PTHREAD_CANCELED);
	in_time(began);
	prog_tell(end, FRAME);
	the_rest(0, 0);
}

/* --- by signals ---------------------------------------------------------- */

static void handles(int sig)
{
	(void)sig;
}

static void brings_more(int sig)
{
	handles(sig);
	prog_tell(end, FRAME);
	kill(user, SIGCONT);
}

static void in_a_while(void (*handler)(int), int flags)
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };
	struct itimerval it = { .it_value.tv_usec = LIMIT * 1000 };

	CHECK(!sigaction(SIGALRM, &sa, NULL));
	CHECK(!setitimer(ITIMER_REAL, &it, NULL));
}

static void interrupts(void)
{
	int64_t began = prog_now_ms();

	in_a_while(handles, 0);
	FAILS(gets(0), EINTR);
	in_time(began);
	prog_tell(end, FRAME);
	the_rest(0, 0);
}

static void restarts(void)
{
	int64_t began = prog_now_ms();
	ssize_t rx;

	in_a_while(brings_more, SA_RESTART);
	rx = gets(0);
	CHECK(rx > 0);
	in_time(began);
	the_rest(rx, 0);
}

/* --- sets ---------------------------------------------------------------- */

static void edge(uint32_t how)
{
	struct epoll_event ev = { .events = EPOLLIN | how };
	int set = epoll_create1(EPOLL_CLOEXEC);
	ssize_t rx;

	CHECK(set >= 0 && !epoll_ctl(set, EPOLL_CTL_ADD, end->l.fd, &ev));
	FAILS(gets(MSG_DONTWAIT), EAGAIN);
	prog_tell(end, FRAME);
	prog_nap_ms(MOMENT);
	rx = done(gets(MSG_DONTWAIT));
	CHECK(!kill(user, SIGCONT));
	if (!rx) {
		CHECK(epoll_wait(set, &ev, 1, AT_MOST) == 1);
		CHECK(ev.events == EPOLLIN);
		rx = gets(MSG_DONTWAIT);
		CHECK(rx > 0);
	}
	CHECK(!close(set));
	the_rest(rx, 0);
}

static void edges(void)
{
	edge((uint32_t)EPOLLET);
}

static void levels(void)
{
	edge(0);
}

#define CASE(name)                            \
	static void name##_run(struct end *e) \
	{                                     \
		run(e, name);                 \
	}

CASE(dontwait)
CASE(nonblock)
CASE(limits)
CASE(cancels)
CASE(interrupts)
CASE(restarts)
CASE(edges)
CASE(levels)

static const struct prog_case cases[] = {
	{ "dontwait", dontwait_run, peer_run, CASE_PROCESS },
	{ "nonblock", nonblock_run, peer_run, CASE_PROCESS },
	{ "limits", limits_run, peer_run, CASE_PROCESS },
	{ "cancels", cancels_run, peer_run, CASE_PROCESS },
	{ "interrupts", interrupts_run, peer_run, CASE_PROCESS },
	{ "restarts", restarts_run, peer_run, CASE_PROCESS },
	{ "edges", edges_run, peer_run, CASE_PROCESS },
	{ "levels", levels_run, peer_run, CASE_PROCESS },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
