/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * idle - many connections that have been used and then rest: memory and
 * processor time of both ends.
 * Options: -i connections, -t milliseconds of rest.
 */
#include "probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* "Name:   123 kB" of a file, in bytes. */
static uint64_t kib_of(const char *file, const char *name)
{
	FILE *f = fopen(file, "re");
	char line[256];
	unsigned long kib = 0;

	if (!f)
		probe_die(file);
	while (fgets(line, sizeof(line), f)) {
		if (!strncmp(line, name, strlen(name)))
			kib = strtoul(line + strlen(name), NULL, 10);
	}
	fclose(f);
	return (uint64_t)kib * 1024;
}

static void sleep_secs(double secs)
{
	struct timespec ts = { .tv_sec = (time_t)secs };

	ts.tv_nsec = (long)((secs - (double)ts.tv_sec) * 1e9);
	while (nanosleep(&ts, &ts))
		;
}

static double cpu_secs(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void both(struct pair *p)
{
	struct result *r = p->result;
	uint64_t before;

	probe_meet();
	before = kib_of("/proc/meminfo", "Shmem:");
	probe_meet();
	probe_pool(p, opt.idle);
	probe_meet();
	sleep_secs(0.5); /* what is hot cools down */
	r->cpu = cpu_secs();
	sleep_secs(opt.secs);
	r->cpu = cpu_secs() - r->cpu;
	probe_meet();
	r->pss = kib_of("/proc/self/smaps_rollup", "Pss:");
	r->shmem = kib_of("/proc/meminfo", "Shmem:") - before;
	probe_meet(); /* both have looked before one goes */
}

int main(int argc, char **argv)
{
	struct result(*r)[2];

	probe_options(argc, argv);
	opt.pairs = 1;
	r = probe_run(both, both);
	printf("{\"cpu_us\": %.1f, \"pss\": %.0f, \"shmem\": %.0f, "
	       "\"connections\": %d}\n",
	       (r[0][0].cpu + r[0][1].cpu) * 1e6,
	       (double)(r[0][0].pss + r[0][1].pss),
	       (double)(int64_t)r[0][0].shmem, opt.idle);
	return 0;
}
