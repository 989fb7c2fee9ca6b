/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* halfclose - every way a connection ends, and the errno of each step. */
#include "prog.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/sockios.h>

static short await(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	CHECK(poll(&p, 1, 5000) == 1);
	return p.revents;
}

static int so_error(int fd)
{
	socklen_t len = sizeof(int);
	int err;

	CHECK(!getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
	return err;
}

/* The stream has ended, and no more than that: else what there was is said. */
static void ends_in_order(int fd)
{
	const short in_order = POLLIN | POLLRDHUP;
	short got = await(fd, in_order);

	if (got != in_order)
		fprintf(stderr, "revents %#x, then %#x, SO_ERROR %d\n", got,
			await(fd, in_order), so_error(fd));
	CHECK(got == in_order);
}

/* Sends until it fails with EPIPE, as it does once the peer's RST is here. */
static void until_epipe(int fd)
{
	int i;

	for (i = 0; i < 5000; i++) {
		if (send(fd, "x", 1, MSG_NOSIGNAL) < 0)
			break;
		prog_nap_ms(1);
	}
	CHECK(i < 5000 && errno == EPIPE);
	FAILS(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
}

/* --- orderly ----------------------------------------------------------- */

static void wr_run(struct end *e)
{
	link_put(&e->l, 10000);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	FAILS(send(e->l.fd, "x", 1, MSG_NOSIGNAL), EPIPE);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	prog_mid(e->l.fd);
	link_get(&e->l, 3000000);
	link_eof(&e->l);
	link_eof(&e->l);
}

static void wr_peer(struct end *e)
{
	link_get(&e->l, 10000);
	link_eof(&e->l);
	ends_in_order(e->l.fd);
	link_put(&e->l, 1500000);
	prog_mid(e->l.fd);
	link_put(&e->l, 1500000);
}

/* Between two hosts the last acknowledgement may still be on its way. */
static bool not_connected(int fd)
{
	int64_t end = prog_now_ms() + 5000;

	while (!shutdown(fd, SHUT_WR) && prog_now_ms() < end)
		prog_nap_ms(1);
	return shutdown(fd, SHUT_WR) == -1 && errno == ENOTCONN;
}

static void both_run(struct end *e)
{
	CHECK(!shutdown(e->l.fd, e->peer ? SHUT_WR : SHUT_RDWR));
	if (!e->peer) {
		link_eof(&e->l);
		FAILS(send(e->l.fd, "x", 1, MSG_NOSIGNAL), EPIPE);
	} else {
		link_eof(&e->l);
	}
	prog_sync(e);
	CHECK(not_connected(e->l.fd));
	FAILS(shutdown(e->l.fd, 7), EINVAL);
	link_eof(&e->l);
}

/* Which kernel is this? Two may have a process of the same number. */
static uint64_t kernel(void)
{
	int c, len = 0;
	uint64_t v = 0;
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");

	CHECK(f);
	for (; (c = fgetc(f)) != EOF; len++)
		v = v * 31 + (uint64_t)c;
	CHECK(len > 30);
	fclose(f);
	return v;
}

/*
 * The peer ends its direction before anything of it can have looked at the end
 * of ours: it sleeps from before that until after. (Not where it is a process
 * of another kernel.)
 */
static void crossed_run(struct end *e)
{
	bool same = prog_hear(e) == kernel();
	bool here = prog_hear(e) == (uint64_t)e->pid && same;
	int st, left = 1;

	/* with all taken the end of ours says all that there is to say */
	while (left) {
		CHECK(!ioctl(e->l.fd, SIOCOUTQ, &left));
		prog_nap_ms(1);
	}
	prog_tell(e, here);
	if (here)
		CHECK(waitpid(e->pid, &st, WUNTRACED) == e->pid);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	if (here)
		CHECK(!kill(e->pid, SIGCONT));
	link_eof(&e->l);
	prog_sync(e);
	link_eof(&e->l);
}

static void crossed_peer(struct end *e)
{
	prog_tell(e, kernel());
	prog_tell(e, (uint64_t)getpid());
	if (prog_hear(e))
		CHECK(!raise(SIGSTOP));
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	link_eof(&e->l);
	prog_sync(e);
	link_eof(&e->l);
}

/*
 * A fork brings the stream back to TCP. With both directions ended the two
 * libraries have nothing more to say to each other: it must not wait for that.
 */
static void halves(struct end *e)
{
	int64_t since = prog_now_ms();
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		link_get(&e->l, 5000);
		link_eof(&e->l);
		_exit(0);
	}
	CHECK(prog_now_ms() - since < 10000);
	prog_reap(pid, 0);
	CHECK(prog_now_ms() - since < 20000);
	prog_sync(e);
}

static void ended_run(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLRDHUP };

	link_put(&e->l, 5000);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	prog_sync(e);
	CHECK(poll(&p, 1, 0) >= 0);
	CHECK(!(p.revents & POLLHUP) || (p.revents & POLLRDHUP));
	halves(e);
}

