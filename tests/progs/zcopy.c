/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * zcopy - large blocking sends: whatever carries them, every byte is the one
 * that the program sent, and a send that has returned has done with its
 * buffer.
 */
#include "zcopy.h"

#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Around a threshold, mostly. */
static size_t some(uint32_t *seed)
{
	static const uint32_t base[] = {
		1, 2048, 16384, 65536, 262144, 1048576
	};
	uint32_t b = base[prog_rand(seed) % ARRAY_SIZE(base)];

	return b + prog_rand(seed) % (b + 1) - b / 2;
}

/* --- sizes ------------------------------------------------------------- */

static size_t bulk(void)
{
	return 48 * MIB * prog_scale;
}

static void pour(struct link *l, size_t total, uint32_t seed)
{
	uint8_t *buf = buffer();

	while (total) {
		size_t n = some(&seed);

		if (n > total)
			n = total;
		shoot_all(l, buf + prog_rand(&seed) % 4096, n);
		total -= n;
		if (prog_rand(&seed) % 64 == 0)
			prog_nap_ms(prog_rand(&seed) % 8);
		if (prog_rand(&seed) % 32 == 0)
			prog_mid(l->fd);
	}
	CHECK(!munmap(buf, BIG));
}

/* In every way that there is, sometimes too late. */
static void drink(struct link *l, size_t total, uint32_t seed)
{
	uint8_t *buf = buffer();
	struct iovec iov[3];
	int left;
	ssize_t r;

	while (total) {
		size_t n = some(&seed), k;

		if (n > total)
			n = total;
		switch (prog_rand(&seed) % 8) {
		case 0:
			r = recv(l->fd, buf, n, MSG_WAITALL);
			CHECK(r == (ssize_t)n);
			break;
		case 1:
			CHECK(recv(l->fd, buf, n, MSG_PEEK) > 0);
			r = recv(l->fd, buf, n, 0);
			break;
		case 2:
			k = n / 3;
			iov[0] = (struct iovec){ buf, k };
			iov[1] = (struct iovec){ buf + k, 0 };
			iov[2] = (struct iovec){ buf + k, n - k };
			r = readv(l->fd, iov, 3);
			break;
		case 3:
			prog_nap_ms(prog_rand(&seed) % 6);
			CHECK(!ioctl(l->fd, FIONREAD, &left) && left >= 0);
			r = read(l->fd, buf, n);
			break;
		default:
			r = read(l->fd, buf, n);
		}
		CHECK(r > 0);
		flow_check(&l->rx, buf, (size_t)r);
		total -= (size_t)r;
		if (prog_rand(&seed) % 32 == 0)
			prog_mid(l->fd);
	}
	CHECK(!munmap(buf, BIG));
}

static void out_run(struct end *e)
{
	pour(&e->l, bulk(), (uint32_t)getpid());
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	link_eof(&e->l);
}

static void out_peer(struct end *e)
{
	drink(&e->l, bulk(), (uint32_t)getpid());
	link_eof(&e->l);
}

static void *pour_thread(void *arg)
{
	pour(arg, bulk() / 2, (uint32_t)getpid());
	return NULL;
}

static void duplex(struct end *e)
{
	pthread_t t;

	zc_cut = prog_home == HOME_EXEC;
	CHECK(!pthread_create(&t, NULL, pour_thread, &e->l));
	drink(&e->l, bulk() / 2, 7);
	CHECK(!pthread_join(t, NULL));
}

/* A dialogue of large messages. */
static void turns(struct end *e)
{
	uint8_t *buf = buffer();
	uint32_t seed = 3;
	int i;

	for (i = 0; i < 300; i++) {
		size_t n = some(&seed);

		if ((i % 2 == 0) != e->peer)
			shoot_all(&e->l, buf, n);
		else
			link_get(&e->l, n);
	}
}

/* The reader looks by poll, and takes little at a time. */
static void sips_peer(struct end *e)
{
	size_t total = 8 * MIB;
	uint8_t buf[30000];
	uint32_t seed = 5;

	prog_nonblock(e->l.fd, true);
	while (total) {
		ssize_t r = read(e->l.fd, buf, 1 + prog_rand(&seed) % 30000);

		if (r < 0) {
			CHECK(errno == EAGAIN);
			prog_nap_ms(prog_rand(&seed) % 2);
			continue;
		}
		CHECK(r > 0);
		flow_check(&e->l.rx, buf, (size_t)r);
		total -= (size_t)r;
	}
	prog_sync(e);
}

