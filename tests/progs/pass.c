/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* pass - connections given to another process, and to stdio. */
#include "prog.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* "pass -T PID FD": takes that process's connection and echoes 300 bytes. */
static int taker(const char *pid, const char *fd)
{
	int pidfd = (int)syscall(SYS_pidfd_open, atoi(pid), 0);
	int got = (int)syscall(SYS_pidfd_getfd, pidfd, atoi(fd), 0);

	return got < 0 || !fd_echo(got, 300) || close(got);
}

/* "pass -S FD" serves: takes connections from FD and echoes n bytes each. */
static int server(int via)
{
	size_t n;
	int fd;

	while ((fd = fd_take(via, &n)) >= 0)
		if (!fd_echo(fd, n) || close(fd) || write(via, "d", 1) != 1)
			return 1;
	return 0;
}

/* A process that never had the connection; returns the way to it. */
static int server_start(pid_t *pid)
{
	char fd[16];
	int sv[2];

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	*pid = fork();
	CHECK(*pid >= 0);
	if (!*pid) {
		CHECK(!fcntl(sv[1], F_SETFD, 0));
		snprintf(fd, sizeof(fd), "%d", sv[1]);
		execl(prog_self, prog_self, "-S", fd, (char *)NULL);
		_exit(9);
	}
	CHECK(!close(sv[1]));
	return sv[0];
}

static void server_end(int via, pid_t pid)
{
	CHECK(!close(via));
	prog_reap(pid, 0);
}

/* Sends n bytes and gets the same n back, not knowing from where. */
static void echoed(struct end *e, size_t n)
{
	struct flow f = e->l.tx;
	uint8_t buf[20000];

	link_put(&e->l, n);
	while (n) {
		ssize_t r =
			read(e->l.fd, buf, n < sizeof(buf) ? n : sizeof(buf));

		CHECK(r > 0);
		flow_check(&f, buf, (size_t)r);
		n -= (size_t)r;
	}
}

/* Given away for good, with bytes unread. */
static void away_run(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };
	pid_t pid;
	int via = server_start(&pid);
	char b;

	prog_tell(e, 1);
	CHECK(poll(&p, 1, 5000) == 1);
	fd_give(via, e->l.fd, 50000);
	link_close(&e->l);
	CHECK(read(via, &b, 1) == 1);
	server_end(via, pid);
}

static void away_peer(struct end *e)
{
	CHECK(prog_hear(e) == 1);
	echoed(e, 50000);
	link_eof(&e->l);
}

/* Lent and used again afterwards, several times. */
static void lend_run(struct end *e)
{
	pid_t pid;
	int via = server_start(&pid), i;
	char b;

	for (i = 0; i < 5; i++) {
		fd_give(via, e->l.fd, 4000);
		prog_tell(e, 1);
		CHECK(read(via, &b, 1) == 1);
		CHECK(prog_hear(e) == 2);
		e->l.rx.off += 4000;
		e->l.tx.off += 4000;
		prog_warm(&e->l, true, 60);
	}
	server_end(via, pid);
	link_turn(&e->l, 100000, true);
}

static void lend_peer(struct end *e)
{
	int i;

	for (i = 0; i < 5; i++) {
		CHECK(prog_hear(e) == 1);
		echoed(e, 4000);
		prog_tell(e, 2);
		e->l.rx.off += 4000;
		prog_warm(&e->l, false, 60);
	}
	link_turn(&e->l, 100000, false);
}

/* Both ends in one process, one end to itself through a unix socket. */
static void self_run(struct end *e)
{
	struct link a, b;
	size_t n = 1;
	int sv[2], fd, i;

	(void)e;
	link_self(&a, &b, 0);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	for (i = 0; i < 4; i++) {
		link_put(&a, 30000);
		fd_give(sv[0], b.fd, n);
		fd = fd_take(sv[1], &n);
		CHECK(fd >= 0 && fd != b.fd);
		link_close(&b);
		b.fd = fd;
		link_get(&b, 30000);
		link_put(&b, 700);
		link_get(&a, 700);
	}
	CHECK(!close(sv[0]) && !close(sv[1]));
	link_close(&a);
	link_eof(&b);
	link_close(&b);
}

/* --- stdio ------------------------------------------------------------- */

/* Answers lines with lines, by plain calls; "bye" has no answer. */
static void liner(struct end *e)
{
	char line[200], c;
	size_t n = 0;
	ssize_t r;

	while ((r = read(e->l.fd, &c, 1)) == 1) {
		CHECK(n < sizeof(line) - 20);
		line[n++] = c;
		if (c != '\n')
			continue;
		if (n == 4 && !memcmp(line, "bye\n", 4)) {
			n = 0;
			continue;
		}
		CHECK(write(e->l.fd, "you said ", 9) == 9);
		CHECK(write(e->l.fd, line, n) == (ssize_t)n);
		n = 0;
	}
	CHECK(r == 0);
	CHECK(n == 0);
}

static void lines(FILE *in, FILE *out, int n)
{
	char line[200], want[200];
	int i;

	for (i = 0; i < n; i++) {
		CHECK(fprintf(out, "line number %d\n", i) > 0);
		CHECK(!fflush(out));
		CHECK(fgets(line, sizeof(line), in));
		snprintf(want, sizeof(want), "you said line number %d\n", i);
		CHECK(!strcmp(line, want));
	}
}

