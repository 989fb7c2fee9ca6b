/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* epolls - sets of every kind, in every phase of a connection. */
#include "prog.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAG 0x1234567890abcdefull

static int set_new(void)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);

	CHECK(ep >= 0);
	return ep;
}

static int set_ctl(int ep, int op, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event ev = { .events = events, .data.u64 = data };

	return epoll_ctl(ep, op, fd, &ev);
}

static void set_add(int ep, int fd, uint32_t events, uint64_t data)
{
	CHECK(!set_ctl(ep, EPOLL_CTL_ADD, fd, events, data));
}

/* Events of the one entry TAG, or 0 when the time is over. */
static uint32_t set_one(int ep, int ms)
{
	struct epoll_event ev[4];
	int n = epoll_wait(ep, ev, 4, ms);

	CHECK(n == 0 || n == 1);
	if (!n)
		return 0;
	CHECK(ev[0].data.u64 == TAG);
	return ev[0].events;
}

/* The peer of most cases: sends as many bytes as it is told, 0 ends. */
static void sender(struct end *e)
{
	prog_feed(e);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	prog_tell(e, 0);
	prog_sync(e);
}

static void send_me(struct end *e, size_t n)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };

	prog_ask(e, n);
	CHECK(poll(&p, 1, 5000) == 1);
}

static void level_run(struct end *e)
{
	int ep = set_new(), i;

	set_add(ep, e->l.fd, EPOLLIN, TAG);
	for (i = 0; i < 6; i++) {
		CHECK(set_one(ep, 0) == 0);
		CHECK(set_one(ep, 10) == 0);
		send_me(e, 100);
		CHECK(set_one(ep, -1) == EPOLLIN);
		CHECK(set_one(ep, 0) == EPOLLIN);
		link_get(&e->l, 60);
		CHECK(set_one(ep, 0) == EPOLLIN);
		if (i == 3)
			prog_mid(e->l.fd);
		link_get(&e->l, 40);
		CHECK(set_one(ep, 0) == 0);
	}
	CHECK(!set_ctl(ep, EPOLL_CTL_MOD, e->l.fd, EPOLLIN | EPOLLOUT, TAG));
	CHECK(set_one(ep, 0) == EPOLLOUT);
	send_me(e, 10);
	CHECK(set_one(ep, 0) == (EPOLLIN | EPOLLOUT));
	CHECK(!set_ctl(ep, EPOLL_CTL_MOD, e->l.fd, 0, TAG));
	CHECK(set_one(ep, 0) == 0);
	CHECK(!set_ctl(ep, EPOLL_CTL_MOD, e->l.fd, EPOLLIN, TAG));
	CHECK(set_one(ep, 0) == EPOLLIN);
	link_get(&e->l, 10);
	send_me(e, 0);
	CHECK(set_one(ep, 5000) == EPOLLIN);
	CHECK(!set_ctl(ep, EPOLL_CTL_MOD, e->l.fd, EPOLLIN | EPOLLRDHUP, TAG));
	CHECK(set_one(ep, 0) == (EPOLLIN | EPOLLRDHUP));
	link_eof(&e->l);
	CHECK(set_one(ep, 0) == (EPOLLIN | EPOLLRDHUP));
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	CHECK(set_one(ep, 0) & EPOLLHUP);
	prog_sync(e);
	CHECK(!close(ep));
}

/* Only one direction is ever used: a report has all of the mask, still. */
static void oneway_run(struct end *e)
{
	/* between hosts room may be short until the peer gives credits */
	const uint32_t late = prog_far ? EPOLLOUT : 0;
	const uint32_t both = EPOLLIN | EPOLLOUT;
	int ep = set_new(), i;

	set_add(ep, e->l.fd, 0, TAG);
	for (i = 0; i < 40; i++) {
		send_me(e, 10);
		CHECK(!set_ctl(ep, EPOLL_CTL_MOD, e->l.fd, EPOLLIN, TAG));
		CHECK(set_one(ep, 5000) == EPOLLIN);
		CHECK(!set_ctl(ep, EPOLL_CTL_MOD, e->l.fd, both, TAG));
		CHECK((set_one(ep, 0) | late) == both);
		CHECK((set_one(ep, 0) | late) == both);
		link_get(&e->l, 10);
		CHECK(set_one(ep, late ? 5000 : 0) == EPOLLOUT);
	}
	send_me(e, 0);
	prog_sync(e);
}

