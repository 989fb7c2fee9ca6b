/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* pipes - splice() where the pipe or the socket will not have it. */
#include "prog.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define NOW SPLICE_F_NONBLOCK

static ssize_t from(int fd, int pipe, size_t n, unsigned int flags)
{
	return splice(fd, NULL, pipe, NULL, n, flags);
}

static ssize_t to(int pipe, int fd, size_t n, unsigned int flags)
{
	return splice(pipe, NULL, fd, NULL, n, flags);
}

static void readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	CHECK(poll(&p, 1, 10000) == 1);
}

/* What cannot go into the pipe stays in the socket. */
static void from_run(struct end *e)
{
	int fd = e->l.fd, pp[2], file = memfd_create("pipes", MFD_CLOEXEC), i;
	struct sigaction ign = { .sa_handler = SIG_IGN };
	uint8_t b[100];

	CHECK(file >= 0);
	CHECK(!sigaction(SIGPIPE, &ign, NULL));
	for (i = 0; i < 3; i++) {
		prog_ask(e, 100);
		readable(fd);
		CHECK(!pipe2(pp, O_CLOEXEC));
		FAILS(from(fd, pp[0], 100, 0), EBADF);
		FAILS(from(fd, pp[1], 100, 0x100), EINVAL);
		FAILS(from(fd, file, 100, 0), EINVAL);
		CHECK(from(fd, pp[1], 0, 0) == 0);
		CHECK(!close(pp[0]));
		FAILS(from(fd, pp[1], 100, 0), EPIPE);
		FAILS(from(fd, pp[1], 100, NOW), EPIPE);
		CHECK(!close(pp[1]));
		FAILS(from(fd, pp[1], 100, 0), EBADF);
		link_get(&e->l, 30);
		CHECK(!pipe2(pp, O_CLOEXEC | O_NONBLOCK));
		CHECK(fcntl(pp[1], F_SETPIPE_SZ, 4096) == 4096);
		/* a full pipe takes nothing */
		CHECK(!fcntl(pp[1], F_SETFL, O_NONBLOCK));
		while (write(pp[1], b, 64) == 64)
			;
		FAILS(from(fd, pp[1], 70, 0), EAGAIN);
		FAILS(from(fd, pp[1], 70, NOW), EAGAIN);
		CHECK(!close(pp[0]));
		CHECK(!close(pp[1]));
		link_get(&e->l, 70);
		if (i == 1)
			prog_mid(fd);
	}
	prog_tell(e, 0);
	CHECK(!close(file));
}

/* The same the other way: it stays in the pipe. */
static void to_run(struct end *e)
{
	int fd = e->l.fd, pp[2], file = memfd_create("pipes", MFD_CLOEXEC), i;
	uint8_t b[100];
	ssize_t n, k;

	CHECK(file >= 0);
	for (i = 0; i < 3; i++) {
		CHECK(!pipe2(pp, O_CLOEXEC));
		FAILS(to(pp[1], fd, 100, 0), EBADF);
		FAILS(to(file, fd, 100, 0), EINVAL);
		FAILS(to(pp[0], fd, 100, NOW), EAGAIN);
		flow_fill(&e->l.tx, b, 100);
		CHECK(write(pp[1], b, 100) == 100);
		FAILS(to(pp[0], fd, 100, 0x100), EINVAL);
		CHECK(!close(pp[1]));
		for (n = 0; n < 100; n += k) {
			k = to(pp[0], fd, 100, 0);
			CHECK(k > 0);
		}
		CHECK(to(pp[0], fd, 100, 0) == 0);
		CHECK(!close(pp[0]));
		prog_tell(e, 100);
		CHECK(prog_hear(e) == 100);
		if (i == 1)
			prog_mid(fd);
	}
	prog_tell(e, 0);
	CHECK(!close(file));
}

static void drain(struct end *e)
{
	uint64_t n;

	while ((n = prog_hear(e))) {
		link_get(&e->l, (size_t)n);
		prog_tell(e, n);
	}
}

/* --- two that share what room there is ---------------------------------- */

#define BATCH 4096

struct mover {
	struct end *e;
	pthread_t thread;
	atomic_bool over;
	size_t moved, left;
};

/* Bytes of 0x5a until the socket has no room; none of them is lost. */
static void *move(void *arg)
{
	struct mover *m = arg;
	uint8_t b[BATCH];
	int pp[2], tries = 0;
	ssize_t n;

	memset(b, 0x5a, sizeof(b));
	CHECK(!pipe2(pp, O_CLOEXEC | O_NONBLOCK));
	while (tries < 2000) {
		if (m->left < BATCH && write(pp[1], b, BATCH) == BATCH)
			m->left += BATCH;
		n = to(pp[0], m->e->l.fd, m->left, 0);
		CHECK(n > 0 || (n < 0 && errno == EAGAIN));
		if (n < 0) {
			tries++;
			continue;
		}
		m->moved += (size_t)n;
		m->left -= (size_t)n;
	}
	while (m->left) {
		n = read(pp[0], b, sizeof(b));
		CHECK(n > 0);
		m->left -= (size_t)n;
	}
	FAILS(read(pp[0], b, 1), EAGAIN);
	CHECK(!close(pp[0]));
	CHECK(!close(pp[1]));
	atomic_store(&m->over, true);
	return NULL;
}

