/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zcsink - large receives that wait: what writes the bytes, and into what,
 * every byte is the one that was sent, and a receive that has returned, or was
 * left in any other way, has done with its buffer.
 */
#include "zcopy.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 40

static size_t some(uint32_t *seed)
{
	return 32768 + prog_rand(seed) % (prog_rand(seed) % 4 ? 200000 : MIB);
}

/* --- senders ----------------------------------------------------------- */

/* As many bytes as the other end says, each time; 0 ends it. */
static void serve(struct end *e, bool block)
{
	uint8_t *buf = buffer();
	uint32_t seed = 11;
	uint64_t n;

	while ((n = prog_hear(e))) {
		prog_nap_ms(prog_rand(&seed) % 4);
		if (block)
			shoot_all(&e->l, buf, (size_t)n);
		else
			push(&e->l, buf, (size_t)n);
	}
	CHECK(!munmap(buf, BIG));
	prog_sync(e);
}

static void serve_poll(struct end *e)
{
	serve(e, false);
}

static void serve_block(struct end *e)
{
	serve(e, true);
}

/* --- waiting ----------------------------------------------------------- */

static ssize_t take(int fd, uint8_t *buf, size_t n, uint32_t how)
{
	struct iovec iov[3] = { { buf, n / 2 },
				{ buf + n / 2, 0 },
				{ buf + n / 2, n - n / 2 } };
	struct msghdr m = { .msg_iov = iov, .msg_iovlen = 3 };

	switch (how % 6) {
	case 0:
		return recv(fd, buf, n, MSG_WAITALL);
	case 1:
		return readv(fd, iov, 3);
	case 2:
		return recvmsg(fd, &m, MSG_WAITALL);
	case 3:
		return recv(fd, buf, n, 0);
	default:
		return read(fd, buf, n);
	}
}

/* They come by one call. */
static void ask_for(struct end *e, struct left *b, size_t n)
{
	uint8_t *p = left_next(b);

	prog_tell(e, n);
	CHECK(recv(e->l.fd, p, n, MSG_WAITALL) == (ssize_t)n);
	flow_check(&e->l.rx, p, n);
	left_done(b);
}

static void wait_peer(struct end *e)
{
	struct left b;
	uint32_t seed = 23;
	int i;

	left_init(&b);
	for (i = 0; i < ROUNDS; i++) {
		size_t n = some(&seed), got = 0;

		prog_tell(e, n);
		while (got < n) {
			uint8_t *p = left_next(&b);
			ssize_t r = take(e->l.fd, p, n - got, prog_rand(&seed));

			CHECK(r > 0 && (size_t)r <= n - got);
			flow_check(&e->l.rx, p, (size_t)r);
			got += (size_t)r;
			left_done(&b);
		}
		if (i % 8 == 7)
			prog_mid(e->l.fd);
	}
	left_free(&b);
	prog_tell(e, 0);
	prog_sync(e);
}

/* The other end's main thread is asleep, as the kernel says. */
static void await_sleep(pid_t pid)
{
	char path[64], text[256], *end;
	int i, fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	for (i = 0; i < 20000; i++) {
		ssize_t n;

		fd = open(path, O_RDONLY);
		CHECK(fd >= 0);
		n = read(fd, text, sizeof(text) - 1);
		CHECK(n > 0 && !close(fd));
		text[n] = 0;
		end = strrchr(text, ')');
		if (end && end[2] == 'S')
			return;
		usleep(500);
	}
	prog_fail(__FILE__, __LINE__, "not asleep");
}

/* It sleeps in a receive of all of it before the first byte is sent. */
static void asleep_run(struct end *e)
{
	uint8_t *buf = buffer();
	int i;

	for (i = 0; i < 20; i++) {
		size_t n = (size_t)prog_hear(e);

		await_sleep(e->pid);
		push(&e->l, buf, n);
		prog_hear(e);
	}
	CHECK(!munmap(buf, BIG));
}

