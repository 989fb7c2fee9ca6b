/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sets - a connection that always has something to read, in one set with
 * descriptors that are the kernel's: what is ready before a call is in its
 * answer, as often as there is room for it. And on edges: what arrives behind
 * unread bytes is told, whatever carries it.
 */
#include "prog.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define UNREAD 100
#define ROUNDS 40

/* The peer of all cases. */
static void talker(struct end *e)
{
	link_put(&e->l, UNREAD);
	prog_sync(e);
	prog_sync(e);
}

static void unread_begin(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };

	prog_sync(e);
	CHECK(poll(&p, 1, 5000) == 1);
}

static void unread_end(struct end *e)
{
	link_get(&e->l, UNREAD);
	prog_sync(e);
}

static int set_of(const int *fd, uint32_t n)
{
	int ep = epoll_create1(EPOLL_CLOEXEC);
	uint32_t i;

	CHECK(ep >= 0);
	for (i = 0; i < n; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.u32 = i };

		CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, fd[i], &ev));
	}
	return ep;
}

/* Which of the first 32 members a look reports, as bits. */
static uint32_t look(int ep, int max)
{
	struct epoll_event ev[8];
	int n = epoll_wait(ep, ev, max, 0), i;
	uint32_t bits = 0;

	CHECK(n >= 0 && n <= max);
	for (i = 0; i < n; i++) {
		CHECK(ev[i].events == EPOLLIN);
		CHECK(!(bits & 1u << ev[i].data.u32));
		bits |= 1u << ev[i].data.u32;
	}
	return bits;
}

static void event_add(int fd)
{
	uint64_t one = 1;

	CHECK(write(fd, &one, sizeof(one)) == sizeof(one));
}

static void event_take(int fd)
{
	uint64_t n;

	CHECK(read(fd, &n, sizeof(n)) == sizeof(n));
}

static void seen_run(struct end *e)
{
	int p[2], fd[4], ep, i;
	char c = 'x';

	CHECK(!pipe(p));
	fd[0] = e->l.fd;
	fd[1] = p[0];
	fd[2] = eventfd(0, 0);
	fd[3] = timerfd_create(CLOCK_MONOTONIC, 0);
	CHECK(fd[2] >= 0 && fd[3] >= 0);
	ep = set_of(fd, 4);
	unread_begin(e);
	for (i = 0; i < ROUNDS; i++) {
		struct itimerspec soon = { .it_value.tv_nsec = 1 };
		struct pollfd f = { .fd = fd[3], .events = POLLIN };

		CHECK(look(ep, 8) == 1);
		CHECK(write(p[1], &c, 1) == 1);
		CHECK(look(ep, 8) == 3);
		event_add(fd[2]);
		CHECK(look(ep, 8) == 7);
		CHECK(read(p[0], &c, 1) == 1);
		CHECK(look(ep, 8) == 5);
		event_take(fd[2]);
		CHECK(!timerfd_settime(fd[3], 0, &soon, NULL));
		CHECK(poll(&f, 1, 5000) == 1);
		CHECK(look(ep, 8) == 9);
		event_take(fd[3]);
	}
	CHECK(!close(ep));
	unread_end(e);
	for (i = 1; i < 4; i++)
		CHECK(!close(fd[i]));
	CHECK(!close(p[1]));
}

/* Connections that never moved a byte, and one that waits to be accepted. */
static void cold_run(struct end *e)
{
	int fd[3], to, ep, got, i;
	struct sockaddr_storage ss;
	socklen_t len = sizeof(ss);

	fd[0] = e->l.fd;
	fd[1] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd[1] >= 0 && !listen(fd[1], 8));
	CHECK(!getsockname(fd[1], (struct sockaddr *)&ss, &len));
	ep = set_of(fd, 2);
	unread_begin(e);
	for (i = 0; i < ROUNDS; i++) {
		struct epoll_event ev = { .events = EPOLLIN, .data.u32 = 2 };
		struct pollfd p = { .events = POLLIN };

		to = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(to >= 0);
		CHECK(!connect(to, (struct sockaddr *)&ss, len));
		p.fd = fd[1];
		CHECK(poll(&p, 1, 5000) == 1);
		CHECK(look(ep, 8) == 3);
		got = accept(fd[1], NULL, NULL);
		CHECK(got >= 0);
		CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, got, &ev));
		CHECK(look(ep, 8) == 1);
		CHECK(send(to, "x", 1, 0) == 1);
		p.fd = got;
		CHECK(poll(&p, 1, 5000) == 1);
		CHECK(look(ep, 8) == 5);
		CHECK(!close(got) && !close(to));
	}
	CHECK(!close(ep));
	unread_end(e);
	CHECK(!close(fd[1]));
}

