/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * fan - an echo server and its client, each with one epoll set over all their
 * connections: -c active ones with a message under way on each, -i idle ones
 * that have been used before.
 * Options: -s size (up to 16 KiB: an echo server that writes what it reads
 * and blocks must not meet a client that does the same), -t milliseconds,
 * -j pairs, -a/-b processors.
 */
#include "probe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#define WARM_SECS 0.06
enum { MANY = 64 };

static int set_of(const int *fd, int n)
{
	int set = epoll_create1(0), i;

	if (set < 0)
		probe_die("epoll_create1");
	for (i = 0; i < n; i++) {
		struct epoll_event ev = { .events = EPOLLIN };

		ev.data.u32 = (uint32_t)i;
		if (epoll_ctl(set, EPOLL_CTL_ADD, fd[i], &ev))
			probe_die("epoll_ctl");
	}
	return set;
}

static int wait_for(int set, struct epoll_event *ev)
{
	int n = epoll_wait(set, ev, MANY, -1);

	if (n < 0 && errno != EINTR)
		probe_die("epoll_wait");
	return n;
}

static void server(struct pair *p)
{
	const int all = opt.conns + opt.idle;
	const int *fd = probe_pool(p, all);
	const int set = set_of(fd, all);
	char *buf = probe_buffer(opt.size);
	struct epoll_event ev[MANY];
	int open = all, i, n;

	probe_meet();
	while (open) {
		n = wait_for(set, ev);
		for (i = 0; i < n; i++) {
			const int f = fd[ev[i].data.u32];
			ssize_t k = read(f, buf, opt.size);

			if (k < 0)
				probe_die("read");
			if (k) {
				probe_put(f, buf, (size_t)k);
			} else {
				close(f);
				open--;
			}
		}
	}
}

/* One reply, or a piece of it, from connection `f`; sends the next message. */
static uint64_t take(int f, size_t *missing, char *buf, int again)
{
	ssize_t k = read(f, buf, *missing);

	if (k <= 0)
		probe_die("read");
	*missing -= (size_t)k;
	if (*missing)
		return 0;
	if (again) {
		*missing = opt.size;
		probe_put(f, buf, opt.size);
	}
	return 1;
}

/* Replies until the time has passed, and then none is under way any more. */
static void serve_self(int set, const int *fd, struct result *r)
{
	size_t *missing = calloc((size_t)opt.conns, sizeof(*missing));
	char *buf = probe_buffer(opt.size);
	const double start = probe_now() + WARM_SECS;
	const double end = start + opt.secs;
	struct epoll_event ev[MANY];
	double now = 0;
	int flying = opt.conns, i, n;

	if (!missing)
		probe_die("calloc");
	for (i = 0; i < opt.conns; i++) {
		missing[i] = opt.size;
		probe_put(fd[i], buf, opt.size);
	}
	while (flying) {
		n = wait_for(set, ev);
		now = probe_now();
		for (i = 0; i < n; i++) {
			const uint32_t c = ev[i].data.u32;
			uint64_t whole =
				take(fd[c], &missing[c], buf, now < end);

			r->all += 2 * whole;
			if (now >= start && now < end)
				r->messages += 2 * whole;
			else if (now >= end)
				flying -= (int)whole;
		}
	}
	r->secs = opt.secs;
}

static void client(struct pair *p)
{
	const struct timespec cool = { .tv_nsec = 500000000 };
	const int all = opt.conns + opt.idle;
	const int *fd = probe_pool(p, all);
	const int set = set_of(fd, all);
	int i;

	if (opt.idle)
		nanosleep(&cool, NULL);
	probe_meet();
	serve_self(set, fd, p->result);
	for (i = 0; i < all; i++)
		close(fd[i]);
}

int main(int argc, char **argv)
{
	struct result(*r)[2];
	double rate = 0;
	uint64_t all = 0;
	int i;

	probe_options(argc, argv);
	if (opt.conns < 1 || opt.size > 16384 || opt.local) {
		fprintf(stderr, "fan: -c 1.. -s ..16384, no -u\n");
		return 2;
	}
	r = probe_run(server, client);
	for (i = 0; i < opt.pairs; i++) {
		rate += (double)r[i][CLIENT].messages / r[i][CLIENT].secs;
		all += r[i][CLIENT].all;
	}
	printf("{\"rate\": %.1f, \"ns\": %.2f, \"bytes\": %.0f, "
	       "\"messages\": %.0f}\n",
	       rate, 1e9 * opt.pairs * opt.conns / rate,
	       (double)all * (double)opt.size, (double)all);
	return 0;
}
