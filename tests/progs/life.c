/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* life - descriptors: duplicates, numbers, closing in every manner. */
#include "prog.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The peer of most cases: echoes until the end of the stream. */
static void echo(struct end *e)
{
	uint8_t buf[70000];
	ssize_t r, k;

	while ((r = read(e->l.fd, buf, sizeof(buf))) > 0)
		for (k = 0; k < r;) {
			ssize_t w = write(e->l.fd, buf + k, (size_t)(r - k));

			CHECK(w > 0);
			k += w;
		}
	CHECK(r == 0);
}

/* An echo comes back with our own pattern. */
static void talk(struct link *l, size_t n)
{
	if (l->rx.seed != 9) {
		l->tx = (struct flow){ 0, 9 };
		l->rx = (struct flow){ 0, 9 };
	}
	link_put(l, n);
	link_get(l, n);
}

static void talk_by(struct link *l, int fd, size_t n)
{
	int was = l->fd;

	l->fd = fd;
	talk(l, n);
	l->fd = was;
}

static void dups_run(struct end *e)
{
	int fd = e->l.fd, a, b, c, d, i;

	a = dup(fd);
	b = fcntl(fd, F_DUPFD, 100);
	c = fcntl(fd, F_DUPFD_CLOEXEC, 100);
	CHECK(a >= 0 && b >= 100 && c > b);
	CHECK(fcntl(a, F_GETFD) == 0);
	CHECK(fcntl(b, F_GETFD) == 0);
	CHECK(fcntl(c, F_GETFD) == FD_CLOEXEC);
	d = dup2(fd, 200);
	CHECK(d == 200);
	CHECK(dup3(fd, 201, O_CLOEXEC) == 201);
	CHECK(fcntl(201, F_GETFD) == FD_CLOEXEC);
	CHECK(dup2(fd, fd) == fd);
	FAILS(dup3(fd, fd, 0), EINVAL);
	for (i = 0; i < 5; i++) {
		talk_by(&e->l, a, 500);
		talk_by(&e->l, b, 500);
		talk_by(&e->l, c, 500);
		talk_by(&e->l, d, 500);
		talk_by(&e->l, 201, 500);
		if (i == 2)
			prog_mid(c);
	}
	/* any of them may be closed; the last one ends the stream */
	CHECK(!close(fd));
	FAILS(fcntl(fd, F_GETFD), EBADF);
	FAILS(read(fd, &i, 1), EBADF);
	talk_by(&e->l, b, 1000);
	CHECK(!close(a) && !close(b) && !close(c) && !close(d));
	e->l.fd = 201;
	talk(&e->l, 1000);
}

/* A number that held a connection is given to something else. */
static void onto_run(struct end *e)
{
	struct link other;
	uint8_t b;
	int pp[2], keep;

	prog_link(e, &other);
	CHECK(!pipe2(pp, O_CLOEXEC));
	/* a connection onto a connection */
	keep = other.fd;
	CHECK(dup2(e->l.fd, other.fd) == other.fd);
	CHECK(prog_hear(e) == 1); /* the peer saw its end */
	talk_by(&e->l, keep, 700);
	/* a pipe onto a connection */
	CHECK(dup2(pp[0], keep) == keep);
	CHECK(write(pp[1], "p", 1) == 1);
	CHECK(read(keep, &b, 1) == 1 && b == 'p');
	/* a connection onto a pipe */
	CHECK(dup3(e->l.fd, pp[0], O_CLOEXEC) == pp[0]);
	talk_by(&e->l, pp[0], 700);
	CHECK(!close(pp[0]) && !close(pp[1]));
	CHECK(read(keep, &b, 1) == 0);
	CHECK(!close(keep));
	talk(&e->l, 700);
}

static void onto_peer(struct end *e)
{
	struct link other;

	prog_link(e, &other);
	link_eof(&other);
	prog_tell(e, 1);
	link_close(&other);
	echo(e);
}

/* The lowest free numbers? All are free again if not. */
static bool lowest_taken(struct end *e, int fd[20])
{
	int low[20], i, n;

	for (i = 0, n = 0; n < 20; i++)
		if (fcntl(i, F_GETFD) < 0)
			low[n++] = i;
	for (i = 0; i < 20; i++) {
		fd[i] = i % 2 ? open("/dev/null", O_RDONLY) : dup(e->l.fd);
		if (fd[i] == low[i])
			continue;
		for (n = i; n >= 0; n--)
			CHECK(!close(fd[n]));
		return false;
	}
	return true;
}

/*
 * The lowest free number, always, and no number is lost. But while another
 * thread opens a device (D13): between hosts that may take a few tries.
 */
