/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stopped - calls behind which other code may use the descriptors, while the
 * peer is stopped: they need it for bytes only, and then once for all
 * connections together.
 */
#include "prog.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINKS	100
#define WARM	40
#define PART	5 /* bytes that lie unread at the peer */
#define TURNS	3
#define LONG_MS 1500 /* less than one time-out of the library */

extern char **environ;

static struct link links[LINKS];
static pid_t peer;

static void stop(struct end *e)
{
	int status;

	prog_hear(e); /* all are connected */
	peer = e->pid;
	CHECK(!kill(peer, SIGSTOP));
	CHECK(waitpid(peer, &status, WUNTRACED) == peer && WIFSTOPPED(status));
}

static void connect_all(struct end *e)
{
	int i;

	for (i = 0; i < LINKS; i++) {
		prog_link(e, &links[i]);
		prog_warm(&links[i], e->peer, WARM);
		CHECK(!fcntl(links[i].fd, F_SETFD, 0)); /* survives an exec */
	}
	if (e->peer)
		prog_tell(e, LINKS);
}

/* The stream is whole, either way. */
static void go_on(struct end *e)
{
	int i;

	for (i = 0; i < LINKS; i++) {
		if (e->peer) {
			link_get(&links[i], PART);
			link_put(&links[i], PART);
		} else {
			link_get(&links[i], PART);
		}
	}
	for (i = 0; i < LINKS; i++) {
		link_turn(&links[i], 64, e->peer);
		link_close(&links[i]);
	}
}

static void peer_goes_on(struct end *e)
{
	CHECK(!kill(peer, SIGCONT));
	go_on(e);
}

static void wait_for(pid_t pid)
{
	int status;

	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && !status);
}

static void pass_all(void)
{
	char room[CMSG_SPACE(sizeof(int) * LINKS)], byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = sizeof(room) };
	struct cmsghdr *c;
	int pair[2], i;

	memset(room, 0, sizeof(room));
	c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * LINKS);
	for (i = 0; i < LINKS; i++)
		memcpy(CMSG_DATA(c) + i * sizeof(int), &links[i].fd,
		       sizeof(int));
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	CHECK(sendmsg(pair[0], &m, 0) == 1);
	close(pair[0]);
	close(pair[1]);
}

static void by_system(void)
{
	CHECK(!system("true"));
}

static void by_popen(void)
{
	FILE *f = popen("true", "re");

	CHECK(f && !pclose(f));
}

static void by_spawn(void)
{
	char *argv[] = { (char *)"true", NULL };
	pid_t pid;

	CHECK(!posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ));
	wait_for(pid);
}

static void by_fork(void)
{
	pid_t pid = fork();

	if (!pid) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	wait_for(pid);
}

static void by_stdio(void)
{
	int i;

	for (i = 0; i < LINKS; i++) {
		FILE *f = fdopen(links[i].fd, "r+");

		CHECK(f);
		links[i].fd = dup(fileno(f));
		CHECK(links[i].fd >= 0 && !fclose(f));
	}
}

static void by_signal(void)
{
	int i, flags;

	for (i = 0; i < LINKS; i++) {
		flags = fcntl(links[i].fd, F_GETFL);
		CHECK(flags >= 0 &&
		      !fcntl(links[i].fd, F_SETFL, flags | O_ASYNC));
		CHECK(!fcntl(links[i].fd, F_SETFL, flags));
	}
}

/* --- nothing that the peer would be needed for --------------------------- */

static void idle(struct end *e, void (*act)(void))
{
	int64_t began;
	int i;

	connect_all(e);
	stop(e);
	for (i = 0; i < LINKS; i++)
		link_put(&links[i], PART);
	began = prog_now_ms();
	act();
	CHECK(prog_now_ms() - began < LONG_MS);
	peer_goes_on(e);
}

static void idle_peer(struct end *e)
{
	connect_all(e);
	go_on(e);
}

#define IDLE(name)                             \
	static void name##_run(struct end *e)  \
	{                                      \
		idle(e, by_##name);            \
	}                                      \
	static void name##_peer(struct end *e) \
	{                                      \
		idle_peer(e);                  \
	}

IDLE(system)
IDLE(popen)
IDLE(spawn)
IDLE(fork)
IDLE(stdio)
IDLE(signal)

static void by_pass(void)
{
	pass_all();
}
IDLE(pass)

/* A thread for each, asleep in a receive. */
static void *receives(void *arg)
{
	link_get(arg, PART);
	return NULL;
}

static void sleep_in_receives(struct end *e)
{
	pthread_t thread[LINKS];
	pthread_attr_t attr;
	int64_t began;
	int i;

	connect_all(e);
	CHECK(!pthread_attr_init(&attr) &&
	      !pthread_attr_setstacksize(&attr, 1 << 18));
	for (i = 0; i < LINKS; i++)
		CHECK(!pthread_create(&thread[i], &attr, receives, &links[i]));
	prog_nap_ms(200);
	stop(e);
	began = prog_now_ms();
	by_system();
	CHECK(prog_now_ms() - began < LONG_MS);
	for (i = 0; i < LINKS; i++)
		link_put(&links[i], PART);
	CHECK(!kill(peer, SIGCONT));
	for (i = 0; i < LINKS; i++)
		CHECK(!pthread_join(thread[i], NULL));
}

static void wake_them(struct end *e)
{
	int i;

	connect_all(e);
	for (i = 0; i < LINKS; i++)
		link_get(&links[i], PART);
	for (i = 0; i < LINKS; i++)
		link_put(&links[i], PART);
}

static void turn_all(struct end *e)
{
	int i;

	for (i = 0; i < LINKS; i++) {
		link_turn(&links[i], 64, e->peer);
		link_close(&links[i]);
	}
}

static void threads_run(struct end *e)
{
	sleep_in_receives(e);
	turn_all(e);
}

static void threads_peer(struct end *e)
{
	wake_them(e);
	turn_all(e);
}

/* Once they were brought out of there, an event loop hears of all that comes. */
static void edges_run(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int ep = epoll_create1(EPOLL_CLOEXEC), i, n;

	CHECK(ep >= 0);
	sleep_in_receives(e);
	for (i = 0; i < LINKS; i++) {
		ev.data.u32 = (uint32_t)i;
		CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, links[i].fd, &ev));
	}
	for (n = 0; n < TURNS; n++)
		for (i = 0; i < LINKS; i++) {
			struct epoll_event one;

			link_put(&links[i], PART);
			CHECK(epoll_wait(ep, &one, 1, 10000) == 1);
			CHECK(one.data.u32 == (uint32_t)i);
			link_get(&links[i], PART);
		}
	turn_all(e);
	close(ep);
}