static void fdopen_run(struct end *e)
{
	FILE *f = fdopen(e->l.fd, "r+");

	CHECK(f);
	CHECK(fileno(f) == e->l.fd);
	setvbuf(f, NULL, _IOLBF, 0);
	lines(f, f, 200);
	CHECK(!shutdown(fileno(f), SHUT_WR));
	CHECK(fgetc(f) == EOF && feof(f));
	CHECK(!fclose(f));
	FAILS(fcntl(e->l.fd, F_GETFD), EBADF);
	e->l.fd = -1;
}

/* ftp clients: one stream to read, another to write, on duplicates. */
static void two_run(struct end *e)
{
	int copy = dup(e->l.fd);
	FILE *in = fdopen(e->l.fd, "r"), *out = fdopen(copy, "w");

	CHECK(in && out);
	lines(in, out, 200);
	CHECK(!shutdown(copy, SHUT_WR));
	CHECK(!fclose(out));
	CHECK(fgetc(in) == EOF);
	CHECK(!fclose(in));
	e->l.fd = -1;
}

static void getline_run(struct end *e)
{
	char *line = NULL;
	size_t cap = 0;
	FILE *f = fdopen(e->l.fd, "r+");
	int i;

	CHECK(f);
	for (i = 0; i < 50; i++) {
		/* what is written past the stream arrives as well */
		CHECK(dprintf(fileno(f), "direct\n") == 7);
		CHECK(getline(&line, &cap, f) == 16);
		CHECK(!strcmp(line, "you said direct\n"));
	}
	free(line);
	CHECK(!shutdown(fileno(f), SHUT_WR));
	CHECK(getc(f) == EOF);
	CHECK(!fclose(f));
	e->l.fd = -1;
}

/* The standard streams of a child: no fdopen() to be seen. */
static void std_run(struct end *e)
{
	char line[200];
	pid_t pid = fork();
	int i;

	CHECK(pid >= 0);
	if (!pid) {
		CHECK(dup2(e->l.fd, 0) == 0);
		CHECK(dup2(e->l.fd, 1) == 1);
		CHECK(!close(e->l.fd));
		for (i = 0; i < 100; i++) {
			printf("line number %d\n", i);
			fflush(stdout);
			CHECK(fgets(line, sizeof(line), stdin));
			CHECK(!strncmp(line, "you said line number ", 21));
			CHECK(atoi(line + 21) == i);
		}
		printf("bye\n"); /* leaves with exit() */
		exit(0);
	}
	link_close(&e->l);
	prog_reap(pid, 0);
}

/* The stream is read by plain calls first, then by stdio, bytes pending. */
static void late_run(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };
	char line[200];
	FILE *f;
	int i;

	for (i = 0; i < 20; i++)
		CHECK(dprintf(e->l.fd, "number %d\n", i) > 0);
	CHECK(poll(&p, 1, 5000) == 1);
	CHECK(recv(e->l.fd, line, 18, MSG_WAITALL) == 18);
	CHECK(!memcmp(line, "you said number 0\n", 18));
	f = fdopen(e->l.fd, "r+");
	CHECK(f);
	for (i = 1; i < 20; i++) {
		CHECK(fgets(line, sizeof(line), f));
		CHECK(atoi(line + 16) == i);
	}
	CHECK(!shutdown(fileno(f), SHUT_WR));
	CHECK(getc(f) == EOF);
	CHECK(!fclose(f));
	e->l.fd = -1;
}

/* Taken by its number, unasked: by a stranger, then by a child. */
static void taken_run(struct end *e)
{
	char pid[16], fd[16];
	pid_t child;
	int i;

	snprintf(pid, sizeof(pid), "%d", getpid());
	snprintf(fd, sizeof(fd), "%d", e->l.fd);
	for (i = 0; i < 2; i++) {
		child = fork();
		CHECK(child >= 0);
		if (!child && i)
			_exit(close(e->l.fd) || taker(pid, fd));
		if (!child) {
			execl(prog_self, prog_self, "-T", pid, fd, NULL);
			_exit(9);
		}
		prog_tell(e, 1);
		prog_reap(child, 0);
		CHECK(prog_hear(e) == 2);
		e->l.rx.off += 300;
		e->l.tx.off += 300;
		prog_warm(&e->l, true, 60);
	}
	link_turn(&e->l, 100000, true);
}

static void taken_peer(struct end *e)
{
	int i;

	for (i = 0; i < 2; i++) {
		CHECK(prog_hear(e) == 1);
		echoed(e, 300);
		prog_tell(e, 2);
		e->l.rx.off += 300;
		prog_warm(&e->l, false, 60);
	}
	link_turn(&e->l, 100000, false);
}

static const struct prog_case cases[] = {
	{ "away", away_run, away_peer, CASE_PROCESS },
	{ "lend", lend_run, lend_peer, CASE_PROCESS },
	{ "taken", taken_run, taken_peer, CASE_PROCESS },
	{ "self", self_run, NULL, CASE_SOLO },
	{ "fdopen", fdopen_run, liner, 0 },
	{ "two", two_run, liner, 0 },
	{ "getline", getline_run, liner, 0 },
	{ "std", std_run, liner, CASE_PROCESS },
	{ "late", late_run, liner, 0 },
};

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "-S"))
		return server(atoi(argv[2]));
	if (argc == 4 && !strcmp(argv[1], "-T"))
		return taker(argv[2], argv[3]);
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