/* Nothing reads: each comes back, however the two divide it. */
static void full_run(struct end *e)
{
	struct mover m[2];
	int i, round, naps;

	prog_nonblock(e->l.fd, true);
	for (round = 0; round < 5; round++) {
		memset(m, 0, sizeof(m));
		for (i = 0; i < 2; i++) {
			m[i].e = e;
			CHECK(!pthread_create(&m[i].thread, NULL, move, &m[i]));
		}
		for (i = 0; i < 2; i++) {
			for (naps = 0; !atomic_load(&m[i].over); naps++) {
				CHECK(naps < 4000);
				prog_nap_ms(5);
			}
			CHECK(!pthread_join(m[i].thread, NULL));
		}
		prog_tell(e, m[0].moved + m[1].moved);
		CHECK(prog_hear(e) == 1);
	}
	prog_tell(e, 0);
}

static void full_peer(struct end *e)
{
	uint8_t b[65536];
	size_t want, i;
	uint64_t n;
	ssize_t k;

	while ((n = prog_hear(e))) {
		while (n) {
			want = n < sizeof(b) ? (size_t)n : sizeof(b);
			k = read(e->l.fd, b, want);
			CHECK(k > 0);
			for (i = 0; i < (size_t)k; i++)
				CHECK(b[i] == 0x5a);
			n -= (uint64_t)k;
		}
		CHECK(recv(e->l.fd, b, 1, MSG_DONTWAIT) == -1);
		prog_tell(e, 1);
	}
}

/* --- the reader has the stream back on TCP while a pipe is emptied -------- */

#define LOT    700
#define LOTS   20
#define ROUNDS 400

static void asked_run(struct end *e)
{
	uint8_t b[LOT];
	int pp[2], i, k;
	size_t left;
	ssize_t n;

	CHECK(!pipe2(pp, O_CLOEXEC));
	for (i = 0; i < ROUNDS; i++) {
		for (k = 0; k < LOTS; k++) {
			flow_fill(&e->l.tx, b, LOT);
			CHECK(write(pp[1], b, LOT) == LOT);
			for (left = LOT; left; left -= (size_t)n) {
				n = to(pp[0], e->l.fd, left, NOW);
				CHECK(n > 0);
			}
		}
		link_get(&e->l, 1);
	}
	CHECK(!close(pp[0]));
	CHECK(!close(pp[1]));
}

/* An option that is the kernel's alone, and then is not set any more. */
static void asked_peer(struct end *e)
{
	int i, k, off;

	for (i = 0; i < ROUNDS; i++) {
		for (k = 0; k < LOTS; k++) {
			link_get(&e->l, LOT);
			if ((i + k) % 4)
				continue;
			for (off = 0; off >= -1; off--)
				CHECK(!setsockopt(e->l.fd, SOL_SOCKET,
						  SO_PEEK_OFF, &off,
						  sizeof(off)));
		}
		link_put(&e->l, 1);
	}
}

/* What came before a reset is taken in one call; the next one is told of it. */
static size_t by_splice(int fd, uint8_t *b, size_t n)
{
	ssize_t got;
	int pp[2];

	CHECK(!pipe2(pp, O_CLOEXEC));
	got = from(fd, pp[1], 65536, 0);
	CHECK(got > 0 && read(pp[0], b, n) == got);
	CHECK(!close(pp[0]));
	CHECK(!close(pp[1]));
	return (size_t)got;
}

static size_t by_messages(int fd, uint8_t *b, size_t n)
{
	struct iovec v[2] = { { b, n }, { b, n } };
	struct mmsghdr m[2] = {
		{ .msg_hdr = { .msg_iov = &v[0], .msg_iovlen = 1 } },
		{ .msg_hdr = { .msg_iov = &v[1], .msg_iovlen = 1 } },
	};

	CHECK(recvmmsg(fd, m, 2, 0, NULL) == 1);
	return m[0].msg_len;
}

static void reset_seen(struct end *e, const uint8_t *b, size_t n)
{
	struct pollfd p = { .fd = e->l.fd };
	uint8_t c;

	CHECK(n == 200);
	flow_check(&e->l.rx, b, n);
	CHECK(poll(&p, 1, 5000) == 1 && p.revents & POLLHUP);
	FAILS(recv(e->l.fd, &c, 1, 0), ECONNRESET);
	CHECK(recv(e->l.fd, &c, 1, 0) == 0);
}

static void spliced_run(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd };
	uint8_t b[200];

	prog_tell(e, 1);
	/* the kernel notes a reset bit by bit */
	while (!(p.revents & POLLHUP))
		CHECK(poll(&p, 1, 5000) == 1);
	reset_seen(e, b, by_splice(e->l.fd, b, sizeof(b)));
}

struct taker {
	int fd;
	uint8_t b[200];
	size_t n;
};

static void *take_messages(void *arg)
{
	struct taker *t = arg;

	t->n = by_messages(t->fd, t->b, sizeof(t->b));
	return NULL;
}

static int unread(int fd)
{
	int n;

	CHECK(!ioctl(fd, FIONREAD, &n));
	return n;
}

/* It arrives behind the first message, in the same call. */
static void messages_run(struct end *e)
{
	struct taker t = { .fd = e->l.fd };
	pthread_t thread;

	while (unread(t.fd) < (int)sizeof(t.b))
		sched_yield();
	CHECK(!pthread_create(&thread, NULL, take_messages, &t));
	while (unread(t.fd))
		sched_yield();
	prog_tell(e, 1);
	CHECK(!pthread_join(thread, NULL));
	reset_seen(e, t.b, t.n);
}

static void reset_peer(struct end *e)
{
	struct linger now = { 1, 0 };

	link_put(&e->l, 200);
	CHECK(prog_hear(e) == 1);
	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
	link_close(&e->l);
}

static const struct prog_case cases[] = {
	{ "from", from_run, prog_feed, 0 },
	{ "to", to_run, drain, 0 },
	{ "full", full_run, full_peer, 0 },
	{ "asked", asked_run, asked_peer, 0 },
	{ "spliced", spliced_run, reset_peer, 0 },
	{ "messages", messages_run, reset_peer, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
