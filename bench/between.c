/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * between - two ends on two hosts, blocking calls on one stream socket
 *
 * between server ADDRESS PORT
 * between client ADDRESS PORT lat|avg|bw|rate SIZE SECONDS PATIENCE
 * between client ADDRESS PORT mem COUNT SECONDS PATIENCE
 *
 * lat: half a round trip of SIZE bytes, in microseconds, the middle one; avg:
 * the mean of all; bw: writes of SIZE bytes one way, in MB/s, until the last
 * byte has arrived; rate: connections a second that carry one byte each way;
 * mem: KiB of this machine's memory for each of COUNT connections that are open
 * at once, after turns on each for that long. All but rate take turns first
 * until none goes by the kernel's TCP, for PATIENCE seconds at most. The client
 * prints the figure, and the part of what was measured that did not go by TCP;
 * of bw, too, the processor time that its machine and the server's had to spend
 * meanwhile, in seconds per GB.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/sys.h"

#define LOOK_SECS  0.25
#define START_SECS 10.0
#define WARM_SIZE  64u
#define MOST	   (4u << 20)
#define CONNS	   512u
#define TURNS	   (1u << 20)

/* What a client says first. */
struct plan {
	uint32_t mode; /* 'l', 'a', 'b', 'r', 'm' */
	uint32_t size; /* of 'm': connections */
};

/* What a server says last. */
struct end {
	uint64_t bytes;
	uint64_t busy; /* us, of its machine */
};

static char buf[MOST];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/*
 * What all processors of this machine have worked so far, for whomever: us. The
 * kernel's own work for a device is no process's.
 */
static uint64_t busy(void)
{
	uint64_t t[8] = { 0 };
	FILE *f = fopen("/proc/stat", "r");
	int n = 0, i;

	/* user, nice, system, idle, iowait, irq, softirq, stolen */
	if (f && !fscanf(f, "cpu"))
		for (; n < 8 && fscanf(f, "%lu", &t[n]) == 1; n++)
			;
	if (n < 7)
		die("/proc/stat");
	fclose(f);
	for (t[3] = t[4] = t[7] = 0, i = 1; i < 7; i++)
		t[0] += t[i];
	return t[0] * 1000000u / (uint64_t)sysconf(_SC_CLK_TCK);
}

static void put(int fd, const void *from, size_t n)
{
	const char *p = from;

	while (n) {
		ssize_t ret = send(fd, p, n, 0);

		if (ret < 0)
			die("send");
		p += ret;
		n -= (size_t)ret;
	}
}

/* False: the end came first. */
static int get(int fd, void *to, size_t n)
{
	char *p = to;

	while (n) {
		ssize_t ret = recv(fd, p, n, 0);

		if (ret < 0)
			die("recv");
		if (!ret)
			return 0;
		p += ret;
		n -= (size_t)ret;
	}
	return 1;
}

static void nodelay(int fd)
{
	const int one = 1;

	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		die("TCP_NODELAY");
}

/* Turns of `size` bytes until the client sends a first byte of 1. */
static void answer(int fd, size_t size)
{
	while (get(fd, buf, size)) {
		put(fd, buf, size);
		if (buf[0])
			return;
	}
}

/* The first of `n` connections is there; until all are closed. */
static void hold(int listener, int first, uint32_t n)
{
	static struct pollfd all[CONNS];
	struct plan p;
	uint32_t i, left = n;

	all[0] = (struct pollfd){ .fd = first, .events = POLLIN };
	for (i = 1; i < n; i++) {
		all[i] = all[0];
		all[i].fd = accept(listener, NULL, NULL);
		if (all[i].fd < 0)
			die("accept");
		nodelay(all[i].fd);
		if (!get(all[i].fd, &p, sizeof(p)))
			die("plan");
	}
	while (left) {
		if (poll(all, n, -1) < 0)
			die("poll");
		for (i = 0; i < n; i++) {
			if (all[i].fd < 0 || !all[i].revents)
				continue;
			if (get(all[i].fd, buf, WARM_SIZE)) {
				put(all[i].fd, buf, WARM_SIZE);
				continue;
			}
			close(all[i].fd);
			all[i].fd = -1;
			left--;
		}
	}
}