/* No room for all: each has its turn. */
static void turns_run(struct end *e)
{
	int fd[3] = { e->l.fd, eventfd(1, 0), eventfd(1, 0) }, ep, max, i, k;

	ep = set_of(fd, 3);
	unread_begin(e);
	for (max = 1; max < 3; max++) {
		int count[3] = { 0, 0, 0 };

		for (i = 0; i < ROUNDS; i++) {
			uint32_t bits = look(ep, max);

			CHECK(__builtin_popcount(bits) == max);
			for (k = 0; k < 3; k++)
				count[k] += bits >> k & 1;
		}
		for (k = 0; k < 3; k++)
			CHECK(count[k] >= ROUNDS / 5);
	}
	CHECK(!close(ep));
	unread_end(e);
	CHECK(!close(fd[1]) && !close(fd[2]));
}

static void polls_run(struct end *e)
{
	int ev = eventfd(0, 0), i;
	struct pollfd p[2] = { { .fd = e->l.fd, .events = POLLIN },
			       { .fd = ev, .events = POLLIN } };

	CHECK(ev >= 0 && ev < FD_SETSIZE);
	unread_begin(e);
	for (i = 0; i < ROUNDS; i++) {
		struct timeval now = { 0, 0 };
		fd_set set;

		CHECK(poll(p, 2, 0) == 1 && p[0].revents == POLLIN);
		event_add(ev);
		CHECK(poll(p, 2, 0) == 2 && p[1].revents == POLLIN);
		FD_ZERO(&set);
		FD_SET(p[0].fd, &set);
		FD_SET(ev, &set);
		CHECK(select(FD_SETSIZE, &set, NULL, NULL, &now) == 2);
		event_take(ev);
	}
	unread_end(e);
	CHECK(!close(ev));
}

/* --- edges ------------------------------------------------------------- */

#define LEAVE  1000 /* above this: not by the ring */
#define UNTOLD 20 /* messages until surely both ends have met */

static void low_water(int fd, int n)
{
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &n, sizeof(n)));
}

/*
 * Sends what it is asked for. The option is one that only the kernel has, and
 * what is sent meanwhile goes by the kernel, behind what was sent before.
 */
static void leaver(struct end *e)
{
	uint64_t n;

	while ((n = prog_hear(e))) {
		if (n > LEAVE)
			low_water(e->l.fd, 2);
		link_put(&e->l, (size_t)(n % LEAVE));
		prog_tell(e, n);
		if (n > LEAVE)
			low_water(e->l.fd, 1);
	}
}

static bool edge(int ep, int ms)
{
	struct epoll_event ev[2];
	int n = epoll_wait(ep, ev, 2, ms);

	CHECK(!n || (n == 1 && ev[0].events == EPOLLIN));
	return n;
}

static void edges_run(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(EPOLL_CLOEXEC), i;
	char b;

	for (i = 0; i < UNTOLD; i++) {
		prog_ask(e, 10);
		link_get(&e->l, 10);
	}
	CHECK(ep >= 0 && !epoll_ctl(ep, EPOLL_CTL_ADD, e->l.fd, &ev));
	CHECK(!edge(ep, 0));
	for (i = 0; i < 6; i++) {
		prog_ask(e, 100);
		CHECK(edge(ep, 30000));
		link_get(&e->l, 30);
		CHECK(!edge(ep, 0));
		/* there before the wait, or during it */
		prog_tell(e, LEAVE + 50);
		if (i % 2)
			CHECK(prog_hear(e) == LEAVE + 50);
		CHECK(edge(ep, 30000));
		if (i % 2 == 0)
			CHECK(prog_hear(e) == LEAVE + 50);
		link_get(&e->l, 120);
		FAILS(recv(e->l.fd, &b, 1, MSG_DONTWAIT), EAGAIN);
	}
	CHECK(!close(ep));
	prog_tell(e, 0);
	prog_sync(e);
}

static void leaver_ends(struct end *e)
{
	leaver(e);
	prog_sync(e);
}

/* --- more members than room, whose peers have ended their direction ------- */

#define HALVES 40
#define PART   50
#define TURNS  100

/* How many parts connection i carries. */
static int parts_of(int i)
{
	return 5 + i * 37 % (TURNS - 5);
}