static void lowest_run(struct end *e)
{
	int fd[20], was[2], i, k, tries = 0;

	for (k = 0; k < 3; k++) {
		while (!lowest_taken(e, fd)) {
			CHECK(prog_far && ++tries < 200);
			usleep(50000);
		}
		talk_by(&e->l, fd[6], 300);
		CHECK(!close(fd[7]) && !close(fd[4]));
		was[0] = fd[4];
		was[1] = fd[7];
		fd[4] = dup(0);
		fd[7] = fcntl(0, F_DUPFD, fd[5]);
		CHECK(prog_far || (fd[4] == was[0] && fd[7] == was[1]));
		for (i = 0; i < 20; i++)
			CHECK(!close(fd[i]));
		talk(&e->l, 300);
	}
}

/* With the limit low, every number up to it is the program's. */
static void emfile_run(struct end *e)
{
	struct rlimit old, rl;
	struct link l[6];
	int fd[256], n = 0, i;

	for (i = 0; i < 6; i++)
		prog_link(e, &l[i]);
	CHECK(!getrlimit(RLIMIT_NOFILE, &old));
	rl = old;
	rl.rlim_cur = 64;
	CHECK(!setrlimit(RLIMIT_NOFILE, &rl));
	while (n < 256 && (fd[n] = open("/dev/null", O_RDONLY)) >= 0)
		n++;
	CHECK(errno == EMFILE);
	CHECK(fd[n - 1] == 63);
	FAILS(socket(AF_INET, SOCK_STREAM, 0), EMFILE);
	FAILS(dup(0), EMFILE);
	for (i = 0; i < 6; i++)
		link_turn(&l[i], 500, true);
	while (n)
		CHECK(!close(fd[--n]));
	CHECK(!setrlimit(RLIMIT_NOFILE, &old));
	for (i = 0; i < 6; i++) {
		link_turn(&l[i], 500, true);
		link_close(&l[i]);
	}
}

static void emfile_peer(struct end *e)
{
	struct link l[6];
	int i;

	for (i = 0; i < 6; i++)
		prog_link(e, &l[i]);
	for (i = 0; i < 6; i++)
		link_turn(&l[i], 500, false);
	for (i = 0; i < 6; i++) {
		link_turn(&l[i], 500, false);
		link_close(&l[i]);
	}
}

/* --- closing loops ----------------------------------------------------- */

enum sweep { SWEEP_LOOP, SWEEP_RANGE, SWEEP_FROM, SWEEP_PROC };

static void sweep(enum sweep how, int from)
{
	int i;

	switch (how) {
	case SWEEP_LOOP:
		for (i = from; i < 20000; i++)
			close(i);
		break;
	case SWEEP_RANGE:
		CHECK(!close_range((unsigned int)from, ~0u, 0));
		break;
	case SWEEP_FROM:
		closefrom(from);
		break;
	case SWEEP_PROC:
		for (i = from; i < 20000; i++)
			if (fcntl(i, F_GETFD) >= 0)
				close(i);
		break;
	}
}

/*
 * Everything but the standard streams, the connection and ctl is closed;
 * that connection goes on, the others end, and new ones can be made.
 */
static void sweep_all(struct end *e, enum sweep how)
{
	struct link l[4];
	int ctl, fd, i;

	for (i = 0; i < 4; i++)
		prog_link(e, &l[i]);
	talk(&e->l, 100);
	if (e->lfd >= 0)
		CHECK(!close(e->lfd));
	e->lfd = -1;
	fd = fcntl(e->l.fd, F_DUPFD, 300);
	ctl = fcntl(e->ctl, F_DUPFD, 300);
	CHECK(fd >= 300 && ctl >= 300);
	CHECK(!close(e->l.fd) && !close(e->ctl));
	CHECK(dup2(ctl, 3) == 3 && dup2(fd, 4) == 4);
	CHECK(!close(ctl) && !close(fd));
	sweep(how, 5);
	e->ctl = 3;
	e->l.fd = 4;
	CHECK(prog_hear(e) == 4);
	talk(&e->l, 5000);
	CHECK(open("/dev/null", O_RDONLY) == 5);
	CHECK(!close(5));
	link_self(&l[0], &l[1], 0);
	link_put(&l[0], 3000);
	link_get(&l[1], 3000);
	link_close(&l[0]);
	link_eof(&l[1]);
	link_close(&l[1]);
	talk(&e->l, 5000);
}

/* Done in a child, so that the program's own descriptors are not swept. */
static void sweep_child(struct end *e, enum sweep how)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		sweep_all(e, how);
		_exit(0);
	}
	link_close(&e->l);
	prog_reap(pid, 0);
}

static void sweep_loop(struct end *e)
{
	sweep_child(e, SWEEP_LOOP);
}

static void sweep_range(struct end *e)
{
	sweep_child(e, SWEEP_RANGE);
}

