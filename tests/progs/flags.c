/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* flags - PEEK, WAITALL, DONTWAIT, TRUNC, MORE, ZEROCOPY, corked, urgent data. */
#include "prog.h"

#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static void await(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	CHECK(poll(&p, 1, 5000) == 1);
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

/* Which of our MSG_ZEROCOPY sends are done: first and last of a range. */
static bool zerocopy_done(int fd, uint32_t *first, uint32_t *last)
{
	char room[CMSG_SPACE(sizeof(struct sock_extended_err)) + 64];
	struct msghdr m = { .msg_control = room,
			    .msg_controllen = sizeof(room) };
	struct sock_extended_err err;
	struct cmsghdr *c;

	if (recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
		return false;
	c = CMSG_FIRSTHDR(&m);
	CHECK(c);
	memcpy(&err, CMSG_DATA(c), sizeof(err));
	CHECK(err.ee_errno == 0 && err.ee_origin == SO_EE_ORIGIN_ZEROCOPY);
	*first = err.ee_info;
	*last = err.ee_data;
	return true;
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
	CHECK(!zerocopy_done(e->l.fd, &first, &last));
	for (i = 0; i < 10; i++) {
		flow_fill(&e->l.tx, b, sizeof(b));
		CHECK(send(e->l.fd, b, sizeof(b), MSG_ZEROCOPY) == sizeof(b));
		prog_sync(e);
		link_turn(&e->l, 10, true);
	}
	while (next < 10) {
		struct pollfd p = { .fd = e->l.fd };

		CHECK(poll(&p, 1, 5000) == 1 && p.revents & POLLERR);
		if (zerocopy_done(e->l.fd, &first, &last)) {
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

#define NOTICES 100 /* on TCP each may wait 40 ms, for a delayed ACK */

/* Take what is told, in order, until `sent` sends are done. */
static void notices_take(int fd, uint32_t *next, uint32_t sent)
{
	uint32_t first, last;

	while (*next < sent) {
		struct pollfd p = { .fd = fd };

		CHECK(poll(&p, 1, 5000) == 1 && p.revents & POLLERR);
		while (zerocopy_done(fd, &first, &last)) {
			CHECK(first == *next && last >= first && last < sent);
			*next = last + 1;
		}
	}
	CHECK(!zerocopy_done(fd, &first, &last));
}

static void notices_send(struct link *l, uint8_t *b, size_t n, int i)
{
	struct iovec v[3] = { { b, n / 3 }, { b + n / 3, 0 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 3 };
	ssize_t r;

	v[2] = (struct iovec){ b + n / 3, n - n / 3 };
	flow_fill(&l->tx, b, n);
	if (i % 3)
		r = send(l->fd, b, n, MSG_ZEROCOPY);
	else
		r = sendmsg(l->fd, &m, MSG_ZEROCOPY);
	CHECK(r == (ssize_t)n);
}

static size_t notices_size(int i)
{
	static const size_t sizes[] = { 1, 100, 5000, 40000, 150000 };

	return sizes[i % 5];
}

/*
 * Each MSG_ZEROCOPY send, and no other, is told once, whoever carries it, to
 * who polls as to who watches; and it waits for nobody.
 */
static void notices_run(struct end *e)
{
	static uint8_t b[150000];
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int on = 1, i, ep = epoll_create1(0);
	uint32_t next = 0, first, last;

	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)));
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, e->l.fd, &ev));
	for (i = 0; i < NOTICES; i++) {
		notices_send(&e->l, b, notices_size(i), i);
		if (i % 7 == 0)
			link_put(&e->l, 300); /* not told */
		prog_sync(e);
		ev.events = 0;
		while (i % 2 && !(ev.events & EPOLLERR))
			CHECK(epoll_wait(ep, &ev, 1, 5000) == 1);
		notices_take(e->l.fd, &next, (uint32_t)i + 1);
		memset(b, 0, sizeof(b)); /* it is ours again */
		link_turn(&e->l, 10, true);
		while (epoll_wait(ep, &ev, 1, 0) == 1)
			;
	}
	prog_mid(e->l.fd);
	/* nobody reads: all of it fits, and all is told in the end */
	for (i = 0; i < 20; i++)
		notices_send(&e->l, b + 5000 * i, 5000, i);
	prog_sync(e);
	notices_take(e->l.fd, &next, NOTICES + 20);
	FAILS(recv(e->l.fd, b, 1, MSG_DONTWAIT), EAGAIN);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	CHECK(!zerocopy_done(e->l.fd, &first, &last));
	CHECK(!close(ep));
}

