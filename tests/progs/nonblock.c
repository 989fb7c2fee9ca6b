/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* nonblock - EAGAIN and room, connect in the background, talk to oneself. */
#include "prog.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define KIB ((size_t)1024)

static int ready(int fd, short events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n = poll(&p, 1, ms);

	CHECK(n >= 0);
	return n ? p.revents : 0;
}

/* Writes until EAGAIN; returns what was taken, the flow stands behind it. */
static size_t stuff(struct link *l, size_t unit, size_t most)
{
	uint8_t *buf = malloc(unit);
	size_t sum = 0;

	CHECK(buf);
	while (sum < most) {
		struct flow f = l->tx;
		ssize_t r;

		flow_fill(&f, buf, unit);
		r = write(l->fd, buf, unit);
		if (r < 0) {
			CHECK(errno == EAGAIN);
			break;
		}
		CHECK(r > 0);
		l->tx.off += (uint64_t)r;
		sum += (size_t)r;
	}
	free(buf);
	return sum;
}

/*
 * Full, and poll() says so. Between hosts room may come behind a refusal, with
 * what the other kernel acknowledges late; then a write has it.
 */
static size_t stuff_full(struct link *l, size_t unit)
{
	size_t more, n = 0;

	do {
		more = stuff(l, unit, ~(size_t)0);
		CHECK(more);
		n += more;
	} while (prog_far && ready(l->fd, POLLOUT, 0));
	if (!prog_far) {
		FAILS(send(l->fd, "x", 1, 0), EAGAIN);
		CHECK(ready(l->fd, POLLOUT, 0) == 0);
	}
	return n;
}

/* Reads until EAGAIN. */
static size_t drain(struct link *l)
{
	uint8_t buf[30000];
	size_t sum = 0;
	ssize_t r;

	while ((r = read(l->fd, buf, sizeof(buf))) > 0) {
		flow_check(&l->rx, buf, (size_t)r);
		sum += (size_t)r;
	}
	CHECK(r < 0 && errno == EAGAIN);
	return sum;
}

static void full_run(struct end *e)
{
	static const size_t units[] = { 1000, 100000, 7 };
	uint8_t b;
	size_t i;

	prog_nonblock(e->l.fd, true);
	FAILS(read(e->l.fd, &b, 1), EAGAIN);
	/* between hosts what went before may have to be seen there first */
	CHECK(ready(e->l.fd, POLLIN | POLLOUT, prog_far ? 10000 : 0) ==
	      POLLOUT);
	for (i = 0; i < ARRAY_SIZE(units); i++) {
		size_t n = units[i] < 10 ? stuff(&e->l, units[i], 50000) :
					   stuff_full(&e->l, units[i]);

		/* between hosts there is room for a few messages only */
		CHECK(n >= (prog_far ? 1 : 40000));
		prog_tell(e, n);
		CHECK(ready(e->l.fd, POLLOUT, 10000) == POLLOUT);
		prog_mid(e->l.fd);
		prog_sync(e);
		CHECK(ready(e->l.fd, POLLOUT, 10000) == POLLOUT);
	}
	prog_nonblock(e->l.fd, false);
	link_turn(&e->l, 5000, true);
}

static void full_peer(struct end *e)
{
	int i;

	for (i = 0; i < 3; i++) {
		link_get(&e->l, prog_hear(e));
		prog_sync(e);
	}
	link_turn(&e->l, 5000, false);
}

/* --- one thread holds both ends ---------------------------------------- */

static void self_full(struct end *e)
{
	struct link a, b;
	size_t n;
	int i;

	(void)e;
	link_self(&a, &b, 0);
	prog_nonblock(a.fd, true);
	prog_nonblock(b.fd, true);
	for (i = 0; i < 6; i++) {
		struct link *w = i % 2 ? &b : &a, *r = i % 2 ? &a : &b;
		size_t got = 0;

		n = stuff(w, i < 4 ? 50000 : 900, ~(size_t)0);
		CHECK(n >= 1024 * KIB);
		while (got < n) {
			CHECK(ready(r->fd, POLLIN, 5000));
			got += drain(r);
		}
		CHECK(got == n);
		CHECK(ready(w->fd, POLLOUT, 5000));
		if (i == 2)
			prog_mid(a.fd);
	}
	link_close(&a);
	link_close(&b);
}