static void edge_run(struct end *e)
{
	int ep = set_new(), i;
	uint8_t b[200];

	set_add(ep, e->l.fd, EPOLLIN | EPOLLET | EPOLLRDHUP, TAG);
	CHECK(set_one(ep, 0) == 0);
	for (i = 0; i < 10; i++) {
		send_me(e, 100);
		CHECK(set_one(ep, 5000) == EPOLLIN);
		CHECK(set_one(ep, 0) == 0);
		link_get(&e->l, 30);
		CHECK(set_one(ep, 0) == 0);
		/* more data: a new edge although some is still unread */
		send_me(e, 50);
		CHECK(set_one(ep, 5000) == EPOLLIN);
		CHECK(set_one(ep, 0) == 0);
		link_get(&e->l, 120);
		FAILS(recv(e->l.fd, b, 1, MSG_DONTWAIT), EAGAIN);
		/* a MOD asks anew */
		if (i % 2) {
			send_me(e, 20);
			CHECK(set_one(ep, 5000) == EPOLLIN);
			CHECK(!set_ctl(ep, EPOLL_CTL_MOD, e->l.fd,
				       EPOLLIN | EPOLLET | EPOLLRDHUP, TAG));
			CHECK(set_one(ep, 0) == EPOLLIN);
			CHECK(set_one(ep, 0) == 0);
			link_get(&e->l, 20);
		}
	}
	send_me(e, 0);
	CHECK(set_one(ep, 5000) == (EPOLLIN | EPOLLRDHUP));
	CHECK(set_one(ep, 0) == 0);
	link_eof(&e->l);
	prog_sync(e);
	CHECK(!close(ep));
}

static void oneshot_run(struct end *e)
{
	const uint32_t want = EPOLLIN | EPOLLONESHOT;
	int ep = set_new(), i;

	set_add(ep, e->l.fd, want, TAG);
	for (i = 0; i < 6; i++) {
		send_me(e, 100);
		CHECK(set_one(ep, 5000) == EPOLLIN);
		CHECK(set_one(ep, 0) == 0);
		send_me(e, 100);
		CHECK(set_one(ep, 20) == 0);
		CHECK(!set_ctl(ep, EPOLL_CTL_MOD, e->l.fd, want, TAG));
		CHECK(set_one(ep, 0) == EPOLLIN);
		link_get(&e->l, 200);
		CHECK(!set_ctl(ep, EPOLL_CTL_MOD, e->l.fd, want, TAG));
		CHECK(set_one(ep, 0) == 0);
		if (i == 2)
			prog_mid(e->l.fd);
	}
	send_me(e, 0);
	CHECK(set_one(ep, 5000) == EPOLLIN);
	prog_sync(e);
	CHECK(!close(ep));
}

/* Writes until EAGAIN; returns how much was taken. */
static size_t stuff(struct link *l)
{
	uint8_t buf[50000];
	size_t sum = 0;

	for (;;) {
		struct flow f = l->tx;
		ssize_t r;

		flow_fill(&f, buf, sizeof(buf));
		r = write(l->fd, buf, sizeof(buf));
		if (r < 0) {
			CHECK(errno == EAGAIN);
			return sum;
		}
		l->tx.off += (uint64_t)r;
		sum += (size_t)r;
	}
}

/*
 * Writable edges: each tells of room that is there, and they come to an end
 * when nothing reads; room that comes back is told.
 */
static void room_run(struct end *e)
{
	int ep = set_new();
	size_t sum;

	prog_nonblock(e->l.fd, true);
	set_add(ep, e->l.fd, EPOLLOUT | EPOLLET, TAG);
	CHECK(set_one(ep, 0) == EPOLLOUT);
	CHECK(set_one(ep, 0) == 0);
	sum = stuff(&e->l);
	while (set_one(ep, 100) == EPOLLOUT) {
		size_t more = stuff(&e->l);

		CHECK(more > 0);
		sum += more;
		CHECK(sum < (size_t)64 << 20);
	}
	prog_tell(e, sum);
	CHECK(set_one(ep, 10000) == EPOLLOUT);
	prog_sync(e);
	CHECK(!close(ep));
}

static void room_peer(struct end *e)
{
	link_get(&e->l, prog_hear(e));
	prog_sync(e);
}

