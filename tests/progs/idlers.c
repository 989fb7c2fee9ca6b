/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * idlers - threads asleep in a set while others change what is in it, and one
 * that only glances at it.
 */
#include "prog.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TAG   0x1234567890abcdefull
#define OTHER 7

#define PATIENCE 15000 /* ms */

/* A thread that waits once; `mine` is what it got, then it is `out`. */
struct idler {
	int ep;
	pthread_t thread;
	atomic_int tid;
	atomic_bool out;
	atomic_uint_least64_t mine;
};

static void *idle(void *arg)
{
	struct idler *i = arg;
	struct epoll_event ev[4];

	int64_t began = prog_now_ms();

	atomic_store(&i->tid, (int)syscall(SYS_gettid));
	if (epoll_wait(i->ep, ev, 4, PATIENCE) == 1)
		atomic_store(&i->mine, ev[0].data.u64);
	/* what was there all the time must not wait for the end */
	CHECK(prog_now_ms() - began < PATIENCE);
	atomic_store(&i->out, true);
	return NULL;
}

/* Is it asleep in a wait for a set, not only on its way there? */
static bool is_asleep(const struct idler *i)
{
	char path[64], line[64] = "";
	long nr = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall",
		 atomic_load(&i->tid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK(read(fd, line, sizeof(line) - 1) >= 0);
	CHECK(!close(fd));
#ifdef SYS_epoll_wait
	if (sscanf(line, "%ld", &nr) == 1 && nr == SYS_epoll_wait)
		return true;
#endif
	return sscanf(line, "%ld", &nr) == 1 && nr == SYS_epoll_pwait;
}

static void idler_begin(struct idler *i, int ep)
{
	*i = (struct idler){ .ep = ep };
	CHECK(!pthread_create(&i->thread, NULL, idle, i));
	while (!atomic_load(&i->tid) || !is_asleep(i))
		prog_nap_ms(1);
}

static void idler_end(struct idler *i, uint64_t want)
{
	CHECK(!pthread_join(i->thread, NULL));
	CHECK(atomic_load(&i->mine) == want);
}

static void ctl(int ep, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	CHECK(!epoll_ctl(ep, op, fd, &ev));
}

/* A set with something else in it than streams. */
static int set_new(int *event)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);

	CHECK(ep >= 0);
	*event = eventfd(0, EFD_CLOEXEC);
	CHECK(*event >= 0);
	ctl(ep, EPOLL_CTL_ADD, *event, EPOLLIN | (uint32_t)EPOLLET, OTHER);
	return ep;
}

static void set_end(int ep, int event)
{
	CHECK(!close(event) && !close(ep));
}

/* Sends as many bytes as it is told, 0 ends it; nothing looks meanwhile. */
static void sender(struct end *e)
{
	prog_feed(e);
	link_close(&e->l);
	prog_tell(e, 0);
	prog_sync(e);
}

/* The first stream enters a set in which threads sleep already. */
static void first_run(struct end *e)
{
	struct idler i;
	int k;

	for (k = 0; k < 6; k++) {
		int event, ep = set_new(&event);

		idler_begin(&i, ep);
		if (k % 2)
			prog_ask(e, 20);
		ctl(ep, EPOLL_CTL_ADD, e->l.fd, EPOLLIN | EPOLLONESHOT, TAG);
		if (!(k % 2))
			prog_ask(e, 20);
		idler_end(&i, TAG);
		link_get(&e->l, 20);
		if (k == 3)
			prog_mid(e->l.fd);
		set_end(ep, event);
	}
	prog_ask(e, 0);
	prog_sync(e);
}

