/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* forks - handlers of pthread_atfork(), and what a child goes on to hold. */
#include "prog.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LAST 3000
#define FED  60

/* --- handlers ------------------------------------------------------------ */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct link ends[2];
static int uses; /* 0: the handlers only hold the mutex */

/* A connection is used, and another number comes and goes. */
static void use(void)
{
	int fd;

	if (!uses)
		return;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	link_put(&ends[0], 100);
	link_get(&ends[1], 100);
	CHECK(!close(fd));
	uses++;
}

static void prepare(void)
{
	pthread_mutex_lock(&mutex);
	use();
}

static void in_parent(void)
{
	use();
	pthread_mutex_unlock(&mutex);
}

/* The stream is the parent's to use. */
static void in_child(void)
{
	struct link a, b;

	if (uses) {
		link_close(&ends[0]);
		link_self(&a, &b, 3);
		link_close(&a);
		link_eof(&b);
	}
	pthread_mutex_unlock(&mutex);
}

/* Registered before any library could do so, the preloaded one among them. */
static void register_first(void)
{
	pthread_atfork(prepare, in_parent, in_child);
}

__attribute__((section(".preinit_array"),
	       used)) static void (*const first)(void) = register_first;

/* Sockets come and go under the mutex. */
static void *busy(void *arg)
{
	const int *over = arg;
	int fd;

	while (!__atomic_load_n(over, __ATOMIC_RELAXED)) {
		pthread_mutex_lock(&mutex);
		fd = socket(AF_INET, SOCK_STREAM, 0);
		CHECK(fd >= 0);
		CHECK(!close(fd));
		pthread_mutex_unlock(&mutex);
		sched_yield();
	}
	return NULL;
}

static void fork_often(int n)
{
	pthread_t thread;
	int over = 0;
	pid_t pid;

	link_self(&ends[0], &ends[1], 0);
	CHECK(!pthread_create(&thread, NULL, busy, &over));
	while (n--) {
		pid = fork();
		CHECK(pid >= 0);
		if (!pid)
			_exit(0);
		prog_reap(pid, 0);
	}
	__atomic_store_n(&over, 1, __ATOMIC_RELAXED);
	CHECK(!pthread_join(thread, NULL));
	link_close(&ends[0]);
	link_eof(&ends[1]);
	link_close(&ends[1]);
}

static void mutex_run(struct end *e)
{
	(void)e;
	fork_often(300);
}

static void handlers_run(struct end *e)
{
	(void)e;
	uses = 1;
	fork_often(50);
	CHECK(uses == 1 + 50 * 2);
	uses = 0;
}

/* --- several at a time --------------------------------------------------- */

static void *fork_some(void *arg)
{
	int i;

	(void)arg;
	for (i = 0; i < 30; i++)
		prog_child();
	return NULL;
}

/* Nothing is left over: the peer sees the end once this process closes. */
static void together_run(struct end *e)
{
	pthread_t thread[3];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(thread); i++)
		CHECK(!pthread_create(&thread[i], NULL, fork_some, NULL));
	for (i = 0; i < ARRAY_SIZE(thread); i++)
		CHECK(!pthread_join(thread[i], NULL));
	prog_sync(e);
	link_turn(&e->l, 1000, true);
	link_close(&e->l);
}

static void together_peer(struct end *e)
{
	prog_sync(e);
	link_turn(&e->l, 1000, false);
	link_eof(&e->l);
}

/* --- what the child holds ------------------------------------------------ */

static void pty_run(struct end *e)
{
	int master, i;
	pid_t pid;
	char b;

	prog_visit(e, 500);
	pid = forkpty(&master, NULL, NULL, NULL);
	CHECK(pid >= 0);
	if (!pid) {
		/* the other end would see it if this process did not count */
		CHECK(read(0, &b, 1) == 1 && b == '\n');
		for (i = 0; i < 200; i++)
			prog_visit(e, 300);
		prog_tell(e, 0);
		_exit(0);
	}
	link_close(&e->l);
	CHECK(write(master, "\n", 1) == 1);
	prog_reap(pid, 0);
	CHECK(!close(master));
}

