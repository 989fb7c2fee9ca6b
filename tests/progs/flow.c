/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* flow - options that shape a stream: how fast, how much, and when. */
#include "prog.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <linux/sockios.h>

#ifndef SO_MAX_PACING_RATE
#define SO_MAX_PACING_RATE 47
#endif

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void set_int(int fd, int level, int name, int v)
{
	CHECK(!setsockopt(fd, level, name, &v, sizeof(v)));
}

/* --- a rate --------------------------------------------------------------- */

#define RATE  (4 << 20)
#define PACED (2 << 20)

/* No machine is too slow for this, and without the limit most are too fast. */
static void put_paced(struct end *e, struct link *l)
{
	double began = now();

	link_put(l, PACED);
	CHECK(prog_hear(e) == PACED);
	CHECK(now() - began > 0.4 * PACED / RATE);
}

static void get_paced(struct end *e, struct link *l)
{
	link_get(l, PACED);
	prog_tell(e, PACED);
}

static void paced_run(struct end *e)
{
	set_int(e->l.fd, SOL_SOCKET, SO_MAX_PACING_RATE, RATE);
	put_paced(e, &e->l);
	set_int(e->l.fd, SOL_SOCKET, SO_MAX_PACING_RATE, -1);
	link_turn(&e->l, 40, true);
}

static void paced_peer(struct end *e)
{
	get_paced(e, &e->l);
	link_turn(&e->l, 40, false);
}

/* The connection has it from its listener. */
static void heir(struct end *e)
{
	struct link l;

	if (e->lfd >= 0)
		set_int(e->lfd, SOL_SOCKET, SO_MAX_PACING_RATE, RATE);
	prog_sync(e);
	prog_link(e, &l);
	if (e->lfd >= 0) {
		set_int(e->lfd, SOL_SOCKET, SO_MAX_PACING_RATE, -1);
		put_paced(e, &l);
	} else {
		get_paced(e, &l);
	}
	link_close(&l);
}

/* --- how much ------------------------------------------------------------- */

#define CHUNK 4096

/* What the buffers are set to; 0: left alone, and never after it was not. */
static const struct {
	int snd, rcv, low;
} rooms[] = {
	{ 4096, 0, 0 },	     { 65536, 0, 0 },	    { 0, 0, 16384 },
	{ 4096, 4096, 0 },   { 16384, 16384, 0 },   { 65536, 65536, 0 },
	{ 262144, 4096, 0 }, { 262144, 262144, 0 },
};

/* A socket with this option is the kernel's alone: what it takes is TCP's. */
static void twin(struct link *l)
{
	set_int(l->fd, SOL_SOCKET, SO_TIMESTAMPING, 16);
}

