/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* flow - options that shape a stream: how fast, how much, and when. */
#include "prog.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
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

static const struct prog_case cases[] = {
	{ "paced", paced_run, paced_peer, 0 },
	{ "heir", heir, heir, 0 },
};

int main(int argc, char **argv)
{
	return prog_main(argc, argv, cases, ARRAY_SIZE(cases));
}
