/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* procs - fork, exec, spawn: connections that change hands. */
#include "prog.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* _Fork() is in glibc 2.34, its declaration not everywhere. */
extern pid_t _Fork(void);

/* The stream went on in another process for n bytes each way. */
static void moved(struct link *l, size_t n)
{
	l->rx.off += n;
	l->tx.off += n;
}

/* --- fork -------------------------------------------------------------- */

static void child_run(struct end *e)
{
	pid_t pid;
	int i;

	prog_visit(e, 500);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		for (i = 0; i < 200; i++)
			prog_visit(e, 300);
		prog_visit(e, 200000);
		prog_tell(e, 0);
		_exit(0);
	}
	link_close(&e->l);
	prog_reap(pid, 0);
}

static void parent_run(struct end *e)
{
	pid_t pid;
	int i;

	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		link_close(&e->l);
		_exit(0);
	}
	for (i = 0; i < 100; i++)
		prog_visit(e, 300);
	prog_reap(pid, 0);
	for (i = 0; i < 200; i++)
		prog_visit(e, 300);
	prog_visit(e, 200000);
	prog_tell(e, 0);
}

/* Parent and child take turns on the stream. */
static void both_run(struct end *e)
{
	uint8_t b;
	pid_t pid;
	int i, sv[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	pid = fork();
	CHECK(pid >= 0);
	for (i = 0; i < 30; i++) {
		if ((i % 2 == 0) == (pid != 0)) {
			prog_visit(e, 700);
			CHECK(write(sv[!pid], "t", 1) == 1);
		} else {
			CHECK(read(sv[!pid], &b, 1) == 1);
			moved(&e->l, 700);
		}
	}
	if (!pid)
		_exit(0);
	prog_reap(pid, 0);
	for (i = 0; i < 100; i++)
		prog_visit(e, 700);
	prog_tell(e, 0);
}

/* At the fork, bytes are under way and half read. */
static void unread_run(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };
	pid_t pid;

	prog_tell(e, 100000);
	CHECK(poll(&p, 1, 5000) == 1);
	link_get(&e->l, 1000);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		link_get(&e->l, 40000);
		_exit(0);
	}
	prog_reap(pid, 0);
	e->l.rx.off += 40000;
	link_get(&e->l, 59000);
	link_put(&e->l, 100000);
	CHECK(prog_hear(e) == 100000);
	prog_visit(e, 300);
	prog_tell(e, 0);
}

/* _Fork() runs no handlers of pthread_atfork(). */
static void bare_run(struct end *e)
{
	pid_t pid = _Fork();
	int i;

	CHECK(pid >= 0);
	if (!pid) {
		for (i = 0; i < 100; i++)
			prog_visit(e, 300);
		_exit(0);
	}
	prog_reap(pid, 0);
	moved(&e->l, 100 * 300);
	for (i = 0; i < 100; i++)
		prog_visit(e, 300);
	prog_tell(e, 0);
}

static void daemon_run(struct end *e)
{
	pid_t pid = fork();
	int i;

	CHECK(pid >= 0);
	if (!pid) {
		CHECK(!daemon(1, 1));
		for (i = 0; i < 200; i++)
			prog_visit(e, 300);
		prog_tell(e, 0);
		_exit(0);
	}
	prog_reap(pid, 0); /* the first child leaves at once */
	link_close(&e->l);
}

/* --- accept and fork, fork and accept ---------------------------------- */

#define SERVED 6
#define TURNS  500 /* longer than any child needs to go on with a pairing */

/* How many descriptors this process has, by the kernel's word. */
static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	CHECK(d);
	while (readdir(d))
		n++;
	CHECK(!closedir(d));
	return n;
}

static void serve_run(struct end *e)
{
	pid_t pid[SERVED];
	struct link l;
	int i, before = 0;

	if (e->lfd < 0) {
		for (i = 0; i < SERVED; i++) {
			prog_link(e, &l);
			prog_warm(&l, true, TURNS);
			link_close(&l);
		}
		return;
	}
	for (i = 0; i < SERVED; i++) {
		prog_link(e, &l);
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (!pid[i]) {
			CHECK(!close(e->lfd));
			prog_warm(&l, !e->peer, TURNS);
			_exit(0);
		}
		link_close(&l);
		if (!i)
			before = descriptors();
	}
	/* between hosts what was closed is let go of when its peer knows */
	for (i = 0; i < 10000 && descriptors() > before; i++)
		prog_nap_ms(1);
	CHECK(descriptors() <= before);
	for (i = 0; i < SERVED; i++)
		prog_reap(pid[i], 0);
}

static void serve_peer(struct end *e)
{
	struct link l;
	pid_t pid;
	int i;

	for (i = 0; i < SERVED; i++) {
		prog_link(e, &l);
		if (e->lfd < 0) {
			prog_warm(&l, false, TURNS);
			link_eof(&l);
			link_close(&l);
			continue;
		}
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			prog_warm(&l, false, TURNS);
			_exit(0);
		}
		link_close(&l);
		prog_reap(pid, 0);
	}
}

