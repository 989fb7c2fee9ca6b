/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* flags - PEEK, WAITALL, DONTWAIT, TRUNC, MORE, corked and urgent data. */
#include "prog.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static void await(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };
	int ret;

	do /* the signal of an urgent byte may come first */
		ret = poll(&p, 1, 5000);
	while (ret < 0 && errno == EINTR);
	CHECK(ret == 1);
}

static void peek_run(struct end *e)
{
	uint8_t a[3000], b[3000];
	ssize_t r;

	/* asleep before anything is there */
	r = recv(e->l.fd, a, 10, MSG_PEEK);
	CHECK(r == 10);
	CHECK(recv(e->l.fd, b, 10, MSG_PEEK) == 10);
	CHECK(!memcmp(a, b, 10));
	prog_sync(e);
	CHECK(recv(e->l.fd, a, sizeof(a), MSG_PEEK | MSG_WAITALL) == 3000);
	CHECK(recv(e->l.fd, b, 1000, MSG_PEEK) == 1000);
	CHECK(!memcmp(a, b, 1000));
	CHECK(recv(e->l.fd, b, 1000, 0) == 1000);
	CHECK(!memcmp(a, b, 1000));
	CHECK(recv(e->l.fd, b, 500, MSG_PEEK) == 500);
	CHECK(!memcmp(a + 1000, b, 500));
	flow_check(&e->l.rx, a, 1000);
	prog_mid(e->l.fd);
	link_get(&e->l, 2000);
	FAILS(recv(e->l.fd, a, 1, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
	prog_sync(e);
	/* the end of the stream can be peeked at as well */
	CHECK(recv(e->l.fd, a, 1, MSG_PEEK) == 0);
	CHECK(recv(e->l.fd, a, 1, MSG_PEEK) == 0);
	link_eof(&e->l);
}

/* Looks over and over, and does nothing else, until `n` bytes are there. */
static void seen(struct end *e, uint8_t *b, size_t n)
{
	int64_t end = prog_now_ms() + 10000;

	while (recv(e->l.fd, b, n, MSG_PEEK) != (ssize_t)n) {
		CHECK(prog_now_ms() < end);
		prog_nap_ms(1);
	}
}

static void grows_run(struct end *e)
{
	uint8_t a[2000], b[2000];
	size_t n;

	for (n = 10; n <= sizeof(a); n += 398) {
		seen(e, a, n);
		prog_sync(e);
	}
	CHECK(recv(e->l.fd, b, sizeof(b), MSG_WAITALL) == sizeof(b));
	CHECK(!memcmp(a, b, sizeof(b)));
	flow_check(&e->l.rx, b, sizeof(b));
	prog_sync(e);
}

static void grows_peer(struct end *e)
{
	size_t n;

	for (n = 10; n <= 2000; n += 398) {
		link_put(&e->l, n == 10 ? 10 : 398);
		prog_sync(e);
	}
	prog_sync(e);
}

static void peek_peer(struct end *e)
{
	prog_nap_ms(5);
	link_put(&e->l, 3000);
	prog_sync(e);
	prog_sync(e);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
}

static void waitall_run(struct end *e)
{
	uint8_t buf[6000];
	struct iovec v[2] = { { buf, 1000 }, { buf + 1000, 3000 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 2 };
	int i;

	for (i = 0; i < 3; i++) {
		prog_tell(e, 1);
		CHECK(recv(e->l.fd, buf, 4000, MSG_WAITALL) == 4000);
		flow_check(&e->l.rx, buf, 4000);
	}
	prog_tell(e, 1);
	CHECK(recvmsg(e->l.fd, &m, MSG_WAITALL) == 4000);
	flow_check(&e->l.rx, buf, 4000);
	prog_tell(e, 1);
	CHECK(recv(e->l.fd, buf, 6000, MSG_WAITALL) == 4000);
	flow_check(&e->l.rx, buf, 4000);
	link_eof(&e->l);
}

static void waitall_peer(struct end *e)
{
	int i, k;

	for (i = 0; i < 5; i++) {
		CHECK(prog_hear(e) == 1);
		for (k = 0; k < 8; k++) {
			link_put(&e->l, 500);
			prog_nap_ms((unsigned int)k % 2);
		}
	}
	CHECK(!shutdown(e->l.fd, SHUT_WR));
}

static void dontwait_run(struct end *e)
{
	struct mmsghdr m[4];
	struct iovec v[4];
	uint8_t buf[4000];
	int i;

	FAILS(recv(e->l.fd, buf, 1, MSG_DONTWAIT), EAGAIN);
	FAILS(recv(e->l.fd, buf, 1, MSG_DONTWAIT | MSG_WAITALL), EAGAIN);
	prog_sync(e);
	prog_sync(e);
	await(e->l.fd, POLLIN);
	CHECK(recv(e->l.fd, buf, 2000, MSG_DONTWAIT | MSG_WAITALL) == 1000);
	flow_check(&e->l.rx, buf, 1000);
	FAILS(recv(e->l.fd, buf, 1, MSG_DONTWAIT), EAGAIN);
	memset(m, 0, sizeof(m));
	for (i = 0; i < 4; i++) {
		v[i] = (struct iovec){ buf + 1000 * i, 300 };
		m[i].msg_hdr.msg_iov = &v[i];
		m[i].msg_hdr.msg_iovlen = 1;
	}
	FAILS(recvmmsg(e->l.fd, m, 4, MSG_DONTWAIT, NULL), EAGAIN);
	prog_sync(e);
	CHECK(recvmmsg(e->l.fd, m, 4, MSG_WAITFORONE, NULL) == 3);
	for (i = 0; i < 3; i++) {
		CHECK(m[i].msg_len == (i < 2 ? 300 : 100));
		flow_check(&e->l.rx, buf + 1000 * i, m[i].msg_len);
	}
	prog_sync(e);
}

static void dontwait_peer(struct end *e)
{
	prog_sync(e);
	link_put(&e->l, 1000);
	prog_sync(e);
	prog_sync(e);
	link_put(&e->l, 700);
	prog_sync(e);
}

/* On a stream MSG_TRUNC drops bytes, and tells how many. */
static void trunc_run(struct end *e)
{
	uint8_t skip[600];

	prog_sync(e);
	memset(skip, 0x11, sizeof(skip));
	CHECK(recv(e->l.fd, skip, 600, MSG_TRUNC | MSG_WAITALL) == 600);
	CHECK(skip[0] == 0x11 && skip[599] == 0x11);
	flow_fill(&e->l.rx, skip, 600);
	link_get(&e->l, 400);
	CHECK(recv(e->l.fd, NULL, 500, MSG_TRUNC | MSG_WAITALL) == 500);
	flow_fill(&e->l.rx, skip, 500);
	link_get(&e->l, 500);
	prog_sync(e);
}

static void trunc_peer(struct end *e)
{
	link_put(&e->l, 2000);
	prog_sync(e);
	prog_sync(e);
}

static void cork_run(struct end *e)
{
	int on = 1, off = 0, i;

	for (i = 0; i < 20; i++) {
		CHECK(!setsockopt(e->l.fd, IPPROTO_TCP, TCP_CORK, &on,
				  sizeof(on)));
		link_put(&e->l, 10);
		link_put(&e->l, 20);
		CHECK(!setsockopt(e->l.fd, IPPROTO_TCP, TCP_CORK, &off,
				  sizeof(off)));
		link_get(&e->l, 30);
	}
}

static void cork_peer(struct end *e)
{
	int i;

	for (i = 0; i < 20; i++) {
		link_get(&e->l, 30);
		link_put(&e->l, 30);
	}
}

/* Bytes sent with MSG_MORE travel at the latest with the next without. */
static void more_run(struct end *e)
{
	uint8_t buf[300];
	int i, k;

	for (i = 0; i < 50; i++) {
		flow_fill(&e->l.tx, buf, sizeof(buf));
		for (k = 0; k < 3; k++)
			CHECK(send(e->l.fd, buf + 100 * k, 100,
				   k < 2 ? MSG_MORE : 0) == 100);
		link_get(&e->l, 300);
	}
	/* and left alone they travel too, a little later */
	flow_fill(&e->l.tx, buf, 100);
	CHECK(send(e->l.fd, buf, 100, MSG_MORE) == 100);
	link_get(&e->l, 100);
}

static void more_peer(struct end *e)
{
	int i;

	for (i = 0; i < 50; i++) {
		link_get(&e->l, 300);
		link_put(&e->l, 300);
	}
	link_get(&e->l, 100);
	link_put(&e->l, 100);
}

/* --- urgent data ------------------------------------------------------- */

static atomic_int urgent_signals;

static void on_urgent(int sig)
{
	(void)sig;
	atomic_fetch_add(&urgent_signals, 1);
}

static void urgent_run(struct end *e)
{
	struct sigaction sa = { .sa_handler = on_urgent };
	int before = atomic_load(&urgent_signals);
	uint8_t b[100];
	int mark, i;

	CHECK(!sigaction(SIGURG, &sa, NULL));
	CHECK(!fcntl(e->l.fd, F_SETOWN, getpid()));
	CHECK(sockatmark(e->l.fd) == 0);
	prog_sync(e);
	prog_sync(e);
	await(e->l.fd, POLLPRI);
	for (i = 0; i < 2000 && atomic_load(&urgent_signals) == before; i++)
		prog_nap_ms(1);
	CHECK(atomic_load(&urgent_signals) > before);
	CHECK(recv(e->l.fd, b, 1, MSG_OOB) == 1);
	CHECK(b[0] == '!');
	FAILS(recv(e->l.fd, b, 1, MSG_OOB), EINVAL);
	/* a read stops at the mark even though more is there */
	CHECK(recv(e->l.fd, b, 60, MSG_WAITALL) == 50);
	flow_check(&e->l.rx, b, 50);
	CHECK(sockatmark(e->l.fd) == 1);
	CHECK(!ioctl(e->l.fd, SIOCATMARK, &mark));
	CHECK(mark == 1);
	link_get(&e->l, 30);
	CHECK(sockatmark(e->l.fd) == 0);
	prog_sync(e);
	link_turn(&e->l, 2000, true);
}

static void urgent_peer(struct end *e)
{
	prog_sync(e);
	link_put(&e->l, 50);
	CHECK(send(e->l.fd, "!", 1, MSG_OOB) == 1);
	link_put(&e->l, 30);
	prog_sync(e);
	prog_sync(e);
	link_turn(&e->l, 2000, false);
}

static void inline_run(struct end *e)
{
	uint8_t b[100];
	int on = 1;

	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_OOBINLINE, &on, sizeof(on)));
	prog_sync(e);
	prog_sync(e);
	await(e->l.fd, POLLPRI);
	FAILS(recv(e->l.fd, b, 1, MSG_OOB), EINVAL);
	CHECK(recv(e->l.fd, b, 100, 0) == 50);
	flow_check(&e->l.rx, b, 50);
	CHECK(sockatmark(e->l.fd) == 1);
	CHECK(recv(e->l.fd, b, 1, 0) == 1);
	CHECK(b[0] == '!');
	link_get(&e->l, 30);
	prog_sync(e);
	link_turn(&e->l, 2000, true);
}

/* The sender of urgent data is a reader too, in the manner of qperf. */
static void many_run(struct end *e)
{
	uint8_t b;
	int i;

	for (i = 0; i < 20; i++) {
		CHECK(send(e->l.fd, "?", 1, MSG_OOB) == 1);
		link_put(&e->l, 500);
		await(e->l.fd, POLLPRI);
		CHECK(recv(e->l.fd, &b, 1, MSG_OOB) == 1);
		CHECK(b == (uint8_t)('a' + i));
		link_get(&e->l, 300);
	}
	link_turn(&e->l, 100, true);
}

static void many_peer(struct end *e)
{
	uint8_t b, c;
	int i;

	for (i = 0; i < 20; i++) {
		await(e->l.fd, POLLPRI);
		CHECK(recv(e->l.fd, &b, 1, MSG_OOB) == 1);
		CHECK(b == '?');
		link_get(&e->l, 500);
		c = (uint8_t)('a' + i);
		CHECK(send(e->l.fd, &c, 1, MSG_OOB) == 1);
		link_put(&e->l, 300);
	}
	link_turn(&e->l, 100, false);
}

/*
 * SO_ZEROCOPY changes nothing by itself. A send with MSG_ZEROCOPY is told
 * when it is done, and only such a send.
 */
static void zerocopy_run(struct end *e)
{
	static uint8_t b[20000];
	uint32_t first, last, next = 0;
	int on = 1, i;

	/* without the option the flag means nothing */
	flow_fill(&e->l.tx, b, 100);
	CHECK(send(e->l.fd, b, 100, MSG_ZEROCOPY) == 100);
	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)));
	for (i = 0; i < 10; i++)
		link_turn(&e->l, 500, true);
	CHECK(!link_told(e->l.fd, &first, &last));
	for (i = 0; i < 10; i++) {
		flow_fill(&e->l.tx, b, sizeof(b));
		CHECK(send(e->l.fd, b, sizeof(b), MSG_ZEROCOPY) == sizeof(b));
		prog_sync(e);
		link_turn(&e->l, 10, true);
	}
	while (next < 10) {
		struct pollfd p = { .fd = e->l.fd };

		CHECK(poll(&p, 1, 5000) == 1 && p.revents & POLLERR);
		if (link_told(e->l.fd, &first, &last)) {
			CHECK(first == next && last < 10);
			next = last + 1;
		}
	}
}

static void zerocopy_peer(struct end *e)
{
	int i;

	link_get(&e->l, 100);
	for (i = 0; i < 10; i++)
		link_turn(&e->l, 500, false);
	for (i = 0; i < 10; i++) {
		link_get(&e->l, 20000);
		prog_sync(e);
		link_turn(&e->l, 10, false);
	}
}

static const struct prog_case cases[] = {
	{ "peek", peek_run, peek_peer, 0 },
	{ "grows", grows_run, grows_peer, 0 },
	{ "waitall", waitall_run, waitall_peer, 0 },
	{ "dontwait", dontwait_run, dontwait_peer, 0 },
	{ "trunc", trunc_run, trunc_peer, 0 },
	{ "cork", cork_run, cork_peer, 0 },
	{ "more", more_run, more_peer, 0 },
	{ "urgent", urgent_run, urgent_peer, 0 },
	{ "inline", inline_run, urgent_peer, 0 },
	{ "many", many_run, many_peer, 0 },
	{ "zerocopy", zerocopy_run, zerocopy_peer, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