static void notices_peer(struct end *e)
{
	int i;

	for (i = 0; i < NOTICES; i++) {
		link_get(&e->l, notices_size(i));
		if (i % 7 == 0)
			link_get(&e->l, 300);
		prog_sync(e);
		link_turn(&e->l, 10, false);
	}
	prog_sync(e);
	link_get(&e->l, 20 * 5000);
	link_eof(&e->l);
}

#define FLOOD  (6 << 20)
#define CRUMBS (300 << 10)

/*
 * Faster than its reader: what is refused is not told, what went in part is
 * told once.
 */
static void flood(struct end *e, bool block, size_t total, size_t chunk)
{
	uint8_t *b = malloc(total);
	uint32_t sent = 0, next = 0, first, last;
	size_t off = 0;
	int on = 1;

	CHECK(b);
	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)));
	flow_fill(&e->l.tx, b, total);
	prog_nonblock(e->l.fd, !block);
	while (off < total) {
		struct pollfd p = { .fd = e->l.fd, .events = POLLOUT };
		size_t n = total - off < chunk ? total - off : chunk;
		ssize_t r = send(e->l.fd, b + off, n, MSG_ZEROCOPY);

		if (r > 0) {
			off += (size_t)r;
			sent++;
			continue;
		}
		CHECK(errno == EAGAIN || errno == ENOBUFS);
		CHECK(poll(&p, 1, 15000) == 1);
		while (zerocopy_done(e->l.fd, &first, &last)) {
			CHECK(first == next && last >= first && last < sent);
			next = last + 1;
		}
	}
	prog_sync(e);
	notices_take(e->l.fd, &next, sent);
	free(b);
}

static void flood_run(struct end *e)
{
	flood(e, false, FLOOD, 30000);
}

static void blocking_run(struct end *e)
{
	flood(e, true, FLOOD, 30000);
}

/* More sends than the kernel has room for, and nobody reads. */
static void crumbs_run(struct end *e)
{
	flood(e, false, CRUMBS, 20);
}

static void flood_peer(struct end *e)
{
	prog_nap_ms(30);
	link_get(&e->l, FLOOD);
	prog_sync(e);
}

static void crumbs_peer(struct end *e)
{
	prog_nap_ms(30);
	link_get(&e->l, CRUMBS);
	prog_sync(e);
}

static const struct prog_case cases[] = {
	{ "peek", peek_run, peek_peer, 0 },
	{ "waitall", waitall_run, waitall_peer, 0 },
	{ "dontwait", dontwait_run, dontwait_peer, 0 },
	{ "trunc", trunc_run, trunc_peer, 0 },
	{ "cork", cork_run, cork_peer, 0 },
	{ "more", more_run, more_peer, 0 },
	{ "urgent", urgent_run, urgent_peer, 0 },
	{ "inline", inline_run, urgent_peer, 0 },
	{ "many", many_run, many_peer, 0 },
	{ "zerocopy", zerocopy_run, zerocopy_peer, 0 },
	{ "notices", notices_run, notices_peer, 0 },
	{ "flood", flood_run, flood_peer, 0 },
	{ "blocking", blocking_run, flood_peer, 0 },
	{ "crumbs", crumbs_run, crumbs_peer, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
