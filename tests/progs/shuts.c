/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * shuts - a thread waits for room on a connection that has none, while another
 * thread shuts it down: the wait is over at once, and no byte is lost.
 */
#include "prog.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#define LIMIT_MS 10000 /* when a wait gives up, */
#define SOON_MS	 2000 /* and when it is to be over by */

static const int hows[] = { SHUT_WR, SHUT_RDWR };

/* --- a full connection --------------------------------------------------- */

/* What goes in now. */
static size_t put(struct link *l)
{
	static uint8_t some[65536];
	size_t all = 0, len = sizeof(some);
	ssize_t n;

	while (len) {
		struct flow f = l->tx;

		flow_fill(&f, some, len);
		n = send(l->fd, some, len, MSG_DONTWAIT);
		CHECK(n > 0 || (n < 0 && errno == EAGAIN));
		if (n < 0) {
			len /= 16;
			continue;
		}
		l->tx.off += (uint64_t)n;
		all += (size_t)n;
	}
	return all;
}

static short poll_for(int fd, short events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };

	CHECK(poll(&p, 1, ms) >= 0);
	return p.revents;
}

/*
 * Until nothing goes in any more, wherever it lies: a kernel moves for a while
 * what it has from one end to the other.
 */
static void fill(struct link *l)
{
	int full = 0;

	while (full < 4) {
		full = put(l) || poll_for(l->fd, POLLOUT, 0) ? 0 : full + 1;
		prog_nap_ms(20);
	}
}

/* `small`: less than a ring holds, and than a kernel's buffers do. */
static void full_link(struct end *e, struct link *l, bool small)
{
	int room = 16384;

	prog_link(e, l);
	if (small)
		CHECK(!setsockopt(l->fd, SOL_SOCKET, SO_SNDBUF, &room,
				  sizeof(room)));
	prog_warm(l, true, 200);
	prog_tell(e, 1);
	fill(l);
}

/* The peer takes what was sent, and not more. */
static void over(struct end *e, struct link *l, bool all)
{
	if (all)
		prog_tell(e, l->tx.off);
	else
		prog_tell(e, 1);
	prog_sync(e);
	link_close(l);
}

static void takes(struct end *e)
{
	struct link l;
	uint64_t end;

	while (prog_hear(e)) {
		prog_link(e, &l);
		prog_warm(&l, false, 200);
		CHECK(prog_hear(e) == 1);
		end = prog_hear(e);
		if (end > 1) {
			link_get(&l, (size_t)(end - l.rx.off));
			link_eof(&l);
		}
		link_close(&l);
		prog_sync(e);
	}
}

/* --- another thread shuts it down ---------------------------------------- */

struct shut {
	int fd, how;
	pthread_t by;
	int64_t since;
};

/* This thread gets SIGUSR1 before that. */
static pthread_t nudged;

static void *shutter(void *arg)
{
	struct shut *s = arg;

	prog_nap_ms(60);
	if (nudged) {
		CHECK(!pthread_kill(nudged, SIGUSR1));
		prog_nap_ms(60);
	}
	s->since = prog_now_ms();
	CHECK(!shutdown(s->fd, s->how));
	return NULL;
}

static void shut_begin(struct shut *s, int fd, int how)
{
	*s = (struct shut){ .fd = fd, .how = how };
	CHECK(!pthread_create(&s->by, NULL, shutter, s));
}

/* The wait is over: by that, and at once. */
static void shut_end(struct shut *s)
{
	int64_t now = prog_now_ms();

	CHECK(!pthread_join(s->by, NULL));
	CHECK(now >= s->since && now - s->since < SOON_MS);
}

/* What poll() tells when asked for `events`, behind the shutdown `how`. */
static short told(short events, int how)
{
	short all = POLLOUT | POLLHUP | POLLIN | POLLRDHUP;

	return (short)((how == SHUT_WR ? POLLOUT : all) & (events | POLLHUP));
}

static void after(struct link *l, int how)
{
	const short all = POLLIN | POLLOUT | POLLRDHUP;

	BITS(poll_for(l->fd, POLLOUT, 0), told(POLLOUT, how));
	BITS(poll_for(l->fd, all, 0), told(all, how));
	FAILS(send(l->fd, "x", 1, MSG_NOSIGNAL), EPIPE);
}

