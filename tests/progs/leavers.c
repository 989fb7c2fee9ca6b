/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * leavers - connections whose ends go to where the library is not, or whose peer
 * is killed, with bytes unread: nothing is lost, and they live on.
 */
#include "prog.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define PARKED	20
#define CROSSED 200
#define PART	3000
#define MUCH	1000000

/* The thread (0: the caller) has the first of its processors, or the others. */
static void processor(pid_t tid, bool first)
{
	cpu_set_t set;
	int cpu = 0;

	CHECK(!sched_getaffinity(tid, sizeof(set), &set));
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	if (first) {
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
	} else if (CPU_COUNT(&set) > 1) {
		CPU_CLR(cpu, &set);
	}
	CHECK(!sched_setaffinity(tid, sizeof(set), &set));
}

static void one_processor(void)
{
	processor(0, true);
}

/*
 * Given away, behind bytes for a thread asleep in a set, and closed: all before
 * that thread runs, as far as this process may have the processor to itself. Of
 * what ends there the kernel knows nothing: the connection lives on.
 */
static void parked_run(struct end *e)
{
	struct link l;
	int i;

	for (i = 0; i < PARKED; i++) {
		struct epoll_event ev = { .events = EPOLLIN };
		int ep = epoll_create1(EPOLL_CLOEXEC);

		prog_link(e, &l);
		prog_warm(&l, true, 60);
		CHECK(ep >= 0 && !epoll_ctl(ep, EPOLL_CTL_ADD, l.fd, &ev));
		one_processor(); /* this thread alone */
		prog_tell(e, 1);
		CHECK(epoll_wait(ep, &ev, 1, 5000) == 1);
		link_get(&l, PART);
		prog_tell(e, 2);
		CHECK(!close(ep));
		link_close(&l);
	}
}

static void parked_peer(struct end *e)
{
	struct sched_param first = { .sched_priority = 1 };
	struct link l;
	int64_t end;
	int sv[2], i;

	one_processor();
	for (i = 0; i < PARKED; i++) {
		CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
		prog_link(e, &l);
		prog_warm(&l, false, 60);
		CHECK(prog_hear(e) == 1);
		prog_nap_ms(5);
		if (sched_setscheduler(0, SCHED_FIFO, &first))
			CHECK(errno == EPERM);
		link_put(&l, PART);
		fd_give(sv[0], l.fd, 1);
		link_close(&l);
		/* the library's thread of the other end is not held up */
		for (end = prog_now_ms() + 5; prog_now_ms() < end;)
			;
		first.sched_priority = 0;
		CHECK(!sched_setscheduler(0, SCHED_OTHER, &first));
		first.sched_priority = 1;
		CHECK(prog_hear(e) == 2); /* until then it is open */
		CHECK(!close(sv[0]) && !close(sv[1]));
	}
}

/*
 * Both ends go to where the library is not, one after the other, and the first
 * one's last bytes are unread: nothing is lost, and the connection lives on.
 * (Between hosts they are read before: doc/limits.md.)
 */
static void park(struct link *l, int via)
{
	fd_give(via, l->fd, 1);
	link_close(l);
}

static void goes_unread(struct end *e)
{
	size_t n;
	int sv[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	if (prog_far)
		link_get(&e->l, PART);
	park(&e->l, sv[0]);
	prog_tell(e, 2);
	e->l.fd = fd_take(sv[1], &n);
	if (!prog_far)
		link_get(&e->l, PART);
	link_turn(&e->l, 100, true);
	CHECK(!close(sv[0]) && !close(sv[1]));
}

static void both_run(struct end *e)
{
	CHECK(prog_hear(e) == 1);
	goes_unread(e);
}

static void goes_on(struct end *e, int sv[2])
{
	size_t n;

	CHECK(prog_hear(e) == 2);
	e->l.fd = fd_take(sv[1], &n);
	link_turn(&e->l, 100, false);
	CHECK(!close(sv[0]) && !close(sv[1]));
}

static void both_peer(struct end *e)
{
	int sv[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	link_put(&e->l, PART);
	park(&e->l, sv[0]);
	prog_tell(e, 1);
	goes_on(e, sv);
}

/* Both at the same moment, one of them with bytes unread, again and again. */
static void cross(struct link *l, struct end *e, size_t unread)
{
	int sv[2];
	size_t n;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	prog_sync(e);
	park(l, sv[0]);
	prog_sync(e);
	l->fd = fd_take(sv[1], &n);
	link_get(l, unread);
	link_turn(l, 100, !e->peer);
	link_close(l);
	CHECK(!close(sv[0]) && !close(sv[1]));
}

static void crossed_run(struct end *e)
{
	struct link l;
	int i;

	for (i = 0; i < CROSSED; i++) {
		prog_link(e, &l);
		prog_warm(&l, true, 20);
		if (prog_far)
			link_get(&l, PART);
		cross(&l, e, prog_far ? 0 : PART);
	}
}

static void crossed_peer(struct end *e)
{
	struct link l;
	int i;

	for (i = 0; i < CROSSED; i++) {
		prog_link(e, &l);
		prog_warm(&l, false, 20);
		link_put(&l, PART);
		cross(&l, e, 0);
	}
}

/*
 * More is unread than the kernel takes at once: what this end has handed back
 * comes when it is where the library is not, and in front of what is sent then.
 * (Between hosts it is read while it comes: a stall there is followed by TCP,
 * whose buffers may be too small for so much.)
 */
static void brims(struct end *e)
{
	int sv[2];
	size_t n;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	if (prog_far)
		link_get(&e->l, MUCH);
	CHECK(prog_hear(e) == 1);
	park(&e->l, sv[0]);
	e->l.fd = fd_take(sv[1], &n);
	prog_tell(e, 2);
	prog_nap_ms(100); /* the other end wants to send, or has closed */
	if (!prog_far)
		link_get(&e->l, MUCH);
	CHECK(!close(sv[0]) && !close(sv[1]));
}

static void brim_run(struct end *e)
{
	brims(e);
	link_get(&e->l, PART);
	link_turn(&e->l, 100, true);
}

static void end_run(struct end *e)
{
	brims(e);
	link_eof(&e->l);
	link_close(&e->l);
	prog_tell(e, 3);
}

static void fills(struct end *e)
{
	int room = 20000;

	link_put(&e->l, MUCH);
	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)));
	prog_tell(e, 1);
	CHECK(prog_hear(e) == 2);
}

