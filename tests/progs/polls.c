/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * polls - poll, ppoll, select, pselect: what is ready, when, and for which
 * thread.
 */
#include "prog.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * One way to wait for n descriptors. ev[] asks with POLLIN, POLLOUT and
 * POLLPRI and receives the answer. ms < 0: for ever. Returns as poll does.
 */
typedef int wait_fn(const int *fd, short *ev, int n, int ms);

static int by_poll(const int *fd, short *ev, int n, int ms)
{
	struct pollfd p[128];
	int i, r;

	for (i = 0; i < n; i++)
		p[i] = (struct pollfd){ .fd = fd[i], .events = ev[i] };
	r = poll(p, (nfds_t)n, ms);
	for (i = 0; i < n; i++)
		ev[i] = r > 0 ? p[i].revents : 0;
	return r;
}

static struct timespec *spec(struct timespec *ts, int ms)
{
	ts->tv_sec = ms / 1000;
	ts->tv_nsec = (long)(ms % 1000) * 1000000;
	return ms < 0 ? NULL : ts;
}

static int by_ppoll(const int *fd, short *ev, int n, int ms)
{
	struct pollfd p[128];
	struct timespec ts, was;
	int i, r;

	spec(&was, ms);
	for (i = 0; i < n; i++)
		p[i] = (struct pollfd){ .fd = fd[i], .events = ev[i] };
	r = ppoll(p, (nfds_t)n, spec(&ts, ms), NULL);
	CHECK(!memcmp(&ts, &was, sizeof(ts)));
	for (i = 0; i < n; i++)
		ev[i] = r > 0 ? p[i].revents : 0;
	return r;
}

struct sets {
	fd_set in, out, pri;
	int max;
};

static void sets_fill(struct sets *s, const int *fd, const short *ev, int n)
{
	int i;

	FD_ZERO(&s->in);
	FD_ZERO(&s->out);
	FD_ZERO(&s->pri);
	s->max = -1;
	for (i = 0; i < n; i++) {
		if (ev[i] & POLLIN)
			FD_SET(fd[i], &s->in);
		if (ev[i] & POLLOUT)
			FD_SET(fd[i], &s->out);
		if (ev[i] & POLLPRI)
			FD_SET(fd[i], &s->pri);
		if (fd[i] > s->max)
			s->max = fd[i];
	}
}

/* Turns the sets into answers; returns the number of descriptors ready. */
static int sets_read(const struct sets *s, const int *fd, short *ev, int n,
		     int r)
{
	int i, bits = 0, ready = 0;

	for (i = 0; i < n; i++) {
		ev[i] = 0;
		if (r <= 0)
			continue;
		if (FD_ISSET(fd[i], &s->in)) {
			ev[i] |= POLLIN;
			bits++;
		}
		if (FD_ISSET(fd[i], &s->out)) {
			ev[i] |= POLLOUT;
			bits++;
		}
		if (FD_ISSET(fd[i], &s->pri)) {
			ev[i] |= POLLPRI;
			bits++;
		}
		ready += !!ev[i];
	}
	CHECK(r < 0 || bits == r);
	return r < 0 ? r : ready;
}

static int by_select(const int *fd, short *ev, int n, int ms)
{
	struct timeval tv = { ms / 1000, (long)(ms % 1000) * 1000 };
	struct sets s;
	int r;

	sets_fill(&s, fd, ev, n);
	r = select(s.max + 1, &s.in, &s.out, &s.pri, ms < 0 ? NULL : &tv);
	if (r == 0 && ms >= 0)
		CHECK(tv.tv_sec == 0 && tv.tv_usec == 0);
	if (r > 0 && ms >= 0) /* Linux leaves what was not waited */
		CHECK(tv.tv_sec * 1000 + tv.tv_usec / 1000 <= ms);
	return sets_read(&s, fd, ev, n, r);
}

static int by_pselect(const int *fd, short *ev, int n, int ms)
{
	struct timespec ts, was;
	struct sets s;
	int r;

	spec(&was, ms);
	sets_fill(&s, fd, ev, n);
	r = pselect(s.max + 1, &s.in, &s.out, &s.pri, spec(&ts, ms), NULL);
	CHECK(!memcmp(&ts, &was, sizeof(ts)));
	return sets_read(&s, fd, ev, n, r);
}

static wait_fn *const ways[] = { by_poll, by_ppoll, by_select, by_pselect };

static int one(wait_fn *w, int fd, short ev, int ms)
{
	int r = w(&fd, &ev, 1, ms);

	CHECK(r >= 0);
	return ev;
}