/* --- exec -------------------------------------------------------------- */

/* Hands the connection to a program in a child, with bytes still unread. */
static void hand_over(struct end *e, const char *path, bool keep_env)
{
	static char *nothing[] = { NULL };
	char fd[16], *argv[4];
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };
	pid_t pid;
	int i;

	CHECK(prog_hear(e) == 1); /* the peer has sent, we have not read */
	CHECK(poll(&p, 1, 5000) == 1);
	link_get(&e->l, 100);
	snprintf(fd, sizeof(fd), "%d", e->l.fd);
	argv[0] = (char *)(uintptr_t)path;
	argv[1] = fd;
	argv[2] = (char *)(uintptr_t) "60000";
	argv[3] = NULL;
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(!fcntl(e->l.fd, F_SETFD, 0));
		execve(path, argv, keep_env ? environ : nothing);
		_exit(9);
	}
	prog_reap(pid, 0);
	e->l.rx.off += 60000;
	for (i = 0; i < 20; i++)
		link_turn(&e->l, 300, true);
}

static void exec_peer(struct end *e)
{
	struct flow echo;
	uint8_t buf[60000];
	ssize_t r;
	size_t got = 0;
	int i;

	link_put(&e->l, 100);
	echo = e->l.tx;
	link_put(&e->l, 30000);
	prog_tell(e, 1);
	link_put(&e->l, 30000);
	/* what comes back is our own */
	while (got < sizeof(buf)) {
		r = read(e->l.fd, buf, sizeof(buf) - got);
		CHECK(r > 0);
		flow_check(&echo, buf, (size_t)r);
		got += (size_t)r;
	}
	for (i = 0; i < 20; i++)
		link_turn(&e->l, 300, false);
}

static void static_run(struct end *e)
{
	char path[4096];

	hand_over(e, prog_sibling("plainecho", path, sizeof(path)), true);
}

/* The same program again, dynamic, preloaded or without its environment. */
static void again_run(struct end *e)
{
	hand_over(e, prog_self, true);
}

static void stripped_run(struct end *e)
{
	hand_over(e, prog_self, false);
}

/* An exec that fails leaves everything as it was. */
static void failing_run(struct end *e)
{
	char *argv[] = { (char *)(uintptr_t) "nothing", NULL };
	int i;

	CHECK(!fcntl(e->l.fd, F_SETFD, 0));
	for (i = 0; i < 3; i++) {
		prog_visit(e, 1000);
		FAILS(execv("/nonexistent/nothing", argv), ENOENT);
		FAILS(execvp("no-such-program-here", argv), ENOENT);
		FAILS(execve("/", argv, environ), EACCES);
	}
	for (i = 0; i < 100; i++)
		prog_visit(e, 300);
	prog_tell(e, 0);
}

/* The case's own process becomes another program. */
static void become_run(struct end *e)
{
	char path[4096], fd[16];
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		prog_sibling("plainecho", path, sizeof(path));
		snprintf(fd, sizeof(fd), "%d", e->l.fd);
		CHECK(!fcntl(e->l.fd, F_SETFD, 0));
		prog_visit(e, 500);
		prog_tell(e, 0);
		execl(path, path, fd, (char *)NULL);
		_exit(9);
	}
	link_close(&e->l);
	prog_reap(pid, 0);
}

static void become_peer(struct end *e)
{
	uint8_t a[5000], b[5000];
	int i;

	prog_host(e);
	for (i = 0; i < 20; i++) {
		flow_fill(&e->l.tx, a, sizeof(a));
		CHECK(write(e->l.fd, a, sizeof(a)) == (ssize_t)sizeof(a));
		CHECK(recv(e->l.fd, b, sizeof(b), MSG_WAITALL) ==
		      (ssize_t)sizeof(b));
		CHECK(!memcmp(a, b, sizeof(a)));
	}
}

/*
 * The child has it alone, sleeps, and what it sent lies unread: its peer can
 * have the stream back on TCP all the same.
 */
static void left_run(struct end *e)
{
	unsigned int i;
	pid_t pid;

	/* one way only: for what comes it sleeps in the kernel */
	link_bare(e);
	for (i = 0; i < 100; i++) {
		link_put(&e->l, 50);
		prog_nap_ms(1);
	}
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		for (i = 0; i < 100; i++)
			link_put(&e->l, 50);
		link_get(&e->l, 1);
		_exit(0);
	}
	link_close(&e->l);
	prog_reap(pid, 0);
}

static void left_peer(struct end *e)
{
	int off;

	link_bare(e);
	link_get(&e->l, 9990);
	prog_nap_ms(50); /* it sleeps by now, most likely */
	for (off = 0; off >= -1; off--)
		CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_PEEK_OFF, &off,
				  sizeof(off)));
	link_get(&e->l, 10);
	link_put(&e->l, 1);
}