static void asleep_peer(struct end *e)
{
	uint8_t *buf = buffer();
	uint32_t seed = 19;
	int i;

	for (i = 0; i < 20; i++) {
		size_t n = 100000 + prog_rand(&seed) % 900000;

		prog_tell(e, n);
		CHECK(recv(e->l.fd, buf, n, MSG_WAITALL) == (ssize_t)n);
		flow_check(&e->l.rx, buf, n);
		prog_tell(e, 0);
	}
	CHECK(!munmap(buf, BIG));
}

/* Receives that end too early by `begin`, with `why`, until all has come. */
static void impatient(struct end *e, uint32_t seed,
		      void (*begin)(int fd, uint32_t *seed), void (*over)(void),
		      int why)
{
	struct left b;
	int i;

	left_init(&b);
	for (i = 0; i < ROUNDS; i++) {
		size_t n = some(&seed), got = 0;

		prog_tell(e, n);
		while (got < n) {
			uint8_t *p = left_next(&b);
			ssize_t r;

			begin(e->l.fd, &seed);
			r = take(e->l.fd, p, n - got, prog_rand(&seed));
			over();
			CHECK(r > 0 || (r == -1 && errno == why));
			if (r > 0)
				flow_check(&e->l.rx, p, (size_t)r);
			got += r > 0 ? (size_t)r : 0;
			left_done(&b);
		}
	}
	left_free(&b);
	prog_tell(e, 0);
	prog_sync(e);
}

static void limit(int fd, uint32_t *seed)
{
	struct timeval tv = { 0, 500 + prog_rand(seed) % 4000 };

	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
}

static void no_more(void)
{
}

/* The receiver gives up early, by its own time limit. */
static void late_peer(struct end *e)
{
	impatient(e, 29, limit, no_more, EAGAIN);
}

/* --- signals ----------------------------------------------------------- */

static sigjmp_buf out;
static bool jumps;

static void on_alarm(int sig)
{
	(void)sig;
	if (jumps)
		siglongjmp(out, 1);
}

static void alarm_us(unsigned int us, unsigned int again)
{
	struct itimerval it = { { 0, again }, { 0, us } };

	CHECK(!setitimer(ITIMER_REAL, &it, NULL));
}

static void handle(int flags)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = flags };

	CHECK(!sigaction(SIGALRM, &sa, NULL));
}

static void soon(int fd, uint32_t *seed)
{
	(void)fd;
	alarm_us(1 + prog_rand(seed) % 3000, 3000);
}

/* errno is the receive's. */
static void calm(void)
{
	int keep = errno;

	alarm_us(0, 0);
	errno = keep;
}

/* Interrupted: EINTR, or what came so far. */
static void alarm_peer(struct end *e)
{
	handle(0);
	impatient(e, 31, soon, calm, EINTR);
}

static void *thrower(void *arg)
{
	pid_t *tid = arg;

	prog_asleep(*tid, 5);
	CHECK(!syscall(SYS_tgkill, getpid(), *tid, SIGALRM));
	return NULL;
}

/*
 * With nothing there to receive: EINTR it must be, or the handler's way. It
 * jumps out of sleeps only: a jump out of the microsecond with the socket's
 * lock held is one of the library's limits.
 */
static void jump_peer(struct end *e)
{
	static pthread_t t;
	pid_t tid = (pid_t)syscall(SYS_gettid);
	volatile uint32_t seed = 37;
	struct left b;
	volatile int i;

	left_init(&b);
	handle(0);
	for (i = 0; i < ROUNDS; i++) {
		uint32_t r = seed;
		size_t n = some(&r);
		uint8_t *p = left_next(&b);

		seed = r;
		jumps = i % 2;
		if (jumps)
			CHECK(!pthread_create(&t, NULL, thrower, &tid));
		if (!sigsetjmp(out, 1)) {
			if (!jumps)
				alarm_us(1 + prog_rand(&r) % 2000, 2000);
			FAILS(recv(e->l.fd, p, MIB, MSG_WAITALL), EINTR);
		}
		if (jumps)
			CHECK(!pthread_join(t, NULL));
		jumps = false;
		alarm_us(0, 0);
		left_done(&b);
		ask_for(e, &b, n);
	}
	left_free(&b);
	prog_tell(e, 0);
	prog_sync(e);
}