/* --- the ways to wait for it --------------------------------------------- */

static void polls(struct link *l, int how, short events)
{
	struct shut s;
	short got;

	shut_begin(&s, l->fd, how);
	got = poll_for(l->fd, events, LIMIT_MS);
	shut_end(&s);
	BITS(got, told(events, how));
}

static void by_poll(struct link *l, int how)
{
	polls(l, how, POLLOUT);
}

static void by_poll_all(struct link *l, int how)
{
	polls(l, how, POLLIN | POLLOUT | POLLRDHUP);
}

static void by_select(struct link *l, int how)
{
	struct timeval tv = { LIMIT_MS / 1000, 0 };
	struct shut s;
	fd_set w;
	int n;

	FD_ZERO(&w);
	FD_SET(l->fd, &w);
	shut_begin(&s, l->fd, how);
	n = select(l->fd + 1, NULL, &w, NULL, &tv);
	shut_end(&s);
	CHECK(n == 1 && FD_ISSET(l->fd, &w));
}

static void sets(struct link *l, int how, uint32_t events)
{
	short asked = (short)(events & (EPOLLIN | EPOLLOUT | EPOLLRDHUP));
	struct epoll_event ev = { .events = events };
	int n, ep = epoll_create1(EPOLL_CLOEXEC);
	struct shut s;

	CHECK(ep >= 0);
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, l->fd, &ev));
	CHECK(epoll_wait(ep, &ev, 1, 0) == 0);
	shut_begin(&s, l->fd, how);
	n = epoll_wait(ep, &ev, 1, LIMIT_MS);
	shut_end(&s);
	CHECK(n == 1);
	BITS((int)ev.events, told(asked, how));
	/* a level stays, an edge is told once */
	n = epoll_wait(ep, &ev, 1, 0);
	CHECK(n == !(events & (EPOLLET | EPOLLONESHOT)));
	if (n)
		BITS((int)ev.events, told(asked, how));
	else
		CHECK(epoll_wait(ep, &ev, 1, 60) == 0);
	if (events & EPOLLONESHOT) {
		ev.events = events;
		CHECK(!epoll_ctl(ep, EPOLL_CTL_MOD, l->fd, &ev));
		CHECK(epoll_wait(ep, &ev, 1, 0) == 1);
		BITS((int)ev.events, told(asked, how));
	}
	CHECK(!close(ep));
}

static void by_set(struct link *l, int how)
{
	sets(l, how, EPOLLOUT);
}

static void by_set_both(struct link *l, int how)
{
	sets(l, how, EPOLLIN | EPOLLOUT);
}

static void by_edge(struct link *l, int how)
{
	sets(l, how, EPOLLOUT | EPOLLET);
}