static void sweep_from(struct end *e)
{
	sweep_child(e, SWEEP_FROM);
}

static void sweep_proc(struct end *e)
{
	sweep_child(e, SWEEP_PROC);
}

static void sweep_peer(struct end *e)
{
	struct link l[4];
	int i;

	for (i = 0; i < 4; i++)
		prog_link(e, &l[i]);
	/* the first talk is answered by this hand, to keep the order */
	{
		uint8_t buf[100];

		CHECK(recv(e->l.fd, buf, 100, MSG_WAITALL) == 100);
		CHECK(send(e->l.fd, buf, 100, 0) == 100);
	}
	for (i = 0; i < 4; i++) {
		link_eof(&l[i]);
		link_close(&l[i]);
	}
	prog_tell(e, 4);
	echo(e);
}

/* CLOSE_RANGE_CLOEXEC marks and closes nothing. */
static void mark_run(struct end *e)
{
	int fd = dup(e->l.fd);

	CHECK(fd >= 0 && fcntl(fd, F_GETFD) == 0);
	CHECK(!close_range((unsigned int)fd, (unsigned int)fd,
			   CLOSE_RANGE_CLOEXEC));
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	talk_by(&e->l, fd, 500);
	CHECK(!close_range((unsigned int)fd, (unsigned int)fd, 0));
	FAILS(fcntl(fd, F_GETFD), EBADF);
	FAILS(close_range(9, 8, 0), EINVAL);
	talk(&e->l, 500);
}

/* --- closing while others are inside ----------------------------------- */

struct sleeper {
	atomic_int tid;
	int fd;
	ssize_t got;
	int err;
	uint8_t buf[64];
};

static void *sleep_recv(void *arg)
{
	struct sleeper *s = arg;

	atomic_store(&s->tid, gettid());
	s->got = recv(s->fd, s->buf, sizeof(s->buf), 0);
	s->err = errno;
	return NULL;
}

/* Waits until it sleeps in its call. */
static void asleep(struct sleeper *s)
{
	while (!atomic_load(&s->tid))
		prog_nap_ms(1);
	prog_asleep(atomic_load(&s->tid), 20);
}

/* Linux: a sleeping recv() keeps the open file and gets the next bytes. */
static void close_run(struct end *e)
{
	struct sleeper s = { .fd = e->l.fd };
	struct flow f = e->l.rx;
	pthread_t t;
	int fd;

	CHECK(!pthread_create(&t, NULL, sleep_recv, &s));
	asleep(&s);
	CHECK(!close(e->l.fd));
	fd = open("/dev/null", O_RDONLY);
	CHECK(fd == e->l.fd || prog_far); /* D13 */
	prog_tell(e, 1);
	CHECK(!pthread_join(t, NULL));
	CHECK(s.got == 50);
	flow_check(&f, s.buf, 50);
	CHECK(!close(fd));
	e->l.fd = -1;
}

static void close_peer(struct end *e)
{
	CHECK(prog_hear(e) == 1);
	link_put(&e->l, 50);
	link_eof(&e->l);
}

/* Children, and an exec that fails, leave a sleeper where it is. */
static void kin_run(struct end *e)
{
	char *argv[] = { (char *)(uintptr_t) "true", NULL };
	struct flow f = e->l.rx;
	struct sleeper s;
	pthread_t t;
	pid_t pid;
	int i;

	for (i = 0; i < 3; i++) {
		s = (struct sleeper){ .fd = e->l.fd };
		CHECK(!pthread_create(&t, NULL, sleep_recv, &s));
		asleep(&s);
		if (i == 0) {
			pid = fork();
			if (!pid)
				_exit(0);
			prog_reap(pid, 0);
		} else if (i == 1) {
			CHECK(!posix_spawnp(&pid, argv[0], NULL, NULL, argv,
					    environ));
			prog_reap(pid, 0);
		} else {
			FAILS(execv("/nonexistent/nothing", argv), ENOENT);
		}
		prog_tell(e, 50);
		CHECK(!pthread_join(t, NULL));
		CHECK(s.got == 50);
		flow_check(&f, s.buf, 50);
	}
	prog_tell(e, 0);
	prog_sync(e);
}

static void kin_peer(struct end *e)
{
	size_t n;

	while ((n = (size_t)prog_hear(e)))
		link_put(&e->l, n);
	prog_sync(e);
}

/* The JDK: a half-dead marker over the number, the sleeper signalled. */
static void marker_run(struct end *e)
{
	struct sleeper s = { .fd = e->l.fd };
	int sv[2];
	pthread_t t;
	uint8_t b;

	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv));
	CHECK(!shutdown(sv[0], SHUT_RD));
	CHECK(!close(sv[1]));
	CHECK(!pthread_create(&t, NULL, sleep_recv, &s));
	asleep(&s);
	CHECK(!shutdown(e->l.fd, SHUT_RDWR));
	CHECK(dup2(sv[0], e->l.fd) == e->l.fd);
	CHECK(!pthread_join(t, NULL));
	CHECK(s.got == 0);
	CHECK(read(e->l.fd, &b, 1) == 0);
	CHECK(!close(sv[0]));
	CHECK(prog_hear(e) == 2); /* the peer has seen the end */
}

