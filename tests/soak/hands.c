/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* hands.c - descriptors in the hands of children, programs and other processes */
#include "mixed.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void nap_ms(unsigned int ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000l };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

bool board_map(int fd)
{
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED,
		     fd, 0);
	board_fd = fd;
	return board != MAP_FAILED;
}

void stays(const char *name)
{
	uint32_t i = __atomic_fetch_add(&board->lives, 1, __ATOMIC_RELAXED);

	if (i >= LIVES)
		abort();
	snprintf(board->life[i].name, sizeof(board->life[i].name), "%s", name);
	__atomic_store_n(&board->life[i].pid, getpid(), __ATOMIC_RELEASE);
}

static void close_between(int low, int high)
{
	if (low < high)
		close_range((unsigned int)low + 1, (unsigned int)high - 1, 0);
}

void child_only(int keep)
{
	int low = keep < board_fd ? keep : board_fd;
	int high = keep < board_fd ? board_fd : keep;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close_between(2, low < 3 ? high : low);
	if (low >= 3 && low + 1 < high)
		close_between(low, high);
	close_range((unsigned int)high + 1, ~0u, 0);
}

static void here(struct side *s)
{
	board->slot[s->at].pid = getpid();
	board->slot[s->at].tid = gettid();
}

static void await_child(struct side *s, pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			wrong(s, "waitpid", errno);
	if (status)
		wrong(s, "a child ended badly", status);
	here(s);
}

/* --- a child that has it as well ------------------------------------------ */

void hold(struct side *s)
{
	pid_t pid = fork();

	if (pid < 0)
		wrong(s, "fork", errno);
	if (!pid) {
		child_only(s->fd);
		for (;;)
			pause();
	}
	s->held = pid;
	COUNT(holds, 1);
}

void release(struct side *s)
{
	int status;

	if (!s->held)
		return;
	kill(s->held, SIGKILL);
	while (waitpid(s->held, &status, 0) < 0)
		if (errno != EINTR)
			wrong(s, "waitpid", errno);
	s->held = 0;
}

/* --- a child or a program that does the rest ------------------------------ */

static void to_hex(char *out, const void *in, size_t n)
{
	const uint8_t *p = in;
	size_t i;

	for (i = 0; i < n; i++)
		sprintf(out + 2 * i, "%02x", p[i]);
}

static void become(struct side *s)
{
	char fd[16], shared[16], hex[2 * sizeof(*s) + 1];

	if (fcntl(s->fd, F_SETFD, 0) || fcntl(board_fd, F_SETFD, 0))
		wrong(s, "F_SETFD", errno);
	snprintf(fd, sizeof(fd), "%d", s->fd);
	snprintf(shared, sizeof(shared), "%d", board_fd);
	to_hex(hex, s, sizeof(*s));
	execl(self, self, "-X", fd, shared, hex, (char *)NULL);
	wrong(s, "exec", errno);
}

int go_on(const char *fd, const char *shared, const char *hex)
{
	struct side s;
	struct tools t;
	size_t i;
	uint8_t *p = (uint8_t *)&s;

	if (!board_map(atoi(shared)) || strlen(hex) != 2 * sizeof(s))
		return 2;
	for (i = 0; i < sizeof(s); i++)
		if (sscanf(hex + 2 * i, "%2hhx", &p[i]) != 1)
			return 2;
	fcntl(board_fd, F_SETFD, FD_CLOEXEC);
	tools_make(&t);
	s.tools = &t;
	s.fd = atoi(fd);
	here(&s);
	side_run(&s);
	return 0;
}

static void by_child(struct side *s, bool program)
{
	struct side child = *s;
	pid_t pid;

	child.moved = 1;
	child.forked = !program;
	child.aide = -1;
	doing(s, FOR_CHILD);
	pid = fork();
	if (pid < 0)
		wrong(s, "fork", errno);
	if (!pid) {
		child_only(s->fd);
		here(&child);
		if (program)
			become(&child);
		tools_pipes(child.tools);
		side_run(&child);
		_exit(0);
	}
	if (close(s->fd))
		wrong(s, "close", errno);
	await_child(s, pid);
}

/* --- another process that does the rest ----------------------------------- */

union control {
	struct cmsghdr h;
	char buf[CMSG_SPACE(sizeof(int))];
};

