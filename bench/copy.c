/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * copy - yardstick: one copy of each message from the memory of another
 * process (process_vm_readv), or within this one where that is forbidden.
 * Options: -s size, -t milliseconds, -a/-b processors.
 */
#include "probe.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* The buffer's address is the same in both: it is from before the fork. */
static int copy_once(pid_t from, char *to, char *buf)
{
	struct iovec mine = { to, opt.size }, theirs = { buf, opt.size };

	if (!from) {
		memcpy(to, buf, opt.size);
		/* or the compiler sees through us */
		__asm__ volatile("" ::"r"(to) : "memory");
		return 0;
	}
	return process_vm_readv(from, &mine, 1, &theirs, 1, 0) ==
			       (ssize_t)opt.size ?
		       0 :
		       -1;
}

static double bytes_per_sec(pid_t from, char *to, char *buf, double secs)
{
	const double start = probe_now();
	uint64_t n = 0;
	double took;

	do {
		if (copy_once(from, to, buf))
			probe_die("process_vm_readv");
		n++;
		took = probe_now() - start;
	} while (took < secs);
	return (double)n * (double)opt.size / took;
}

/* The child owns the buffer: touched by it, on its processor. */
static pid_t start_owner(char *buf)
{
	int ready[2];
	char byte = 0;
	pid_t pid;

	if (pipe(ready) || (pid = fork()) < 0)
		probe_die("fork");
	if (pid) {
		close(ready[1]);
		if (read(ready[0], &byte, 1) != 1)
			probe_die("owner");
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	probe_pin(opt.cpu[SERVER]);
	memset(buf, 0x33, opt.size);
	if (write(ready[1], &byte, 1) != 1)
		probe_die("write");
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	char *to, *buf;
	pid_t owner, from;
	double rate;

	probe_options(argc, argv);
	to = probe_buffer(opt.size);
	buf = probe_buffer(opt.size);
	owner = start_owner(buf);
	from = owner;
	probe_pin(opt.cpu[CLIENT]);
	if (copy_once(from, to, buf))
		from = 0;
	bytes_per_sec(from, to, buf, 0.02);
	rate = bytes_per_sec(from, to, buf, opt.secs);
	kill(owner, SIGKILL);
	waitpid(owner, NULL, 0);
	printf("{\"bytes_rate\": %.0f, \"by\": \"%s\"}\n", rate,
	       from ? "process_vm_readv" : "memcpy");
	return 0;
}
