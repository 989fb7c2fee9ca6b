/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* numbers - descriptors that run out, and limits that are taken down. */
#include "prog.h"

#include <dirent.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIMIT 256
#define PAIRS 30

static struct link a[PAIRS], b[PAIRS];

static void limit(rlim_t n)
{
	struct rlimit rl;

	CHECK(!getrlimit(RLIMIT_NOFILE, &rl));
	rl.rlim_cur = n;
	CHECK(!setrlimit(RLIMIT_NOFILE, &rl));
}

/* Connections within the process, all of them lifted if that may be. */
static void connections(int n)
{
	int i;

	for (i = 0; i < n; i++)
		link_self(&a[i], &b[i], 8);
}

static void all_talk(int n)
{
	int i;

	for (i = 0; i < n; i++) {
		link_put(&a[i], 100);
		link_get(&b[i], 100);
		link_put(&b[i], 100);
		link_get(&a[i], 100);
	}
}

static bool is_open(int fd)
{
	return syscall(SYS_fcntl, fd, F_GETFD) >= 0;
}

static int open_ones(void)
{
	int fd, n = 0;

	for (fd = 0; fd < LIMIT; fd++)
		n += is_open(fd);
	return n;
}

/* Until so many are free, in a way that is not seen. */
static void fill(int free)
{
	int n = LIMIT - free - open_ones();

	for (; n > 0; n--)
		CHECK(syscall(SYS_dup, 0) >= 0);
}

/* What libc opens by itself finds a number as it would on TCP. */
static void openers_run(struct end *e)
{
	char name[] = "/tmp/numbersXXXXXX";
	struct addrinfo *ai;
	DIR *d;
	FILE *f;
	int fd, own;

	(void)e;
	limit(LIMIT);
	own = open_ones();
	connections(PAIRS);
	all_talk(PAIRS);
	/* ours but for a sixteenth, and the handful that is asked for here */
	fill(LIMIT - (LIMIT - LIMIT / 16 - 8) -
	     (open_ones() - own - 2 * PAIRS));
	d = opendir("/");
	CHECK(d);
	f = tmpfile();
	CHECK(f);
	fd = mkstemp(name);
	CHECK(fd >= 0);
	CHECK(!unlink(name));
	CHECK(!getaddrinfo("localhost", "80", NULL, &ai));
	freeaddrinfo(ai);
	CHECK(!fclose(f));
	CHECK(!closedir(d));
	all_talk(PAIRS);
}

/* Numbers as many as the limit says, each of them the program's. */
static void brim_run(struct end *e)
{
	int fd, last = -1, n = 0;

	(void)e;
	limit(LIMIT);
	connections(PAIRS);
	for (;;) {
		fd = open("/dev/null", O_RDONLY);
		if (fd < 0)
			break;
		last = fd;
		n++;
	}
	CHECK(errno == EMFILE);
	CHECK(last == LIMIT - 1 || is_open(LIMIT - 1));
	/* three standard ones, the connections; bats and valgrind keep some */
	CHECK(n >= LIMIT - 2 * PAIRS - 16);
	all_talk(PAIRS);
	CHECK(!close(last));
	fd = accept(0, NULL, NULL);
	CHECK(fd < 0 && errno == ENOTSOCK);
	fd = dup(0);
	CHECK(fd == last);
	all_talk(PAIRS);
}

/* A server at its limit goes on to accept, up to it. */
static void accept_run(struct end *e)
{
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);
	int fd[LIMIT], n = 0, lfd, c;

	(void)e;
	limit(LIMIT);
	lfd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(lfd >= 0 && !listen(lfd, 200));
	CHECK(!getsockname(lfd, (struct sockaddr *)&ss, &len));
	for (;;) {
		c = socket(AF_INET, SOCK_STREAM, 0);
		if (c < 0)
			break;
		CHECK(!connect(c, (struct sockaddr *)&ss, len));
		fd[n++] = c;
		c = accept(lfd, NULL, NULL);
		if (c < 0)
			break;
		CHECK(write(fd[n - 1], "x", 1) == 1);
		fd[n++] = c;
	}
	CHECK(errno == EMFILE);
	CHECK(n >= LIMIT - 16);
	while (n--)
		CHECK(!close(fd[n]));
}

/* dup2() puts one at any number, and F_DUPFD at one from there on. */
static void any_run(struct end *e)
{
	int fd, n;

	(void)e;
	limit(LIMIT);
	connections(4);
	all_talk(4);
	for (fd = LIMIT - 1; fd > 100; fd--) {
		if (fd == a[0].fd || fd == b[0].fd)
			continue;
		CHECK(dup2(0, fd) == fd);
		if (fd % 16 == 0)
			all_talk(4);
	}
	all_talk(4);
	for (fd = LIMIT - 1; fd > 100; fd--)
		CHECK(!close(fd));
	all_talk(4);
	for (fd = 150; fd < LIMIT; fd += 15) {
		n = fcntl(0, F_DUPFD, fd);
		CHECK(n >= fd && !close(n));
	}
	n = fcntl(0, F_DUPFD, LIMIT - 1);
	CHECK(n == LIMIT - 1);
	FAILS(fcntl(0, F_DUPFD, LIMIT - 1), EMFILE);
	all_talk(4);
}