static void sips_run(struct end *e)
{
	uint8_t *buf = buffer();
	int i;

	for (i = 0; i < 8; i++)
		shoot_all(&e->l, buf, MIB);
	prog_sync(e);
}

/* On edges: every send is told, unread bytes or none. */
static void edges_peer(struct end *e)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	size_t total = 30 * 200000;
	uint8_t *buf = buffer();
	int ep = epoll_create1(0);
	ssize_t r;

	prog_nonblock(e->l.fd, true);
	CHECK(ep >= 0 && !epoll_ctl(ep, EPOLL_CTL_ADD, e->l.fd, &ev));
	while (total) {
		CHECK(epoll_wait(ep, &ev, 1, 30000) == 1);
		while ((r = read(e->l.fd, buf, 65536)) > 0) {
			flow_check(&e->l.rx, buf, (size_t)r);
			total -= (size_t)r;
		}
		CHECK(r == -1 && errno == EAGAIN);
	}
	prog_sync(e);
	CHECK(!close(ep));
}

static void edges_run(struct end *e)
{
	uint8_t *buf = buffer();
	int i;

	for (i = 0; i < 30; i++)
		shoot_all(&e->l, buf, 200000);
	prog_sync(e);
}

/* --- vectors, files ---------------------------------------------------- */

/* So much TCP takes between any two hosts before any end reads. */
#define TAKEN_UNREAD 40000u

static void vector_run(struct end *e)
{
	uint8_t *buf = buffer();
	uint32_t seed = 9;
	int i, k;

	for (i = 0; i < 60; i++) {
		struct flow f = e->l.tx;
		struct iovec iov[5];
		size_t all = 0;

		for (k = 0; k < 5; k++) {
			iov[k].iov_base = buf + all;
			iov[k].iov_len = some(&seed) / (k % 2 ? 64 : 1);
			all += iov[k].iov_len;
		}
		flow_fill(&f, buf, all);
		if (all > TAKEN_UNREAD)
			prog_tell(e, all);
		CHECK(writev(e->l.fd, iov, 5) == (ssize_t)all);
		memset(buf, 0, all);
		e->l.tx.off += all;
		if (all <= TAKEN_UNREAD)
			prog_tell(e, all);
		if (i % 10 == 0)
			prog_hear(e);
	}
	prog_tell(e, 0);
}

static void vector_peer(struct end *e)
{
	uint64_t n;
	int i;

	for (i = 0; (n = prog_hear(e)); i++) {
		link_get(&e->l, (size_t)n);
		if (i % 10 == 0)
			prog_tell(e, n);
	}
}

static void file_run(struct end *e)
{
	int fd = memfd_create("zcopy", 0);
	uint8_t *buf = buffer();
	struct flow f = e->l.tx;
	off_t at = 0;

	CHECK(fd >= 0);
	flow_fill(&f, buf, 4 * MIB);
	CHECK(write(fd, buf, 4 * MIB) == (ssize_t)(4 * MIB));
	while (at < (off_t)(4 * MIB))
		CHECK(sendfile(e->l.fd, fd, &at, BIG) > 0);
	e->l.tx = f;
	CHECK(!close(fd));
	shoot_all(&e->l, buf, MIB);
}

static void file_peer(struct end *e)
{
	link_get(&e->l, 5 * MIB);
}

/* --- nothing reads ------------------------------------------------------ */

/* Both send first what the kernel would take: neither may block for good. */
static void cross(struct end *e)
{
	uint8_t *buf = buffer();
	int i;

	for (i = 0; i < 6; i++)
		shoot_all(&e->l, buf, 100000);
	prog_sync(e);
	link_get(&e->l, 600000);
	prog_sync(e);
}

/* Both send far more than fits, and give up after a time: then they read. */
static void crowd(struct end *e)
{
	struct timeval tv = { 0, 300000 }, none = { 0, 0 };
	uint8_t *buf = buffer();
	uint64_t mine = 0, other;
	ssize_t r = 0;

	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)));
	while (mine < 100 * MIB && (r = shoot(&e->l, buf, 4 * MIB, 0)) > 0)
		mine += (uint64_t)r;
	CHECK(r == -1 && errno == EAGAIN);
	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_SNDTIMEO, &none,
			  sizeof(none)));
	prog_tell(e, mine);
	other = prog_hear(e);
	link_get(&e->l, (size_t)other);
	prog_sync(e);
	if (e->peer)
		link_get(&e->l, 3 * MIB);
	else
		shoot_all(&e->l, buf, 3 * MIB);
	prog_sync(e);
}