/* One of two comes out and stays away; the other hears what follows. */
static void away_run(struct end *e)
{
	struct idler i[2];
	uint64_t one = 1;
	int k, left, event, ep = set_new(&event);

	ctl(ep, EPOLL_CTL_ADD, e->l.fd, EPOLLIN, TAG);
	for (k = 0; k < 6; k++) {
		idler_begin(&i[0], ep);
		idler_begin(&i[1], ep);
		CHECK(write(event, &one, sizeof(one)) == sizeof(one));
		while (!atomic_load(&i[0].out) && !atomic_load(&i[1].out))
			prog_nap_ms(1);
		left = atomic_load(&i[0].out) ? 1 : 0;
		idler_end(&i[1 - left], OTHER);
		prog_ask(e, 20);
		idler_end(&i[left], TAG);
		link_get(&e->l, 20);
	}
	prog_ask(e, 0);
	prog_sync(e);
	set_end(ep, event);
}

/* The peer has gone, much is unread, and a thread sleeps at the re-arming. */
static void gone_run(struct end *e)
{
	const uint32_t once = EPOLLIN | EPOLLONESHOT;
	struct pollfd p = { .fd = e->l.fd, .events = POLLRDHUP };
	struct epoll_event ev;
	struct idler i;
	int k, event, ep = set_new(&event);

	ctl(ep, EPOLL_CTL_ADD, e->l.fd, once, TAG);
	prog_ask(e, 40000);
	CHECK(epoll_wait(ep, &ev, 1, 5000) == 1 && ev.data.u64 == TAG);
	prog_ask(e, 0);
	CHECK(poll(&p, 1, 5000) == 1);
	for (k = 0; k < 4; k++) {
		idler_begin(&i, ep);
		ctl(ep, EPOLL_CTL_MOD, e->l.fd, once, TAG);
		idler_end(&i, TAG);
		link_get(&e->l, 10000);
	}
	link_eof(&e->l);
	prog_sync(e);
	set_end(ep, event);
}

/* One of two got the first message and is busy with it: the second is new. */
static void second_run(struct end *e)
{
	const uint32_t edge = EPOLLIN | (uint32_t)EPOLLET;
	struct idler i[2];
	int k, left, event, ep = set_new(&event);

	ctl(ep, EPOLL_CTL_ADD, e->l.fd, edge, TAG);
	for (k = 0; k < 6; k++) {
		idler_begin(&i[0], ep);
		idler_begin(&i[1], ep);
		prog_ask(e, 20);
		while (!atomic_load(&i[0].out) && !atomic_load(&i[1].out))
			prog_nap_ms(1);
		left = atomic_load(&i[0].out) ? 1 : 0;
		idler_end(&i[1 - left], TAG);
		prog_ask(e, 20);
		idler_end(&i[left], TAG);
		link_get(&e->l, 40);
	}
	prog_ask(e, 0);
	prog_sync(e);
	set_end(ep, event);
}

/* --- one waits, another re-arms while it goes to sleep -------------------- */

#define TURNS 20000

struct pair {
	int ep;
	atomic_int told, taken;
};

static void *tell(void *arg)
{
	struct pair *p = arg;
	struct epoll_event ev[4];
	int i;

	for (i = 0; i < TURNS; i++) {
		int64_t began = prog_now_ms();

		CHECK(epoll_wait(p->ep, ev, 4, PATIENCE) == 1);
		CHECK(prog_now_ms() - began < PATIENCE);
		atomic_store(&p->told, i + 1);
		/* so that both go on at once */
		while (atomic_load(&p->taken) <= i)
			sched_yield();
	}
	return NULL;
}

static void rearm_run(struct end *e)
{
	const uint32_t once = EPOLLIN | EPOLLONESHOT;
	int event, i;
	struct pair p = { .ep = set_new(&event) };
	pthread_t t;

	ctl(p.ep, EPOLL_CTL_ADD, e->l.fd, once, TAG);
	CHECK(!pthread_create(&t, NULL, tell, &p));
	prog_tell(e, TURNS * 4);
	for (i = 0; i < TURNS; i++) {
		while (atomic_load(&p.told) <= i)
			sched_yield();
		link_get(&e->l, 4);
		atomic_store(&p.taken, i + 1);
		if (i + 1 < TURNS)
			ctl(p.ep, EPOLL_CTL_MOD, e->l.fd, once, TAG);
	}
	CHECK(!pthread_join(t, NULL));
	CHECK(prog_hear(e) == TURNS * 4);
	prog_ask(e, 0);
	prog_sync(e);
	set_end(p.ep, event);
}

