/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pingpong - messages to and fro with blocking calls; half a round trip.
 * Options: -s size, -t milliseconds, -j pairs, -a/-b processors, -u unix.
 */
#include "probe.h"

#include <stdio.h>
#include <unistd.h>

/* Long enough for a lift to be over before the clock starts. */
#define WARM_SECS 0.06

static void server(struct pair *p)
{
	const int fd = probe_stream(p);
	char *buf = probe_buffer(opt.size);

	probe_meet();
	while (probe_get(fd, buf, opt.size))
		probe_put(fd, buf, opt.size);
	close(fd);
}

/* Rounds until `secs` have passed; the clock is asked once a batch. */
static uint64_t rounds_for(int fd, char *buf, double secs, double *took)
{
	const int batch = opt.size > 4096 ? 2 : 16;
	const double start = probe_now();
	uint64_t n = 0;
	int i;

	do {
		for (i = 0; i < batch; i++) {
			probe_put(fd, buf, opt.size);
			if (!probe_get(fd, buf, opt.size))
				probe_die("reply");
		}
		n += (uint64_t)batch;
		*took = probe_now() - start;
	} while (*took < secs);
	return n;
}

static void client(struct pair *p)
{
	const int fd = probe_stream(p);
	char *buf = probe_buffer(opt.size);
	struct result *r = p->result;
	double took;
	uint64_t first;

	probe_meet();
	first = rounds_for(fd, buf, WARM_SECS, &took);
	r->messages = 2 * rounds_for(fd, buf, opt.secs, &r->secs);
	r->bytes = r->messages * opt.size;
	r->all = r->messages + 2 * first;
	close(fd);
}

int main(int argc, char **argv)
{
	struct result(*r)[2];
	double rate = 0, ns;
	uint64_t all = 0, switches = 0;
	int i;

	probe_options(argc, argv);
	r = probe_run(server, client);
	for (i = 0; i < opt.pairs; i++) {
		rate += (double)r[i][CLIENT].messages / r[i][CLIENT].secs;
		all += r[i][CLIENT].all;
		switches += r[i][CLIENT].switches + r[i][SERVER].switches;
	}
	ns = 1e9 * opt.pairs / rate;
	printf("{\"ns\": %.2f, \"rate\": %.1f, \"bytes\": %.0f, "
	       "\"messages\": %.0f, \"switches\": %.0f}\n",
	       ns, rate, (double)all * (double)opt.size, (double)all,
	       (double)switches);
	return 0;
}
