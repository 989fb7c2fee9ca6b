/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pipe - one process writes a byte into a pipe and reads it again: what the
 * library costs on descriptors that are none of its business. Neither call
 * ever waits, so processor time is what they cost, whatever else is running.
 * Options: -t milliseconds, -a processor.
 */
#include "probe.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double cpu_secs(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static double pairs_for(const int fd[2], double secs)
{
	const double start = cpu_secs();
	char byte = 'p';
	uint64_t n = 0;
	double took;
	int i;

	do {
		for (i = 0; i < 500; i++) {
			if (write(fd[1], &byte, 1) != 1 ||
			    read(fd[0], &byte, 1) != 1)
				probe_die("pipe");
		}
		n += 500;
		took = cpu_secs() - start;
	} while (took < secs);
	return took * 1e9 / (double)n;
}

/* Proof that the library is really there (it opens nothing for a pipe). */
static int preloaded(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[4400];
	int found = 0;

	if (!f)
		probe_die("/proc/self/maps");
	while (!found && fgets(line, sizeof(line), f))
		found = strstr(line, "/libsdp.so") != NULL;
	fclose(f);
	return found;
}

int main(int argc, char **argv)
{
	int fd[2];
	double ns;

	probe_options(argc, argv);
	probe_pin(opt.cpu[0]);
	if (pipe(fd))
		probe_die("pipe");
	pairs_for(fd, 0.02);
	ns = pairs_for(fd, opt.secs);
	printf("{\"ns\": %.3f, \"preloaded\": %d}\n", ns, preloaded());
	return 0;
}