static void brim_peer(struct end *e)
{
	fills(e);
	link_put(&e->l, PART);
	link_turn(&e->l, 100, false);
}

static void end_peer(struct end *e)
{
	fills(e);
	link_close(&e->l);
	CHECK(prog_hear(e) == 3);
}

/*
 * The other end does not run until all of that is done, and stays. Between
 * hosts it has to run: only it can say that nothing of its own is under way.
 */
static void missed_run(struct end *e)
{
	int sv[2], fl;
	size_t n;

	CHECK(prog_hear(e) == 1);
	prog_nap_ms(100); /* the library's thread has looked */
	if (!prog_far) {
		fl = fcntl(e->l.fd, F_GETFD);
		CHECK(!fcntl(e->l.fd, F_SETFD, 0) && !system("true"));
		CHECK(!fcntl(e->l.fd, F_SETFD, fl));
		/* it may be refused, but does not end it */
		CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
		if (fd_send(sv[0], e->l.fd, 1) < 0)
			CHECK(errno == EAGAIN);
		else
			CHECK(!close(fd_take(sv[1], &n)));
		CHECK(!close(sv[0]) && !close(sv[1]));
	}
	prog_tell(e, 2);
	link_get(&e->l, PART);
	link_turn(&e->l, 100, true);
}

static void missed_peer(struct end *e)
{
	pid_t other = getppid();
	int sv[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	CHECK(prog_far || !kill(other, SIGSTOP));
	while (!prog_far && prog_state(other) != 'T')
		prog_nap_ms(1);
	link_put(&e->l, PART);
	park(&e->l, sv[0]);
	CHECK(prog_far || !kill(other, SIGCONT));
	prog_tell(e, 1);
	goes_on(e, sv);
}

/*
 * The other end's process has no processor for a while, and then goes where the
 * library is not, too, with bytes unread.
 */
static void busy_run(struct end *e)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *task;

	CHECK(dir);
	while ((task = readdir(dir)))
		if (atoi(task->d_name))
			processor(atoi(task->d_name), true);
	CHECK(!closedir(dir));
	prog_tell(e, 1);
	CHECK(prog_hear(e) == 2);
	goes_unread(e);
}

/* Connects, has `turns` bytes answered, sends PART more, and says so. */
static void sends_and_stays(const struct sockaddr_in *to, int turns, int say)
{
	struct link l = { .fd = socket(AF_INET, SOCK_STREAM, 0) };
	char byte = 0;

	CHECK(!connect(l.fd, (const struct sockaddr *)to, sizeof(*to)));
	for (; turns; turns--) {
		CHECK(send(l.fd, &byte, 1, 0) == 1);
		CHECK(recv(l.fd, &byte, 1, 0) == 1);
		prog_nap_ms(1);
	}
	link_put(&l, PART);
	CHECK(write(say, &byte, 1) == 1);
	for (;;)
		pause();
}

/*
 * The peer is killed, and the descriptor then passed on: behind each number of
 * turns, so that the peer has just left TCP for SDP once.
 */
static void slain_run(struct end *e)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);
	int lfd = socket(AF_INET, SOCK_STREAM, 0), sv[2], said[2], turns, i;
	char byte;
	size_t n;

	(void)e;
	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(!bind(lfd, (struct sockaddr *)&sin, len) && !listen(lfd, 1));
	CHECK(!getsockname(lfd, (struct sockaddr *)&sin, &len));
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	CHECK(!pipe(said));
	for (turns = 0; turns < 12; turns++) {
		struct link l = { .fd = -1 };
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid)
			sends_and_stays(&sin, turns, said[1]);
		l.fd = accept(lfd, NULL, NULL);
		CHECK(l.fd >= 0);
		for (i = 0; i < turns; i++)
			CHECK(recv(l.fd, &byte, 1, 0) == 1 &&
			      send(l.fd, &byte, 1, 0) == 1);
		CHECK(read(said[0], &byte, 1) == 1);
		CHECK(!kill(pid, SIGKILL) && waitpid(pid, NULL, 0) == pid);
		park(&l, sv[0]);
		l.fd = fd_take(sv[1], &n);
		link_get(&l, PART);
		link_eof(&l);
		link_close(&l);
	}
	CHECK(!close(sv[0]) && !close(sv[1]) && !close(lfd));
	CHECK(!close(said[0]) && !close(said[1]));
}