/* --- a limit that is taken down --------------------------------------------- */

static int wait_poll(int fd, short events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };
	int ret = poll(&p, 1, ms);

	CHECK(ret >= 0);
	CHECK(!(p.revents & POLLNVAL));
	return p.revents;
}

static bool wait_select(int fd, int ms)
{
	struct timeval tv = { ms / 1000, ms % 1000 * 1000 };
	fd_set r;
	int ret;

	FD_ZERO(&r);
	FD_SET(fd, &r);
	ret = select(fd + 1, &r, NULL, NULL, ms < 0 ? NULL : &tv);
	CHECK(ret == 0 || (ret == 1 && FD_ISSET(fd, &r)));
	return ret;
}

static void *put_later(void *arg)
{
	struct link *l = arg;

	prog_nap_ms(30);
	link_put(l, 10);
	return NULL;
}

static void wakes(struct link *from, int fd, bool poll_too)
{
	pthread_t thread;
	char b[10];

	CHECK(!pthread_create(&thread, NULL, put_later, from));
	CHECK(wait_select(fd, -1));
	CHECK(!pthread_join(thread, NULL));
	CHECK(recv(fd, b, sizeof(b), 0) == sizeof(b));
	if (!poll_too)
		return;
	CHECK(!pthread_create(&thread, NULL, put_later, from));
	CHECK(wait_poll(fd, POLLIN, -1) == POLLIN);
	CHECK(!pthread_join(thread, NULL));
	CHECK(recv(fd, b, sizeof(b), 0) == sizeof(b));
}