static bool give(struct side *s, const struct side *there)
{
	union control u;
	struct iovec iov = { (void *)(uintptr_t)there, sizeof(*there) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = u.buf,
			    .msg_controllen = sizeof(u.buf) };
	struct cmsghdr *c;

	memset(&u, 0, sizeof(u));
	c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &s->fd, sizeof(int));
	if (sendmsg(s->aide, &m, 0) == (ssize_t)sizeof(*there))
		return true;
	if (!refused())
		wrong(s, "a descriptor cannot be passed", errno);
	return false;
}

static bool by_aide(struct side *s)
{
	struct side there = *s;
	ssize_t r;
	char done;

	there.moved = 1;
	there.aide = -1;
	doing(s, FOR_AIDE);
	if (!give(s, &there)) {
		doing(s, IDLE);
		return false;
	}
	if (close(s->fd))
		wrong(s, "close", errno);
	do
		r = read(s->aide, &done, 1);
	while (r < 0 && errno == EINTR);
	if (r != 1)
		wrong(s, "the other process is gone", errno);
	here(s);
	return true;
}

static bool take(int via, struct side *s)
{
	union control u;
	struct iovec iov = { s, sizeof(*s) };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = u.buf,
			    .msg_controllen = sizeof(u.buf) };
	struct cmsghdr *c;
	ssize_t r;

	do
		r = recvmsg(via, &m, MSG_CMSG_CLOEXEC);
	while (r < 0 && errno == EINTR);
	if (r != (ssize_t)sizeof(*s))
		return false;
	c = CMSG_FIRSTHDR(&m);
	if (!c || c->cmsg_type != SCM_RIGHTS)
		return false;
	memcpy(&s->fd, CMSG_DATA(c), sizeof(int));
	return true;
}

static void *aide_thread(void *arg)
{
	int via = (int)(intptr_t)arg;
	struct side s;
	struct tools t;

	tools_make(&t);
	while (take(via, &s)) {
		s.tools = &t;
		here(&s);
		side_run(&s);
		if (write(via, "d", 1) != 1)
			break;
	}
	return NULL;
}

static void aide(const char *name, int n, const int *via)
{
	pthread_t t[POOL];
	int i;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	stays(name);
	for (i = 0; i < n; i++)
		if (pthread_create(&t[i], NULL, aide_thread,
				   (void *)(intptr_t)via[i]))
			abort();
	for (i = 0; i < n; i++)
		pthread_join(t[i], NULL);
	exit(0);
}

pid_t aide_start(const char *name, int n, int *via)
{
	int theirs[POOL], pair[2], i;
	pid_t pid;

	for (i = 0; i < n; i++) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
			abort();
		via[i] = pair[0];
		theirs[i] = pair[1];
	}
	pid = fork();
	if (pid < 0)
		abort();
	for (i = 0; i < n; i++)
		close(pid ? theirs[i] : via[i]);
	if (!pid)
		aide(name, n, theirs);
	return pid;
}

bool hand_over(struct side *s, enum deed deed)
{
	switch (deed) {
	case FORKS:
		COUNT(forks, 1);
		by_child(s, false);
		return true;
	case EXECS:
		COUNT(execs, 1);
		by_child(s, true);
		return true;
	default:
		if (s->aide < 0)
			return false;
		COUNT(passes, 1);
		return by_aide(s);
	}
}

/* --- commands ------------------------------------------------------------- */

void run_command(struct side *s, uint32_t what)
{
	char line[16] = "";
	pid_t pid;
	FILE *f;
	int r;

	doing(s, RUNNING);
	if (s->forked) {
		/* The locks of the others are for good in the hands of threads
		 * that are not here. */
		pid = fork();
		if (!pid) {
			execl("/bin/sh", "sh", "-c", "exit 3", (char *)NULL);
			_exit(9);
		}
		if (pid < 0 || waitpid(pid, &r, 0) != pid || r != 3 << 8)
			wrong(s, "a command of a child's", pid < 0 ? errno : r);
	} else if (what % 2) {
		r = system("exit 3");
		if (r != 3 << 8)
			wrong(s, "system", r);
	} else {
		f = popen("echo hello", "re");
		if (!f || !fgets(line, sizeof(line), f) ||
		    strcmp(line, "hello\n"))
			wrong(s, "popen", errno);
		r = pclose(f);
		if (r)
			wrong(s, "pclose", r);
	}
	COUNT(commands, 1);
}