static void by_edge_all(struct link *l, int how)
{
	sets(l, how, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

static void by_once(struct link *l, int how)
{
	sets(l, how, EPOLLOUT | EPOLLONESHOT);
}

/* The next bytes of the stream, by `go`, until there is an end. */
static void sends(struct link *l, int how,
		  ssize_t (*go)(int fd, const uint8_t *some, size_t len))
{
	static uint8_t some[32768];
	struct shut s;
	struct flow f;
	ssize_t n;

	shut_begin(&s, l->fd, how);
	do {
		f = l->tx;
		flow_fill(&f, some, sizeof(some));
		n = go(l->fd, some, sizeof(some));
		if (n > 0)
			l->tx.off += (uint64_t)n;
	} while (n > 0);
	CHECK(n == -1 && errno == EPIPE);
	shut_end(&s);
}

static ssize_t go_send(int fd, const uint8_t *some, size_t len)
{
	return send(fd, some, len, MSG_NOSIGNAL);
}

static ssize_t go_writev(int fd, const uint8_t *some, size_t len)
{
	struct iovec v[2] = { { (void *)some, 1 },
			      { (void *)(some + 1), len - 1 } };

	return writev(fd, v, 2);
}

static ssize_t go_sendfile(int fd, const uint8_t *some, size_t len)
{
	int err, file = memfd_create("shuts", MFD_CLOEXEC);
	off_t at = 0;
	ssize_t n;

	CHECK(file >= 0);
	CHECK(write(file, some, len) == (ssize_t)len);
	n = sendfile(fd, file, &at, len);
	err = errno;
	CHECK(!close(file));
	errno = err;
	return n;
}

static ssize_t go_splice(int fd, const uint8_t *some, size_t len)
{
	int err, pp[2];
	ssize_t n;

	CHECK(!pipe2(pp, O_CLOEXEC));
	CHECK(write(pp[1], some, len) == (ssize_t)len);
	n = splice(pp[0], NULL, fd, NULL, len, 0);
	err = errno;
	CHECK(!close(pp[0]) && !close(pp[1]));
	errno = err;
	return n;
}

static void by_send(struct link *l, int how)
{
	sends(l, how, go_send);
}

static void by_writev(struct link *l, int how)
{
	sends(l, how, go_writev);
}

static void by_sendfile(struct link *l, int how)
{
	sends(l, how, go_sendfile);
}

static void by_splice(struct link *l, int how)
{
	sends(l, how, go_splice);
}

typedef void wait_fn(struct link *l, int how);

static void each(struct end *e, wait_fn *const *ways, size_t n, bool small)
{
	struct link l;
	size_t i, k;

	signal(SIGPIPE, SIG_IGN);
	for (i = 0; i < n; i++)
		for (k = 0; k < ARRAY_SIZE(hows); k++) {
			prog_tell(e, 1);
			full_link(e, &l, small);
			ways[i](&l, hows[k]);
			after(&l, hows[k]);
			over(e, &l, hows[k] == SHUT_WR);
		}
	prog_tell(e, 0);
	signal(SIGPIPE, SIG_DFL);
}

static wait_fn *const looks[] = { by_poll, by_poll_all, by_select };
static wait_fn *const in_sets[] = { by_set, by_set_both, by_edge, by_edge_all,
				    by_once };
static wait_fn *const in_sends[] = { by_send, by_writev, by_sendfile,
				     by_splice };

static void looks_run(struct end *e)
{
	each(e, looks, ARRAY_SIZE(looks), false);
}

static void sets_run(struct end *e)
{
	each(e, in_sets, ARRAY_SIZE(in_sets), false);
}

static void sends_run(struct end *e)
{
	each(e, in_sends, ARRAY_SIZE(in_sends), false);
}

static void small_run(struct end *e)
{
	each(e, looks, ARRAY_SIZE(looks), true);
	each(e, in_sets, ARRAY_SIZE(in_sets), true);
	each(e, in_sends, ARRAY_SIZE(in_sends), true);
}

static _Atomic unsigned ran;

static void on_signal(int sig)
{
	(void)sig;
	ran++;
}

/*
 * With one handler that the kernel restarts calls behind, and another one behind
 * which it does not: the send goes on behind the first.
 */
static void handled_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigemptyset(&sa.sa_mask);
	CHECK(!sigaction(SIGUSR2, &sa, NULL));
	sa.sa_flags = SA_RESTART;
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	nudged = pthread_self();
	each(e, in_sends, ARRAY_SIZE(in_sends), true);
	each(e, in_sends, ARRAY_SIZE(in_sends), false);
	CHECK(ran == 4 * ARRAY_SIZE(in_sends));
	nudged = 0;
}

static void handled_peer(struct end *e)
{
	takes(e);
	takes(e);
}

static void small_peer(struct end *e)
{
	takes(e);
	takes(e);
	takes(e);
}

/* No thread waits for it: the next look tells of it. */
static void later_run(struct end *e)
{
	struct link l;
	size_t i;

	for (i = 0; i < 2 * ARRAY_SIZE(hows); i++) {
		prog_tell(e, 1);
		full_link(e, &l, i & 1);
		CHECK(!shutdown(l.fd, hows[i / 2]));
		after(&l, hows[i / 2]);
		over(e, &l, hows[i / 2] == SHUT_WR);
	}
	prog_tell(e, 0);
}

static const struct prog_case cases[] = {
	{ "looks", looks_run, takes, CASE_BARE },
	{ "sets", sets_run, takes, CASE_BARE },
	{ "sends", sends_run, takes, CASE_BARE },
	{ "small", small_run, small_peer, CASE_BARE },
	{ "handled", handled_run, handled_peer, CASE_BARE },
	{ "later", later_run, takes, CASE_BARE },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
