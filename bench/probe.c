/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* probe - what the probes share: options, processes, sockets. */
#include "probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WARM_FIRST = 12, WARM_SECOND = 8 };

struct options opt = {
	.size = 64,
	.secs = 0.2,
	.pairs = 1,
	.conns = 1,
	.cpu = { -1, -1 },
};

struct shared {
	pthread_barrier_t meet;
	struct result result[][2];
};

static struct shared *shared;

void probe_die(const char *what)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what,
		strerror(errno));
	exit(1);
}

double probe_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* --- options ---------------------------------------------------------- */

static long number(const char *text, long min, long max)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || *end || end == text || n < min || n > max) {
		errno = EINVAL;
		probe_die(text);
	}
	return n;
}

void probe_options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "s:t:j:c:i:a:b:uq")) != -1) {
		if (c == 's')
			opt.size = (size_t)number(optarg, 1, 1 << 30);
		else if (c == 't')
			opt.secs = (double)number(optarg, 1, 1000000) * 1e-3;
		else if (c == 'j')
			opt.pairs = (int)number(optarg, 1, 64);
		else if (c == 'c')
			opt.conns = (int)number(optarg, 0, 20000);
		else if (c == 'i')
			opt.idle = (int)number(optarg, 0, 20000);
		else if (c == 'a')
			opt.cpu[SERVER] = (int)number(optarg, 0, CPU_SETSIZE);
		else if (c == 'b')
			opt.cpu[CLIENT] = (int)number(optarg, 0, CPU_SETSIZE);
		else if (c == 'u')
			opt.local = 1;
		else if (c == 'q')
			opt.ask = 1;
		else
			exit(2);
	}
}

/* --- processes -------------------------------------------------------- */

void probe_pin(int cpu)
{
	cpu_set_t set;

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		probe_die("sched_setaffinity");
}

void probe_meet(void)
{
	pthread_barrier_wait(&shared->meet);
}

void probe_done(struct pair *p)
{
	__atomic_store_n(&p->result->done, 1, __ATOMIC_RELEASE);
}

int probe_peer_done(const struct pair *p)
{
	return __atomic_load_n(&p->peer->done, __ATOMIC_ACQUIRE);
}

static void share(int pairs)
{
	const size_t size =
		sizeof(*shared) + (size_t)pairs * sizeof(shared->result[0]);
	pthread_barrierattr_t attr;

	shared = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		probe_die("mmap");
	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->meet, &attr, (unsigned int)pairs * 2);
}

static int listen_any(int *port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&sin, sizeof(sin)) ||
	    listen(fd, 1024) || getsockname(fd, (struct sockaddr *)&sin, &len))
		probe_die("listen");
	*port = ntohs(sin.sin_port);
	return fd;
}

/* The server tells its port through the pipe. */
static void run_end(struct pair *p, probe_fn *fn, const int tell[2])
{
	struct rusage use;

	p->listener = -1;
	if (opt.local) {
		close(p->local[!p->end]);
	} else if (p->end == SERVER) {
		p->listener = listen_any(&p->port);
		if (write(tell[1], &p->port, sizeof(p->port)) < 0)
			probe_die("write");
	} else if (read(tell[0], &p->port, sizeof(p->port)) !=
		   sizeof(p->port)) {
		probe_die("server's port");
	}
	close(tell[0]);
	close(tell[1]);
	probe_pin(opt.cpu[p->end]);
	p->result = &shared->result[p->index][p->end];
	p->peer = &shared->result[p->index][!p->end];
	fn(p);
	getrusage(RUSAGE_SELF, &use);
	p->result->switches = (uint64_t)(use.ru_nvcsw + use.ru_nivcsw);
	p->result->used =
		(double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
		(double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
	exit(0);
}

static void start_pair(int index, probe_fn *server, probe_fn *client)
{
	struct pair p = { .index = index, .local = { -1, -1 } };
	int tell[2];

	if (pipe(tell) ||
	    (opt.local && socketpair(AF_UNIX, SOCK_STREAM, 0, p.local)))
		probe_die("pipe");
	for (p.end = SERVER; p.end <= CLIENT; p.end++) {
		pid_t pid = fork();

		if (pid < 0)
			probe_die("fork");
		if (pid == 0)
			run_end(&p, p.end == SERVER ? server : client, tell);
	}
	close(tell[0]);
	close(tell[1]);
	if (opt.local) {
		close(p.local[0]);
		close(p.local[1]);
	}
}

struct result (*probe_run(probe_fn *server, probe_fn *client))[2]
{
	int i, status;

	share(opt.pairs);
	for (i = 0; i < opt.pairs; i++)
		start_pair(i, server, client);
	for (i = 0; i < opt.pairs * 2; i++) {
		if (wait(&status) < 0)
			probe_die("wait");
		if (status) {
			fprintf(stderr, "%s: an end died: status %#x\n",
				program_invocation_short_name,
				(unsigned int)status);
			exit(1);
		}
	}
	return shared->result;
}

/* --- sockets ---------------------------------------------------------- */

static int dial(const struct pair *p)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)p->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&sin, sizeof(sin)))
		probe_die("connect");
	return fd;
}

int probe_stream(struct pair *p)
{
	const int one = 1;
	int fd;

	if (opt.local)
		return p->local[p->end];
	fd = p->end == SERVER ? accept(p->listener, NULL, NULL) : dial(p);
	if (fd < 0)
		probe_die("accept");
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		probe_die("TCP_NODELAY");
	return fd;
}

static void warm(const struct pair *p, int fd, int rounds)
{
	char byte = 'w';

	while (rounds--) {
		if (p->end == CLIENT)
			probe_put(fd, &byte, 1);
		if (!probe_get(fd, &byte, 1)) {
			errno = EPIPE;
			probe_die("warming");
		}
		if (p->end == SERVER)
			probe_put(fd, &byte, 1);
	}
}

int *probe_pool(struct pair *p, int n)
{
	int *fd = calloc((size_t)n + 1, sizeof(*fd));
	int i;

	if (!fd)
		probe_die("calloc");
	for (i = 0; i < n; i++) {
		fd[i] = probe_stream(p);
		warm(p, fd[i], WARM_FIRST);
	}
	for (i = 0; i < n; i++)
		warm(p, fd[i], WARM_SECOND);
	return fd;
}

void probe_put(int fd, const void *buf, size_t n)
{
	const char *p = buf;

	while (n) {
		ssize_t k = write(fd, p, n);

		if (k < 0)
			probe_die("write");
		p += k;
		n -= (size_t)k;
	}
}

int probe_get(int fd, void *buf, size_t n)
{
	char *p = buf;
	size_t done = 0;

	while (done < n) {
		ssize_t k = read(fd, p + done, n - done);

		if (k < 0)
			probe_die("read");
		if (k == 0 && done == 0)
			return 0;
		if (k == 0) {
			errno = EPIPE;
			probe_die("a message in pieces");
		}
		done += (size_t)k;
	}
	return 1;
}

void *probe_buffer(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		probe_die("mmap");
	memset(p, 0x5a, n);
	return p;
}
