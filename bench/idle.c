/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * idle - many connections that have been used and then rest: memory, mappings,
 * descriptors and processor time of both ends.
 * Options: -i connections, -t milliseconds of rest, -q: no rest, each is full in
 * both directions.
 */
#include "probe.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

static uint64_t lines_of(const char *file)
{
	FILE *f = fopen(file, "re");
	uint64_t n = 0;
	int c;

	if (!f)
		probe_die(file);
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static uint64_t entries_of(const char *path)
{
	DIR *dir = opendir(path);
	uint64_t n = 0;

	if (!dir)
		probe_die(path);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void look(struct result *r)
{
	r->maps = lines_of("/proc/self/maps");
	r->space = kib_of("/proc/self/status", "VmSize:");
	r->fds = entries_of("/proc/self/fd");
	r->pss = kib_of("/proc/self/smaps_rollup", "Pss:");
	r->shmem = kib_of("/proc/meminfo", "Shmem:");
}

/* Until none takes any more, at either end. */
static void fill(const int *fd, int n)
{
	static char buf[65536];
	int i, took;

	do {
		for (took = i = 0; i < n; i++)
			if (send(fd[i], buf, sizeof(buf), MSG_DONTWAIT) > 0)
				took = 1;
	} while (took);
}

static void both(struct pair *p)
{
	struct result *r = p->result, before;
	int *fd;

	probe_meet();
	look(&before);
	probe_meet();
	fd = probe_pool(p, opt.idle);
	probe_meet();
	if (opt.ask)
		fill(fd, opt.idle);
	sleep_secs(opt.ask ? 0.01 : 0.5); /* what is hot cools down */
	probe_meet();
	r->cpu = cpu_secs();
	sleep_secs(opt.ask ? 0.01 : opt.secs);
	r->cpu = cpu_secs() - r->cpu;
	probe_meet();
	look(r);
	r->maps -= before.maps;
	r->space -= before.space;
	r->fds -= before.fds;
	r->shmem -= before.shmem;
	probe_meet(); /* both have looked before one goes */
}

/* A difference, which may be less than nothing. */
static double sum(uint64_t a, uint64_t b)
{
	return (double)(int64_t)(a + b);
}

int main(int argc, char **argv)
{
	struct result(*r)[2], *a, *b;

	probe_options(argc, argv);
	opt.pairs = 1;
	r = probe_run(both, both);
	a = &r[0][0];
	b = &r[0][1];
	printf("{\"cpu_us\": %.1f, \"pss\": %.0f, \"shmem\": %.0f, "
	       "\"maps\": %.0f, \"space\": %.0f, \"fds\": %.0f, "
	       "\"connections\": %d}\n",
	       (a->cpu + b->cpu) * 1e6, sum(a->pss, b->pss),
	       (double)(int64_t)a->shmem, sum(a->maps, b->maps),
	       sum(a->space, b->space), sum(a->fds, b->fds), opt.idle);
	return 0;
}