/* Waiting goes on under a limit of `n`, poll() if it takes one at all. */
static void lowered(rlim_t n)
{
	struct timeval tv = { 0, 30000 };
	struct link x, y;
	char c[8];

	link_self(&x, &y, 80);
	limit(n);
	link_put(&x, 8);
	CHECK(wait_select(y.fd, 1000));
	if (n)
		CHECK(wait_poll(y.fd, POLLIN, 1000) == POLLIN);
	link_get(&y, 8);
	CHECK(!wait_select(y.fd, 30));
	if (n)
		CHECK(!wait_poll(y.fd, POLLIN, 30));
	wakes(&x, y.fd, n != 0);
	CHECK(!setsockopt(y.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	FAILS(recv(y.fd, c, 8, 0), EAGAIN);
	/* an end comes by the anchor */
	link_close(&x);
	CHECK(wait_select(y.fd, -1));
	if (n)
		CHECK(wait_poll(y.fd, POLLIN, -1) & POLLIN);
	link_eof(&y);
	link_close(&y);
	limit(LIMIT);
}

static void lowered_run(struct end *e)
{
	rlim_t n;

	(void)e;
	for (n = 0; n < 4; n++)
		lowered(n);
}

/* More members than the limit, which select() does not ask. */
static void many_run(struct end *e)
{
	struct timeval tv = { 5, 0 };
	fd_set r;
	int i;

	(void)e;
	connections(PAIRS);
	limit(7);
	FD_ZERO(&r);
	for (i = 0; i < PAIRS; i++)
		FD_SET(b[i].fd, &r);
	link_put(&a[PAIRS - 1], 10);
	link_put(&a[0], 10);
	/* both must be there by the second call */
	CHECK(select(b[PAIRS - 1].fd + 1, &r, NULL, NULL, &tv) >= 1);
	link_get(&b[0], 10);
	FD_ZERO(&r);
	for (i = 0; i < PAIRS; i++)
		FD_SET(b[i].fd, &r);
	CHECK(select(b[PAIRS - 1].fd + 1, &r, NULL, NULL, &tv) == 1);
	CHECK(FD_ISSET(b[PAIRS - 1].fd, &r));
	limit(LIMIT);
}

/* --- many numbers, and children of vfork() ----------------------------------- */

/* What a vfork() child executes has the connections, at numbers of its own. */
static void vfork_run(struct end *e)
{
	char in[16], *argv[] = { (char *)(uintptr_t) "sh", "-c", NULL, NULL };
	char cmd[64];
	int i, other[40];
	pid_t pid;

	(void)e;
	connections(PAIRS);
	/* sockets that are not managed */
	for (i = 0; i < 40; i++) {
		other[i] = socket(AF_UNIX, SOCK_DGRAM, 0);
		CHECK(other[i] >= 0);
	}
	CHECK(!fcntl(a[1].fd, F_SETFD, 0));
	snprintf(cmd, sizeof(cmd), "printf hello >&9; printf bye >&%d",
		 a[1].fd);
	argv[2] = cmd;
	pid = vfork();
	CHECK(pid >= 0);
	if (!pid) {
		if (dup2(a[0].fd, 9) != 9)
			_exit(8);
		execv("/bin/sh", argv);
		_exit(9);
	}
	prog_reap(pid, 0);
	CHECK(recv(b[0].fd, in, 5, MSG_WAITALL) == 5 &&
	      !memcmp(in, "hello", 5));
	CHECK(recv(b[1].fd, in, 3, MSG_WAITALL) == 3 && !memcmp(in, "bye", 3));
	all_talk(PAIRS);
	for (i = 0; i < 40; i++)
		CHECK(!close(other[i]));
}

/* What the library has is not the program's to close, however it closes. */
static void range_run(struct end *e)
{
	int i, n;

	(void)e;
	limit(LIMIT);
	connections(4);
	all_talk(4);
	for (i = 60; i < 120; i++)
		CHECK(dup2(0, i) == i);
	CHECK(!close_range(60, 80, 0));
	CHECK(!close_range(81, ~0u, 0));
	for (i = 60; i < 120; i++)
		CHECK(!is_open(i));
	all_talk(4);
	n = fcntl(0, F_DUPFD, LIMIT / 2);
	CHECK(n == LIMIT / 2);
	closefrom(LIMIT / 2);
	CHECK(!is_open(n));
	all_talk(4);
	CHECK(!close_range((unsigned int)a[3].fd, (unsigned int)b[3].fd, 0));
	CHECK(!is_open(a[3].fd) && !is_open(b[3].fd));
	all_talk(3);
}

/* A number that a connection had is a file's, or free, all the same. */
static void again_run(struct end *e)
{
	struct iovec v = { "c", 1 };
	struct mmsghdr m = { .msg_hdr = { .msg_iov = &v, .msg_iovlen = 1 } };
	char b[8];
	int f = memfd_create("again", MFD_CLOEXEC), n = LIMIT / 2;

	(void)e;
	connections(1);
	all_talk(1);
	CHECK(f >= 0);
	CHECK(dup2(a[0].fd, n) == n);
	CHECK(!close(n));
	FAILS(recvmmsg(n, &m, 0, 0, NULL), EBADF);
	FAILS(sendmmsg(n, &m, 0, 0), EBADF);
	FAILS(recvmmsg(n, (void *)64, 1, 0, NULL), EBADF);
	FAILS(sendmmsg(n, (void *)64, 1, 0), EBADF);
	CHECK(dup2(f, n) == n);
	FAILS(recvmmsg(n, &m, 0, 0, NULL), ENOTSOCK);
	FAILS(sendmmsg(n, &m, 0, 0), ENOTSOCK);
	/* what a stream has no use for, a file has */
	CHECK(write(n, "ab", 2) == 2);
	CHECK(!lseek(n, 0, SEEK_SET));
	CHECK(pwritev2(n, &v, 1, -1, RWF_APPEND) == 1);
	CHECK(pread(n, b, sizeof(b), 0) == 3 && !memcmp(b, "abc", 3));
	CHECK(!close(n));
	CHECK(!close(f));
	all_talk(1);
}

/* --- many numbers for one socket ---------------------------------------- */

#define COPIES 4000

static int64_t copies_ns(int fd, bool alone)
{
	static int copy[COPIES];
	struct timespec from, to;
	int i;

	for (i = 0; i < COPIES; i++) {
		copy[i] = dup(fd);
		CHECK(copy[i] >= 0);
	}
	if (alone)
		CHECK(!close(fd));
	CHECK(!clock_gettime(CLOCK_MONOTONIC, &from));
	for (i = 0; i < COPIES; i++)
		CHECK(!close(copy[i]));
	CHECK(!clock_gettime(CLOCK_MONOTONIC, &to));
	return (to.tv_sec - from.tv_sec) * 1000000000ll + to.tv_nsec -
	       from.tv_nsec;
}

/*
 * What a close costs depends on nothing else that is open; the first is gone.
 */
static void copies_run(struct end *e)
{
	static int other[COPIES];
	int64_t beside, alone;
	int fd, i;

	(void)e;
	limit(3 * COPIES);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	for (i = 0; i < COPIES; i++) {
		other[i] = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(other[i] >= 0);
	}
	beside = copies_ns(fd, false);
	alone = copies_ns(fd, true);
	CHECK(alone < 20 * beside);
	for (i = 0; i < COPIES; i++)
		CHECK(!close(other[i]));
}

static const struct prog_case cases[] = {
	{ "openers", openers_run, NULL, CASE_SOLO | CASE_BARE },
	{ "brim", brim_run, NULL, CASE_SOLO | CASE_BARE },
	{ "accept", accept_run, NULL, CASE_SOLO | CASE_BARE },
	{ "any", any_run, NULL, CASE_SOLO | CASE_BARE },
	{ "lowered", lowered_run, NULL, CASE_SOLO | CASE_BARE },
	{ "many", many_run, NULL, CASE_SOLO | CASE_BARE },
	{ "vfork", vfork_run, NULL, CASE_SOLO | CASE_BARE },
	{ "range", range_run, NULL, CASE_SOLO | CASE_BARE },
	{ "again", again_run, NULL, CASE_SOLO | CASE_BARE },
	{ "copies", copies_run, NULL, CASE_SOLO | CASE_BARE },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