/* The same while the two ends are about to end. */
static void ending_run(struct end *e)
{
	link_put(&e->l, 5000);
	prog_sync(e);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	halves(e);
}

/* After SHUT_RD what was queued and what comes later can still be read. */
static void rd_run(struct end *e)
{
	uint8_t b;

	prog_sync(e);
	CHECK(await(e->l.fd, POLLIN) == POLLIN);
	CHECK(!shutdown(e->l.fd, SHUT_RD));
	ends_in_order(e->l.fd);
	link_get(&e->l, 100);
	CHECK(recv(e->l.fd, &b, 1, 0) == 0);
	prog_sync(e);
	prog_sync(e);
	link_put(&e->l, 100);
	prog_sync(e);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
}

static void rd_peer(struct end *e)
{
	link_put(&e->l, 100);
	prog_sync(e);
	prog_sync(e);
	prog_sync(e);
	link_get(&e->l, 100);
	prog_sync(e);
	link_eof(&e->l);
}

static void *shutter(void *arg)
{
	prog_nap_ms(20);
	CHECK(!shutdown(*(int *)arg, SHUT_RD));
	return NULL;
}

/* shutdown() in another thread ends a sleeping recv(). */
static void wake_run(struct end *e)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, shutter, &e->l.fd));
	link_eof(&e->l);
	CHECK(!pthread_join(t, NULL));
	link_put(&e->l, 10);
	prog_sync(e);
}

static void wake_peer(struct end *e)
{
	link_get(&e->l, 10);
	prog_sync(e);
}

/* Close right after writing: nothing that was written may be lost. */
static void late_run(struct end *e)
{
	prog_nap_ms(20);
	link_get(&e->l, 2000000);
	link_eof(&e->l);
	until_epipe(e->l.fd);
}

static void late_peer(struct end *e)
{
	link_put(&e->l, 2000000);
	link_close(&e->l);
}

static void exit_peer(struct end *e)
{
	link_put(&e->l, 2000000);
	_exit(0);
}

static void quick_peer(struct end *e)
{
	link_put(&e->l, 2000000);
	quick_exit(0);
}

/*
 * Between hosts it is told within a moment what was taken, and a thread asleep
 * in poll() takes what the libraries say to each other: a killed process does
 * not leave any of it.
 */
static void idle(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	CHECK(poll(&p, 1, 500) == 0);
}

static void kill_peer(struct end *e)
{
	idle(e->l.fd);
	link_put(&e->l, 2000000);
	kill(getpid(), SIGKILL);
}

/* --- hard -------------------------------------------------------------- */

/* The peer closes with everything read: end of stream, then EPIPE. */
static void clean_run(struct end *e)
{
	prog_sync(e);
	ends_in_order(e->l.fd);
	link_eof(&e->l);
	link_eof(&e->l);
	until_epipe(e->l.fd);
	link_eof(&e->l);
	CHECK(so_error(e->l.fd) == 0);
	CHECK(await(e->l.fd, POLLIN) & POLLHUP);
}

static void clean_peer(struct end *e)
{
	link_close(&e->l);
	prog_sync(e);
}

