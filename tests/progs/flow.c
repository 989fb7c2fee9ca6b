/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* flow - options that shape a stream: how fast, how much, and when. */
#include "prog.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
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
	{ 262144, 4096, 0 }, { 262144, 262144, 0 }, { 1000000, 65536, 0 },
	{ 1000000, 0, 0 },
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
		/* as much as a ring: not as much again on the anchor */
		if (rooms[i].snd >= 1000000)
			CHECK(ours <= tcp + tcp / 2);
		CHECK(ours >= tcp / 3);
	}
}

/* Nothing is set: it takes megabytes of a reader that looks away. */
static void stall_run(struct end *e)
{
	uint64_t n = put_all(&e->l, false);

	prog_tell(e, n);
	link_turn(&e->l, 40, true);
}

static void stall_peer(struct end *e)
{
	link_get(&e->l, prog_hear(e));
	link_turn(&e->l, 40, false);
}

/* A reader that takes nothing for so long is none: the kernel ends it. */
static void timeout_run(struct end *e)
{
	struct link l;
	char buf[CHUNK];
	ssize_t n;

	if (e->lfd >= 0)
		set_int(e->lfd, SOL_SOCKET, SO_RCVBUF, 16384);
	prog_sync(e);
	prog_link(e, &l);
	if (e->lfd < 0) {
		set_int(l.fd, SOL_SOCKET, SO_SNDBUF, 16384);
		set_int(l.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 300);
		memset(buf, 1, sizeof(buf));
		do
			n = send(l.fd, buf, sizeof(buf), MSG_NOSIGNAL);
		while (n > 0);
		CHECK(n == -1 && errno == ETIMEDOUT);
	}
	prog_sync(e);
	CHECK(!close(l.fd));
}

/* No end sleeps for ever where little is under way. */
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

/* --- when ----------------------------------------------------------------- */

static void put_flags(struct link *l, size_t n, int flags)
{
	char buf[200000];

	CHECK(n <= sizeof(buf));
	flow_fill(&l->tx, buf, n);
	CHECK(send(l->fd, buf, n, flags) == (ssize_t)n);
}

static int unread(int fd)
{
	int n = -1;

	CHECK(!ioctl(fd, FIONREAD, &n));
	return n;
}

/*
 * What was sent in pieces is seen by the peer when `whole` says so, and nothing
 * of it before; an end too slow to have seen it in time tries again. What
 * is under way would be acknowledged, and that sends the rest: so a turn first.
 */
static void held_run(struct end *e, void (*part)(struct link *l),
		     void (*whole)(struct link *l))
{
	double began;
	uint64_t seen;
	bool sure;
	int i;

	for (i = 0; i < 20; i++) {
		link_turn(&e->l, 40, true);
		began = now();
		part(&e->l);
		prog_sync(e);
		seen = prog_hear(e);
		sure = now() - began < 0.03;
		whole(&e->l);
		prog_tell(e, e->l.tx.off);
		prog_sync(e);
		if (sure)
			CHECK(seen == 0);
	}
	prog_tell(e, 0);
}

static void held_peer(struct end *e)
{
	uint64_t off;
	int i;

	for (i = 0; i < 20; i++) {
		link_turn(&e->l, 40, false);
		prog_sync(e);
		prog_tell(e, (uint64_t)unread(e->l.fd));
		off = prog_hear(e);
		link_get(&e->l, off - e->l.rx.off);
		prog_sync(e);
	}
	CHECK(prog_hear(e) == 0);
}

static void more_part(struct link *l)
{
	put_flags(l, 16, MSG_MORE);
	put_flags(l, 3, MSG_MORE);
}

static void more_whole(struct link *l)
{
	put_flags(l, 16, 0);
}

static void more_run(struct end *e)
{
	held_run(e, more_part, more_whole);
}

static void cork_part(struct link *l)
{
	set_int(l->fd, IPPROTO_TCP, TCP_CORK, 1);
	put_flags(l, 16, 0);
	put_flags(l, 100, 0);
}

static void cork_whole(struct link *l)
{
	set_int(l->fd, IPPROTO_TCP, TCP_CORK, 0);
}

static void cork_run(struct end *e)
{
	held_run(e, cork_part, cork_whole);
}

static void nodelay_whole(struct link *l)
{
	set_int(l->fd, IPPROTO_TCP, TCP_NODELAY, 1);
	cork_whole(l);
	set_int(l->fd, IPPROTO_TCP, TCP_NODELAY, 0);
}

static void nodelay_run(struct end *e)
{
	held_run(e, more_part, nodelay_whole);
}