static void serve(int listener)
{
	struct end e;
	struct plan p;
	ssize_t ret;
	int fd;

	for (;;) {
		fd = accept(listener, NULL, NULL);
		if (fd < 0)
			die("accept");
		nodelay(fd);
		if (!get(fd, &p, sizeof(p)) || p.size > MOST)
			die("plan");
		if (p.mode == 'm') {
			hold(listener, fd, p.size);
			continue;
		}
		if (p.mode == 'r') {
			put(fd, buf, 1);
			get(fd, buf, 1);
			close(fd);
			continue;
		}
		answer(fd, WARM_SIZE);
		if (p.mode == 'l' || p.mode == 'a')
			answer(fd, p.size);
		e = (struct end){ .busy = busy() };
		while ((ret = recv(fd, buf, MOST, 0)) > 0)
			e.bytes += (uint64_t)ret;
		e.busy = busy() - e.busy;
		put(fd, &e, sizeof(e));
		close(fd);
	}
}

/* The server may just be starting. */
static int dial(const struct sockaddr_in *to, const struct plan *p)
{
	double begin = now();
	int fd;

	for (;;) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd < 0)
			die("socket");
		if (!connect(fd, (const void *)to, sizeof(*to)))
			break;
		if (errno != ECONNREFUSED || now() - begin > START_SECS)
			die("connect");
		close(fd);
		usleep(20000);
	}
	nodelay(fd);
	put(fd, p, sizeof(*p));
	return fd;
}

/*
 * Bytes that the kernel's TCP has moved, both ways: its own word, past every
 * library. 0: it is no such socket.
 */
static uint64_t by_tcp(int fd)
{
	struct tcp_info i = { 0 };
	socklen_t len = sizeof(i);

	if (sys_call6(SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO, (long)&i,
		      (long)&len, 0))
		return 0;
	return i.tcpi_bytes_sent + i.tcpi_bytes_received;
}

static void turn(int fd, size_t size, char last)
{
	buf[0] = last;
	put(fd, buf, size);
	if (!get(fd, buf, size))
		die("turn");
}

/* Turns for that long; how many. */
static uint64_t turns(int fd, size_t size, double secs, double *took)
{
	double begin = now();
	uint64_t n = 0;

	do {
		turn(fd, size, 0);
		n++;
		*took = now() - begin;
	} while (*took < secs);
	return n;
}

static void warm(int fd, double patience)
{
	double begin = now(), took;
	uint64_t before;

	do {
		before = by_tcp(fd);
		turns(fd, WARM_SIZE, LOOK_SECS, &took);
	} while (by_tcp(fd) != before && now() - begin < patience);
	turn(fd, WARM_SIZE, 1);
}

static double rate(const struct sockaddr_in *to, const struct plan *p,
		   double secs)
{
	double begin = now(), took;
	uint64_t n = 0;
	int fd;

	do {
		fd = dial(to, p);
		get(fd, buf, 1);
		close(fd);
		n++;
		took = now() - begin;
	} while (took < secs);
	return (double)n / took;
}

/* KiB that this machine could still give. */
static double available(void)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[128];
	double kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %lf", &kib) == 1)
			break;
	if (!f || !(kib > 0))
		die("/proc/meminfo");
	fclose(f);
	return kib;
}

/* A turn on each of n; on how many of them it did not go by TCP. */
static uint32_t round_of(const int *fds, uint32_t n)
{
	uint32_t i, free = 0;
	uint64_t before;

	for (i = 0; i < n; i++) {
		before = by_tcp(fds[i]);
		turn(fds[i], WARM_SIZE, 0);
		free += by_tcp(fds[i]) == before;
	}
	return free;
}