static void *hog(void *arg)
{
	const struct sched_param first = { .sched_priority = 1 };
	int64_t end;

	one_processor();
	if (sched_setscheduler(0, SCHED_FIFO, &first))
		CHECK(errno == EPERM);
	__atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
	for (end = prog_now_ms() + 150; prog_now_ms() < end;)
		;
	return NULL;
}

static void busy_peer(struct end *e)
{
	int runs = 0, sv[2];
	pthread_t t;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	CHECK(prog_hear(e) == 1);
	CHECK(!pthread_create(&t, NULL, hog, &runs));
	processor(0, false);
	while (!__atomic_load_n(&runs, __ATOMIC_ACQUIRE))
		prog_nap_ms(1);
	link_put(&e->l, PART);
	park(&e->l, sv[0]);
	CHECK(!pthread_join(t, NULL));
	prog_tell(e, 2);
	goes_on(e, sv);
}

/* --- a child has it for longer than a call that was under way ------------ */

/* system() from when it says so until it is told. */
struct other_call {
	pthread_t thread;
	int says[2], told[2];
	char line[64];
};

static void *calls_system(void *arg)
{
	const struct other_call *o = arg;

	CHECK(!system(o->line));
	return NULL;
}

static void call_begins(struct other_call *o)
{
	char c;

	CHECK(!pipe(o->says) && !pipe(o->told));
	snprintf(o->line, sizeof(o->line), "bash -c 'echo >&%d; read x <&%d'",
		 o->says[1], o->told[0]);
	CHECK(!pthread_create(&o->thread, NULL, calls_system, o));
	CHECK(read(o->says[0], &c, 1) == 1);
}

static void call_ends(struct other_call *o)
{
	CHECK(write(o->told[1], "\n", 1) == 1);
	CHECK(!pthread_join(o->thread, NULL));
	CHECK(!close(o->says[0]) && !close(o->says[1]));
	CHECK(!close(o->told[0]) && !close(o->told[1]));
}

/* A child that reads PART bytes from it when it is told. */
static FILE *reads_later(int fd)
{
	char line[80];
	FILE *f;

	snprintf(line, sizeof(line),
		 "bash -c 'read x; test $(head -c %d <&%d | wc -c) = %d'", PART,
		 fd, PART);
	f = popen(line, "we");
	CHECK(f);
	return f;
}

static void has_read(struct end *e, struct link *l, FILE *child)
{
	char buf[PART];

	prog_warm(l, true, 60); /* it would be lifted */
	prog_tell(e, 1);
	CHECK(prog_hear(e) == 2);
	flow_fill(&l->rx, buf, PART); /* the child has them */
	CHECK(fputc('\n', child) == '\n' && !pclose(child));
	link_turn(l, 100, true);
	link_close(l);
}

static void held_run(struct end *e)
{
	struct other_call o;
	struct link l;
	FILE *child;
	int more;

	/* one number when the call begins, two when it ends */
	prog_link(e, &l);
	CHECK(!fcntl(l.fd, F_SETFD, 0));
	child = reads_later(l.fd);
	call_begins(&o);
	more = dup(l.fd);
	call_ends(&o);
	CHECK(more >= 0 && !close(more));
	has_read(e, &l, child);

	/* none when it begins */
	call_begins(&o);
	prog_link(e, &l);
	CHECK(!fcntl(l.fd, F_SETFD, 0));
	child = reads_later(l.fd);
	call_ends(&o);
	has_read(e, &l, child);
}

static void held_peer(struct end *e)
{
	struct link l;
	int i;

	for (i = 0; i < 2; i++) {
		prog_link(e, &l);
		prog_warm(&l, false, 60);
		CHECK(prog_hear(e) == 1);
		link_put(&l, PART);
		prog_tell(e, 2);
		link_turn(&l, 100, false);
		link_close(&l);
	}
}

static const struct prog_case cases[] = {
	{ "parked", parked_run, parked_peer, CASE_PROCESS },
	{ "both", both_run, both_peer, CASE_PROCESS },
	{ "brim", brim_run, brim_peer, CASE_PROCESS },
	{ "end", end_run, end_peer, CASE_PROCESS },
	{ "crossed", crossed_run, crossed_peer, CASE_PROCESS },
	{ "missed", missed_run, missed_peer, CASE_PROCESS },
	{ "busy", busy_run, busy_peer, CASE_PROCESS },
	{ "held", held_run, held_peer, CASE_PROCESS },
	{ "slain", slain_run, NULL, CASE_SOLO | CASE_BARE },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