static void clean_kill_peer(struct end *e)
{
	prog_sync(e);
	idle(e->l.fd);
	kill(getpid(), SIGKILL);
}

/* The kernel notes the error first, then the end: one may look between. */
static void await_hup(int fd)
{
	int64_t end = prog_now_ms() + 5000;

	CHECK(await(fd, 0) & POLLERR);
	while (!(await(fd, POLLIN) & POLLHUP))
		CHECK(prog_now_ms() < end);
}

/* What main sees after the peer closed while bytes for it were unread. */
static void reset_seen(struct end *e)
{
	uint8_t b[300];

	await_hup(e->l.fd);
	/* what the peer had sent before is still there */
	CHECK(recv(e->l.fd, b, 200, MSG_WAITALL) == 200);
	flow_check(&e->l.rx, b, 200);
	FAILS(recv(e->l.fd, b, 1, 0), ECONNRESET);
	link_eof(&e->l);
	FAILS(send(e->l.fd, b, 1, MSG_NOSIGNAL), EPIPE);
	CHECK(so_error(e->l.fd) == 0);
}

static void unread_run(struct end *e)
{
	link_put(&e->l, 1000);
	prog_sync(e);
	reset_seen(e);
}

static void unread_peer(struct end *e)
{
	await(e->l.fd, POLLIN);
	link_put(&e->l, 200);
	prog_sync(e);
	link_close(&e->l);
}

static void unread_kill_peer(struct end *e)
{
	await(e->l.fd, POLLIN);
	link_put(&e->l, 200);
	prog_sync(e);
	kill(getpid(), SIGKILL);
}

static void linger_run(struct end *e)
{
	prog_sync(e);
	reset_seen(e);
}

static void linger_peer(struct end *e)
{
	struct linger lg = { 1, 0 };

	link_put(&e->l, 200);
	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	prog_sync(e);
	link_close(&e->l);
}

/* SO_ERROR tells and clears the reset as well as recv() does. */
static void soerror_run(struct end *e)
{
	prog_sync(e);
	CHECK(await(e->l.fd, 0) & POLLERR);
	CHECK(so_error(e->l.fd) == ECONNRESET);
	CHECK(so_error(e->l.fd) == 0);
	link_get(&e->l, 200);
	link_eof(&e->l);
}

/* The same where it is the library that knows of it first, or alone. */
static void soerror_unread_run(struct end *e)
{
	link_put(&e->l, 1000);
	soerror_run(e);
	CHECK(so_error(e->l.fd) == 0);
}

static void epoll_run(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLRDHUP };
	int ep = epoll_create1(EPOLL_CLOEXEC);

	CHECK(ep >= 0);
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, e->l.fd, &ev));
	prog_sync(e);
	await_hup(e->l.fd);
	CHECK(epoll_wait(ep, &ev, 1, 5000) == 1);
	CHECK(ev.events == (EPOLLIN | EPOLLERR | EPOLLHUP | EPOLLRDHUP));
	CHECK(!close(ep));
	link_get(&e->l, 200);
	FAILS(read(e->l.fd, &ev, 1), ECONNRESET);
}

/* A sleeper is woken by the peer's reset, and told. */
static void asleep_run(struct end *e)
{
	uint8_t b;

	prog_tell(e, 1);
	FAILS(recv(e->l.fd, &b, 1, 0), ECONNRESET);
	link_eof(&e->l);
}

static void asleep_peer(struct end *e)
{
	struct linger lg = { 1, 0 };

	CHECK(prog_hear(e) == 1);
	prog_nap_ms(20);
	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_LINGER, &lg, sizeof(lg)));
	link_close(&e->l);
}

/* A writer without room is woken when the peer goes away. */
static void blocked_run(struct end *e)
{
	static uint8_t buf[1 << 20];
	ssize_t r;

	prog_tell(e, 1);
	do
		r = send(e->l.fd, buf, sizeof(buf), MSG_NOSIGNAL);
	while (r > 0);
	CHECK(r < 0 && (errno == ECONNRESET || errno == EPIPE));
	FAILS(send(e->l.fd, buf, 1, MSG_NOSIGNAL), EPIPE);
}