static void halver(struct end *e)
{
	struct link l[HALVES];
	int i, j;

	for (i = 0; i < HALVES; i++) {
		prog_link(e, &l[i]);
		prog_warm(&l[i], false, 40);
	}
	prog_sync(e);
	for (j = 0; j <= TURNS; j++)
		for (i = 0; i < HALVES; i++)
			if (j < parts_of(i))
				link_put(&l[i], PART);
			else if (j == parts_of(i))
				CHECK(!shutdown(l[i].fd, SHUT_WR));
	prog_sync(e);
	prog_sync(e);
	for (i = 0; i < HALVES; i++)
		CHECK(!close(l[i].fd));
}

/* Each end is found, behind its bytes, however little room there is. */
static void halves_run(struct end *e)
{
	struct link l[HALVES];
	struct epoll_event ev[7];
	int fd[HALVES], got[HALVES] = { 0 }, ep, i, n, left = HALVES;
	char b;

	for (i = 0; i < HALVES; i++) {
		prog_link(e, &l[i]);
		prog_warm(&l[i], true, 40);
		fd[i] = l[i].fd;
	}
	ep = set_of(fd, HALVES);
	prog_sync(e);
	prog_sync(e);
	while (left) {
		n = epoll_wait(ep, ev, (int)ARRAY_SIZE(ev), 30000);
		CHECK(n > 0);
		for (i = 0; i < n; i++) {
			uint32_t at = ev[i].data.u32;

			if (got[at] < parts_of((int)at)) {
				link_get(&l[at], PART);
				got[at]++;
				continue;
			}
			CHECK(!recv(fd[at], &b, 1, 0));
			CHECK(!close(fd[at]));
			left--;
		}
	}
	CHECK(!close(ep));
	prog_sync(e);
}

/* --- a handler jumps out of a wait, and the next wait sleeps -------------- */

static sigjmp_buf out;

static void jump_out(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
}

static void jumps_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = jump_out };
	struct itimerval soon = { .it_value = { 0, 2000 } };
	struct timespec was, is;
	struct epoll_event ev;
	int ep = set_of(&e->l.fd, 1);
	volatile int i;

	CHECK(!sigaction(SIGALRM, &sa, NULL));
	for (i = 0; i < 20; i++) {
		if (sigsetjmp(out, 1))
			continue;
		CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
		for (;;)
			epoll_wait(ep, &ev, 1, -1);
	}
	prog_ask(e, 10);
	CHECK(epoll_wait(ep, &ev, 1, 30000) == 1);
	link_get(&e->l, 10);
	CHECK(!clock_gettime(CLOCK_THREAD_CPUTIME_ID, &was));
	CHECK(!epoll_wait(ep, &ev, 1, 1000));
	CHECK(!clock_gettime(CLOCK_THREAD_CPUTIME_ID, &is));
	CHECK((is.tv_sec - was.tv_sec) * 1000 +
		      (is.tv_nsec - was.tv_nsec) / 1000000 <
	      200);
	CHECK(!close(ep));
	prog_tell(e, 0);
}

static void jumps_peer(struct end *e)
{
	prog_not_here(SIGALRM);
	prog_feed(e);
}

/* --- room for one: no more than that is ever written ---------------------- */

#define EXCHANGES (300u * prog_scale)
#define PIECE	  241

static void one_event(int ep)
{
	struct epoll_event ev[4];
	uint8_t mark[sizeof(ev)];

	memset(mark, 0xa5, sizeof(mark));
	memset(ev, 0xa5, sizeof(ev));
	CHECK(epoll_wait(ep, ev, 1, -1) == 1);
	CHECK(!memcmp(ev + 1, mark, sizeof(ev) - sizeof(*ev)));
}

/* So many bytes each way, each in small pieces as long as they go. */
static void exchange(struct end *e, size_t out, size_t in)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLOUT |
					    (uint32_t)EPOLLET };
	int ep = epoll_create1(EPOLL_CLOEXEC);
	uint8_t b[PIECE];
	ssize_t n, k;

	CHECK(ep >= 0 && !epoll_ctl(ep, EPOLL_CTL_ADD, e->l.fd, &ev));
	while (out || in) {
		struct flow f = e->l.tx;
		size_t part = out < PIECE ? out : PIECE;

		flow_fill(&f, b, part);
		n = out ? send(e->l.fd, b, part, MSG_NOSIGNAL) : 0;
		CHECK(n >= 0 || errno == EAGAIN);
		if (n > 0) {
			flow_fill(&e->l.tx, b, (size_t)n);
			out -= (size_t)n;
		}
		k = in ? read(e->l.fd, b, in < PIECE ? in : PIECE) : 0;
		CHECK(k > 0 || !in || (k < 0 && errno == EAGAIN));
		if (k > 0) {
			flow_check(&e->l.rx, b, (size_t)k);
			in -= (size_t)k;
		}
		if (n <= 0 && k <= 0 && (out || in))
			one_event(ep);
	}
	CHECK(!close(ep));
}