static bool has_room(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

/* Until it takes no more, or has taken `max` in all. */
static void put_some(struct link *l, uint64_t *sum, uint64_t max)
{
	struct flow at;
	char buf[CHUNK];
	ssize_t n;

	while (*sum < max) {
		at = l->tx;
		flow_fill(&at, buf, sizeof(buf));
		n = send(l->fd, buf, max - *sum < CHUNK ? max - *sum : CHUNK,
			 0);
		if (n < 0) {
			CHECK(errno == EAGAIN);
			return;
		}
		l->tx.off += (uint64_t)n;
		*sum += (uint64_t)n;
	}
}

/* As many bytes as it takes of a writer that does not wait, or not for long. */
static uint64_t put_all(struct link *l, bool waits)
{
	struct timeval tv = { 0, 50000 }, none = { 0, 0 };
	uint64_t sum = 0;
	int i;

	if (waits)
		CHECK(!setsockopt(l->fd, SOL_SOCKET, SO_SNDTIMEO, &tv,
				  sizeof(tv)));
	else
		prog_nonblock(l->fd, true);
	for (i = 0; i < 4; i++) {
		put_some(l, &sum, UINT64_MAX);
		if (!waits)
			prog_nap_ms(20);
	}
	CHECK(!setsockopt(l->fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof(none)));
	prog_nonblock(l->fd, false);
	return sum;
}

/* At a writer that is full: the rest waits here, and is not sent. */
static void see_queued(int fd)
{
	int all = -1, unsent = -1;

	CHECK(!has_room(fd));
	CHECK(!ioctl(fd, SIOCOUTQ, &all));
	CHECK(!ioctl(fd, SIOCOUTQNSD, &unsent));
	CHECK(all > 0 && unsent > 0 && unsent <= all);
}

/* The connecting end writes. */
static uint64_t taken(struct end *e, size_t i, bool waits, bool kernel)
{
	struct link l;
	uint64_t n = 0;

	if (e->lfd >= 0 && rooms[i].rcv)
		set_int(e->lfd, SOL_SOCKET, SO_RCVBUF, rooms[i].rcv);
	prog_sync(e);
	prog_link(e, &l);
	if (kernel)
		twin(&l);
	if (e->lfd >= 0) {
		link_turn(&l, 40, true);
		n = prog_hear(e);
		link_get(&l, n);
	} else {
		if (rooms[i].snd)
			set_int(l.fd, SOL_SOCKET, SO_SNDBUF, rooms[i].snd);
		if (rooms[i].low)
			set_int(l.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT,
				rooms[i].low);
		link_turn(&l, 40, false);
		n = put_all(&l, waits);
		if (rooms[i].snd && rooms[i].rcv)
			see_queued(l.fd);
		prog_tell(e, n);
	}
	prog_sync(e);
	if (e->lfd < 0)
		CHECK(has_room(l.fd));
	link_close(&l);
	return n;
}

static void bounded(struct end *e)
{
	uint64_t tcp, ours;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rooms); i++) {
		tcp = taken(e, i, i % 2, true);
		ours = taken(e, i, i % 2, false);
		/* TCP opens an unset window by and by, or not */
		CHECK(ours <= 2 * tcp + 16384);
		CHECK(ours >= tcp / 3);
	}
}

/* Nobody sleeps for ever where little is under way. */
#define STEADY (2 << 20)

static void put_edges(struct link *l)
{
	struct epoll_event ev = { .events = EPOLLOUT | EPOLLET };
	int ep = epoll_create1(0);
	uint64_t sum = 0;

	CHECK(ep >= 0);
	prog_nonblock(l->fd, true);
	CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, l->fd, &ev));
	while (sum < STEADY) {
		CHECK(epoll_wait(ep, &ev, 1, 20000) == 1);
		put_some(l, &sum, STEADY);
	}
	prog_nonblock(l->fd, false);
	CHECK(!close(ep));
}

static void put_levels(struct link *l)
{
	struct pollfd p = { .fd = l->fd, .events = POLLOUT };
	uint64_t sum = 0;

	prog_nonblock(l->fd, true);
	while (sum < STEADY) {
		CHECK(poll(&p, 1, 20000) == 1);
		put_some(l, &sum, STEADY);
	}
	prog_nonblock(l->fd, false);
}

static void steady(struct end *e)
{
	uint64_t left, n;
	struct link l;

	if (e->lfd >= 0)
		set_int(e->lfd, SOL_SOCKET, SO_RCVBUF, 16384);
	prog_sync(e);
	prog_link(e, &l);
	if (e->lfd >= 0) {
		for (left = 3 * STEADY; left; left -= n) {
			n = 1 + left % CHUNK;
			n = n < left ? n : left;
			link_get(&l, n);
		}
	} else {
		set_int(l.fd, SOL_SOCKET, SO_SNDBUF, 16384);
		put_edges(&l);
		put_levels(&l);
		link_put(&l, STEADY);
	}
	link_turn(&l, 40, e->lfd >= 0);
	link_close(&l);
}

static const struct prog_case cases[] = {
	{ "paced", paced_run, paced_peer, 0 },
	{ "heir", heir, heir, 0 },
	{ "bounded", bounded, bounded, 0 },
	{ "steady", steady, steady, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