/* With SA_RESTART it goes on; what is ignored, or blocked, does not count. */
static void restart_peer(struct end *e)
{
	uint8_t *buf = buffer();
	uint32_t seed = 41;
	sigset_t set;
	int i;

	handle(SA_RESTART);
	signal(SIGUSR1, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	CHECK(!sigprocmask(SIG_BLOCK, &set, NULL));
	CHECK(!kill(getpid(), SIGUSR2));
	alarm_us(300, 700);
	for (i = 0; i < ROUNDS; i++) {
		size_t n = some(&seed);

		prog_tell(e, n);
		CHECK(!kill(getpid(), SIGUSR1));
		while (n) {
			/* cut short, perhaps, but never without anything */
			ssize_t r = recv(e->l.fd, buf, n, MSG_WAITALL);

			CHECK(r > 0);
			flow_check(&e->l.rx, buf, (size_t)r);
			n -= (size_t)r;
		}
	}
	alarm_us(0, 0);
	prog_tell(e, 0);
	prog_sync(e);
}

/* --- other threads ----------------------------------------------------- */

struct reader {
	int fd;
	uint8_t *buf;
};

static void *reading(void *arg)
{
	struct reader *r = arg;

	for (;;)
		if (recv(r->fd, r->buf, MIB, MSG_WAITALL) <= 0)
			return NULL;
}

/* The thread that waits is cancelled; the next one gets the bytes. */
static void cancel_peer(struct end *e)
{
	uint32_t seed = 43;
	struct left b;
	int i;

	left_init(&b);
	for (i = 0; i < ROUNDS / 4; i++) {
		struct reader r = { e->l.fd, left_next(&b) };
		size_t n = some(&seed);
		pthread_t t;
		void *how;

		CHECK(!pthread_create(&t, NULL, reading, &r));
		prog_nap_ms(prog_rand(&seed) % 4);
		CHECK(!pthread_cancel(t));
		CHECK(!pthread_join(t, &how));
		CHECK(how == PTHREAD_CANCELED);
		left_done(&b);
		ask_for(e, &b, n);
	}
	left_free(&b);
	prog_tell(e, 0);
	prog_sync(e);
}

/* Other threads fork, and look, while one waits. */
static void *restless(void *arg)
{
	struct end *e = arg;
	int i, st;
	char byte;

	for (i = 0; i < 20; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid)
			_exit(0);
		CHECK(waitpid(pid, &st, 0) == pid && !st);
		recv(e->l.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
		prog_nap_ms(2);
		prog_mid(e->l.fd);
	}
	return NULL;
}

static void restless_peer(struct end *e)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, restless, e));
	wait_peer(e);
	CHECK(!pthread_join(t, NULL));
}

/* --- the sender's end -------------------------------------------------- */

static void *ender(void *arg)
{
	pid_t pid = *(pid_t *)arg;
	int i;

	for (i = 0; i < 60; i++) {
		prog_nap_ms(2);
		CHECK(!kill(pid, SIGSTOP));
		prog_nap_ms(2);
		CHECK(!kill(pid, SIGCONT));
	}
	CHECK(!kill(pid, SIGKILL));
	return NULL;
}

/* Stopped now and then, and killed: the receiver never waits for it. */
static void stopped_run(struct end *e)
{
	struct timeval tv = { 0, 1000 };
	struct flow first = e->l.rx, f = first;
	uint64_t sum = 0;
	pthread_t t;
	struct left b;

	left_init(&b);
	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	CHECK(!pthread_create(&t, NULL, ender, &e->pid));
	for (;;) {
		uint8_t *p = left_next(&b);
		ssize_t r = read(e->l.fd, p, MIB - sum % MIB);

		CHECK(r >= 0 || errno == EAGAIN || errno == ECONNRESET);
		if (!r || (r < 0 && errno == ECONNRESET))
			break;
		if (r > 0) {
			flow_check(&f, p, (size_t)r);
			sum += (uint64_t)r;
			if (sum % MIB == 0)
				f = first;
		}
		left_done(&b);
	}
	CHECK(!pthread_join(t, NULL));
	left_free(&b);
}