/* A new connection each time: it is lifted in the midst of this. */
static void one_run(struct end *e)
{
	uint32_t seed = 11;
	unsigned int i, k;

	for (i = 0; i < EXCHANGES; i++) {
		link_bare(e);
		prog_nonblock(e->l.fd, true);
		for (k = 0; k < 6; k++) {
			size_t a = 1 + prog_rand(&seed) % 20000;
			size_t b = 1 + prog_rand(&seed) % 20000;

			if (k % 3)
				*(k % 3 == 1 ? &a : &b) = 0;
			exchange(e, e->peer ? a : b, e->peer ? b : a);
		}
		prog_nonblock(e->l.fd, false);
		if (e->peer)
			link_eof(&e->l);
		link_close(&e->l);
	}
}

/* --- two threads ---------------------------------------------------------- */

#define ANSWERS 150
#define OVER	1 /* data of the eventfd that ends a thread */

struct pool {
	struct end *e;
	int ep, over, told[2];
	unsigned int left; /* answers */
};

static void pool_begin(struct pool *p, struct end *e, uint32_t flags)
{
	struct epoll_event ev = { .events = EPOLLIN | flags };
	struct epoll_event over = { .events = EPOLLIN, .data.u32 = OVER };

	*p = (struct pool){ .e = e, .left = ANSWERS };
	p->ep = epoll_create1(EPOLL_CLOEXEC);
	p->over = eventfd(0, EFD_CLOEXEC);
	CHECK(p->ep >= 0 && p->over >= 0 && !pipe(p->told));
	CHECK(!epoll_ctl(p->ep, EPOLL_CTL_ADD, e->l.fd, &ev));
	CHECK(!epoll_ctl(p->ep, EPOLL_CTL_ADD, p->over, &over));
	prog_sync(e);
}

static void pool_end(struct pool *p, pthread_t sleeper)
{
	CHECK(!eventfd_write(p->over, 1) && !pthread_join(sleeper, NULL));
	CHECK(!close(p->ep) && !close(p->over));
	CHECK(!close(p->told[0]) && !close(p->told[1]));
	prog_sync(p->e);
}

/* Sleeps in the set, and leaves what is ready to another thread. */
static void *tells(void *arg)
{
	struct pool *p = arg;
	struct epoll_event ev;

	for (;;) {
		CHECK(epoll_wait(p->ep, &ev, 1, -1) == 1);
		if (ev.data.u32 == OVER)
			return NULL;
		CHECK(write(p->told[1], "x", 1) == 1);
	}
}

static void answer(struct pool *p)
{
	link_get(&p->e->l, 8);
	link_put(&p->e->l, 8);
	p->left--;
}

/* That one wants to hear of more, and looks before it goes. */
static void answers(struct end *e, uint32_t flags)
{
	struct epoll_event ev = { .events = EPOLLIN | flags }, got;
	struct pool p;
	pthread_t t;
	char b;

	pool_begin(&p, e, flags);
	CHECK(!pthread_create(&t, NULL, tells, &p));
	while (p.left) {
		CHECK(read(p.told[0], &b, 1) == 1);
		do {
			answer(&p);
			CHECK(!epoll_ctl(p.ep, EPOLL_CTL_MOD, e->l.fd, &ev));
		} while (p.left && epoll_wait(p.ep, &got, 1, 0) == 1);
	}
	pool_end(&p, t);
}

static void pool_run(struct end *e)
{
	answers(e, EPOLLONESHOT);
	answers(e, EPOLLONESHOT | (uint32_t)EPOLLET);
}

static void asks(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };
	unsigned int i;

	prog_sync(e);
	for (i = 0; i < ANSWERS; i++) {
		link_put(&e->l, 8);
		CHECK(poll(&p, 1, 10000) == 1);
		link_get(&e->l, 8);
		prog_nap_ms(1);
	}
	prog_sync(e);
}

static void pool_peer(struct end *e)
{
	asks(e);
	asks(e);
}

static const struct prog_case cases[] = {
	{ "seen", seen_run, talker, 0 },
	{ "cold", cold_run, talker, 0 },
	{ "turns", turns_run, talker, 0 },
	{ "polls", polls_run, talker, 0 },
	{ "edges", edges_run, leaver_ends, 0 },
	{ "halves", halves_run, halver, 0 },
	{ "jumps", jumps_run, jumps_peer, 0 },
	{ "one", one_run, one_run, CASE_BARE },
	{ "pool", pool_run, pool_peer, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
