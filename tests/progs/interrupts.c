/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * interrupts - a signal comes at places drawn from all of a process's calls
 * (step.h), and its handler does what a handler may do: sends, receives, shuts
 * down, closes, jumps away, starts a child. What the peer sees is what it sees on
 * TCP, where a call has happened before the handler or behind it, and never by
 * halves.
 */
#include "step.h"

#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define ROUNDS 6
#define WARM   (step_elsewhere() ? 400 : 40)
#define FRAME  100 /* bytes of one value each, the next frame of the next */
#define MARK   0 /* of no frame: what the handler sends */
#define AFTER  20 /* calls behind the handler */

static unsigned char value_at(uint64_t off)
{
	return (unsigned char)(1 + off / FRAME % 251);
}

/* --- in the process that is interrupted ----------------------------------- */

struct test {
	const char *name;
	void (*call)(void);
	void (*handler)(void);
	bool gets; /* it receives, its peer sends */
	bool jumps; /* a frame, or what was received, may be lost */
	bool ends; /* nothing can be sent any more */
	bool much; /* each call sends bytes of one value, how many it says */
	unsigned int marks; /* that arrive */
};

static struct sockaddr_in addr;
static const struct test *test;
static int fd, set = -1;
static uint64_t off; /* of the next byte that is sent, or received */
static unsigned int calls; /* since the handler ran */
static volatile sig_atomic_t hits;
static volatile bool inside; /* it is in a call, and not in code of its own */
static volatile bool late; /* the signal came when it was not */
static volatile bool closed;
static char early[4096]; /* what the handler received */
static volatile ssize_t early_n;
static sigjmp_buf away;

static void on_signal(int sig)
{
	int err = errno;

	(void)sig;
	if (inside) {
		hits = 1;
		test->handler();
	} else if (!hits) {
		late = true;
	}
	errno = err;
}

/* The call that is interrupted, and its result. */
#define INSIDE(call)              \
	({                        \
		ssize_t result_;  \
                                  \
		inside = true;    \
		result_ = (call); \
		inside = false;   \
		result_;          \
	})

static void prepare(void *arg)
{
	struct link l = { .tx.seed = 1, .rx.seed = 2 };
	struct sigaction sa = { .sa_handler = on_signal,
				.sa_flags = SA_RESTART };
	struct epoll_event ev = { .events = EPOLLIN };

	test = arg;
	l.fd = fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	CHECK(!connect(fd, (struct sockaddr *)&addr, sizeof(addr)));
	prog_warm(&l, true, WARM);
	CHECK(!sigaction(SIGUSR1, &sa, NULL));
	CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
	set = epoll_create1(EPOLL_CLOEXEC);
	CHECK(set >= 0 && !epoll_ctl(set, EPOLL_CTL_ADD, fd, &ev));
}

static bool same(const char *buf, size_t n, uint64_t from)
{
	while (n--)
		if ((unsigned char)buf[n] != value_at(from + n))
			return false;
	return true;
}

/* The handler may have received before the call has, or behind it. */
static void got(const char *buf, size_t n)
{
	size_t h = early_n > 0 ? (size_t)early_n : 0;

	if (test->jumps && hits)
		return;
	CHECK((same(buf, n, off) && same(early, h, off + n)) ||
	      (same(early, h, off) && same(buf, n, off + h)));
	off += n + h;
	early_n = 0;
}

static void finish(void)
{
	char buf[4096];
	ssize_t n = 1;

	if (!closed && !test->ends)
		CHECK(!shutdown(fd, SHUT_WR));
	while (!closed && n > 0) {
		n = recv(fd, buf, sizeof(buf), 0);
		if (n > 0)
			got(buf, (size_t)n);
	}
	CHECK(closed || !n);
	_exit(0);
}

static void work(void *arg)
{
	(void)arg;
	if (!sigsetjmp(away, 1))
		test->call();
	inside = false;
	if (late) {
		late = false;
		if (!sigsetjmp(away, 1)) {
			inside = true;
			raise(SIGUSR1);
		}
		inside = false;
	}
	if (hits && calls++ == (test->much ? 1 : AFTER))
		finish();
}

static void puts_one(void)
{
	char buf[FRAME];
	ssize_t n;

	memset(buf, value_at(off), sizeof(buf));
	off += sizeof(buf);
	n = INSIDE(send(fd, buf, sizeof(buf), 0));
	if (n < 0 && hits && (test->ends || closed)) {
		CHECK(errno == (closed ? EBADF : EPIPE));
		finish();
	}
	CHECK(n == FRAME);
}

/* Longer than any buffer: a handler ends it when a part has gone. */
static void puts_much(void)
{
	static char buf[3 << 20];
	static unsigned int call;
	ssize_t n;

	memset(buf, value_at((uint64_t)call++ * FRAME), sizeof(buf));
	n = INSIDE(send(fd, buf, sizeof(buf), 0));
	CHECK(n > 0);
}