static void marker_peer(struct end *e)
{
	link_eof(&e->l);
	prog_tell(e, 2);
}

/* --- what a descriptor says about itself ------------------------------- */

static void stat_run(struct end *e)
{
	struct stat a, b;
	int copy = dup(e->l.fd);

	CHECK(copy >= 0);
	CHECK(!fstat(e->l.fd, &a) && !fstat(copy, &b));
	CHECK(S_ISSOCK(a.st_mode) && a.st_ino == b.st_ino);
	FAILS(isatty(e->l.fd) ? 0 : -1, ENOTTY);
	FAILS(lseek(copy, 0, SEEK_SET), ESPIPE);
	FAILS(fsync(copy), EINVAL);
	FAILS(ftruncate(copy, 0), EINVAL);
	CHECK(!fcntl(copy, F_SETOWN, getpid()));
	CHECK(fcntl(e->l.fd, F_GETOWN) == getpid());
	CHECK(!fcntl(copy, F_SETFD, FD_CLOEXEC));
	CHECK(fcntl(copy, F_GETFD) == FD_CLOEXEC);
	CHECK(!close(copy));
	FAILS(close(copy), EBADF);
	FAILS(close(-1), EBADF);
	talk(&e->l, 500);
}

/* --- connected anew ------------------------------------------------------ */

static void anew_peer(struct end *e)
{
	struct linger lg = { 1, 0 };
	char b;
	int i;

	for (i = 0; i < 4; i++) {
		if (i)
			e->l.fd = accept(e->lfd, NULL, NULL);
		CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_LINGER, &lg,
				  sizeof(lg)));
		CHECK(read(e->l.fd, &b, 1) == 1);
		link_close(&e->l);
	}
}

/*
 * The kernel notes a reset bit by bit, and its poll() looks without a lock: one
 * in some thousand calls sees but a part of it, on plain TCP, too. Behind a
 * call that takes the lock the whole is there.
 */
static void polls_reset(struct pollfd *p)
{
	struct tcp_info i;
	socklen_t len = sizeof(i);

	CHECK(poll(p, 1, -1) == 1);
	CHECK(!getsockopt(p->fd, IPPROTO_TCP, TCP_INFO, &i, &len));
	CHECK(poll(p, 1, 0) == 1);
	BITS(p->revents, POLLIN | POLLERR | POLLHUP);
}

/*
 * Four connections by one descriptor, each of which is reset: all are told as
 * the first is, by a receive or by a send.
 */
static void anew_main(struct end *e)
{
	struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };
	int fd = e->l.fd, i;
	char b;

	for (i = 0; i < 4; i++) {
		if (i)
			CHECK(!connect(fd, (struct sockaddr *)&e->addr,
				       e->addrlen));
		CHECK(write(fd, "x", 1) == 1);
		polls_reset(&p);
		if (i & 1)
			FAILS(recv(fd, &b, 1, 0), ECONNRESET);
		else
			FAILS(send(fd, "x", 1, MSG_NOSIGNAL), ECONNRESET);
		FAILS(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
		CHECK(recv(fd, &b, 1, 0) == 0);
		CHECK(!connect(fd, &nowhere, sizeof(nowhere)));
	}
}

static void anew_run(struct end *e)
{
	prog_link(e, &e->l);
	(e->lfd >= 0 ? anew_peer : anew_main)(e);
}

static const struct prog_case cases[] = {
	{ "dups", dups_run, echo, 0 },
	{ "onto", onto_run, onto_peer, 0 },
	{ "lowest", lowest_run, echo, CASE_PROCESS },
	{ "emfile", emfile_run, emfile_peer, CASE_PROCESS },
	{ "sweep-loop", sweep_loop, sweep_peer, CASE_PROCESS },
	{ "sweep-range", sweep_range, sweep_peer, CASE_PROCESS },
	{ "sweep-from", sweep_from, sweep_peer, CASE_PROCESS },
	{ "sweep-proc", sweep_proc, sweep_peer, CASE_PROCESS },
	{ "mark", mark_run, echo, 0 },
	{ "close", close_run, close_peer, 0 },
	{ "kin", kin_run, kin_peer, CASE_PROCESS },
	{ "marker", marker_run, marker_peer, 0 },
	{ "stat", stat_run, echo, 0 },
	{ "anew", anew_run, anew_run, CASE_BARE },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