/* The peer sleeps, and nothing more comes: it gets it after all. */
static void late_run(struct end *e)
{
	int i;

	for (i = 0; i < 3; i++) {
		link_turn(&e->l, 40, true);
		put_flags(&e->l, 100, MSG_MORE);
		prog_sync(e);
	}
	set_int(e->l.fd, IPPROTO_TCP, TCP_CORK, 1);
	put_flags(&e->l, 100, 0);
	prog_sync(e);
	put_flags(&e->l, 150000, 0);
	prog_sync(e);
	set_int(e->l.fd, IPPROTO_TCP, TCP_CORK, 0);
	/* a descriptor that moves on takes along what was held back */
	put_flags(&e->l, 100, MSG_MORE);
	prog_mid(e->l.fd);
	prog_sync(e);
	link_turn(&e->l, 40, true);
}

static void late_peer(struct end *e)
{
	struct pollfd p = { .fd = e->l.fd, .events = POLLIN };
	int i;

	for (i = 0; i < 3; i++) {
		link_turn(&e->l, 40, false);
		if (i)
			CHECK(poll(&p, 1, 20000) == 1);
		link_get(&e->l, 100);
		prog_sync(e);
	}
	link_get(&e->l, 100);
	prog_sync(e);
	link_get(&e->l, 150000);
	prog_sync(e);
	link_get(&e->l, 100);
	prog_sync(e);
	link_turn(&e->l, 40, false);
}

/* In order, whatever is held back and shown. */
static void mixed_run(struct end *e)
{
	unsigned int dice = 12345, i;

	for (i = 0; i < 3000; i++) {
		dice = dice * 1103515245 + 12345;
		if (dice >> 16 & 1)
			set_int(e->l.fd, IPPROTO_TCP, TCP_CORK, dice >> 17 & 1);
		put_flags(&e->l, 1 + (dice >> 18) % (dice >> 8 & 7 ? 99 : 9999),
			  dice >> 20 & 1 ? MSG_MORE : 0);
		if (!(dice >> 21 & 63))
			prog_nap_ms(1);
	}
	set_int(e->l.fd, IPPROTO_TCP, TCP_CORK, 0);
	prog_tell(e, e->l.tx.off);
	prog_sync(e);
}

static void mixed_peer(struct end *e)
{
	struct pollfd p[2] = { { .fd = e->l.fd, .events = POLLIN },
			       { .fd = e->ctl, .events = POLLIN } };
	uint64_t off = UINT64_MAX;
	int n;

	while (e->l.rx.off != off) {
		CHECK(poll(p, off == UINT64_MAX ? 2 : 1, 20000) > 0);
		if (p[1].revents & POLLIN && off == UINT64_MAX)
			off = prog_hear(e);
		n = unread(e->l.fd);
		if (n)
			link_get(&e->l, (size_t)n);
		p[1].revents = 0;
	}
	prog_sync(e);
}

/* Every end of the writer shows what it held back. */
static void ends_run(struct end *e)
{
	char buf[100];
	struct link l;

	link_get(&e->l, 300);
	link_eof(&e->l);
	prog_sync(e);
	prog_link(e, &l);
	link_get(&l, 100);
	CHECK(read(l.fd, buf, sizeof(buf)) == 0);
	link_close(&l);
	prog_sync(e);
	prog_link(e, &l);
	prog_sync(e);
	link_get(&l, 200);
	CHECK(read(l.fd, buf, sizeof(buf)) == 0);
	link_close(&l);
}

static void ends_peer(struct end *e)
{
	struct link l;

	put_flags(&e->l, 100, 0);
	put_flags(&e->l, 100, MSG_MORE);
	set_int(e->l.fd, IPPROTO_TCP, TCP_CORK, 1);
	put_flags(&e->l, 100, 0);
	CHECK(!shutdown(e->l.fd, SHUT_WR));
	prog_sync(e);
	prog_link(e, &l);
	put_flags(&l, 100, MSG_MORE);
	CHECK(!close(l.fd));
	prog_sync(e);
	prog_link(e, &l);
	put_flags(&l, 100, MSG_MORE);
	put_flags(&l, 100, MSG_MORE);
	prog_sync(e);
	kill(getpid(), SIGKILL);
}

static const struct prog_case cases[] = {
	{ "paced", paced_run, paced_peer, 0 },
	{ "heir", heir, heir, 0 },
	{ "bounded", bounded, bounded, 0 },
	{ "stall", stall_run, stall_peer, 0 },
	{ "timeout", timeout_run, timeout_run, 0 },
	{ "steady", steady, steady, 0 },
	{ "more", more_run, held_peer, 0 },
	{ "cork", cork_run, held_peer, 0 },
	{ "nodelay", nodelay_run, held_peer, 0 },
	{ "late", late_run, late_peer, 0 },
	{ "mixed", mixed_run, mixed_peer, 0 },
	{ "ends", ends_run, ends_peer, CASE_PROCESS | CASE_DIES },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
