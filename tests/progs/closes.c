/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * closes - a thread uses a number while another closes it, gives it to another
 * connection, or to another set. Whatever such a call may say, it says it of
 * what the number is or was; nothing crashes, and no byte is another number's.
 */
#include "prog.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <unistd.h>

#define USED   300 /* the number that the other thread uses */
#define ASIDE  301 /* one that it never does */
#define ROUNDS (100u * prog_scale)
#define TURNS  160 /* more than it takes to be lifted */

static int listener;
static struct sockaddr_in addr;
static bool stop;
static unsigned long taken, sent;
static pthread_t user;

static void listens(void)
{
	socklen_t len = sizeof(addr);

	addr = (struct sockaddr_in){ .sin_family = AF_INET };
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(listener >= 0);
	CHECK(!bind(listener, (struct sockaddr *)&addr, len));
	CHECK(!listen(listener, 16));
	CHECK(!getsockname(listener, (struct sockaddr *)&addr, &len));
}

/* Both ends, and enough turns that they may be lifted. */
static void joined(int end[2])
{
	char byte = 1;
	int i;

	end[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(end[0] >= 0);
	CHECK(!connect(end[0], (struct sockaddr *)&addr, sizeof(addr)));
	end[1] = accept(listener, NULL, NULL);
	CHECK(end[1] >= 0);
	for (i = 0; i < TURNS; i++) {
		CHECK(send(end[i & 1], &byte, 1, 0) == 1);
		CHECK(recv(end[!(i & 1)], &byte, 1, MSG_WAITALL) == 1);
	}
}

static bool going_on(void)
{
	return !__atomic_load_n(&stop, __ATOMIC_RELAXED);
}

static void starts(void *(*run)(void *))
{
	stop = false;
	taken = sent = 0;
	CHECK(!pthread_create(&user, NULL, run, NULL));
}

static void ends(void)
{
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	CHECK(!pthread_join(user, NULL));
}

/* --- closed, and another connection's ----------------------------------------- */

static void *uses(void *arg)
{
	struct pollfd p = { .fd = USED, .events = POLLIN | POLLOUT };
	char buf[256];
	uint32_t seed = 5;
	ssize_t n, i;
	int left;

	while (going_on()) {
		switch (prog_rand(&seed) % 6) {
		case 0:
			poll(&p, 1, 0);
			break;
		case 1:
			ioctl(USED, FIONREAD, &left);
			break;
		case 2:
			left = 1;
			setsockopt(USED, IPPROTO_TCP, TCP_NODELAY, &left,
				   sizeof(left));
			break;
		case 3:
			send(USED, "u", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
			break;
		default:
			n = recv(USED, buf, sizeof(buf), MSG_DONTWAIT);
			for (i = 0; i < n; i++)
				CHECK(buf[i] == 'x');
			taken += n > 0;
		}
	}
	return arg;
}

static void used_run(struct end *e)
{
	char x[64], y[64], got[64];
	unsigned int i;
	int end[2];

	(void)e;
	memset(x, 'x', sizeof(x));
	memset(y, 'y', sizeof(y));
	listens();
	starts(uses);
	for (i = 0; i < ROUNDS; i++) {
		joined(end);
		CHECK(fcntl(end[1], F_DUPFD, USED) == USED);
		CHECK(!close(end[1]));
		CHECK(send(end[0], x, sizeof(x), 0) == sizeof(x));
		if (i % 3)
			sched_yield();
		CHECK(!close(USED));
		CHECK(!close(end[0]));
		/* its bytes are its own, whatever began at the other number */
		joined(end);
		CHECK(fcntl(end[1], F_DUPFD, ASIDE) == ASIDE);
		CHECK(!close(end[1]));
		CHECK(send(end[0], y, sizeof(y), 0) == sizeof(y));
		CHECK(recv(ASIDE, got, sizeof(got), MSG_WAITALL) ==
		      sizeof(got));
		CHECK(!memcmp(got, y, sizeof(y)));
		CHECK(!close(ASIDE));
		CHECK(!close(end[0]));
	}
	ends();
	CHECK(!close(listener));
}

/* --- replaced -------------------------------------------------------------------- */

/* The number is open at every moment: each byte goes to one or the other. */
static void *sends(void *arg)
{
	char buf[32];
	ssize_t n;

	memset(buf, 's', sizeof(buf));
	while (going_on()) {
		n = send(USED, buf, sizeof(buf), MSG_NOSIGNAL | MSG_DONTWAIT);
		CHECK(n > 0 || errno == EAGAIN);
		if (n > 0)
			sent += (unsigned long)n;
	}
	return arg;
}

static void drains(int fd)
{
	char buf[4096];
	ssize_t n, i;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		for (i = 0; i < n; i++)
			CHECK(buf[i] == 's');
		taken += (unsigned long)n;
	}
	CHECK(!n);
	CHECK(!close(fd));
}

static void replaced_run(struct end *e)
{
	int end[2], old;
	unsigned int i;

	(void)e;
	listens();
	joined(end);
	old = end[0];
	CHECK(dup2(end[1], USED) == USED);
	CHECK(!close(end[1]));
	starts(sends);
	for (i = 0; i < ROUNDS; i++) {
		joined(end);
		CHECK(dup2(end[1], USED) == USED);
		CHECK(!close(end[1]));
		drains(old);
		old = end[0];
	}
	ends();
	CHECK(!close(USED));
	drains(old);
	CHECK(taken == sent);
	CHECK(!close(listener));
}

/* --- sets -------------------------------------------------------------------------- */

#define SET 302

static void *waits(void *arg)
{
	struct epoll_event ev[4];
	uint32_t seed = 9;
	int i, n;

	while (going_on()) {
		ev[0] = (struct epoll_event){ .events = EPOLLIN,
					      .data.u64 = 77 };
		if (prog_rand(&seed) % 4 == 0)
			epoll_ctl(SET, EPOLL_CTL_ADD, USED, ev);
		n = epoll_wait(SET, ev, 4, (int)(prog_rand(&seed) % 2));
		for (i = 0; i < n; i++)
			CHECK(ev[i].data.u64 == 77);
	}
	return arg;
}

static void sets_run(struct end *e)
{
	int end[2], set;
	unsigned int i;

	(void)e;
	listens();
	starts(waits);
	for (i = 0; i < ROUNDS; i++) {
		set = epoll_create1(EPOLL_CLOEXEC);
		CHECK(set >= 0 && dup2(set, SET) == SET && !close(set));
		joined(end);
		CHECK(dup2(end[1], USED) == USED);
		CHECK(!close(end[1]));
		CHECK(send(end[0], "x", 1, 0) == 1);
		if (i % 2)
			sched_yield();
		CHECK(!close(i % 3 ? USED : SET));
		CHECK(!close(i % 3 ? SET : USED));
		CHECK(!close(end[0]));
	}
	ends();
	CHECK(!close(listener));
}

/* --- a member of select() ---------------------------------------------------- */

#define BESIDE 303 /* another member, which stays */
#define PIPE   304 /* one that is never the library's */
#define DEAD   305 /* asked for what it will never report */

struct selects {
	bool precise, piped, dead; /* pselect(), with these two beside */
	pid_t tid; /* atomic */
};

/* Of a member that is closed meanwhile the kernel says that it is ready. */
static void *selects(void *arg)
{
	struct timespec ts = { 100, 0 };
	struct timeval tv = { 100, 0 };
	struct selects *how = arg;
	fd_set r, x;
	int n;

	FD_ZERO(&r);
	FD_ZERO(&x);
	FD_SET(USED, &r);
	FD_SET(USED, &x);
	FD_SET(BESIDE, &r);
	if (how->piped)
		FD_SET(PIPE, &r);
	if (how->dead)
		FD_SET(DEAD, &x);
	__atomic_store_n(&how->tid, gettid(), __ATOMIC_RELEASE);
	n = how->precise ? pselect(DEAD + 1, &r, NULL, &x, &ts, NULL) :
			   select(DEAD + 1, &r, NULL, &x, &tv);
	CHECK(n == 2 || n == 3);
	CHECK(FD_ISSET(USED, &r) && FD_ISSET(USED, &x));
	CHECK(FD_ISSET(BESIDE, &r) == (n == 3));
	CHECK(!FD_ISSET(PIPE, &r) && !FD_ISSET(DEAD, &x));
	/* but one that is not there to begin with is an error */
	FD_SET(USED, &r);
	FAILS(select(DEAD + 1, &r, NULL, NULL, &tv), EBADF);
	FAILS(pselect(DEAD + 1, &r, NULL, NULL, &ts, NULL), EBADF);
	CHECK(FD_ISSET(USED, &r));
	return NULL;
}

static void placed(int fd, int at)
{
	CHECK(dup2(fd, at) == at);
	CHECK(!close(fd));
}

static void selects_once(struct selects *how)
{
	struct linger now = { 1, 0 };
	struct link used[2], beside[2], dead[2];
	int ends_of[2];

	link_self(&used[0], &used[1], 0);
	link_self(&beside[0], &beside[1], 0);
	link_self(&dead[0], &dead[1], 0);
	CHECK(!pipe(ends_of));
	placed(used[1].fd, USED);
	placed(beside[1].fd, BESIDE);
	placed(dead[1].fd, DEAD);
	placed(ends_of[0], PIPE);
	CHECK(!pthread_create(&user, NULL, selects, how));
	while (!__atomic_load_n(&how->tid, __ATOMIC_ACQUIRE))
		sched_yield();
	prog_asleep(how->tid, 20);
	if (how->dead) {
		CHECK(!setsockopt(dead[0].fd, SOL_SOCKET, SO_LINGER, &now,
				  sizeof(now)));
		CHECK(!close(dead[0].fd));
		prog_asleep(how->tid, 20);
	}
	CHECK(!close(USED));
	CHECK(send(beside[0].fd, "x", 1, 0) == 1);
	CHECK(!pthread_join(user, NULL));
	CHECK(!close(used[0].fd) && !close(beside[0].fd) && !close(BESIDE));
	CHECK(!close(ends_of[1]) && !close(PIPE) && !close(DEAD));
	if (!how->dead)
		CHECK(!close(dead[0].fd));
}

static void selects_run(struct end *e)
{
	unsigned int i;

	(void)e;
	for (i = 0; i < 8 * prog_scale; i++) {
		struct selects how = { .precise = i & 1,
				       .piped = i & 2,
				       .dead = i & 4 };

		selects_once(&how);
	}
}

static const struct prog_case cases[] = {
	{ "used", used_run, NULL, CASE_SOLO | CASE_BARE },
	{ "replaced", replaced_run, NULL, CASE_SOLO | CASE_BARE },
	{ "sets", sets_run, NULL, CASE_SOLO | CASE_BARE },
	{ "selects", selects_run, NULL, CASE_SOLO | CASE_BARE },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