static double memory(const struct sockaddr_in *to, const struct plan *p,
		     double secs, double patience, double *part)
{
	double begin = now(), before = available(), after;
	uint32_t i, n = p->size, free;
	int fds[CONNS];

	for (i = 0; i < n; i++)
		fds[i] = dial(to, p);
	do {
		free = round_of(fds, n);
	} while (now() - begin < (free < n ? patience : secs));
	*part = (double)free / n;
	after = available();
	for (i = 0; i < n; i++)
		close(fds[i]);
	return (before - after) / n;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Half a turn, in us: the mean or the middle one. */
static double latency(int fd, size_t size, double secs, bool mean, double *part)
{
	static double took[TURNS];
	double begin = now(), at = begin, next;
	uint64_t n = 0, tcp = by_tcp(fd);

	do {
		turn(fd, size, 0);
		next = now();
		took[n++] = next - at;
		at = next;
	} while (at - begin < secs && n < TURNS);
	*part = 1 - (double)(by_tcp(fd) - tcp) / (2.0 * (double)(n * size));
	turn(fd, size, 1);
	qsort(took, n, sizeof(took[0]), by_value);
	return (mean ? (at - begin) / (double)n : took[n / 2]) * 1e6 / 2;
}

/* MB/s; cost[]: of this machine and of the server's, s/GB */
static double bandwidth(int fd, size_t size, double secs, double *part,
			double *cost)
{
	uint64_t sum = 0, tcp = by_tcp(fd), was = busy();
	double begin = now(), took;
	struct end got;

	do {
		put(fd, buf, size);
		sum += size;
	} while (now() - begin < secs);
	if (shutdown(fd, SHUT_WR) || !get(fd, &got, sizeof(got)) ||
	    got.bytes != sum)
		die("end");
	took = now() - begin;
	cost[0] = (double)(busy() - was) * 1e3 / (double)sum;
	cost[1] = (double)got.busy * 1e3 / (double)sum;
	*part = 1 - (double)(by_tcp(fd) - tcp) / (double)(sum + sizeof(got));
	return (double)sum / took / 1e6;
}

static double measure(const struct sockaddr_in *to, const struct plan *p,
		      double secs, double patience, double *part, double *cost)
{
	struct end got;
	double figure;
	int fd;

	*part = 0;
	if (p->mode == 'r')
		return rate(to, p, secs);
	if (p->mode == 'm')
		return memory(to, p, secs, patience, part);
	fd = dial(to, p);
	warm(fd, patience);
	if (p->mode == 'b') {
		figure = bandwidth(fd, p->size, secs, part, cost);
	} else {
		figure = latency(fd, p->size, secs, p->mode == 'a', part);
		if (shutdown(fd, SHUT_WR) || !get(fd, &got, sizeof(got)))
			die("end");
	}
	close(fd);
	return figure;
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
	double figure, part, cost[2];
	struct plan p;
	int fd;

	if (argc < 4 || inet_pton(AF_INET, argv[2], &a.sin_addr) != 1)
		return 2;
	a.sin_port = htons((uint16_t)atoi(argv[3]));
	if (argc == 4) {
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (fd < 0 || bind(fd, (void *)&a, sizeof(a)) || listen(fd, 64))
			die("listen");
		serve(fd);
	}
	if (argc != 8)
		return 2;
	p.mode = (uint32_t)argv[4][0];
	p.size = (uint32_t)atoi(argv[5]);
	if (!p.size || p.size > (p.mode == 'm' ? CONNS : MOST))
		return 2;
	figure = measure(&a, &p, atof(argv[6]), atof(argv[7]), &part, cost);
	printf("%.3f %.3f", figure, part);
	if (p.mode == 'b')
		printf(" %.3f %.3f", cost[0], cost[1]);
	printf("\n");
	return 0;
}
