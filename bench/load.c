/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * load - requests to a server that is running, each connection with
 * one under way at a time: replies per second. For echo servers, and for
 * memcached, whose replies have one length once the key is there.
 * Options: -p port, -c connections, -j threads, -t milliseconds,
 * -s bytes of the value or message, -k key: memcached (default: echo).
 * Connections that were not answered at all end it with an error.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define WARM_SECS 0.2
enum { MANY = 64, HEAD = 128 };

static struct {
	int port, conns, threads;
	double secs;
	size_t size;
	const char *key;
} opt = { .conns = 1, .threads = 1, .secs = 1, .size = 64 };

struct conn {
	int fd;
	size_t missing; /* bytes of the reply that is under way */
	uint64_t replies;
};

struct thread {
	pthread_t id;
	struct conn *conn;
	int conns;
	uint64_t replies; /* in the window */
};

static char *request;
static size_t request_len, reply_len;
static double begin, until;

static void die(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void put(int fd, const char *buf, size_t n)
{
	while (n) {
		ssize_t k = write(fd, buf, n);

		if (k < 0 && errno != EINTR)
			die("write");
		if (k > 0) {
			buf += k;
			n -= (size_t)k;
		}
	}
}

static void get(int fd, char *buf, size_t n)
{
	while (n) {
		ssize_t k = read(fd, buf, n);

		if (k == 0)
			errno = ECONNRESET;
		if (k <= 0 && errno != EINTR)
			die("read");
		if (k > 0) {
			buf += k;
			n -= (size_t)k;
		}
	}
}

static int connected(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)opt.port),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)))
		die("connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* The value is stored, and what a request and its reply look like is known. */
static void prepare(void)
{
	char head[HEAD], answer[8], *value = malloc(opt.size + 2);
	int n, fd;

	if (!value)
		die("malloc");
	memset(value, 'x', opt.size);
	memcpy(value + opt.size, "\r\n", 2);
	if (!opt.key) {
		request = value;
		request_len = reply_len = opt.size;
		return;
	}
	n = snprintf(head, sizeof(head), "set %s 0 0 %zu\r\n", opt.key,
		     opt.size);
	fd = connected();
	put(fd, head, (size_t)n);
	put(fd, value, opt.size + 2);
	get(fd, answer, sizeof(answer)); /* STORED */
	close(fd);
	if (memcmp(answer, "STORED", 6)) {
		errno = EPROTO;
		die("set");
	}
	n = snprintf(head, sizeof(head), "VALUE %s 0 %zu\r\n", opt.key,
		     opt.size);
	reply_len = (size_t)n + opt.size + 7;
	n = snprintf(head, sizeof(head), "get %s\r\n", opt.key);
	request = strdup(head);
	request_len = (size_t)n;
}

static void ask(struct conn *c)
{
	c->missing = reply_len;
	put(c->fd, request, request_len);
}

static void *run(void *arg)
{
	struct thread *t = arg;
	struct epoll_event ev[MANY];
	int set = epoll_create1(EPOLL_CLOEXEC), i, n;
	size_t room = 65536;
	char *buf = malloc(room);
	double at;

	if (set < 0 || !buf)
		die("epoll_create1");
	for (i = 0; i < t->conns; i++) {
		ev[0] = (struct epoll_event){ .events = EPOLLIN };
		ev[0].data.ptr = &t->conn[i];
		if (epoll_ctl(set, EPOLL_CTL_ADD, t->conn[i].fd, &ev[0]))
			die("epoll_ctl");
		ask(&t->conn[i]);
	}
	while ((at = now()) < until) {
		n = epoll_wait(set, ev, MANY, 100);
		if (n < 0 && errno != EINTR)
			die("epoll_wait");
		for (i = 0; i < n; i++) {
			struct conn *c = ev[i].data.ptr;
			ssize_t k = read(c->fd, buf,
					 c->missing < room ? c->missing : room);

			if (k == 0)
				errno = ECONNRESET;
			if (k <= 0)
				die("read");
			c->missing -= (size_t)k;
			if (c->missing)
				continue;
			c->replies++;
			t->replies += at >= begin;
			ask(c);
		}
	}
	return NULL;
}

static void options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "p:c:j:t:s:k:")) != -1) {
		switch (c) {
		case 'p':
			opt.port = atoi(optarg);
			break;
		case 'c':
			opt.conns = atoi(optarg);
			break;
		case 'j':
			opt.threads = atoi(optarg);
			break;
		case 't':
			opt.secs = atof(optarg) / 1000;
			break;
		case 's':
			opt.size = strtoul(optarg, NULL, 10);
			break;
		case 'k':
			opt.key = optarg;
			break;
		default:
			exit(2);
		}
	}
	if (optind != argc || opt.threads < 1 || opt.conns < opt.threads ||
	    !opt.size) {
		fprintf(stderr, "load: bad options\n");
		exit(2);
	}
}

int main(int argc, char **argv)
{
	struct thread *t;
	struct conn *conn;
	uint64_t sum = 0;
	double end;
	int i, at = 0;

	options(argc, argv);
	prepare();
	t = calloc((size_t)opt.threads, sizeof(*t));
	conn = calloc((size_t)opt.conns, sizeof(*conn));
	if (!t || !conn)
		die("calloc");
	for (i = 0; i < opt.conns; i++)
		conn[i].fd = connected();
	begin = now() + WARM_SECS;
	until = begin + opt.secs;
	for (i = 0; i < opt.threads; i++) {
		t[i].conn = conn + at;
		t[i].conns = (opt.conns + i) / opt.threads;
		at += t[i].conns;
		errno = pthread_create(&t[i].id, NULL, run, &t[i]);
		if (errno)
			die("pthread_create");
	}
	for (i = 0; i < opt.threads; i++) {
		pthread_join(t[i].id, NULL);
		sum += t[i].replies;
	}
	end = now();
	for (i = 0; i < opt.conns; i++) {
		errno = ETIMEDOUT;
		if (!conn[i].replies)
			die("a connection without a reply");
	}
	printf("{\"rate\": %.1f, \"messages\": %llu}\n",
	       (double)sum / (end - begin), (unsigned long long)sum);
	return 0;
}