/* Other looks at a connection that has 8 bytes to read. */
static void by_poll(struct link *l)
{
	struct pollfd p = { .fd = l->fd, .events = POLLIN };

	CHECK(poll(&p, 1, 0) == 1);
}

static void by_part(struct link *l)
{
	link_get(l, 4);
}

static void by_peek(struct link *l)
{
	char buf[8];

	CHECK(recv(l->fd, buf, sizeof(buf), MSG_PEEK) == sizeof(buf));
}

static void by_count(struct link *l)
{
	int n;

	CHECK(!ioctl(l->fd, FIONREAD, &n) && n == 8);
}

static void by_set(struct link *l)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	CHECK(ep >= 0 && !epoll_ctl(ep, EPOLL_CTL_ADD, l->fd, &ev));
	CHECK(epoll_wait(ep, &ev, 1, 0) == 1 && !close(ep));
}

static void by_shutdown(struct link *l)
{
	CHECK(!shutdown(l->fd, SHUT_RD));
}

/* The set was waited for in vain; then another look finds what has come. */
static void glance(struct link *l, struct link *peer, uint32_t mask,
		   void (*other_look)(struct link *l))
{
	struct epoll_event ev = { .events = EPOLLIN | mask };
	int ep = epoll_create1(EPOLL_CLOEXEC), n;

	CHECK(ep >= 0 && !epoll_ctl(ep, EPOLL_CTL_ADD, l->fd, &ev));
	CHECK(!epoll_wait(ep, &ev, 1, 2));
	link_put(peer, 8);
	while (!ioctl(l->fd, FIONREAD, &n) && n < 8)
		prog_nap_ms(1);
	other_look(l);
	CHECK(epoll_wait(ep, &ev, 1, 0) == 1 && (ev.events & EPOLLIN));
	CHECK(!close(ep));
	link_get(l, other_look == by_part ? 4 : 8);
}

static void glances_run(struct end *e)
{
	void (*const look[])(struct link * l) = {
		by_poll, by_part, by_peek, by_count, by_set, by_shutdown
	};
	const uint32_t mask[] = { 0, EPOLLET };
	struct link l, peer;
	size_t i, k;

	(void)e;
	for (k = 0; k < ARRAY_SIZE(mask); k++) {
		link_self(&l, &peer, 60);
		for (i = 0; i < ARRAY_SIZE(look); i++)
			glance(&l, &peer, mask[k], look[i]);
		CHECK(!close(l.fd) && !close(peer.fd));
	}
}

/* Nothing has come, and another thread shuts it down. */
static void shut_run(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct link l, peer;

	(void)e;
	link_self(&l, &peer, 60);
	CHECK(ep >= 0 && !epoll_ctl(ep, EPOLL_CTL_ADD, l.fd, &ev));
	CHECK(!epoll_wait(ep, &ev, 1, 2));
	by_shutdown(&l);
	CHECK(epoll_wait(ep, &ev, 1, 0) == 1 && (ev.events & EPOLLIN));
	CHECK(!close(ep) && !close(l.fd) && !close(peer.fd));
}

static const struct prog_case cases[] = {
	{ "first", first_run, sender, 0 },
	{ "away", away_run, sender, 0 },
	{ "gone", gone_run, sender, 0 },
	{ "second", second_run, sender, 0 },
	{ "rearm", rearm_run, sender, 0 },
	{ "glances", glances_run, NULL, CASE_SOLO | CASE_BARE },
	{ "shut", shut_run, NULL, CASE_SOLO | CASE_BARE },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