#define WORD 0x0123456789abcdefull

/* A child that ends when it is told. */
static pid_t keeper(int *tell)
{
	int p[2];
	pid_t pid;
	char b;

	CHECK(!pipe2(p, O_CLOEXEC));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(p[1]);
		_exit(read(p[0], &b, 1) != 0);
	}
	close(p[0]);
	*tell = p[1];
	return pid;
}

static void one_event(int ep, int ms)
{
	struct epoll_event ev = { 0 };

	CHECK(epoll_wait(ep, &ev, 1, ms) == 1);
	CHECK(ev.data.u64 == WORD && ev.events == EPOLLIN);
}

static void no_event(int ep)
{
	struct epoll_event ev;
	int i;

	/* the child's end lets go of it, a little later than it can be seen */
	for (i = 0; i < 2000 && epoll_wait(ep, &ev, 1, 0); i++)
		prog_nap_ms(1);
	CHECK(epoll_wait(ep, &ev, 1, 0) == 0);
}

/* Not deleted before it is closed: the set has it until the child ends. */
static void kept_run(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = WORD };
	int ep = epoll_create1(EPOLL_CLOEXEC), tell;
	struct link a, b;
	pid_t pid;

	(void)e;
	link_self(&a, &b, 1);
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, b.fd, &ev));
	CHECK(epoll_wait(ep, &ev, 1, 0) == 0);
	pid = keeper(&tell);
	link_put(&a, 10);
	one_event(ep, -1);
	link_close(&b);
	one_event(ep, -1);
	one_event(ep, 100);
	CHECK(!close(tell));
	prog_reap(pid, 0);
	no_event(ep);
	link_close(&a);
	CHECK(!close(ep));
}

/* The same of a set in a set. */
static void nested_run(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = WORD };
	int out = epoll_create1(EPOLL_CLOEXEC), in, tell;
	struct link a, b;
	pid_t pid;

	(void)e;
	in = epoll_create1(EPOLL_CLOEXEC);
	link_self(&a, &b, 1);
	CHECK(!epoll_ctl(in, EPOLL_CTL_ADD, b.fd, &ev));
	CHECK(!epoll_ctl(out, EPOLL_CTL_ADD, in, &ev));
	CHECK(epoll_wait(out, &ev, 1, 0) == 0);
	pid = keeper(&tell);
	CHECK(!close(in));
	link_put(&a, 10);
	one_event(out, -1);
	CHECK(!close(tell));
	prog_reap(pid, 0);
	no_event(out);
	link_close(&a);
	link_close(&b);
	CHECK(!close(out));
}

/* The peer has ended; its last bytes are read by a child, and are its parent's. */
static void last_run(struct end *e)
{
	pid_t pid;

	CHECK(prog_hear(e) == 1);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		link_get(&e->l, LAST);
		link_eof(&e->l);
		_exit(0);
	}
	prog_reap(pid, 0);
	link_eof(&e->l);
	link_close(&e->l);
}

static void runs_true(bool shares)
{
	pid_t pid = shares ? vfork() : fork();

	CHECK(pid >= 0);
	if (!pid) {
		execlp("true", "true", (char *)NULL);
		_exit(1);
	}
	prog_reap(pid, 0);
}

/* A program that inherits the descriptor does not take them along. */
static void helper_run(struct end *e)
{
	CHECK(prog_hear(e) == 1);
	CHECK(!fcntl(e->l.fd, F_SETFD, 0));
	runs_true(false);
	link_get(&e->l, LAST / 3);
	runs_true(true);
	link_get(&e->l, LAST / 3);
	CHECK(!system("true"));
	link_get(&e->l, LAST / 3);
	link_eof(&e->l);
	link_close(&e->l);
}

/* What the kernel alone does: the stream has to be there first. */
static void paced(int fd)
{
	unsigned int rate = 0xfffffffe;
	int64_t since = prog_now_ms();

	CHECK(!setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate,
			  sizeof(rate)));
	CHECK(prog_now_ms() - since < 1000);
}