/* --- readiness and time ------------------------------------------------ */

static void ready_run(struct end *e)
{
	int fd = e->l.fd;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		wait_fn *w = ways[i];
		int64_t t0 = prog_now_ms(), dt;

		CHECK(one(w, fd, POLLIN | POLLPRI, 0) == 0);
		CHECK(one(w, fd, POLLIN, 60) == 0);
		dt = prog_now_ms() - t0;
		CHECK(dt >= 59 && dt < 8000);
		CHECK(one(w, fd, POLLIN | POLLOUT, 0) == POLLOUT);
		CHECK(one(w, fd, POLLOUT, -1) == POLLOUT);
		prog_tell(e, 1); /* comes while we sleep */
		CHECK(one(w, fd, POLLIN, -1) == POLLIN);
		CHECK(one(w, fd, POLLIN | POLLOUT, 0) == (POLLIN | POLLOUT));
		link_get(&e->l, 40);
		CHECK(one(w, fd, POLLIN, 0) == POLLIN);
		prog_mid(fd);
		CHECK(one(w, fd, POLLIN, 5000) == POLLIN);
		link_get(&e->l, 60);
		CHECK(one(w, fd, POLLIN, 0) == 0);
		prog_tell(e, 1);
		CHECK(one(w, fd, POLLIN, 5000) == POLLIN);
		link_get(&e->l, 100);
	}
	prog_tell(e, 0);
	for (i = 0; i < ARRAY_SIZE(ways); i++)
		CHECK(one(ways[i], fd, POLLIN, 5000) == POLLIN);
	link_eof(&e->l);
	for (i = 0; i < ARRAY_SIZE(ways); i++)
		CHECK(one(ways[i], fd, POLLIN | POLLOUT, -1) ==
		      (POLLIN | POLLOUT));
	CHECK(one(by_poll, fd, POLLRDHUP, 0) == POLLRDHUP);
	CHECK(one(by_poll, fd, POLLIN | POLLRDHUP, 0) == (POLLIN | POLLRDHUP));
	CHECK(one(by_poll, fd, 0, 0) == 0);
	CHECK(!shutdown(fd, SHUT_WR));
	CHECK(one(by_poll, fd, 0, 5000) == POLLHUP);
	CHECK(one(by_poll, fd, POLLIN, -1) == (POLLIN | POLLHUP));
	CHECK(one(by_select, fd, POLLIN, -1) == POLLIN);
}

static void ready_peer(struct end *e)
{
	while (prog_hear(e)) {
		prog_nap_ms(8);
		link_put(&e->l, 100);
	}
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	link_eof(&e->l);
}

/* --- many descriptors -------------------------------------------------- */

#define MANY 24

static void many_run(struct end *e)
{
	struct link l[MANY];
	int fd[2 * MANY], pp[MANY][2];
	uint32_t seed = 3;
	uint8_t b;
	int i, k;

	for (i = 0; i < MANY; i++) {
		prog_link(e, &l[i]);
		CHECK(!pipe2(pp[i], O_CLOEXEC));
		fd[2 * i] = l[i].fd;
		fd[2 * i + 1] = pp[i][0];
	}
	for (k = 0; k < 80; k++) {
		wait_fn *w = ways[k % 4];
		short ev[2 * MANY];
		int which = (int)(prog_rand(&seed) % (2 * MANY));

		for (i = 0; i < 2 * MANY; i++)
			ev[i] = POLLIN;
		prog_tell(e, (uint64_t)which);
		if (which & 1)
			CHECK(write(pp[which / 2][1], "p", 1) == 1);
		CHECK(w(fd, ev, 2 * MANY, 5000) == 1);
		for (i = 0; i < 2 * MANY; i++)
			CHECK(ev[i] == (i == which ? POLLIN : 0));
		if (which & 1)
			CHECK(read(pp[which / 2][0], &b, 1) == 1);
		else
			link_get(&l[which / 2], 33);
	}
	prog_tell(e, 2 * MANY);
	for (i = 0; i < MANY; i++) {
		link_close(&l[i]);
		CHECK(!close(pp[i][0]) && !close(pp[i][1]));
	}
}

static void many_peer(struct end *e)
{
	struct link l[MANY];
	uint64_t which;
	int i;

	for (i = 0; i < MANY; i++)
		prog_link(e, &l[i]);
	while ((which = prog_hear(e)) < 2 * MANY)
		if (!(which & 1))
			link_put(&l[which / 2], 33);
	for (i = 0; i < MANY; i++)
		link_close(&l[i]);
}

