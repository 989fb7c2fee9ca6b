/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sandbox - filters of system calls that allow what the program calls, and
 * kill it for what a library might call in its place.
 */
#include "prog.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define DENY(nr)                                             \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##nr, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

/* `fd`: the connection; `how`: 0 by prctl(), 1 by seccomp() for all threads. */
static void confine(int fd, int how)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		DENY(sendmsg),
		DENY(recvmsg),
		DENY(getpid),
		DENY(gettid),
		DENY(kill),
		DENY(openat),
		DENY(unlink),
		DENY(unlinkat),
		DENY(ioctl),
		DENY(getsockopt),
		DENY(setsockopt),
		DENY(fcntl),
		DENY(epoll_ctl),
		DENY(epoll_pwait),
		DENY(memfd_create),
		DENY(clock_gettime),
		DENY(ppoll),
		DENY(rt_sigprocmask),
		DENY(shutdown),
		DENY(socketpair),
		DENY(connect),
		DENY(clone),
		DENY(clone3),
		DENY(getsockname),
		DENY(ftruncate),
		DENY(fallocate),
		/* the steps of a case are sent, the connection is written */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)fd, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sendto, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_recvfrom, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {
		.len = sizeof(code) / sizeof(code[0]),
		.filter = code,
	};

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	if (how)
		CHECK(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
			       SECCOMP_FILTER_FLAG_TSYNC, &prog));
	else
		CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0));
}

static void confined_visits(struct end *e)
{
	int i;

	for (i = 0; i < 100; i++)
		prog_visit(e, 300);
	for (i = 0; i < 5; i++)
		prog_visit(e, 50000);
}

static void itself_run(struct end *e)
{
	prog_visit(e, 500);
	confine(e->l.fd, 0);
	confined_visits(e);
	prog_tell(e, 0);
}

static void threads_run(struct end *e)
{
	prog_visit(e, 500);
	confine(e->l.fd, 1);
	confined_visits(e);
	prog_tell(e, 0);
}

/* Bytes lie unread when the filter comes into force. */
static void unread_run(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };

	prog_visit(e, 500);
	prog_tell(e, 20000);
	CHECK(poll(&p, 1, 5000) == 1);
	link_get(&e->l, 100);
	confine(e->l.fd, 0);
	link_get(&e->l, 19900);
	link_put(&e->l, 20000);
	CHECK(prog_hear(e) == 20000);
	confined_visits(e);
	prog_tell(e, 0);
}

/* What sshd does: a child with a filter, then the parent again. */
static void child_run(struct end *e)
{
	pid_t pid;
	int i;

	prog_visit(e, 500);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		confine(e->l.fd, 0);
		confined_visits(e);
		_exit(0);
	}
	prog_reap(pid, 0);
	e->l.rx.off += 280000;
	e->l.tx.off += 280000;
	for (i = 0; i < 100; i++)
		prog_visit(e, 300);
	prog_tell(e, 0);
}

static void caller(const struct sockaddr_in *to)
{
	int i, fd = socket(AF_INET, SOCK_STREAM, 0);
	char buf[100];

	CHECK(fd >= 0);
	CHECK(!connect(fd, (const struct sockaddr *)to, sizeof(*to)));
	memset(buf, 7, sizeof(buf));
	for (i = 0; i < 200; i++) {
		CHECK(write(fd, buf, sizeof(buf)) == (ssize_t)sizeof(buf));
		CHECK(recv(fd, buf, sizeof(buf), MSG_WAITALL) ==
		      (ssize_t)sizeof(buf));
	}
	_exit(0);
}

/* A server that confines itself before its first client comes. */
static void server_run(struct end *e)
{
	struct sockaddr_in in = { .sin_family = AF_INET };
	socklen_t len = sizeof(in);
	int fd, lfd = socket(AF_INET, SOCK_STREAM, 0);
	char buf[1000];
	ssize_t n;
	pid_t pid;

	prog_tell(e, 0);
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(lfd >= 0 && !bind(lfd, (struct sockaddr *)&in, len));
	CHECK(!listen(lfd, 5));
	CHECK(!getsockname(lfd, (struct sockaddr *)&in, &len));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		caller(&in);
	confine(-1, 0);
	fd = accept(lfd, NULL, NULL);
	CHECK(fd >= 0);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		CHECK(write(fd, buf, (size_t)n) == n);
	CHECK(!n && !close(fd));
	prog_reap(pid, 0);
}

/* Asking what the kernel can do is no filter yet: the connection stays. */
static void asking_run(struct end *e)
{
	uint32_t action = SECCOMP_RET_ALLOW;
	int i;

	prog_visit(e, 500);
	FAILS(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0), EFAULT);
	FAILS(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL), EINVAL);
	CHECK(!syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action));
	for (i = 0; i < 200; i++)
		prog_visit(e, 300);
	prog_tell(e, 0);
}

/* The default of a signal needs no system call. */
static void ending_run(struct end *e)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), status, p[2];
	pid_t pid;
	char b;

	prog_tell(e, 0);
	CHECK(fd >= 0 && !pipe(p));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		confine(-1, 0);
		CHECK(write(p[1], "x", 1) == 1);
		for (;;)
			pause();
	}
	CHECK(read(p[0], &b, 1) == 1);
	CHECK(!kill(pid, SIGTERM));
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	CHECK(!close(p[0]) && !close(p[1]) && !close(fd));
}

static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

/* Sleeps till the signal interrupts it. */
static void interrupted(struct end *e, int set)
{
	const struct itimerval soon = { .it_value = { 0, 50000 } };
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };
	struct epoll_event ev;
	int before = alarms;

	CHECK(!setitimer(ITIMER_REAL, &soon, NULL));
	if (set < 0)
		FAILS(poll(&p, 1, 5000), EINTR);
	else
		FAILS(epoll_wait(set, &ev, 1, 5000), EINTR);
	CHECK(alarms == before + 1);
}

/* What is set before a filter and behind it, and a set of epoll. */
static void handlers_run(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct sigaction sa = { .sa_handler = on_alarm }, was;
	int set = epoll_create1(0);

	CHECK(set >= 0 && !epoll_ctl(set, EPOLL_CTL_ADD, e->l.fd, &ev));
	CHECK(signal(SIGALRM, on_alarm) == SIG_DFL);
	prog_visit(e, 500);
	confine(e->l.fd, 0);
	interrupted(e, -1);
	interrupted(e, set);
	CHECK(!sigaction(SIGALRM, NULL, &was));
	CHECK(was.sa_handler == on_alarm);
	CHECK(!sigaction(SIGALRM, &sa, &was) && was.sa_handler == on_alarm);
	interrupted(e, set);
	CHECK(signal(SIGALRM, on_alarm) == on_alarm);
	interrupted(e, -1);
	CHECK(signal(SIGUSR1, on_alarm) == SIG_DFL);
	confined_visits(e);
	prog_tell(e, 0);
}

static const struct prog_case cases[] = {
	{ "itself", itself_run, prog_host, CASE_PROCESS },
	{ "threads", threads_run, prog_host, CASE_PROCESS },
	{ "unread", unread_run, prog_host, CASE_PROCESS },
	{ "child", child_run, prog_host, CASE_PROCESS },
	{ "server", server_run, prog_host, CASE_PROCESS },
	{ "ending", ending_run, prog_host, CASE_PROCESS },
	{ "handlers", handlers_run, prog_host, CASE_PROCESS },
	{ "asking", asking_run, prog_host, CASE_PROCESS },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
