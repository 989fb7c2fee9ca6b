/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * vm-on - runs a command on a node, as if it were here
 *
 * vm-on NODE COMMAND [ARGUMENT...]: same directory and environment as the
 * caller's (VM_NODE is the node's), standard input, output and error passed
 * through, SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 passed on. Exits with
 * the command's status, 128 + n if signal n ended it, 255 if the node cannot
 * be reached or is gone. When vm-on is killed, so is the command.
 *
 * vm-on --serve ADDRESS: the agent.
 * vm-on --tsc: kHz of this machine's time stamp counter, 0 where it has none.
 */
#include "on.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

#define NOT_REACHED 255

extern char **environ;

static int agent = -1;

int on_read(int fd, void *buf, size_t n)
{
	char *p = buf;

	while (n) {
		ssize_t r = read(fd, p, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0) {
			errno = r ? errno : 0;
			return -1;
		}
		p += r;
		n -= (size_t)r;
	}
	return 0;
}

/* To the agent: one that is gone shows where it is read. */
static int send_all(const void *buf, size_t n)
{
	const char *p = buf;

	while (n) {
		ssize_t r = send(agent, p, n, MSG_NOSIGNAL);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -1;
		p += r;
		n -= (size_t)r;
	}
	return 0;
}

static int write_all(int fd, const void *buf, size_t n)
{
	const char *p = buf;

	while (n) {
		ssize_t r = write(fd, p, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -1;
		p += r;
		n -= (size_t)r;
	}
	return 0;
}

static void die(const char *what)
{
	fprintf(stderr, "vm-on: %s%s%s\n", what, errno ? ": " : "",
		errno ? strerror(errno) : "");
	exit(NOT_REACHED);
}

/* Signal handlers send frames too: signals wait until one is complete. */
static void send_frame(enum on_type type, const void *buf, size_t len)
{
	struct on_head head = { .type = type, .len = (uint32_t)len };
	sigset_t all, old;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	if (!send_all(&head, sizeof(head)))
		send_all(buf, len);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

static void pass_signal(int sig)
{
	int32_t number = sig;
	int err = errno;

	send_frame(ON_SIGNAL, &number, sizeof(number));
	errno = err;
}

static void pass_signals(void)
{
	static const int passed[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1,
				      SIGUSR2 };
	struct sigaction sa = { .sa_handler = pass_signal,
				.sa_flags = SA_RESTART };
	size_t i;

	for (i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		sigaction(passed[i], &sa, NULL);
}

/* A node that died says nothing any more: ask, and give up after 35 s. */
static void watch_connection(int fd)
{
	int on = 1, idle = 5, probes = 6;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void reach(const char *node)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(ON_PORT) };
	const char *net = getenv("VM_CONTROL_NET");
	char address[64];

	errno = 0;
	snprintf(address, sizeof(address), "%s%s", net ? net : "", node);
	if (!net || inet_pton(AF_INET, address, &sin.sin_addr) != 1)
		die("no such node, or not in a virtual machine");
	agent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (agent < 0 || connect(agent, (struct sockaddr *)&sin, sizeof(sin)))
		die("cannot reach the node");
	watch_connection(agent);
}

static void send_strings(enum on_type type, char **strings)
{
	size_t len = 0, at = 0;
	char *all;
	char **s;

	for (s = strings; *s; s++)
		len += strlen(*s) + 1;
	errno = 0;
	all = len < ON_STRINGS_MAX ? malloc(len + 1) : NULL;
	if (!all)
		die("too many words");
	for (s = strings; *s; s++) {
		memcpy(all + at, *s, strlen(*s) + 1);
		at += strlen(*s) + 1;
	}
	send_frame(type, all, len);
	free(all);
}

static void send_input(void)
{
	static char buf[ON_CHUNK];
	ssize_t r;

	do {
		r = read(STDIN_FILENO, buf, sizeof(buf));
	} while (r < 0 && errno == EINTR);
	send_frame(ON_IN, buf, r > 0 ? (size_t)r : 0);
}

/* Takes one frame. Returns the exit status, or -1: not yet. */
static int take_frame(int *wanted)
{
	static char buf[ON_CHUNK];
	struct on_head head;
	int32_t status;

	if (on_read(agent, &head, sizeof(head)) || head.len > sizeof(buf) ||
	    on_read(agent, buf, head.len))
		die("the node is gone");
	switch (head.type) {
	case ON_WANT:
		*wanted = 1;
		return -1;
	case ON_OUT:
	case ON_ERR:
		if (write_all(head.type == ON_OUT ? STDOUT_FILENO :
						    STDERR_FILENO,
			      buf, head.len))
			die("output");
		return -1;
	case ON_EXIT:
		memcpy(&status, buf, sizeof(status));
		return WIFSIGNALED(status) ? 128 + WTERMSIG(status) :
					     WEXITSTATUS(status);
	default:
		errno = 0;
		die("the agent speaks another language");
		return -1;
	}
}

static int relay(void)
{
	int wanted = 0, status = -1;

	while (status < 0) {
		struct pollfd p[2] = {
			{ .fd = agent, .events = POLLIN },
			{ .fd = wanted ? STDIN_FILENO : -1, .events = POLLIN },
		};

		if (poll(p, 2, -1) < 0) {
			if (errno == EINTR)
				continue;
			die("poll");
		}
		if (p[1].revents) {
			wanted = 0;
			send_input();
		}
		if (p[0].revents)
			status = take_frame(&wanted);
	}
	return status;
}

static long long ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return ts.tv_sec * 1000000000ll + ts.tv_nsec;
}

/*
 * An emulated processor has the counter of the real one. Its kernel measures
 * it against emulated timers, which on a busy machine goes wrong.
 */
static int tsc(void)
{
#ifdef __x86_64__
	const struct timespec nap = { 0, 100000000 };
	long long begin = ns(), ticks = (long long)__rdtsc();

	nanosleep(&nap, NULL);
	ticks = (long long)__rdtsc() - ticks;
	printf("%lld\n", ticks * 1000000 / (ns() - begin));
#else
	puts("0");
#endif
	return 0;
}

int main(int argc, char **argv)
{
	char cwd[4096];

	if (argc == 2 && !strcmp(argv[1], "--tsc"))
		return tsc();
	if (argc == 3 && !strcmp(argv[1], "--serve"))
		return on_serve(argv[2]);
	if (argc < 3) {
		fprintf(stderr, "usage: vm-on NODE COMMAND [ARGUMENT...]\n");
		return 2;
	}
	if (!getcwd(cwd, sizeof(cwd)))
		die("current directory");
	reach(argv[1]);
	send_frame(ON_CWD, cwd, strlen(cwd) + 1);
	send_strings(ON_ARGV, argv + 2);
	send_strings(ON_ENV, environ);
	send_frame(ON_RUN, NULL, 0);
	pass_signals();
	return relay();
}