#define SEVERAL 4 /* messages of one call */

/* Several messages at `buf`, `size` bytes each, one behind the other. */
static void several(struct mmsghdr *m, struct iovec *v, char *buf, size_t size)
{
	unsigned int i;

	memset(m, 0, SEVERAL * sizeof(*m));
	for (i = 0; i < SEVERAL; i++) {
		v[i] = (struct iovec){ buf + i * size, size };
		m[i].msg_hdr.msg_iov = &v[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
}

/* A handler may end it behind a message, and not come between two. */
static void puts_several(void)
{
	static unsigned int call;
	struct mmsghdr m[SEVERAL];
	struct iovec v[SEVERAL];
	char buf[FRAME];

	memset(buf, value_at((uint64_t)call++ * FRAME), sizeof(buf));
	several(m, v, buf, sizeof(buf) / SEVERAL);
	CHECK(INSIDE(sendmmsg(fd, m, SEVERAL, 0)) > 0);
}

static void gets_several(void)
{
	struct mmsghdr m[SEVERAL];
	struct iovec v[SEVERAL];
	char buf[FRAME];
	ssize_t i, n;
	size_t sum = 0;

	several(m, v, buf, sizeof(buf) / SEVERAL);
	n = INSIDE(recvmmsg(fd, m, SEVERAL, 0, NULL));
	CHECK(n > 0);
	for (i = 0; i < n; i++) {
		memmove(buf + sum, v[i].iov_base, m[i].msg_len);
		sum += m[i].msg_len;
	}
	CHECK(sum);
	got(buf, sum);
}

static void gets(int flags)
{
	char buf[3000];
	ssize_t n = INSIDE(recv(fd, buf, sizeof(buf), flags));

	if (n < 0 && closed && errno == EBADF)
		finish();
	if (!n && hits && test->ends) /* answered by the peer's */
		finish();
	CHECK(n > 0);
	got(buf, (size_t)n);
}

static void gets_some(void)
{
	gets(0);
}

static void gets_whole(void)
{
	gets(MSG_WAITALL);
}

static void polls(void)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	ssize_t n = INSIDE(poll(&p, 1, -1));

	CHECK(n == 1 || (n < 0 && errno == EINTR && hits));
	if (n == 1)
		gets_some();
}

static void waits(void)
{
	struct epoll_event ev;
	ssize_t n = INSIDE(epoll_wait(set, &ev, 1, -1));

	CHECK(n == 1 || (n < 0 && errno == EINTR && hits));
	if (n == 1)
		gets_some();
}

/* --- its handlers --------------------------------------------------------- */

static void h_send(void)
{
	char mark = MARK;

	CHECK(send(fd, &mark, 1, 0) == 1);
}

static void h_recv(void)
{
	early_n = recv(fd, early, sizeof(early), MSG_DONTWAIT);
	CHECK(early_n > 0 || (early_n < 0 && errno == EAGAIN));
}

static void h_shut(void)
{
	CHECK(!shutdown(fd, SHUT_WR));
}

static void h_close(void)
{
	closed = true;
	CHECK(!close(fd));
}

static void h_jump(void)
{
	siglongjmp(away, 1);
}

static void h_fork(void)
{
	prog_child();
}

/* --- its peer ------------------------------------------------------------- */

struct round {
	const struct test *test;
	size_t place, places;
};

/* Thread: carries the process to the place, signals it, and lets it go on. */
static void *carries(void *arg)
{
	struct round *r = arg;
	struct step st;

	if (step_elsewhere())
		step_exec(&st, r->test->name, &addr);
	else
		step_start(&st, prepare, work, (void *)r->test);
	step_to(&st, r->place);
	r->places = st.places;
	step_signal(&st, SIGUSR1);
	CHECK(!step_free(&st));
	return NULL;
}

/* Frames, one of them missing at most, marks between them. */
static void get_frames(const struct test *t, int s)
{
	unsigned char buf[4096];
	unsigned int marks = 0;
	uint64_t at = 0;
	bool gap = t->jumps;
	ssize_t n, i;

	do {
		n = recv(s, buf, sizeof(buf), 0);
		for (i = 0; i < n; i++) {
			if (buf[i] == MARK) {
				CHECK(!(at % FRAME));
				marks++;
				continue;
			}
			if (gap && buf[i] != value_at(at) && !(at % FRAME)) {
				gap = false;
				at += FRAME;
			}
			CHECK(buf[i] == value_at(at));
			at++;
		}
	} while (n > 0 || (n < 0 && errno == EINTR));
	CHECK(!n && !(at % FRAME));
	CHECK(marks == t->marks);
}

/* Bytes of one value after those of another, a mark only where that changes. */
static void get_runs(const struct test *t, int s)
{
	static unsigned char buf[1 << 16];
	unsigned int marks = 0, call = 0;
	bool any = false, new_one = false;
	ssize_t n, i;

	do {
		n = recv(s, buf, sizeof(buf), 0);
		for (i = 0; i < n; i++) {
			if (buf[i] == MARK) {
				marks++;
				new_one = any;
				continue;
			}
			if (buf[i] == value_at((uint64_t)(call + 1) * FRAME)) {
				call++;
				new_one = false;
			}
			any = true;
			CHECK(!new_one);
			CHECK(buf[i] == value_at((uint64_t)call * FRAME));
		}
	} while (n > 0 || (n < 0 && errno == EINTR));
	CHECK(!n && marks == t->marks);
}

/* Frames, until the other end has none of its own any more. */
static void put_frames(const struct test *t, int s)
{
	struct pollfd p = { .fd = s, .events = POLLIN };
	char buf[FRAME];
	uint64_t at = 0;
	unsigned int marks = 0;
	ssize_t n;

	for (;;) {
		memset(buf, value_at(at), sizeof(buf));
		n = send(s, buf, sizeof(buf), MSG_NOSIGNAL);
		if (n < FRAME)
			break; /* closed */
		at += sizeof(buf);
		if (poll(&p, 1, 0) != 1)
			continue;
		n = recv(s, buf, sizeof(buf), 0);
		if (n <= 0)
			break;
		CHECK(buf[0] == MARK);
		marks += (unsigned int)n;
	}
	CHECK(!n || t->handler == h_close);
	CHECK(marks == t->marks);
	shutdown(s, SHUT_WR);
}

static size_t one(int lfd, const struct test *t, size_t place)
{
	struct round r = { .test = t, .place = place };
	struct link l = { .tx.seed = 2, .rx.seed = 1 };
	pthread_t carrier;

	CHECK(!pthread_create(&carrier, NULL, carries, &r));
	l.fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC);
	CHECK(l.fd >= 0);
	prog_warm(&l, false, WARM);
	if (t->much)
		get_runs(t, l.fd);
	else if (t->gets)
		put_frames(t, l.fd);
	else
		get_frames(t, l.fd);
	shutdown(l.fd, SHUT_WR);
	CHECK(!pthread_join(carrier, NULL));
	link_close(&l);
	return r.places;
}

