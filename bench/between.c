/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * between - two ends on two hosts, blocking calls on one stream socket
 *
 * between server ADDRESS PORT
 * between client ADDRESS PORT lat|bw|rate SIZE SECONDS
 * between client ADDRESS PORT mem COUNT SECONDS
 *
 * lat: half a round trip of SIZE bytes, in microseconds; bw: writes of SIZE
 * bytes one way, in MB/s, until the last byte has arrived; rate: connections a
 * second that carry one byte each way; mem: KiB of this machine's memory for
 * each of COUNT connections that are open at once, after turns on each for that
 * long. The client prints the figure. lat and bw take turns for a while first:
 * long enough for a lift to be over.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define WARM_SECS 4.0
#define WARM_SIZE 64u
#define MOST	  (4u << 20)
#define CONNS	  512u

/* What a client says first. */
struct plan {
	uint32_t mode; /* 'l', 'b', 'r', 'm' */
	uint32_t size; /* of 'm': connections */
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
	struct plan p;
	uint64_t sum;
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
		if (p.mode == 'l')
			answer(fd, p.size);
		for (sum = 0; (ret = recv(fd, buf, MOST, 0)) > 0;)
			sum += (uint64_t)ret;
		put(fd, &sum, sizeof(sum));
		close(fd);
	}
}

static int dial(const struct sockaddr_in *to, const struct plan *p)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (const void *)to, sizeof(*to)))
		die("connect");
	nodelay(fd);
	put(fd, p, sizeof(*p));
	return fd;
}

/* Turns for that long; how many. */
static uint64_t turns(int fd, size_t size, double secs, double *took)
{
	double begin = now();
	uint64_t n = 0;

	do {
		buf[0] = 0;
		put(fd, buf, size);
		get(fd, buf, size);
		n++;
		*took = now() - begin;
	} while (*took < secs);
	buf[0] = 1;
	put(fd, buf, size);
	get(fd, buf, size);
	return n;
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

static double memory(const struct sockaddr_in *to, const struct plan *p,
		     double secs)
{
	double begin = now(), before = available(), after;
	int fds[CONNS];
	uint32_t i;

	for (i = 0; i < p->size; i++)
		fds[i] = dial(to, p);
	while (now() - begin < secs) {
		for (i = 0; i < p->size; i++) {
			put(fds[i], buf, WARM_SIZE);
			get(fds[i], buf, WARM_SIZE);
		}
	}
	after = available();
	for (i = 0; i < p->size; i++)
		close(fds[i]);
	return (before - after) / p->size;
}

static double measure(const struct sockaddr_in *to, const struct plan *p,
		      double secs)
{
	uint64_t sum = 0, got, n;
	double took, begin;
	int fd;

	if (p->mode == 'r')
		return rate(to, p, secs);
	if (p->mode == 'm')
		return memory(to, p, secs);
	fd = dial(to, p);
	turns(fd, WARM_SIZE, WARM_SECS, &took);
	if (p->mode == 'l') {
		n = turns(fd, p->size, secs, &took);
		took = took * 1e6 / (double)n / 2;
	}
	begin = now();
	while (p->mode == 'b' && now() - begin < secs) {
		put(fd, buf, p->size);
		sum += p->size;
	}
	if (shutdown(fd, SHUT_WR) || !get(fd, &got, sizeof(got)) || got != sum)
		die("end");
	close(fd);
	return p->mode == 'l' ? took : (double)sum / (now() - begin) / 1e6;
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET };
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
	if (argc != 7)
		return 2;
	p.mode = (uint32_t)argv[4][0];
	p.size = (uint32_t)atoi(argv[5]);
	if (!p.size || p.size > (p.mode == 'm' ? CONNS : MOST))
		return 2;
	printf("%.3f\n", measure(&a, &p, atof(argv[6])));
	return 0;
}