/* One way only, so that no other is lifted. */
static void fed(struct link *l, int n)
{
	while (n--) {
		link_put(l, 10);
		prog_nap_ms(1);
	}
}

/* The child sleeps in a receive; its parent's last bytes are unread. */
static pid_t reader(struct end *e)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		link_get(&e->l, 5);
		link_eof(&e->l);
		_exit(0);
	}
	prog_nap_ms(50);
	return pid;
}

/* `early`: it sleeps there before anything is lifted. */
static void unserved(struct end *e, bool early)
{
	pid_t pid = -1;

	link_bare(e);
	if (early)
		pid = reader(e);
	fed(&e->l, FED);
	CHECK(prog_hear(e) == 1);
	if (!early)
		pid = reader(e);
	fed(&e->l, 5);
	link_close(&e->l);
	prog_tell(e, 2);
	prog_reap(pid, 0);
}

static void silent_run(struct end *e)
{
	unserved(e, false);
}

static void early_run(struct end *e)
{
	unserved(e, true);
}

static void silent_peer(struct end *e)
{
	link_bare(e);
	link_get(&e->l, 10 * FED);
	prog_tell(e, 1);
	CHECK(prog_hear(e) == 2);
	paced(e->l.fd);
	link_get(&e->l, 50);
	link_put(&e->l, 5);
	link_close(&e->l);
}

static void last_peer(struct end *e)
{
	link_put(&e->l, LAST);
	link_close(&e->l);
	prog_tell(e, 1);
}

/*
 * A daemon: forked before the first socket, by a process that has ended since.
 * It waits in select() while its last connection is cleared away.
 */
static void daemon_selects(int told)
{
	struct timeval half = { .tv_usec = 500000 };
	int lfd = socket(AF_INET, SOCK_STREAM, 0);
	struct link a, b;
	fd_set set;

	CHECK(lfd >= 0 && !listen(lfd, 1));
	link_self(&a, &b, 60);
	CHECK(!close(a.fd) && !close(b.fd));
	FD_ZERO(&set);
	FD_SET(lfd, &set);
	CHECK(!select(lfd + 1, &set, NULL, NULL, &half));
	CHECK(write(told, "x", 1) == 1);
	_exit(0);
}

/* A program of its own: "forks daemon NUMBER". */
static int is_daemon(int told)
{
	pid_t pid = fork();

	if (!pid)
		daemon_selects(told);
	return pid < 0;
}

static void first_run(struct end *e)
{
	char number[16], c;
	int told[2];
	pid_t pid;

	(void)e;
	CHECK(!pipe(told));
	snprintf(number, sizeof(number), "%d", told[1]);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		execl(prog_self, "forks", "daemon", number, (char *)NULL);
		_exit(1);
	}
	prog_reap(pid, 0);
	CHECK(!close(told[1]));
	CHECK(read(told[0], &c, 1) == 1);
	CHECK(!close(told[0]));
}

static const struct prog_case cases[] = {
	{ "mutex", mutex_run, NULL, CASE_SOLO | CASE_BARE },
	{ "handlers", handlers_run, NULL, CASE_SOLO | CASE_BARE },
	{ "together", together_run, together_peer, CASE_PROCESS },
	{ "pty", pty_run, prog_host, CASE_PROCESS },
	{ "last", last_run, last_peer, CASE_PROCESS },
	{ "silent", silent_run, silent_peer, CASE_PROCESS | CASE_BARE },
	{ "early", early_run, silent_peer, CASE_PROCESS | CASE_BARE },
	{ "helper", helper_run, last_peer, CASE_PROCESS },
	{ "kept", kept_run, NULL, CASE_SOLO | CASE_BARE },
	{ "nested", nested_run, NULL, CASE_SOLO | CASE_BARE },
	{ "first", first_run, NULL, CASE_SOLO | CASE_BARE },
};

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "daemon"))
		return is_daemon(atoi(argv[2]));
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