static void ctl_run(struct end *e)
{
	int ep = set_new(), other = set_new(), fd = e->l.fd, copy;
	struct epoll_event ev[2];

	FAILS(set_ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN, TAG), ENOENT);
	FAILS(set_ctl(ep, EPOLL_CTL_DEL, fd, 0, 0), ENOENT);
	set_add(ep, fd, EPOLLIN, TAG);
	FAILS(set_ctl(ep, EPOLL_CTL_ADD, fd, EPOLLIN, 1), EEXIST);
	FAILS(set_ctl(ep, EPOLL_CTL_ADD, ep, EPOLLIN, 1), EINVAL);
	FAILS(set_ctl(ep, 99, fd, EPOLLIN, 1), EINVAL);
	FAILS(epoll_wait(ep, ev, 0, 0), EINVAL);
	FAILS(epoll_wait(fd, ev, 1, 0), EINVAL);
	FAILS(set_ctl(fd, EPOLL_CTL_ADD, ep, EPOLLIN, 1), EINVAL);
	/* the same socket in a second set, and a duplicate in the first */
	set_add(other, fd, EPOLLIN | EPOLLET, TAG);
	copy = dup(fd);
	CHECK(copy >= 0);
	set_add(ep, copy, EPOLLIN, TAG + 1);
	send_me(e, 10);
	CHECK(epoll_wait(ep, ev, 2, 5000) == 2);
	CHECK(ev[0].data.u64 + ev[1].data.u64 == 2 * TAG + 1);
	CHECK(epoll_wait(ep, ev, 1, 0) == 1);
	CHECK(set_one(other, 0) == EPOLLIN);
	CHECK(set_one(other, 0) == 0);
	CHECK(!set_ctl(ep, EPOLL_CTL_DEL, copy, 0, 0));
	CHECK(!close(copy));
	CHECK(set_one(ep, 0) == EPOLLIN);
	CHECK(!epoll_ctl(ep, EPOLL_CTL_DEL, fd, NULL));
	CHECK(set_one(ep, 0) == 0);
	link_get(&e->l, 10);
	/* added when it is already readable */
	send_me(e, 10);
	set_add(ep, fd, EPOLLIN | EPOLLET, TAG);
	CHECK(set_one(ep, 0) == EPOLLIN);
	CHECK(set_one(ep, 0) == 0);
	link_get(&e->l, 10);
	/* the last close takes it out of every set */
	send_me(e, 10);
	prog_tell(e, 0);
	CHECK(prog_hear(e) == 0);
	link_get(&e->l, 10);
	link_close(&e->l);
	CHECK(set_one(ep, 0) == 0);
	CHECK(set_one(other, 0) == 0);
	FAILS(set_ctl(ep, EPOLL_CTL_MOD, fd, EPOLLIN, TAG), EBADF);
	prog_sync(e);
	CHECK(!close(ep));
	CHECK(!close(other));
}

/* A set in a set, in a poll. */
static void nested_run(struct end *e)
{
	int inner = set_new(), outer = set_new(), i;
	struct pollfd p = { .fd = outer, .events = POLLIN };

	set_add(inner, e->l.fd, EPOLLIN, TAG);
	set_add(outer, inner, EPOLLIN, TAG);
	for (i = 0; i < 5; i++) {
		CHECK(poll(&p, 1, 0) == 0);
		prog_tell(e, 30);
		CHECK(poll(&p, 1, 5000) == 1);
		CHECK(prog_hear(e) == 30);
		CHECK(set_one(outer, 5000) == EPOLLIN);
		CHECK(set_one(inner, 0) == EPOLLIN);
		link_get(&e->l, 30);
		CHECK(set_one(inner, 0) == 0);
		CHECK(set_one(outer, 0) == 0);
		CHECK(poll(&p, 1, 0) == 0);
		if (i == 2)
			prog_mid(e->l.fd);
	}
	send_me(e, 0);
	prog_sync(e);
	CHECK(!close(outer) && !close(inner));
}

/* --- time and signals -------------------------------------------------- */

static atomic_int hits;

static void on_hit(int sig)
{
	(void)sig;
	atomic_fetch_add(&hits, 1);
}