static void edges_peer(struct end *e)
{
	int i, n;

	wake_them(e);
	for (n = 0; n < TURNS; n++)
		for (i = 0; i < LINKS; i++) {
			link_get(&links[i], PART);
			prog_nap_ms(1); /* it sleeps by then, mostly */
			link_put(&links[i], PART);
		}
	turn_all(e);
}

/* An event loop holds them all. */
static void set_run(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(EPOLL_CLOEXEC), i, n, got = 0;
	int64_t began;

	CHECK(ep >= 0);
	connect_all(e);
	for (i = 0; i < LINKS; i++)
		CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, links[i].fd, &ev));
	CHECK(epoll_wait(ep, &ev, 1, 0) == 0);
	stop(e);
	began = prog_now_ms();
	by_system();
	CHECK(prog_now_ms() - began < LONG_MS);
	for (i = 0; i < LINKS; i++)
		link_put(&links[i], PART);
	CHECK(!kill(peer, SIGCONT));
	while (got < LINKS) {
		struct epoll_event some[LINKS];

		n = epoll_wait(ep, some, LINKS, 20000);
		CHECK(n > 0);
		got = n > got ? n : got; /* a level: those before are there */
		if (got < LINKS)
			prog_nap_ms(1);
	}
	go_on(e);
	close(ep);
}

static void set_peer(struct end *e)
{
	idle_peer(e);
}

/*
 * What another process sends, to which it was passed, comes behind what its peer
 * has unread: once that one goes on, it may be asked for it, but not put it there.
 */
static pid_t other_begin(int *via)
{
	struct link l;
	size_t n;
	int pair[2], i;
	pid_t pid;

	CHECK(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	*via = pair[0];
	pid = fork();
	CHECK(pid >= 0);
	close(pair[!pid ? 0 : 1]);
	if (pid)
		return pid;
	for (i = 0; i < LINKS; i++) {
		CHECK(read(pair[1], &l, sizeof(l)) == sizeof(l));
		l.fd = fd_take(pair[1], &n);
		CHECK(l.fd >= 0);
		link_put(&l, PART);
		close(l.fd);
	}
	_exit(0);
}

static void other_run(struct end *e)
{
	uint8_t some[PART];
	int via, i;
	pid_t pid = other_begin(&via);

	connect_all(e);
	stop(e);
	for (i = 0; i < LINKS; i++) {
		link_put(&links[i], PART);
		CHECK(write(via, &links[i], sizeof(links[i])) > 0);
		fd_give(via, links[i].fd, 0);
		flow_fill(&links[i].tx, some, PART);
	}
	close(via);
	wait_for(pid);
	peer_goes_on(e);
}

static void other_peer(struct end *e)
{
	int i;

	connect_all(e);
	prog_nap_ms(100); /* for its background thread to ask in */
	for (i = 0; i < LINKS; i++)
		link_get(&links[i], PART);
	go_on(e);
}

/* --- bytes of the peer's ------------------------------------------------- */

/* What it sent has to be put back by it: all are waited for at once. */
static void unread_run(struct end *e)
{
	int64_t began;
	int i;

	connect_all(e);
	stop(e);
	began = prog_now_ms();
	by_system();
	CHECK(prog_now_ms() - began < 10 * LONG_MS);
	CHECK(!kill(peer, SIGCONT));
	for (i = 0; i < LINKS; i++) {
		link_get(&links[i], PART);
		link_turn(&links[i], 64, false);
		link_close(&links[i]);
	}
}

static void unread_peer(struct end *e)
{
	int i;

	for (i = 0; i < LINKS; i++) {
		prog_link(e, &links[i]);
		prog_warm(&links[i], true, WARM);
	}
	for (i = 0; i < LINKS; i++)
		link_put(&links[i], PART);
	prog_tell(e, LINKS);
	for (i = 0; i < LINKS; i++) {
		link_turn(&links[i], 64, true);
		link_close(&links[i]);
	}
}

#define BOTH(name)                                                       \
	{                                                                \
#name, name##_run, name##_peer, CASE_BARE | CASE_PROCESS \
	}

static const struct prog_case cases[] = {
	BOTH(system), BOTH(popen),   BOTH(spawn), BOTH(fork),
	BOTH(stdio),  BOTH(signal),  BOTH(pass),  BOTH(other),
	BOTH(set),    BOTH(threads), BOTH(edges), BOTH(unread),
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