/* A stream that begins anew with every MiB. */
static void stopped_peer(struct end *e)
{
	uint8_t *buf = buffer();
	struct flow f = e->l.tx;
	uint32_t seed = 47;

	flow_fill(&f, buf, MIB);
	for (;;) {
		size_t at = 0;

		while (at < MIB) {
			size_t n = some(&seed);
			ssize_t r = send(e->l.fd, buf + at,
					 n < MIB - at ? n : MIB - at, 0);

			CHECK(r > 0);
			at += (size_t)r;
		}
		usleep(prog_rand(&seed) % 500);
	}
}

/* --- everything -------------------------------------------------------- */

static size_t bulk(void)
{
	return 24 * MIB * prog_scale;
}

static size_t any(uint32_t *seed)
{
	static const uint32_t base[] = { 100, 16384, 32768, 65536, 262144 };
	uint32_t b = base[prog_rand(seed) % ARRAY_SIZE(base)];

	return b + prog_rand(seed) % (2 * b) - b / 2;
}

static void dally(uint32_t *seed)
{
	if (prog_rand(seed) % 4 == 0)
		usleep(prog_rand(seed) % 2000);
}

static void *torture_out(void *arg)
{
	struct link *l = arg;
	uint32_t seed = (uint32_t)getpid();
	uint8_t *buf = buffer();
	size_t left = bulk(), n;

	while (left) {
		n = any(&seed);
		if (n > left)
			n = left;
		if (prog_rand(&seed) % 2)
			push(l, buf, n);
		else
			shoot_all(l, buf, n);
		left -= n;
		dally(&seed);
	}
	CHECK(!munmap(buf, BIG));
	return NULL;
}

static void torture(struct end *e)
{
	uint32_t seed = (uint32_t)getpid() + 1;
	size_t left = bulk(), n;
	struct left b;
	pthread_t t;

	left_init(&b);
	CHECK(!pthread_create(&t, NULL, torture_out, &e->l));
	while (left) {
		uint8_t *p = left_next(&b);
		struct timeval tv = { 0, 0 };
		ssize_t r;

		if (prog_rand(&seed) % 4 == 0)
			tv.tv_usec = 1 + prog_rand(&seed) % 2000;
		CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_RCVTIMEO, &tv,
				  sizeof(tv)));
		n = any(&seed);
		r = take(e->l.fd, p, n < left ? n : left, prog_rand(&seed));
		CHECK(r > 0 || (r == -1 && errno == EAGAIN && tv.tv_usec));
		if (r > 0)
			flow_check(&e->l.rx, p, (size_t)r);
		left -= r > 0 ? (size_t)r : 0;
		left_done(&b);
		dally(&seed);
	}
	CHECK(!pthread_join(t, NULL));
	left_free(&b);
	prog_sync(e);
}

static const struct prog_case cases[] = {
	{ "wait", serve_poll, wait_peer, 0 },
	{ "block", serve_block, wait_peer, 0 },
	{ "asleep", asleep_run, asleep_peer, CASE_PROCESS },
	{ "late", serve_poll, late_peer, 0 },
	{ "alarm", serve_poll, alarm_peer, CASE_PROCESS },
	{ "jump", serve_poll, jump_peer, CASE_PROCESS },
	{ "restart", serve_poll, restart_peer, CASE_PROCESS },
	{ "cancel", serve_poll, cancel_peer, 0 },
	{ "restless", serve_block, restless_peer, CASE_PROCESS },
	{ "stopped", stopped_run, stopped_peer, CASE_PROCESS | CASE_DIES },
	{ "torture", torture, torture, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