static void odd_run(struct end *e)
{
	struct pollfd p[4];
	struct rlimit rl;
	fd_set in;
	int gone = dup(e->l.fd);

	CHECK(gone >= 0);
	CHECK(!close(gone));
	p[0] = (struct pollfd){ .fd = -1, .events = POLLIN, .revents = 9 };
	p[1] = (struct pollfd){ .fd = e->l.fd, .events = POLLOUT };
	p[2] = (struct pollfd){ .fd = gone, .events = POLLIN };
	p[3] = p[1]; /* the same one twice */
	CHECK(poll(p, 4, 1000) == 3);
	CHECK(p[0].revents == 0 && p[1].revents == POLLOUT);
	CHECK(p[2].revents == POLLNVAL && p[3].revents == POLLOUT);
	CHECK(poll(NULL, 0, 5) == 0);
	FD_ZERO(&in);
	FD_SET(gone, &in);
	FAILS(select(gone + 1, &in, NULL, NULL, NULL), EBADF);
	FAILS(select(-1, &in, NULL, NULL, NULL), EINVAL);
	CHECK(!getrlimit(RLIMIT_NOFILE, &rl));
	FAILS(poll(NULL, rl.rlim_cur + 1, 0), EINVAL);
	link_turn(&e->l, 10, true);
}

static void odd_peer(struct end *e)
{
	link_turn(&e->l, 10, false);
}

/* --- signals and masks ------------------------------------------------- */

static atomic_int hits;

static void on_hit(int sig)
{
	(void)sig;
	atomic_fetch_add(&hits, 1);
}

struct shot {
	pthread_t at;
	pid_t tid;
	int sig;
};

static void *shooter(void *arg)
{
	struct shot *s = arg;

	prog_asleep(s->tid, 20);
	CHECK(!pthread_kill(s->at, s->sig));
	return NULL;
}

/* Readiness calls never restart, SA_RESTART or not. */
static void signal_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_hit, .sa_flags = SA_RESTART };
	struct shot s = { pthread_self(), gettid(), SIGUSR1 };
	short ev;
	size_t i;
	int before;

	for (i = 0; i < 2 * ARRAY_SIZE(ways); i++) {
		pthread_t t;

		sa.sa_flags = i % 2 ? SA_RESTART : 0;
		CHECK(!sigaction(SIGUSR1, &sa, NULL));
		before = atomic_load(&hits);
		CHECK(!pthread_create(&t, NULL, shooter, &s));
		ev = POLLIN;
		FAILS(ways[i / 2](&e->l.fd, &ev, 1, i % 2 ? -1 : 9000), EINTR);
		CHECK(atomic_load(&hits) == before + 1);
		CHECK(!pthread_join(t, NULL));
	}
	link_turn(&e->l, 10, true);
}

/* The mask holds while the call waits and not before or after. */
static void mask_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_hit };
	struct timespec ts = { 5, 0 };
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };
	sigset_t block, open, old, now;
	fd_set in;
	int i, before;

	CHECK(!sigaction(SIGUSR2, &sa, NULL));
	sigemptyset(&block);
	sigaddset(&block, SIGUSR2);
	CHECK(!pthread_sigmask(SIG_BLOCK, &block, &old));
	open = old;
	sigdelset(&open, SIGUSR2);
	for (i = 0; i < 4; i++) {
		before = atomic_load(&hits);
		CHECK(!pthread_kill(pthread_self(), SIGUSR2));
		CHECK(poll(&p, 1, 5) == 0);
		CHECK(atomic_load(&hits) == before);
		FD_ZERO(&in);
		FD_SET(e->l.fd, &in);
		if (i % 2)
			FAILS(ppoll(&p, 1, &ts, &open), EINTR);
		else
			FAILS(pselect(e->l.fd + 1, &in, NULL, NULL, &ts, &open),
			      EINTR);
		CHECK(atomic_load(&hits) == before + 1);
		CHECK(!pthread_sigmask(SIG_BLOCK, NULL, &now));
		CHECK(sigismember(&now, SIGUSR2) == 1);
	}
	CHECK(!pthread_sigmask(SIG_SETMASK, &old, NULL));
	link_turn(&e->l, 10, true);
}

/* --- threads ----------------------------------------------------------- */

struct watcher {
	int fd;
	wait_fn *w;
	int got;
};

