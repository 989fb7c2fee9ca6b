/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * standins - the peer has closed, its bytes are unread, and a program is
 * executed that inherits the descriptor: what other numbers and epoll sets of
 * the same connection are told afterwards.
 */
#include "prog.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define SIZE 30000

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

static const struct prog_case cases[] = {
	{ "unlooked", unlooked_run, leaver, CASE_PROCESS },
	{ "level", level_run, leaver, CASE_PROCESS },
	{ "oneshot", oneshot_run, leaver, CASE_PROCESS },
	{ "again", again_run, leaver, CASE_PROCESS },
	{ "numbers", numbers_run, leaver, CASE_PROCESS },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
