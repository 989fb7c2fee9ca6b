/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stacks - the smallest stacks that a program may have: a thread's of
 * PTHREAD_STACK_MIN, and a signal's of little more than _SC_MINSIGSTKSZ. The
 * stack is painted before, and how deep the calls went is seen afterwards.
 */
#include "prog.h"

#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAINT	0xa5
#define DEEPEST 6144 /* bytes below the caller's frame: scripts/check-stack */
#define TURNS	64

static int listener;
static struct sockaddr_in addr;
static int end[2];
static const char *from; /* the caller's frame */

static void listens(void)
{
	socklen_t len = sizeof(addr);

	addr = (struct sockaddr_in){ .sin_family = AF_INET };
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(listener >= 0);
	CHECK(!bind(listener, (struct sockaddr *)&addr, len));
	CHECK(!listen(listener, 16));
	CHECK(!getsockname(listener, (struct sockaddr *)&addr, &len));
}

static void joins(void)
{
	end[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(end[0] >= 0);
	CHECK(!connect(end[0], (struct sockaddr *)&addr, sizeof(addr)));
	end[1] = accept(listener, NULL, NULL);
	CHECK(end[1] >= 0);
}

static void ready(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct timeval tv = { 5, 0 };
	fd_set set;

	CHECK(poll(&p, 1, 5000) == 1);
	FD_ZERO(&set);
	FD_SET(fd, &set);
	CHECK(select(fd + 1, &set, NULL, NULL, &tv) == 1);
}

/* A byte goes over by each pair of calls. */
static void turn(int a, int b, int which)
{
	char byte = 'x', got = 0;
	struct iovec v = { &byte, 1 }, w = { &got, 1 };
	struct msghdr out = { .msg_iov = &v, .msg_iovlen = 1 };
	struct msghdr in = { .msg_iov = &w, .msg_iovlen = 1 };

	switch (which) {
	case 0:
		CHECK(write(a, &byte, 1) == 1);
		ready(b);
		CHECK(read(b, &got, 1) == 1);
		break;
	case 1:
		CHECK(send(a, &byte, 1, MSG_NOSIGNAL) == 1);
		CHECK(recv(b, &got, 1, MSG_WAITALL) == 1);
		break;
	case 2:
		CHECK(writev(a, &v, 1) == 1);
		CHECK(readv(b, &w, 1) == 1);
		break;
	default:
		CHECK(sendmsg(a, &out, 0) == 1);
		CHECK(recvmsg(b, &in, 0) == 1);
	}
	CHECK(got == byte);
}

static void talks(void)
{
	int i;

	joins();
	for (i = 0; i < TURNS; i++)
		turn(end[i & 1], end[!(i & 1)], i / 2 % 4);
	CHECK(!shutdown(end[0], SHUT_WR));
	CHECK(read(end[1], &i, 1) == 0);
	CHECK(!close(end[0]));
	CHECK(!close(end[1]));
}

/* --- painted stacks ------------------------------------------------------------ */

/* n bytes above a page that must not be touched. */
static char *painted(size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, n + page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	CHECK(!mprotect(p, page, PROT_NONE));
	return memset(p + page, PAINT, n);
}

static void washed(char *p, size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	CHECK(!munmap(p - page, n + page));
}

/* How far below `from` it was written to. */
static size_t depth(const char *p)
{
	while ((unsigned char)*p == PAINT && p < from)
		p++;
	return (size_t)(from - p);
}

static void shallow(const char *p)
{
	CHECK(depth(p) > 0);
	CHECK(depth(p) <= DEEPEST);
}

static void *small_thread(void *arg)
{
	from = __builtin_frame_address(0);
	talks();
	return arg;
}

static void in_thread(struct end *e)
{
	size_t n = (size_t)sysconf(_SC_THREAD_STACK_MIN);
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	pthread_attr_t attr;
	pthread_t t;
	char *p;

	(void)e;
	n = (n + page - 1) / page * page;
	p = painted(n);
	listens();
	CHECK(!pthread_attr_init(&attr));
	CHECK(!pthread_attr_setstack(&attr, p, n));
	CHECK(!pthread_create(&t, &attr, small_thread, NULL));
	CHECK(!pthread_join(t, NULL));
	shallow(p);
	washed(p, n);
	CHECK(!close(listener));
}

static void on_signal(int sig)
{
	(void)sig;
	from = __builtin_frame_address(0);
	talks();
}

static void *nothing(void *arg)
{
	return arg;
}

/*
 * libc binds what pthread_create() calls when it is first called, and saves
 * all registers on the stack meanwhile, however large they are.
 */
static void binds(void)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, nothing, NULL));
	CHECK(!pthread_join(t, NULL));
}

/* The kernel's frame, and for the handler what a call may take. */
static void in_handler(struct end *e)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t n = (size_t)sysconf(_SC_MINSIGSTKSZ) + 8192;
	struct sigaction sa = { .sa_handler = on_signal,
				.sa_flags = SA_ONSTACK };
	stack_t ss = { 0 }, off = { .ss_flags = SS_DISABLE };

	(void)e;
	binds();
	n = (n + page - 1) / page * page;
	ss.ss_sp = painted(n);
	ss.ss_size = n;
	listens();
	CHECK(!sigaltstack(&ss, NULL));
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	CHECK(!raise(SIGUSR1));
	CHECK(!sigaltstack(&off, NULL));
	shallow(ss.ss_sp);
	washed(ss.ss_sp, n);
	CHECK(!close(listener));
}

static const struct prog_case cases[] = {
	{ "thread", in_thread, NULL, CASE_SOLO | CASE_BARE },
	{ "handler", in_handler, NULL, CASE_SOLO | CASE_BARE },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
