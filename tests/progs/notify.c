/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* notify - MSG_ZEROCOPY: each send is told when it is done, and only such. */
#include "prog.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define NOTICES	 200
#define PARTINGS 60

/* What was told. In order, but where TCP had to send something again. */
struct notices {
	uint32_t count;
	bool told[1 << 16];
};

/* Take what there is: of the first `sent` sends, each once. */
static void notices_read(int fd, struct notices *n, uint32_t sent)
{
	uint32_t first, last;

	while (link_told(fd, &first, &last)) {
		CHECK(last >= first && last < sent &&
		      sent <= ARRAY_SIZE(n->told));
		for (; first <= last; first++, n->count++) {
			CHECK(!n->told[first]);
			n->told[first] = true;
		}
	}
}

/* Until `sent` sends are done. */
static void notices_take(int fd, struct notices *n, uint32_t sent)
{
	uint32_t first, last;

	while (n->count < sent) {
		struct pollfd p = { .fd = fd };

		CHECK(poll(&p, 1, 5000) == 1 && p.revents & POLLERR);
		notices_read(fd, n, sent);
	}
	CHECK(!link_told(fd, &first, &last));
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
 * Each MSG_ZEROCOPY send, and no other, is told once, whatever carries it,
 * to a poll as to a set; and it waits for nothing.
 */
static void notices_run(struct end *e)
{
	static uint8_t b[150000];
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	static struct notices told;
	int on = 1, i, ep = epoll_create1(0);
	uint32_t first, last;

	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)));
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, e->l.fd, &ev));
	for (i = 0; i < NOTICES; i++) {
		notices_send(&e->l, b, notices_size(i), i);
		if (i % 7 == 0)
			link_put(&e->l, 300); /* not told */
		prog_sync(e);
		link_turn(&e->l, 10, true); /* or an ACK may be late */
		ev.events = 0;
		while (i % 2 && !(ev.events & EPOLLERR))
			CHECK(epoll_wait(ep, &ev, 1, 5000) == 1);
		notices_take(e->l.fd, &told, (uint32_t)i + 1);
		memset(b, 0, sizeof(b)); /* it is ours again */
		while (epoll_wait(ep, &ev, 1, 0) == 1)
			;
	}
	prog_mid(e->l.fd);
	/* nothing reads: all of it fits, and all is told in the end */
	for (i = 0; i < 20; i++)
		notices_send(&e->l, b + 5000 * i, 5000, i);
	prog_sync(e);
	notices_take(e->l.fd, &told, NOTICES + 20);
	FAILS(recv(e->l.fd, b, 1, MSG_DONTWAIT), EAGAIN);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	CHECK(!link_told(e->l.fd, &first, &last));
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
	struct notices *told = calloc(1, sizeof(*told));
	uint8_t *b = malloc(total);
	uint32_t sent = 0;
	size_t off = 0;
	int on = 1;

	CHECK(b && told);
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
		notices_read(e->l.fd, told, sent);
	}
	prog_sync(e);
	notices_take(e->l.fd, told, sent);
	free(told);
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

/* More sends than the kernel has room for, and nothing reads. */
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

/*
 * The peer closes as soon as it has read all: that is an end, not a reset, and
 * all is told.
 */
static void parting_run(struct end *e)
{
	static uint8_t b[20][1000]; /* the kernel may look at them for long */
	struct link l;
	int on = 1, i, k;

	for (i = 0; i < PARTINGS; i++) {
		struct notices told = { 0 };

		prog_link(e, &l);
		CHECK(!setsockopt(l.fd, SOL_SOCKET, SO_ZEROCOPY, &on,
				  sizeof(on)));
		for (k = 0; k < 20; k++) {
			flow_fill(&l.tx, b[k], sizeof(b[k]));
			CHECK(send(l.fd, b[k], sizeof(b[k]), MSG_ZEROCOPY) ==
			      sizeof(b[k]));
			if (k == 10)
				link_get(&l, 1);
		}
		link_eof(&l);
		notices_take(l.fd, &told, 20);
		link_close(&l);
	}
}

static void parting_peer(struct end *e)
{
	struct link l;
	int i;

	for (i = 0; i < PARTINGS; i++) {
		prog_link(e, &l);
		link_get(&l, 11000);
		link_put(&l, 1);
		link_get(&l, 9000);
		link_close(&l);
	}
}

#define CROWD	   3
#define CROWD_SEND (2 << 20) /* bytes of each */

struct crowd {
	pthread_t thread;
	uint32_t seed, sent;
	int fd;
};

static void *crowd_send(void *arg)
{
	static uint8_t zeros[100000];
	struct crowd *c = arg;
	size_t off = 0;

	while (off < CROWD_SEND) {
		struct pollfd p = { .fd = c->fd, .events = POLLOUT };
		size_t n = 1 + prog_rand(&c->seed) % sizeof(zeros);
		int wait = prog_rand(&c->seed) % 2 ? MSG_DONTWAIT : 0;
		ssize_t r;

		if (n > CROWD_SEND - off)
			n = CROWD_SEND - off;
		r = send(c->fd, zeros, n, MSG_ZEROCOPY | wait);
		if (r > 0) {
			off += (size_t)r;
			c->sent++;
			continue;
		}
		CHECK(errno == EAGAIN || errno == ENOBUFS);
		CHECK(poll(&p, 1, 15000) == 1);
	}
	return NULL;
}

/* Threads at one socket; here the kernel may tell in another order. */
static void crowd_run(struct end *e)
{
	struct crowd c[CROWD] = { 0 };
	uint32_t sent = 0, told = 0, first, last;
	int on = 1, i;

	CHECK(!setsockopt(e->l.fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof(on)));
	for (i = 0; i < CROWD; i++) {
		c[i].fd = e->l.fd;
		c[i].seed = (uint32_t)i + 1;
		CHECK(!pthread_create(&c[i].thread, NULL, crowd_send, &c[i]));
	}
	for (i = 0; i < CROWD; i++) {
		CHECK(!pthread_join(c[i].thread, NULL));
		sent += c[i].sent;
	}
	prog_sync(e);
	while (told < sent) {
		struct pollfd p = { .fd = e->l.fd };

		CHECK(poll(&p, 1, 5000) == 1 && p.revents & POLLERR);
		while (link_told(e->l.fd, &first, &last))
			told += last - first + 1;
	}
	CHECK(told == sent);
}

static void crowd_peer(struct end *e)
{
	static uint8_t b[70000];
	size_t got = 0;

	while (got < CROWD * CROWD_SEND) {
		ssize_t r = recv(e->l.fd, b, sizeof(b), 0);

		CHECK(r > 0);
		got += (size_t)r;
	}
	prog_sync(e);
}

static const struct prog_case cases[] = {
	{ "notices", notices_run, notices_peer, 0 },
	{ "flood", flood_run, flood_peer, 0 },
	{ "blocking", blocking_run, flood_peer, 0 },
	{ "crumbs", crumbs_run, crumbs_peer, 0 },
	{ "parting", parting_run, parting_peer, CASE_BARE },
	{ "crowd", crowd_run, crowd_peer, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
