/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * killed - a child that has its parent's connection, and uses it, is killed
 * somewhere in a call. Its parent, which waits there meanwhile or does nothing,
 * has the rest of the stream, and the peer notices nothing.
 *
 * And a writer is killed while its reader's program starts others that inherit
 * the descriptor: what comes of the stream is its beginning.
 */
#include "prog.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 15
#define WARM   40
#define FRAME  64
#define ANSWER 1024 /* bytes for each one that comes back */

/* Until the zero byte, which is in no pattern; how many bytes came. */
static size_t get_all(struct link *l, bool answers)
{
	size_t sum = 0, due = 0;
	char buf[64];
	ssize_t n;

	do {
		n = recv(l->fd, buf, sizeof(buf), 0);
		if (n < 0 && errno == EINTR)
			continue;
		CHECK(n > 0);
		flow_check(&l->rx, buf, (size_t)n - !buf[n - 1]);
		sum += (size_t)n - !buf[n - 1];
		for (; answers && due < sum / ANSWER; due++)
			link_put(l, 1);
	} while (buf[n - 1]);
	return sum;
}

static void put_end(const struct link *l)
{
	CHECK(send(l->fd, "", 1, 0) == 1);
}

/* --- the parent, meanwhile ----------------------------------------------- */

static void *receives(void *l)
{
	get_all(l, false);
	return NULL;
}

static void *polls(void *arg)
{
	const struct link *l = arg;
	struct pollfd p = { .fd = l->fd, .events = POLLIN };
	size_t sum = 0;

	do {
		CHECK(poll(&p, 1, -1) == 1);
		sum += get_all(arg, false);
	} while (!sum);
	return NULL;
}

static void *in_set(void *arg)
{
	const struct link *l = arg;
	struct epoll_event ev = { .events = EPOLLIN };
	int set = epoll_create1(EPOLL_CLOEXEC);

	CHECK(set >= 0 && !epoll_ctl(set, EPOLL_CTL_ADD, l->fd, &ev));
	CHECK(epoll_wait(set, &ev, 1, -1) == 1);
	get_all(arg, false);
	close(set);
	return NULL;
}

/* --- a child that sends -------------------------------------------------- */

static pid_t child(void (*work)(struct link *), struct link *l)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		for (;;)
			work(l);
	return pid;
}

static void end_of(pid_t pid, unsigned int us)
{
	int status;

	usleep(us);
	CHECK(!kill(pid, SIGKILL));
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
}

static void puts_frame(struct link *l)
{
	link_put(l, FRAME);
}

static void sends(struct end *e, void *(*meanwhile)(void *))
{
	struct link l;
	pthread_t t;
	pid_t pid;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		prog_link(e, &l);
		prog_warm(&l, false, WARM);
		pid = child(puts_frame, &l);
		if (meanwhile)
			CHECK(!pthread_create(&t, NULL, meanwhile, &l));
		end_of(pid, 2000 + (unsigned int)i * 373);
		put_end(&l);
		l.tx.off = prog_hear(e);
		if (meanwhile)
			CHECK(!pthread_join(t, NULL));
		else
			get_all(&l, false);
		link_turn(&l, FRAME, true);
		link_close(&l);
	}
}

static void peer_receives(struct end *e)
{
	struct link l;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		prog_link(e, &l);
		prog_warm(&l, true, WARM);
		get_all(&l, true);
		link_put(&l, 1);
		put_end(&l);
		prog_tell(e, l.rx.off);
		link_turn(&l, FRAME, false);
		link_close(&l);
	}
}

static void sends_idle(struct end *e)
{
	sends(e, NULL);
}

static void sends_recv(struct end *e)
{
	sends(e, receives);
}

static void sends_poll(struct end *e)
{
	sends(e, polls);
}

static void sends_epoll(struct end *e)
{
	sends(e, in_set);
}

/* --- a child that receives ----------------------------------------------- */

static void gets_frame(struct link *l)
{
	char buf[FRAME];
	ssize_t n = recv(l->fd, buf, sizeof(buf), 0);

	CHECK(n > 0);
	flow_check(&l->rx, buf, (size_t)n);
}

static void looks(struct link *l)
{
	struct pollfd p = { .fd = l->fd, .events = POLLIN };
	char buf[FRAME];

	CHECK(poll(&p, 1, -1) == 1);
	CHECK(recv(l->fd, buf, sizeof(buf), MSG_PEEK) > 0);
	gets_frame(l);
}