static void blocked_peer(struct end *e)
{
	CHECK(prog_hear(e) == 1);
	await(e->l.fd, POLLIN);
	prog_nap_ms(60);
	link_close(&e->l);
}

static void blocked_kill_peer(struct end *e)
{
	CHECK(prog_hear(e) == 1);
	await(e->l.fd, POLLIN);
	prog_nap_ms(60);
	kill(getpid(), SIGKILL);
}

static atomic_int pipes;

static void on_pipe(int sig)
{
	(void)sig;
	atomic_fetch_add(&pipes, 1);
}

static void sigpipe_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_pipe }, old;

	CHECK(!sigaction(SIGPIPE, &sa, &old));
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	FAILS(write(e->l.fd, "x", 1), EPIPE);
	CHECK(atomic_load(&pipes) == 1);
	FAILS(send(e->l.fd, "x", 1, 0), EPIPE);
	CHECK(atomic_load(&pipes) == 2);
	FAILS(send(e->l.fd, "x", 1, MSG_NOSIGNAL), EPIPE);
	CHECK(atomic_load(&pipes) == 2);
	FAILS(dprintf(e->l.fd, "x"), EPIPE);
	CHECK(atomic_load(&pipes) == 3);
	CHECK(!sigaction(SIGPIPE, &old, NULL));
	prog_sync(e);
}

static void sync_peer(struct end *e)
{
	link_eof(&e->l);
	prog_sync(e);
}

/* The peer is a process with a child: the end comes with the last holder. */
static void last_run(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };

	CHECK(prog_hear(e) == 1); /* the first holder has closed */
	CHECK(poll(&p, 1, 50) == 0);
	link_turn(&e->l, 100, true);
	prog_tell(e, 1);
	link_eof(&e->l);
}

static void last_peer(struct end *e)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid) {
		link_close(&e->l);
		prog_tell(e, 1);
		prog_reap(pid, 0);
		return;
	}
	link_turn(&e->l, 100, false);
	CHECK(prog_hear(e) == 1);
	_exit(0);
}

static const struct prog_case cases[] = {
	{ "wr", wr_run, wr_peer, 0 },
	{ "both", both_run, both_run, 0 },
	{ "crossed", crossed_run, crossed_peer, CASE_PROCESS },
	{ "ended", ended_run, ended_run, CASE_PROCESS },
	{ "ending", ending_run, ending_run, CASE_PROCESS },
	{ "rd", rd_run, rd_peer, 0 },
	{ "wake", wake_run, wake_peer, 0 },
	{ "late", late_run, late_peer, 0 },
	{ "exit", late_run, exit_peer, CASE_PROCESS },
	{ "quick", late_run, quick_peer, CASE_PROCESS },
	{ "kill", late_run, kill_peer, CASE_PROCESS | CASE_DIES },
	{ "clean", clean_run, clean_peer, 0 },
	{ "clean-kill", clean_run, clean_kill_peer, CASE_PROCESS | CASE_DIES },
	{ "unread", unread_run, unread_peer, 0 },
	{ "unread-kill", unread_run, unread_kill_peer,
	  CASE_PROCESS | CASE_DIES },
	{ "linger", linger_run, linger_peer, 0 },
	{ "soerror", soerror_run, linger_peer, 0 },
	{ "soerror-unread", soerror_unread_run, unread_peer, 0 },
	{ "soerror-kill", soerror_unread_run, unread_kill_peer,
	  CASE_PROCESS | CASE_DIES },
	{ "epoll", epoll_run, linger_peer, 0 },
	{ "asleep", asleep_run, asleep_peer, 0 },
	{ "blocked", blocked_run, blocked_peer, 0 },
	{ "blocked-kill", blocked_run, blocked_kill_peer,
	  CASE_PROCESS | CASE_DIES },
	{ "sigpipe", sigpipe_run, sync_peer, 0 },
	{ "last", last_run, last_peer, CASE_PROCESS },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