/* TCP takes this much without a reader, so a blocking write returns. */
static void self_block(struct end *e)
{
	struct link a, b;
	int i;

	(void)e;
	link_self(&a, &b, 0);
	for (i = 0; i < 4; i++) {
		link_put(&a, 1500 * KIB);
		link_put(&b, 1500 * KIB);
		link_get(&b, 1500 * KIB);
		link_get(&a, 1500 * KIB);
	}
	CHECK(!shutdown(a.fd, SHUT_WR));
	link_eof(&b);
	link_put(&b, 200 * KIB);
	link_close(&b);
	link_get(&a, 200 * KIB);
	link_eof(&a);
	link_close(&a);
}

static void self_bytes(struct end *e)
{
	struct link a, b;
	int i;

	(void)e;
	link_self(&a, &b, 0);
	for (i = 0; i < 60000; i++)
		link_put(&a, 1);
	link_get(&b, 60000);
	link_turn(&a, 0, true);
	link_close(&b);
	link_eof(&a);
	link_close(&a);
}

/* A socket connected to itself: the kernel's oddest connection. */
static void self_one(struct end *e)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	socklen_t len = sizeof(sa);
	struct link l;
	int i, one = 1;

	(void)e;
	memset(&l, 0, sizeof(l));
	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	l.fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(l.fd >= 0);
	CHECK(!bind(l.fd, (struct sockaddr *)&sa, sizeof(sa)));
	CHECK(!getsockname(l.fd, (struct sockaddr *)&sa, &len));
	CHECK(!connect(l.fd, (struct sockaddr *)&sa, sizeof(sa)));
	CHECK(!setsockopt(l.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	for (i = 0; i < 300; i++) {
		link_put(&l, 500);
		link_get(&l, 500);
	}
	CHECK(!shutdown(l.fd, SHUT_WR));
	link_eof(&l);
	link_close(&l);
}

/* --- flags and their owners -------------------------------------------- */

static void flag_run(struct end *e)
{
	int on = 1, off = 0, fd = e->l.fd;
	uint8_t b;
	int copy;

	CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	CHECK(!ioctl(fd, FIONBIO, &on));
	CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
	FAILS(recv(fd, &b, 1, 0), EAGAIN);
	copy = dup(fd);
	CHECK(copy >= 0);
	CHECK(fcntl(copy, F_GETFL) & O_NONBLOCK);
	CHECK(!ioctl(copy, FIONBIO, &off));
	CHECK(!(fcntl(fd, F_GETFL) & O_NONBLOCK));
	CHECK(!close(copy));
	prog_nonblock(fd, true);
	FAILS(read(fd, &b, 1), EAGAIN);
	prog_nonblock(fd, false);
	prog_sync(e);
	link_get(&e->l, 1);
	CHECK((fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR);
}

static void flag_peer(struct end *e)
{
	prog_sync(e);
	prog_nap_ms(10);
	link_put(&e->l, 1);
}

static void connect_run(struct end *e)
{
	int fd, err;
	socklen_t len = sizeof(err);
	struct link l;

	if (e->lfd < 0) /* reversed: the other end does this */
		return;
	prog_nonblock(e->lfd, true);
	FAILS(accept4(e->lfd, NULL, NULL, SOCK_NONBLOCK), EAGAIN);
	prog_sync(e);
	CHECK(ready(e->lfd, POLLIN, 5000) == POLLIN);
	fd = accept4(e->lfd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
	CHECK(!err);
	prog_nonblock(fd, false);
	memset(&l, 0, sizeof(l));
	l.fd = fd;
	prog_warm(&l, true, 100);
	link_close(&l);
}

static void connect_peer(struct end *e)
{
	struct sockaddr_in none = { .sin_family = AF_INET };
	socklen_t len = sizeof(none);
	int fd, err, r;
	struct link l;

	if (e->lfd >= 0)
		return;
	prog_sync(e);
	fd = socket(e->addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK(fd >= 0);
	CHECK(fcntl(fd, F_GETFL) & O_NONBLOCK);
	r = connect(fd, (struct sockaddr *)&e->addr, e->addrlen);
	CHECK(!r || errno == EINPROGRESS);
	CHECK(ready(fd, POLLOUT, 5000) == POLLOUT);
	len = sizeof(err);
	CHECK(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
	CHECK(!err);
	r = connect(fd, (struct sockaddr *)&e->addr, e->addrlen);
	CHECK(!r || errno == EISCONN);
	FAILS(connect(fd, (struct sockaddr *)&e->addr, e->addrlen), EISCONN);
	prog_nonblock(fd, false);
	memset(&l, 0, sizeof(l));
	l.fd = fd;
	prog_warm(&l, false, 100);
	link_eof(&l);
	link_close(&l);
	/* a port that nothing listens on */
	fd = socket(AF_INET, SOCK_STREAM, 0);
	none.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	len = sizeof(none);
	CHECK(!bind(fd, (struct sockaddr *)&none, sizeof(none)));
	CHECK(!getsockname(fd, (struct sockaddr *)&none, &len));
	r = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	errno = 0;
	if (connect(r, (struct sockaddr *)&none, sizeof(none)))
		CHECK(errno == EINPROGRESS || errno == ECONNREFUSED);
	if (errno == EINPROGRESS) {
		CHECK(ready(r, POLLOUT, 5000) & POLLERR);
		len = sizeof(err);
		CHECK(!getsockopt(r, SOL_SOCKET, SO_ERROR, &err, &len));
		CHECK(err == ECONNREFUSED);
		CHECK(!getsockopt(r, SOL_SOCKET, SO_ERROR, &err, &len));
		CHECK(!err);
	}
	FAILS(send(r, "x", 1, MSG_NOSIGNAL), EPIPE);
	CHECK(!close(r));
	FAILS(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
	FAILS(recv(fd, &err, 1, 0), ENOTCONN);
	CHECK(!close(fd));
}

/* --- an event loop of one's own ---------------------------------------- */

#define LOOP_BYTES (6u << 20)

static void loop(struct end *e)
{
	uint8_t in[40000], out[40000];
	size_t sent = 0, got = 0, have = 0, at = 0;
	struct pollfd p = { .fd = e->l.fd };
	size_t next = 1 << 20;
	ssize_t r;

	prog_nonblock(e->l.fd, true);
	while (sent < LOOP_BYTES || got < LOOP_BYTES) {
		p.events = got < LOOP_BYTES ? POLLIN : 0;
		if (sent < LOOP_BYTES)
			p.events |= POLLOUT;
		CHECK(poll(&p, 1, 10000) == 1);
		CHECK(!(p.revents & (POLLERR | POLLNVAL)));
		if (p.revents & POLLIN) {
			r = read(e->l.fd, in, sizeof(in));
			if (r < 0) {
				CHECK(errno == EAGAIN);
			} else {
				CHECK(r > 0);
				flow_check(&e->l.rx, in, (size_t)r);
				got += (size_t)r;
			}
		}
		if (!(p.revents & POLLOUT))
			continue;
		if (at == have) {
			have = sizeof(out);
			if (have > LOOP_BYTES - sent)
				have = LOOP_BYTES - sent;
			at = 0;
			flow_fill(&e->l.tx, out, have);
		}
		r = write(e->l.fd, out + at, have - at);
		if (r < 0) {
			CHECK(errno == EAGAIN);
			continue;
		}
		at += (size_t)r;
		sent += (size_t)r;
		if (sent >= next) {
			prog_mid(e->l.fd);
			next += 2 << 20;
		}
	}
	prog_sync(e);
}

/*
 * Busy waiting on EAGAIN, as latency-minded programs do. On one processor each
 * turn takes what the scheduler gives the one that waits.
 */
static void busy(struct end *e)
{
	uint8_t b[32];
	int i;

	prog_nonblock(e->l.fd, true);
	for (i = 0; i < 200; i++) {
		size_t got = 0;

		if (!e->peer)
			link_put(&e->l, sizeof(b));
		while (got < sizeof(b)) {
			ssize_t r = recv(e->l.fd, b, sizeof(b) - got, 0);

			if (r < 0) {
				CHECK(errno == EAGAIN);
				continue;
			}
			CHECK(r > 0);
			flow_check(&e->l.rx, b, (size_t)r);
			got += (size_t)r;
		}
		if (e->peer)
			link_put(&e->l, sizeof(b));
	}
	prog_sync(e);
}

/*
 * A reader that takes small bites, as often as a set tells it to. The writer
 * has written all there was room for, long before, and writes no more: nothing
 * that comes later reminds the reader of what it has not taken yet.
 */
static void bites_run(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(EPOLL_CLOEXEC);
	size_t left = prog_hear(e);
	uint8_t b[4096];
	ssize_t r;

	CHECK(ep >= 0 && !epoll_ctl(ep, EPOLL_CTL_ADD, e->l.fd, &ev));
	for (; left; left -= (size_t)r) {
		CHECK(epoll_wait(ep, &ev, 1, 10000) == 1);
		CHECK(ev.events == EPOLLIN);
		r = read(e->l.fd, b, sizeof(b));
		CHECK(r > 0);
		flow_check(&e->l.rx, b, (size_t)r);
	}
	CHECK(epoll_wait(ep, &ev, 1, 0) == 0);
	prog_sync(e);
	CHECK(!close(ep));
}

static void bites_peer(struct end *e)
{
	const size_t most = (size_t)64 << 20;
	size_t sum = 0;

	prog_nonblock(e->l.fd, true);
	do
		sum += stuff(&e->l, 50000, most);
	while (ready(e->l.fd, POLLOUT, 100) && sum < most);
	prog_tell(e, sum);
	prog_sync(e);
}

/*
 * A program given less than it asked for need not ask again before an edge says
 * that there is room, however it came, and when.
 */
static void short_run(struct end *e)
{
	const size_t most = (size_t)32 << 20;
	struct epoll_event ev = { .events = EPOLLOUT | EPOLLET };
	uint8_t *buf = malloc(most);
	int ep = epoll_create1(0), i;

	CHECK(buf && ep >= 0);
	prog_nonblock(e->l.fd, true);
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, e->l.fd, &ev));
	for (i = 0; i < 6; i++) {
		struct flow f = e->l.tx;
		ssize_t r;

		CHECK(epoll_wait(ep, &ev, 1, 10000) == 1);
		CHECK(ev.events == EPOLLOUT);
		flow_fill(&f, buf, most);
		r = write(e->l.fd, buf, most);
		CHECK(r > 0 && (size_t)r < most);
		e->l.tx.off += (uint64_t)r;
		prog_tell(e, (uint64_t)r);
		prog_sync(e);
	}
	free(buf);
	CHECK(!close(ep));
}

static void short_peer(struct end *e)
{
	int i;

	for (i = 0; i < 6; i++) {
		link_get(&e->l, prog_hear(e));
		prog_sync(e);
	}
}

static const struct prog_case cases[] = {
	{ "full", full_run, full_peer, 0 },
	{ "self-full", self_full, NULL, CASE_SOLO },
	{ "self-block", self_block, NULL, CASE_SOLO },
	{ "self-bytes", self_bytes, NULL, CASE_SOLO },
	{ "self-one", self_one, NULL, CASE_SOLO },
	{ "flag", flag_run, flag_peer, 0 },
	{ "connect", connect_run, connect_peer, CASE_BARE },
	{ "loop", loop, loop, 0 },
	{ "busy", busy, busy, 0 },
	{ "bites", bites_run, bites_peer, 0 },
	{ "short", short_run, short_peer, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