/* What the child has taken is not known; what is left is the end of it. */
static void get_rest(struct end *e, struct link *l)
{
	static char buf[1 << 22];
	size_t sum = 0;
	uint64_t end;
	ssize_t n;

	do {
		CHECK(sum < sizeof(buf));
		n = recv(l->fd, buf + sum, sizeof(buf) - sum, 0);
		CHECK(n > 0);
		sum += (size_t)n;
	} while (buf[sum - 1]);
	end = prog_hear(e);
	CHECK(sum - 1 <= end);
	l->rx.off = end - (sum - 1);
	flow_check(&l->rx, buf, sum - 1);
}

static void gets(struct end *e, void (*work)(struct link *))
{
	struct link l;
	pid_t pid;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		prog_link(e, &l);
		prog_warm(&l, false, WARM);
		pid = child(work, &l);
		prog_tell(e, 1);
		end_of(pid, 2000 + (unsigned int)i * 373);
		prog_tell(e, 0);
		get_rest(e, &l);
		link_turn(&l, FRAME, true);
		link_close(&l);
	}
}

static void peer_sends(struct end *e)
{
	struct pollfd p = { .fd = e->ctl, .events = POLLIN };
	struct link l;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		prog_link(e, &l);
		prog_warm(&l, true, WARM);
		CHECK(prog_hear(e) == 1);
		while (!poll(&p, 1, 0) && l.tx.off < 1 << 21)
			link_put(&l, FRAME);
		CHECK(prog_hear(e) == 0);
		put_end(&l);
		prog_tell(e, l.tx.off);
		link_turn(&l, FRAME, false);
		link_close(&l);
	}
}

static void gets_recv(struct end *e)
{
	gets(e, gets_frame);
}

static void gets_poll(struct end *e)
{
	gets(e, looks);
}

/* --- a writer, while other programs are started -------------------------- */

#define WRITERS 30

/* Its socket does not hold all that it may have to write back. */
static pid_t writer(int lfd)
{
	int few = 212992;
	struct sockaddr_in sin;
	socklen_t len = sizeof(sin);
	struct link l = { .tx.seed = 1, .rx.seed = 2 };
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid)
		return pid;
	CHECK(!getsockname(lfd, (struct sockaddr *)&sin, &len));
	l.fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(l.fd >= 0);
	CHECK(!setsockopt(l.fd, SOL_SOCKET, SO_SNDBUF, &few, sizeof(few)));
	CHECK(!connect(l.fd, (struct sockaddr *)&sin, len));
	prog_warm(&l, true, WARM);
	for (;;)
		link_put(&l, 65536);
}

static void *starts(void *arg)
{
	const bool *over = arg;

	while (!__atomic_load_n(over, __ATOMIC_ACQUIRE))
		CHECK(system("exit 3") == 3 << 8);
	return NULL;
}

/* All that comes, at times when other programs start; the end may be a reset. */
static void get_beginning(struct link *l)
{
	char buf[4096];
	ssize_t n;

	do {
		n = recv(l->fd, buf, sizeof(buf), MSG_DONTWAIT);
		if (n > 0)
			flow_check(&l->rx, buf, (size_t)n);
		usleep(50);
	} while (n > 0 || (n < 0 && errno == EAGAIN));
	CHECK(!n || errno == ECONNRESET);
}

static void starts_others(struct end *e)
{
	int lfd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), i;
	struct link l;
	pthread_t t;
	int status;
	bool over;
	pid_t pid;

	(void)e;
	CHECK(lfd >= 0 && !listen(lfd, 4)); /* on a free port */
	for (i = 0; i < WRITERS; i++) {
		pid = writer(lfd);
		l = (struct link){ .tx.seed = 2, .rx.seed = 1 };
		l.fd = accept(lfd, NULL, NULL);
		CHECK(l.fd >= 0);
		prog_warm(&l, false, WARM);
		while (prog_state(pid) != 'S')
			prog_nap_ms(1);
		over = false;
		CHECK(!pthread_create(&t, NULL, starts, &over));
		usleep(500 + (unsigned int)i * 97);
		CHECK(!kill(pid, SIGKILL));
		get_beginning(&l);
		__atomic_store_n(&over, true, __ATOMIC_RELEASE);
		CHECK(!pthread_join(t, NULL));
		CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
		link_close(&l);
	}
	CHECK(!close(lfd));
}

static const struct prog_case cases[] = {
	{ "sends", sends_idle, peer_receives, CASE_BARE | CASE_PROCESS },
	{ "sends-recv", sends_recv, peer_receives, CASE_BARE | CASE_PROCESS },
	{ "sends-poll", sends_poll, peer_receives, CASE_BARE | CASE_PROCESS },
	{ "sends-epoll", sends_epoll, peer_receives, CASE_BARE | CASE_PROCESS },
	{ "gets", gets_recv, peer_sends, CASE_BARE | CASE_PROCESS },
	{ "gets-poll", gets_poll, peer_sends, CASE_BARE | CASE_PROCESS },
	{ "starts", starts_others, NULL, CASE_SOLO },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
