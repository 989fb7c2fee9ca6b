/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * wants - a program with many connections that wants its resources for itself
 *
 * wants maps COUNT LEFT   has all mappings that there may be, but LEFT wants
 * locked COUNT         locks all memory that it gets wants queue COUNT SECONDS
 * fills connections whose other end reads slowly wants space 1 KIB
 * has no more address space than that left when its reader,
 *	which is behind, needs the stream on the descriptor; -1: and ends then
 *
 * COUNT connections to a child of its own; "ok" when it got what it wanted.
 */
#include "prog.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT_MAX 4000
#define ROUNDS	  12

static int fd[COUNT_MAX];
static int count;

/* The number in a file: of its only line, or behind `name`. */
static long number_in(const char *path, const char *name)
{
	size_t n = strlen(name);
	char line[256];
	long v = -1;
	FILE *f = fopen(path, "re");

	while (f && v < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, name, n))
			v = strtol(line + n, NULL, 10);
	if (f)
		fclose(f);
	return v;
}

static long mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	long n = 0;
	int c;

	CHECK(f);
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static void whole(int s, char *buf, size_t len, bool out)
{
	ssize_t n;

	for (; len; len -= (size_t)n, buf += n) {
		n = out ? write(s, buf, len) : read(s, buf, len);
		CHECK(n > 0);
	}
}

static void echoes(void)
{
	struct pollfd p[COUNT_MAX];
	char buf[64];
	int i, open = count;
	ssize_t n;

	for (i = 0; i < count; i++)
		p[i] = (struct pollfd){ .fd = fd[i], .events = POLLIN };
	while (open) {
		CHECK(poll(p, (nfds_t)count, -1) > 0);
		for (i = 0; i < count; i++) {
			if (!p[i].revents)
				continue;
			n = read(fd[i], buf, sizeof(buf));
			if (n > 0) {
				whole(fd[i], buf, (size_t)n, true);
			} else {
				close(fd[i]);
				p[i].fd = -1;
				open--;
			}
		}
	}
}

/* 4 KiB of each connection, every 50 ms. */
static void reads_slowly(void)
{
	const struct timespec pause = { 0, 50000000 };
	static char buf[4096];
	int i;

	for (i = 0; i < count; i++)
		whole(fd[i], buf, 8, false);
	for (i = 0; i < count; i++)
		whole(fd[i], buf, 8, true);
	for (;;) {
		for (i = 0; i < count; i++)
			if (!recv(fd[i], buf, sizeof(buf), MSG_DONTWAIT))
				return;
		nanosleep(&pause, NULL);
	}
}

/*
 * The child accepts; it ends with the program at the latest. `first`, if any,
 * is called with `arg` before there is a connection, but not in the child.
 */
static pid_t connections_after(void (*other)(void), void (*first)(long),
			       long arg)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);
	int i, l = socket(AF_INET, SOCK_STREAM, 0);
	pid_t pid;

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(l >= 0 && !bind(l, (struct sockaddr *)&sin, len));
	CHECK(!listen(l, COUNT_MAX));
	CHECK(!getsockname(l, (struct sockaddr *)&sin, &len));
	pid = fork();
	CHECK(pid >= 0);
	if (pid && first)
		first(arg);
	for (i = 0; i < count; i++) {
		if (!pid) {
			fd[i] = accept(l, NULL, NULL);
			CHECK(fd[i] >= 0);
			continue;
		}
		fd[i] = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(!connect(fd[i], (struct sockaddr *)&sin, len));
	}
	close(l);
	if (!pid) {
		other();
		_exit(0);
	}
	return pid;
}

static pid_t connections(void (*other)(void))
{
	return connections_after(other, NULL, 0);
}

static void rounds(int n)
{
	char buf[8] = "1234567";
	int i;

	while (n--)
		for (i = 0; i < count; i++) {
			whole(fd[i], buf, sizeof(buf), true);
			whole(fd[i], buf, sizeof(buf), false);
		}
}

static void over(pid_t pid)
{
	int i;

	for (i = 0; i < count; i++)
		close(fd[i]);
	CHECK(waitpid(pid, NULL, 0) == pid);
	puts("ok");
}

static void *nothing(void *arg)
{
	return arg;
}