/* --- children that have nothing to do with the connection -------------- */

/* Python and the JDK: vfork, a loop of closes, exec. */
static pid_t vfork_true(void)
{
	char *argv[] = { (char *)(uintptr_t) "true", NULL };
	pid_t pid = vfork();

	CHECK(pid >= 0);
	if (!pid) {
		int k;

		for (k = 3; k < 1200; k++)
			close(k);
		execv("/bin/true", argv);
		_exit(9);
	}
	return pid;
}

static void vfork_run(struct end *e)
{
	pid_t pid;
	int i;

	for (i = 0; i < 5; i++) {
		prog_visit(e, 300);
		pid = vfork_true();
		prog_visit(e, 300);
		prog_reap(pid, 0);
	}
	for (i = 0; i < 100; i++)
		prog_visit(e, 300);
	prog_tell(e, 0);
}

static void tools_run(struct end *e)
{
	char *argv[] = { (char *)(uintptr_t) "true", NULL };
	char line[16];
	pid_t pid;
	FILE *f;
	int i;

	for (i = 0; i < 3; i++) {
		CHECK(!posix_spawnp(&pid, "true", NULL, NULL, argv, environ));
		prog_visit(e, 300);
		prog_reap(pid, 0);
		CHECK(system("exit 3") == 3 << 8);
		prog_visit(e, 300);
		f = popen("echo hello", "r");
		CHECK(f && fgets(line, sizeof(line), f));
		CHECK(!strcmp(line, "hello\n"));
		CHECK(!pclose(f));
		prog_visit(e, 300);
	}
	for (i = 0; i < 100; i++)
		prog_visit(e, 300);
	prog_tell(e, 0);
}

/* inetd's way: the connection becomes 0 and 1 of a spawned program. */
static void spawn_run(struct end *e)
{
	posix_spawn_file_actions_t fa;
	char path[4096], *argv[3];
	pid_t pid;

	prog_sibling("plainecho", path, sizeof(path));
	argv[0] = path;
	argv[1] = (char *)(uintptr_t) "0";
	argv[2] = NULL;
	prog_visit(e, 500);
	CHECK(!posix_spawn_file_actions_init(&fa));
	CHECK(!posix_spawn_file_actions_adddup2(&fa, e->l.fd, 0));
	CHECK(!posix_spawn_file_actions_adddup2(&fa, e->l.fd, 1));
	CHECK(!posix_spawn_file_actions_addclose(&fa, e->l.fd));
	CHECK(!posix_spawn(&pid, path, &fa, NULL, argv, environ));
	CHECK(!posix_spawn_file_actions_destroy(&fa));
	link_close(&e->l);
	prog_tell(e, 0);
	prog_reap(pid, 0);
}

static void inetd_run(struct end *e)
{
	char path[4096];
	pid_t pid;

	prog_sibling("plainecho", path, sizeof(path));
	prog_visit(e, 500);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK(dup2(e->l.fd, 0) == 0);
		CHECK(dup2(e->l.fd, 1) == 1);
		closefrom(3);
		execl(path, path, "0", (char *)NULL);
		_exit(9);
	}
	link_close(&e->l);
	prog_tell(e, 0);
	prog_reap(pid, 0);
}

static const struct prog_case cases[] = {
	{ "child", child_run, prog_host, CASE_PROCESS },
	{ "parent", parent_run, prog_host, CASE_PROCESS },
	{ "both", both_run, prog_host, CASE_PROCESS },
	{ "unread", unread_run, prog_host, CASE_PROCESS },
	{ "bare", bare_run, prog_host, CASE_PROCESS },
	{ "daemon", daemon_run, prog_host, CASE_PROCESS },
	{ "serve", serve_run, serve_peer, CASE_BARE | CASE_PROCESS },
	{ "static", static_run, exec_peer, CASE_PROCESS },
	{ "again", again_run, exec_peer, CASE_PROCESS },
	{ "stripped", stripped_run, exec_peer, CASE_PROCESS },
	{ "failing", failing_run, prog_host, CASE_PROCESS },
	{ "become", become_run, become_peer, CASE_PROCESS },
	{ "left", left_run, left_peer, CASE_PROCESS | CASE_BARE },
	{ "vfork", vfork_run, prog_host, CASE_PROCESS },
	{ "tools", tools_run, prog_host, CASE_PROCESS },
	{ "spawn", spawn_run, become_peer, CASE_PROCESS },
	{ "inetd", inetd_run, become_peer, CASE_PROCESS },
};

/* "procs FD BYTES" is the program that hand_over() executes. */
int main(int argc, char **argv)
{
	if (argc == 3 && atoi(argv[1]) > 0 && atol(argv[2]) > 0)
		return !fd_echo(atoi(argv[1]), (size_t)atol(argv[2]));
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