/* A stopped reader: what the kernel would take must go, and not change. */
static void stop_run(struct end *e)
{
	uint8_t *buf = buffer();
	int i, st;

	prog_sync(e);
	for (i = 0; i < 20; i++) {
		CHECK(!kill(e->pid, SIGSTOP));
		CHECK(waitpid(e->pid, &st, WUNTRACED) == e->pid);
		shoot_all(&e->l, buf, 40000);
		CHECK(!kill(e->pid, SIGCONT));
		shoot_all(&e->l, buf, 200000);
	}
	prog_sync(e);
}

static void stop_peer(struct end *e)
{
	prog_sync(e);
	link_get(&e->l, 20 * 240000);
	prog_sync(e);
}

/* A look for all of it first is not let wait for what is lent. */
static void peeks_run(struct end *e)
{
	uint8_t *buf = buffer();
	int i;

	for (i = 0; i < 10; i++) {
		prog_hear(e);
		shoot_all(&e->l, buf, 100);
		shoot_all(&e->l, buf, 99900);
	}
	prog_sync(e);
}

static void peeks_peer(struct end *e)
{
	uint8_t *buf = buffer();
	int i, all = MSG_PEEK | MSG_WAITALL;

	for (i = 0; i < 10; i++) {
		struct flow f = e->l.rx;

		prog_tell(e, 1);
		CHECK(recv(e->l.fd, buf, 100000, all) == 100000);
		flow_check(&f, buf, 100000);
		link_get(&e->l, 100000);
	}
	prog_sync(e);
}

/* Nothing is read, then one end does, which may be waiting already. */
static void later_run(struct end *e)
{
	uint8_t *buf = buffer();
	int i;

	for (i = 0; i < 30; i++)
		shoot_all(&e->l, buf, 20000);
	prog_sync(e);
	prog_sync(e);
	for (i = 0; i < 10; i++) {
		prog_hear(e);
		shoot_all(&e->l, buf, 500000);
	}
	prog_sync(e);
}

static void later_peer(struct end *e)
{
	int i;

	prog_sync(e);
	link_get(&e->l, 600000);
	prog_sync(e);
	for (i = 0; i < 10; i++) {
		prog_tell(e, 1);
		link_get(&e->l, 500000);
	}
	prog_sync(e);
}

/* --- home -------------------------------------------------------------- */

static void *homesick(void *arg)
{
	struct end *e = arg;
	int i;

	for (i = 0; i < 20; i++) {
		prog_nap_ms(3);
		prog_mid(e->l.fd);
	}
	return NULL;
}

/* Another thread brings it back to TCP while memory is lent. */
static void home_run(struct end *e)
{
	pthread_t t;

	zc_cut = prog_home == HOME_EXEC;
	CHECK(!pthread_create(&t, NULL, homesick, e));
	pour(&e->l, bulk() / 2, 41);
	CHECK(!pthread_join(t, NULL));
	link_eof(&e->l);
}

static void home_peer(struct end *e)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, homesick, e));
	drink(&e->l, bulk() / 2, 42);
	CHECK(!pthread_join(t, NULL));
}

static const struct prog_case cases[] = {
	{ "out", out_run, out_peer, 0 },
	{ "in", out_peer, out_run, 0 },
	{ "duplex", duplex, duplex, 0 },
	{ "turns", turns, turns, 0 },
	{ "sips", sips_run, sips_peer, 0 },
	{ "edges", edges_run, edges_peer, 0 },
	{ "vector", vector_run, vector_peer, 0 },
	{ "file", file_run, file_peer, 0 },
	{ "cross", cross, cross, 0 },
	{ "crowd", crowd, crowd, 0 },
	{ "peeks", peeks_run, peeks_peer, 0 },
	{ "later", later_run, later_peer, 0 },
	{ "stop", stop_run, stop_peer, CASE_PROCESS },
	{ "home", home_run, home_peer, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