static void fill_maps(long left)
{
	long most = number_in("/proc/sys/vm/max_map_count", ""), i, n;

	CHECK(most > 0);
	n = most - left - mappings();
	for (i = 0; i < n; i++)
		CHECK(mmap(NULL, 4096, i & 1 ? PROT_READ : PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
}

/* None are left before there is a connection that could be lifted. */
static void maps(long left)
{
	pthread_t thread;
	pid_t pid = connections_after(echoes, fill_maps, left);
	int i;

	rounds(ROUNDS);
	for (i = 0; i < 20; i++)
		CHECK(mmap(NULL, 1 << 20, i & 1 ? PROT_WRITE : PROT_READ,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	CHECK(!pthread_create(&thread, NULL, nothing, NULL));
	CHECK(!pthread_join(thread, NULL));
	over(pid);
}

/* KiB that are locked, and in memory, for each connection. */
static void locked(void)
{
	long was, is;
	pid_t pid = connections(echoes);

	CHECK(!mlockall(MCL_CURRENT | MCL_FUTURE));
	was = number_in("/proc/self/status", "RssShmem:");
	rounds(ROUNDS);
	is = number_in("/proc/self/status", "RssShmem:");
	CHECK(was >= 0 && is >= 0);
	fprintf(stderr, "%ld KiB for each\n", (is - was) / count);
	CHECK((is - was) / count < 256);
	over(pid);
}

static void queue(int seconds)
{
	pid_t pid = connections(reads_slowly);
	static char buf[65536];
	time_t end;
	int i;

	for (i = 0; i < count; i++)
		whole(fd[i], buf, 8, true);
	for (i = 0; i < count; i++)
		whole(fd[i], buf, 8, false);
	memset(buf, 7, sizeof(buf));
	end = time(NULL) + seconds;
	while (time(NULL) < end)
		for (i = 0; i < count; i++)
			send(fd[i], buf, sizeof(buf), MSG_DONTWAIT);
	CHECK(!kill(pid, SIGKILL));
	over(pid);
}

/* --- little address space ------------------------------------------------ */

#define STREAM 6291456u
#define DIALOG 60

static int go[2];

static uint8_t pattern(size_t at)
{
	return (uint8_t)(at * 31 + (at >> 8));
}

/* 0: all of it; 1: an end before that; 3: an error before that. */
static int verdict(void)
{
	static uint8_t buf[65536];
	size_t got = 0, i;
	ssize_t n;

	while ((n = recv(fd[0], buf, sizeof(buf), 0)) > 0) {
		for (i = 0; i < (size_t)n; i++)
			CHECK(buf[i] == pattern(got + i));
		got += (size_t)n;
	}
	fprintf(stderr, "%zu of %u bytes, %s\n", got, STREAM,
		n ? strerror(errno) : "end");
	return got == STREAM ? 0 : n ? 3 : 1;
}

static void comes_home(void)
{
	const struct timespec pause = { 0, 100000000 };
	char buf[8];
	int i;

	for (i = 0; i < DIALOG; i++) {
		whole(fd[0], buf, sizeof(buf), false);
		whole(fd[0], buf, sizeof(buf), true);
	}
	CHECK(read(go[0], buf, 1) == 1);
	nanosleep(&pause, NULL);
	CHECK(!system("true"));
	_exit(verdict());
}

static void limit_space(rlim_t to)
{
	struct rlimit rl = { to, RLIM_INFINITY };

	CHECK(!setrlimit(RLIMIT_AS, &rl));
}

static uint64_t ms(void)
{
	struct timespec ts;

	CHECK(!clock_gettime(CLOCK_MONOTONIC, &ts));
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void space(long kib)
{
	struct pollfd p = { .events = POLLOUT };
	static uint8_t buf[65536];
	uint64_t told = 0, since;
	size_t sent = 0, len, i;
	int status;
	ssize_t n;
	pid_t pid;

	CHECK(count == 1 && !pipe(go));
	pid = connections(comes_home);
	rounds(DIALOG);
	limit_space((rlim_t)number_in("/proc/self/statm", "") * 4096 +
		    (kib > 0 ? (rlim_t)kib * 1024 : 0));
	p.fd = fd[0];
	for (since = ms(); sent < STREAM;) {
		len = STREAM - sent < sizeof(buf) ? STREAM - sent : sizeof(buf);
		for (i = 0; i < len; i++)
			buf[i] = pattern(sent + i);
		n = send(fd[0], buf, len, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n > 0) {
			sent += (size_t)n;
			continue;
		}
		CHECK(errno == EAGAIN);
		if (!told && ms() > since + 300) {
			CHECK(write(go[1], "x", 1) == 1);
			told = ms();
		}
		if (told && kib < 0 && ms() > told + 700)
			break;
		poll(&p, 1, 10);
	}
	if (!told)
		CHECK(write(go[1], "x", 1) == 1);
	if (kib >= 0)
		CHECK(!shutdown(fd[0], SHUT_WR));
	else
		close(fd[0]);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	/*
	 * a writer that ends early may leave its reader with less, and without
	 * an error
	 */
	CHECK(!WEXITSTATUS(status) || (kib < 0 && sent < STREAM));
	puts("ok");
}

int main(int argc, char **argv)
{
	CHECK(argc > 2);
	count = atoi(argv[2]);
	CHECK(count > 0 && count <= COUNT_MAX);
	if (!strcmp(argv[1], "maps") && argc > 3)
		maps(atol(argv[3]));
	else if (!strcmp(argv[1], "locked"))
		locked();
	else if (!strcmp(argv[1], "queue") && argc > 3)
		queue(atoi(argv[3]));
	else if (!strcmp(argv[1], "space") && argc > 3)
		space(atol(argv[3]));
	else
		return 2;
	return 0;
}