static void times_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_hit, .sa_flags = SA_RESTART };
	struct timespec ts = { 0, 30 * 1000 * 1000 }, zero = { 0, 0 };
	struct epoll_event ev;
	int ep = set_new();
	sigset_t block, open;
	int64_t t0;

	set_add(ep, e->l.fd, EPOLLIN, TAG);
	t0 = prog_now_ms();
	CHECK(set_one(ep, 50) == 0);
	CHECK(prog_now_ms() - t0 >= 49);
	t0 = prog_now_ms();
	CHECK(epoll_pwait2(ep, &ev, 1, &ts, NULL) == 0);
	CHECK(prog_now_ms() - t0 >= 29);
	CHECK(epoll_pwait2(ep, &ev, 1, &zero, NULL) == 0);
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	CHECK(!pthread_sigmask(SIG_BLOCK, &block, &open));
	CHECK(!pthread_kill(pthread_self(), SIGUSR1));
	CHECK(set_one(ep, 10) == 0);
	FAILS(epoll_pwait(ep, &ev, 1, 5000, &open), EINTR);
	CHECK(atomic_load(&hits) == 1);
	CHECK(!pthread_sigmask(SIG_SETMASK, &open, NULL));
	send_me(e, 10);
	CHECK(epoll_pwait2(ep, &ev, 1, NULL, NULL) == 1);
	CHECK(epoll_pwait(ep, &ev, 1, -1, NULL) == 1);
	link_get(&e->l, 10);
	prog_tell(e, 0);
	CHECK(prog_hear(e) == 0);
	prog_sync(e);
	CHECK(!close(ep));
}

/* --- several waiters --------------------------------------------------- */

#define WORKERS 4
#define LINKS	16
#define ROUNDS	60

struct crew {
	int ep;
	uint32_t how;
	struct link *l;
	atomic_int left;
	int stop[2];
};

/* One-shot workers: the one that gets the event owns the link until the MOD. */
static void *worker(void *arg)
{
	struct crew *c = arg;
	struct epoll_event ev;
	struct link *l;

	while (atomic_load(&c->left) > 0) {
		CHECK(epoll_wait(c->ep, &ev, 1, -1) == 1);
		if (ev.data.u64 == TAG)
			break;
		l = &c->l[ev.data.u64];
		link_get(l, 64);
		link_put(l, 64);
		if (atomic_fetch_sub(&c->left, 1) == 1)
			CHECK(write(c->stop[1], "s", 1) == 1);
		CHECK(!set_ctl(c->ep, EPOLL_CTL_MOD, l->fd, c->how,
			       ev.data.u64));
	}
	return NULL;
}

static void crew_run(struct end *e)
{
	struct link l[LINKS];
	struct crew c = { .ep = set_new(),
			  .how = EPOLLIN | EPOLLONESHOT | EPOLLET,
			  .l = l };
	pthread_t t[WORKERS];
	unsigned int i;

	atomic_store(&c.left, LINKS * ROUNDS);
	CHECK(!pipe2(c.stop, O_CLOEXEC));
	for (i = 0; i < LINKS; i++) {
		prog_link(e, &l[i]);
		set_add(c.ep, l[i].fd, c.how, i);
	}
	set_add(c.ep, c.stop[0], EPOLLIN, TAG);
	for (i = 0; i < WORKERS; i++)
		CHECK(!pthread_create(&t[i], NULL, worker, &c));
	prog_sync(e);
	for (i = 0; i < WORKERS; i++)
		CHECK(!pthread_join(t[i], NULL));
	prog_sync(e);
	for (i = 0; i < LINKS; i++)
		link_close(&l[i]);
	CHECK(!close(c.ep) && !close(c.stop[0]) && !close(c.stop[1]));
}

static void crew_peer(struct end *e)
{
	struct link l[LINKS];
	unsigned int i, k;

	for (i = 0; i < LINKS; i++)
		prog_link(e, &l[i]);
	prog_sync(e);
	for (k = 0; k < ROUNDS; k++) {
		for (i = 0; i < LINKS; i++)
			link_put(&l[i], 64);
		for (i = 0; i < LINKS; i++)
			link_get(&l[i], 64);
		if (k == 20)
			prog_mid(l[3].fd);
	}
	prog_sync(e);
	for (i = 0; i < LINKS; i++)
		link_close(&l[i]);
}

static void *waiter(void *arg)
{
	CHECK(set_one(*(int *)arg, 9000) == EPOLLIN);
	return NULL;
}

