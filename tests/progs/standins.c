/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * standins - the peer has closed, its bytes are unread, and a program is
 * executed that inherits the descriptor: what other numbers and epoll sets of
 * the same connection are told afterwards.
 */
#include "prog.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define SIZE 30000
#define MEET 40 /* messages that an end needs to find the other */

/* Sends, says so, and goes when it is told. */
static void leaver(struct end *e)
{
	link_put(&e->l, SIZE);
	prog_tell(e, 0);
	prog_sync(e);
	link_close(&e->l);
	prog_tell(e, 0);
	prog_sync(e);
}

static void execute(struct end *e)
{
	prog_sync(e);
	prog_hear(e);
	CHECK(!fcntl(e->l.fd, F_SETFD, 0));
	CHECK(!system("true"));
}

static void end_of(struct end *e, struct link *l, size_t n)
{
	link_get(l, n);
	link_eof(l);
	prog_sync(e);
}

static int set_ctl(int ep, int op, int fd, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.fd = fd };

	return epoll_ctl(ep, op, fd, &ev);
}

static uint32_t set_wait(int ep)
{
	struct epoll_event ev;
	int n = epoll_wait(ep, &ev, 1, 5000);

	CHECK(n >= 0);
	return n ? ev.events : 0;
}

/* The set has not looked yet when the program is executed. */
static void unlooked_run(struct end *e)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);

	CHECK(ep >= 0);
	prog_hear(e);
	CHECK(!set_ctl(ep, EPOLL_CTL_ADD, e->l.fd, EPOLLIN | EPOLLET));
	execute(e);
	CHECK(set_wait(ep) & EPOLLIN);
	end_of(e, &e->l, SIZE);
	CHECK(!set_ctl(ep, EPOLL_CTL_DEL, e->l.fd, 0));
	CHECK(!close(ep));
}

/* It has, and level and edge report what is there once more. */
static void looked(struct end *e, uint32_t how)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);

	CHECK(ep >= 0);
	prog_hear(e);
	CHECK(!set_ctl(ep, EPOLL_CTL_ADD, e->l.fd, EPOLLIN | how));
	CHECK(set_wait(ep) & EPOLLIN);
	link_get(&e->l, 1);
	execute(e);
	if (how == EPOLLONESHOT)
		CHECK(!set_ctl(ep, EPOLL_CTL_MOD, e->l.fd, EPOLLIN | how));
	CHECK(set_wait(ep) & EPOLLIN);
	end_of(e, &e->l, SIZE - 1);
	CHECK(!set_ctl(ep, EPOLL_CTL_DEL, e->l.fd, 0));
	CHECK(!close(ep));
}

static void level_run(struct end *e)
{
	looked(e, 0);
}

static void oneshot_run(struct end *e)
{
	looked(e, EPOLLONESHOT);
}

/* Deleted and added again, whatever the kernel still has. */
static void again_run(struct end *e)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);

	CHECK(ep >= 0);
	prog_hear(e);
	CHECK(!set_ctl(ep, EPOLL_CTL_ADD, e->l.fd, EPOLLIN));
	CHECK(set_wait(ep) & EPOLLIN);
	CHECK(!set_ctl(ep, EPOLL_CTL_DEL, e->l.fd, 0));
	execute(e);
	CHECK(!set_ctl(ep, EPOLL_CTL_ADD, e->l.fd, EPOLLIN));
	CHECK(set_wait(ep) & EPOLLIN);
	end_of(e, &e->l, SIZE);
	CHECK(!close(ep));
}

static void numbers_run(struct end *e)
{
	struct link other = e->l;
	int cloexec;

	prog_hear(e);
	other.fd = fcntl(e->l.fd, F_DUPFD_CLOEXEC, 100);
	CHECK(other.fd >= 100);
	execute(e);
	cloexec = fcntl(other.fd, F_GETFD);
	CHECK(cloexec == FD_CLOEXEC && !fcntl(e->l.fd, F_GETFD));
	link_get(&other, SIZE / 2);
	e->l.rx = other.rx;
	link_get(&e->l, SIZE / 4);
	CHECK(!close(e->l.fd));
	e->l.fd = other.fd;
	other.rx = e->l.rx;
	end_of(e, &other, SIZE - SIZE / 2 - SIZE / 4);
}

/* As long as it is taken, or so many pieces, for some time. */
static void put_pieces(struct link *l, int pieces, int64_t ms)
{
	int64_t end = prog_now_ms() + ms;
	uint8_t buf[1000];

	while (pieces) {
		struct flow f = l->tx;
		ssize_t r;

		flow_fill(&f, buf, sizeof(buf));
		r = send(l->fd, buf, sizeof(buf), MSG_DONTWAIT | MSG_NOSIGNAL);
		if (r < 0 && prog_now_ms() >= end)
			return;
		if (r < 0)
			continue;
		l->tx.off += (uint64_t)r;
		pieces--;
	}
}

/*
 * What the kernel had not sent is lost, and with it all that follows, though it
 * may be here: the stream ends by a reset where it is cut.
 */
static void cut(struct end *e, bool executes)
{
	uint8_t buf[4096];
	struct flow seen;
	ssize_t r;
	int i;

	if (e->lfd < 0)
		link_bare(e);
	prog_hear(e); /* the kernel's queues are full */
	if (e->lfd >= 0)
		link_bare(e);
	for (i = 0; i < MEET; i++) {
		link_put(&e->l, 16);
		prog_sync(e);
	}
	prog_hear(e);
	prog_sync(e);
	CHECK(!fcntl(e->l.fd, F_SETFD, 0));
	CHECK(!executes || !system("true"));
	while ((r = recv(e->l.fd, buf, sizeof(buf), MSG_PEEK)) > 0) {
		seen = e->l.rx;
		flow_check(&seen, buf, (size_t)r);
		r = read(e->l.fd, buf, sizeof(buf));
		CHECK(r > 0);
		flow_check(&e->l.rx, buf, (size_t)r);
	}
	CHECK(r < 0 && errno == ECONNRESET);
	link_close(&e->l);
	prog_sync(e);
}

static void cut_run(struct end *e)
{
	cut(e, true);
}

static void cut_read_run(struct end *e)
{
	cut(e, false);
}

static void cutter(struct end *e)
{
	struct linger reset = { 1, 0 };
	int i;

	link_bare(e);
	put_pieces(&e->l, INT_MAX, 100);
	prog_tell(e, 0);
	for (i = 0; i < MEET; i++) {
		link_get(&e->l, 16);
		prog_sync(e);
	}
	put_pieces(&e->l, 20, 500);
	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_LINGER, &reset,
			  sizeof(reset)));
	link_close(&e->l);
	prog_tell(e, 0);
	prog_sync(e);
	prog_sync(e);
}

static const struct prog_case cases[] = {
	{ "unlooked", unlooked_run, leaver, CASE_PROCESS },
	{ "level", level_run, leaver, CASE_PROCESS },
	{ "oneshot", oneshot_run, leaver, CASE_PROCESS },
	{ "again", again_run, leaver, CASE_PROCESS },
	{ "numbers", numbers_run, leaver, CASE_PROCESS },
	{ "cut", cut_run, cutter, CASE_PROCESS | CASE_BARE },
	{ "cut-read", cut_read_run, cutter, CASE_PROCESS | CASE_BARE },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
