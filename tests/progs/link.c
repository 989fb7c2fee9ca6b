/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * link - stream patterns, plain transfers, and what brings a socket back to
 * TCP.
 */
#include "prog.h"

#include <fcntl.h>
#include <linux/errqueue.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum home_kind prog_home = HOME_NONE;

extern char **environ;

/* --- pattern and plain transfers --------------------------------------- */

static uint8_t flow_byte(uint64_t off, uint32_t seed)
{
	uint32_t x = ((uint32_t)off ^ (uint32_t)(off >> 32)) + seed;
	uint8_t b = (uint8_t)((x * 0x9e3779b1u) >> 23);

	return b ? b : 0xa5;
}

void flow_fill(struct flow *f, void *buf, size_t n)
{
	uint8_t *p = buf;
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = flow_byte(f->off + i, f->seed);
	f->off += n;
}

void flow_check(struct flow *f, const void *buf, size_t n)
{
	const uint8_t *p = buf;
	size_t i;

	for (i = 0; i < n; i++) {
		uint8_t want = flow_byte(f->off + i, f->seed);

		if (p[i] == want)
			continue;
		fprintf(stderr, "stream %u offset %llu: %02x instead of %02x\n",
			f->seed, (unsigned long long)(f->off + i), p[i], want);
		prog_fail(__FILE__, __LINE__, "wrong byte");
	}
	f->off += n;
}

void link_put(struct link *l, size_t n)
{
	uint8_t buf[65536];

	while (n) {
		size_t k = n < sizeof(buf) ? n : sizeof(buf);
		size_t done = 0;

		flow_fill(&l->tx, buf, k);
		while (done < k) {
			ssize_t r = write(l->fd, buf + done, k - done);

			if (r < 0 && errno == EINTR)
				continue;
			CHECK(r > 0 && (size_t)r <= k - done);
			done += (size_t)r;
		}
		n -= k;
	}
}

void link_get(struct link *l, size_t n)
{
	uint8_t buf[65536];

	while (n) {
		size_t k = n < sizeof(buf) ? n : sizeof(buf);
		ssize_t r = read(l->fd, buf, k);

		if (r < 0 && errno == EINTR)
			continue;
		CHECK(r > 0 && (size_t)r <= k);
		flow_check(&l->rx, buf, (size_t)r);
		n -= (size_t)r;
	}
}

void link_eof(struct link *l)
{
	uint8_t b;
	ssize_t r;

	do
		r = read(l->fd, &b, 1);
	while (r < 0 && errno == EINTR);
	CHECK(r == 0);
}

void link_close(struct link *l)
{
	CHECK(!close(l->fd));
	l->fd = -1;
}

void link_turn(struct link *l, size_t n, bool leader)
{
	if (leader)
		link_put(l, n);
	link_get(l, n);
	if (!leader)
		link_put(l, n);
}

bool link_told(int fd, uint32_t *first, uint32_t *last)
{
	char room[CMSG_SPACE(sizeof(struct sock_extended_err)) + 64];
	struct msghdr m = { .msg_control = room,
			    .msg_controllen = sizeof(room) };
	struct sock_extended_err err;
	struct cmsghdr *c;

	if (recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
		return false;
	c = CMSG_FIRSTHDR(&m);
	CHECK(c);
	memcpy(&err, CMSG_DATA(c), sizeof(err));
	CHECK(err.ee_errno == 0 && err.ee_origin == SO_EE_ORIGIN_ZEROCOPY);
	*first = err.ee_info;
	*last = err.ee_data;
	return true;
}

void prog_warm(struct link *l, bool leader, unsigned int rounds)
{
	unsigned int i;

	for (i = 0; i < rounds; i++)
		link_turn(l, 1 + i % 61, leader);
}

void prog_host(struct end *e)
{
	uint64_t n;

	while ((n = prog_hear(e))) {
		link_put(&e->l, (size_t)n);
		link_get(&e->l, (size_t)n);
		prog_tell(e, n);
	}
}

void prog_visit(struct end *e, size_t n)
{
	prog_tell(e, n);
	link_get(&e->l, n);
	link_put(&e->l, n);
	CHECK(prog_hear(e) == n);
}

bool fd_echo(int fd, size_t n)
{
	uint8_t buf[20000];

	while (n) {
		ssize_t r = read(fd, buf, n < sizeof(buf) ? n : sizeof(buf));
		ssize_t k, w;

		if (r <= 0)
			return false;
		for (k = 0; k < r; k += w) {
			w = write(fd, buf + k, (size_t)(r - k));
			if (w <= 0)
				return false;
		}
		n -= (size_t)r;
	}
	return true;
}

ssize_t fd_send(int via, int fd, size_t n)
{
	union {
		struct cmsghdr h;
		char buf[CMSG_SPACE(sizeof(int))];
	} u;
	struct iovec iov = { &n, sizeof(n) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = u.buf,
			    .msg_controllen = sizeof(u.buf) };
	struct cmsghdr *c;

	memset(&u, 0, sizeof(u));
	c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	return sendmsg(via, &m, 0);
}

void fd_give(int via, int fd, size_t n)
{
	CHECK(fd_send(via, fd, n) == (ssize_t)sizeof(n));
}

int fd_take(int via, size_t *n)
{
	union {
		struct cmsghdr h;
		char buf[CMSG_SPACE(sizeof(int))];
	} u;
	struct iovec iov = { n, sizeof(*n) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = u.buf,
			    .msg_controllen = sizeof(u.buf) };
	struct cmsghdr *c;
	ssize_t r = recvmsg(via, &m, MSG_CMSG_CLOEXEC);
	int fd;

	if (r == 0)
		return -1;
	CHECK(r == (ssize_t)sizeof(*n));
	c = CMSG_FIRSTHDR(&m);
	CHECK(c && c->cmsg_type == SCM_RIGHTS);
	memcpy(&fd, CMSG_DATA(c), sizeof(int));
	return fd;
}

/* --- -H: fallback in the middle -------------------------------------- */

static void home_pass(int fd)
{
	size_t n;
	int sv[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	fd_give(sv[0], fd, 1);
	CHECK(!close(fd_take(sv[1], &n)));
	CHECK(!close(sv[0]));
	CHECK(!close(sv[1]));
}

static void home_exec(int fd)
{
	char *argv[] = { (char *)(uintptr_t) "true", NULL };
	int fl = fcntl(fd, F_GETFD);
	pid_t pid;

	CHECK(fl >= 0);
	CHECK(!fcntl(fd, F_SETFD, fl & ~FD_CLOEXEC));
	CHECK(!posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ));
	prog_reap(pid, 0);
	CHECK(!fcntl(fd, F_SETFD, fl));
}

static void home_fork(int fd)
{
	pid_t pid = fork();
	char b;

	CHECK(pid >= 0);
	if (!pid) {
		if (recv(fd, &b, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
			CHECK(errno == EAGAIN);
		_exit(0);
	}
	prog_reap(pid, 0);
}

void prog_mid(int fd)
{
	switch (prog_home) {
	case HOME_PASS:
		home_pass(fd);
		break;
	case HOME_EXEC:
		home_exec(fd);
		break;
	case HOME_FORK:
		home_fork(fd);
		break;
	case HOME_NONE:
		break;
	}
}