/* Sets of one socket each, all asleep: every level-triggered one wakes. */
static void sleepers_run(struct end *e)
{
	uint32_t how[4] = { EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN,
			    EPOLLIN | EPOLLONESHOT };
	int ep[4], i, k;
	pthread_t t[4];

	for (i = 0; i < 4; i++) {
		ep[i] = set_new();
		set_add(ep[i], e->l.fd, how[i], TAG);
	}
	for (k = 0; k < 8; k++) {
		for (i = 0; i < 4; i++)
			CHECK(!pthread_create(&t[i], NULL, waiter, &ep[i]));
		prog_nap_ms(k % 2 ? 6 : 0);
		prog_tell(e, 11);
		CHECK(prog_hear(e) == 11);
		for (i = 0; i < 4; i++)
			CHECK(!pthread_join(t[i], NULL));
		link_get(&e->l, 11);
		CHECK(!set_ctl(ep[3], EPOLL_CTL_MOD, e->l.fd, how[3], TAG));
	}
	prog_tell(e, 0);
	CHECK(prog_hear(e) == 0);
	prog_sync(e);
	for (i = 0; i < 4; i++)
		CHECK(!close(ep[i]));
}

/* EPOLLEXCLUSIVE: at least one of the waiting sets is told. */
static void exclusive_run(struct end *e)
{
	int ep[3], i, k, got;

	for (i = 0; i < 3; i++) {
		ep[i] = set_new();
		set_add(ep[i], e->l.fd, EPOLLIN | EPOLLEXCLUSIVE, TAG);
		FAILS(set_ctl(ep[i], EPOLL_CTL_MOD, e->l.fd, EPOLLIN, TAG),
		      EINVAL);
	}
	for (k = 0; k < 5; k++) {
		for (i = 0; i < 3; i++)
			CHECK(set_one(ep[i], 0) == 0);
		send_me(e, 9);
		for (i = 0, got = 0; i < 3; i++)
			got += set_one(ep[i], 100) == EPOLLIN;
		CHECK(got >= 1);
		link_get(&e->l, 9);
		if (k == 2)
			prog_mid(e->l.fd);
	}
	prog_tell(e, 0);
	CHECK(prog_hear(e) == 0);
	prog_sync(e);
	for (i = 0; i < 3; i++)
		CHECK(!close(ep[i]));
}

/* A descriptor enters a set in which a thread already sleeps. */
static void late_run(struct end *e)
{
	int ep = set_new(), i;
	pthread_t t;

	for (i = 0; i < 6; i++) {
		CHECK(!pthread_create(&t, NULL, waiter, &ep));
		prog_nap_ms(4);
		if (i % 2)
			send_me(e, 5);
		set_add(ep, e->l.fd, EPOLLIN, TAG);
		if (!(i % 2))
			send_me(e, 5);
		CHECK(!pthread_join(t, NULL));
		link_get(&e->l, 5);
		CHECK(!set_ctl(ep, EPOLL_CTL_DEL, e->l.fd, 0, 0));
	}
	prog_tell(e, 0);
	CHECK(prog_hear(e) == 0);
	prog_sync(e);
	CHECK(!close(ep));
}

/* The set is inherited: the child waits in it and reads. */
static void shared_run(struct end *e)
{
	int ep = set_new(), i;
	pid_t pid;

	set_add(ep, e->l.fd, EPOLLIN, TAG);
	send_me(e, 10);
	CHECK(set_one(ep, 0) == EPOLLIN);
	link_get(&e->l, 10);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		for (i = 0; i < 5; i++) {
			prog_tell(e, 20);
			CHECK(set_one(ep, 5000) == EPOLLIN);
			CHECK(prog_hear(e) == 20);
			link_get(&e->l, 20);
			CHECK(set_one(ep, 0) == 0);
		}
		_exit(0);
	}
	prog_reap(pid, 0);
	e->l.rx.off += 100;
	CHECK(set_one(ep, 0) == 0);
	send_me(e, 10);
	CHECK(set_one(ep, 5000) == EPOLLIN);
	link_get(&e->l, 10);
	send_me(e, 0);
	prog_sync(e);
	CHECK(!close(ep));
}

static const struct prog_case cases[] = {
	{ "level", level_run, sender, 0 },
	{ "oneway", oneway_run, sender, 0 },
	{ "edge", edge_run, sender, 0 },
	{ "oneshot", oneshot_run, sender, 0 },
	{ "room", room_run, room_peer, 0 },
	{ "ctl", ctl_run, sender, 0 },
	{ "nested", nested_run, sender, 0 },
	{ "times", times_run, sender, 0 },
	{ "crew", crew_run, crew_peer, CASE_BARE },
	{ "sleepers", sleepers_run, sender, 0 },
	{ "exclusive", exclusive_run, sender, 0 },
	{ "late", late_run, sender, 0 },
	{ "shared", shared_run, sender, CASE_PROCESS },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