static void rounds(const struct test *t)
{
	int lfd = step_listen(&addr);
	size_t i, n = ROUNDS * (size_t)prog_scale, most;
	uint32_t rnd = (uint32_t)prog_now_ms();

	most = one(lfd, t, SIZE_MAX);
	for (i = 0; i < n; i++)
		one(lfd, t, 1 + (most * i + prog_rand(&rnd) % most) / n);
	CHECK(!close(lfd));
}

/* --- cases ---------------------------------------------------------------- */

static const struct test tests[] = {
	{ "send-send", puts_one, h_send, .marks = 1 },
	{ "send-recv", puts_one, h_recv, .gets = false },
	{ "send-shut", puts_one, h_shut, .ends = true },
	{ "send-close", puts_one, h_close, .gets = false },
	{ "send-jump", puts_one, h_jump, .jumps = true },
	{ "send-fork", puts_one, h_fork, .gets = false },
	{ "much-send", puts_much, h_send, .much = true, .marks = 1 },
	{ "several-send", puts_several, h_send, .much = true, .marks = 1 },
	{ "recv-send", gets_some, h_send, .gets = true, .marks = 1 },
	{ "recv-recv", gets_some, h_recv, .gets = true },
	{ "whole-recv", gets_whole, h_recv, .gets = true },
	{ "several-recv", gets_several, h_recv, .gets = true },
	{ "recv-shut", gets_some, h_shut, .gets = true, .ends = true },
	{ "recv-close", gets_some, h_close, .gets = true },
	{ "recv-jump", gets_some, h_jump, .gets = true, .jumps = true },
	{ "recv-fork", gets_some, h_fork, .gets = true },
	{ "poll-send", polls, h_send, .gets = true, .marks = 1 },
	{ "poll-jump", polls, h_jump, .gets = true, .jumps = true },
	{ "epoll-send", waits, h_send, .gets = true, .marks = 1 },
	{ "epoll-recv", waits, h_recv, .gets = true },
	{ "epoll-jump", waits, h_jump, .gets = true, .jumps = true },
};

static const struct step_tests all = STEP_TESTS(tests);

static void run(struct end *e)
{
	rounds(step_test(&all, e->name));
}

int main(int argc, char **argv)
{
	const char *asked = step_asked(argc, argv, &addr);

	if (asked)
		step_here(prepare, work, (void *)step_test(&all, asked));
	return step_main(argc, argv, &all, run);
}