static void *watch(void *arg)
{
	struct watcher *w = arg;

	w->got = one(w->w, w->fd, POLLIN, 9000);
	return NULL;
}

/* All that wait for one socket come out when it becomes readable. */
static void threads_run(struct end *e)
{
	struct watcher w[8];
	pthread_t t[8];
	int i, k;

	for (k = 0; k < 10; k++) {
		for (i = 0; i < 8; i++) {
			w[i] = (struct watcher){ e->l.fd, ways[i % 4], 0 };
			CHECK(!pthread_create(&t[i], NULL, watch, &w[i]));
		}
		if (k % 2)
			prog_nap_ms(5);
		prog_sync(e);
		for (i = 0; i < 8; i++) {
			CHECK(!pthread_join(t[i], NULL));
			CHECK(w[i].got == POLLIN);
		}
		link_get(&e->l, 20);
	}
}

static void threads_peer(struct end *e)
{
	int i;

	for (i = 0; i < 10; i++) {
		prog_sync(e);
		link_put(&e->l, 20);
	}
}

/* A listener, and a connection that lifts while a thread polls it. */
static void early_run(struct end *e)
{
	struct link l;
	int i;

	prog_link(e, &l);
	for (i = 0; i < 400; i++) {
		CHECK(one(ways[i % 4], l.fd, POLLIN, 5000) == POLLIN);
		link_get(&l, 50);
		CHECK(one(ways[i % 3], l.fd, POLLOUT, 5000) == POLLOUT);
		link_put(&l, 50);
	}
	link_close(&l);
}

static void early_peer(struct end *e)
{
	struct link l;
	int i;

	prog_link(e, &l);
	for (i = 0; i < 400; i++) {
		if (i % 100 == 50)
			prog_mid(l.fd);
		link_put(&l, 50);
		CHECK(one(ways[i % 4], l.fd, POLLIN, 5000) == POLLIN);
		link_get(&l, 50);
	}
	link_eof(&l);
	link_close(&l);
}

/* --- many turns ---------------------------------------------------------- */

#define TURNS 3000

/* What database servers do: a look, then poll() for data and urgent data. */
static void turn_get(struct link *l, size_t n)
{
	struct pollfd p = { .fd = l->fd, .events = POLLIN | POLLPRI };
	uint8_t buf[1000];
	ssize_t r;

	for (; n; n -= (size_t)r) {
		while ((r = recv(l->fd, buf, n, MSG_DONTWAIT)) < 0) {
			CHECK(errno == EAGAIN);
			CHECK(poll(&p, 1, 10000) == 1);
			BITS(p.revents, POLLIN);
		}
		CHECK(r > 0);
		flow_check(&l->rx, buf, (size_t)r);
	}
}

/*
 * Both ends on one processor, where a woken thread runs at once, before
 * the one that woke it has returned from its call.
 */
static void one_processor(void)
{
	cpu_set_t all, one;
	int i = 0;

	CHECK(!sched_getaffinity(0, sizeof(all), &all));
	while (!CPU_ISSET(i, &all))
		i++;
	CPU_ZERO(&one);
	CPU_SET(i, &one);
	CHECK(!sched_setaffinity(0, sizeof(one), &one));
}

static void turns_run(struct end *e)
{
	int64_t start, all = 0;
	int i, quick = 0;

	one_processor();
	for (i = 0; i < TURNS; i++) {
		start = prog_now_ms();
		link_put(&e->l, 100);
		turn_get(&e->l, 600);
		quick += prog_now_ms() - start < 4;
		all += prog_now_ms() - start;
	}
	/* a wait of some milliseconds in most is a wait for nothing */
	CHECK(all < 4 * TURNS || quick > TURNS / 3 * 2);
}

static void turns_peer(struct end *e)
{
	int i;

	one_processor();
	for (i = 0; i < TURNS; i++) {
		turn_get(&e->l, 100);
		link_put(&e->l, 200);
		link_put(&e->l, 200);
		link_put(&e->l, 200);
	}
}

static const struct prog_case cases[] = {
	{ "ready", ready_run, ready_peer, 0 },
	{ "many", many_run, many_peer, CASE_BARE },
	{ "odd", odd_run, odd_peer, 0 },
	{ "signal", signal_run, odd_peer, 0 },
	{ "mask", mask_run, odd_peer, 0 },
	{ "threads", threads_run, threads_peer, 0 },
	{ "early", early_run, early_peer, CASE_BARE },
	{ "turns", turns_run, turns_peer, CASE_PROCESS },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
