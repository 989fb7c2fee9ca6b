/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * line - yardstick: two processes spin on one shared cache line; half a round
 * trip. Nothing that goes through memory can be faster.
 * Options: -t milliseconds, -a/-b processors (two different ones).
 */
#include "probe.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define STOP UINT32_MAX

struct line {
	_Alignas(128) _Atomic uint32_t turn; /* odd: the child's */
};

static void answer(struct line *l)
{
	uint32_t seen = 0, now;

	for (;;) {
		while ((now = atomic_load_explicit(
				&l->turn, memory_order_acquire)) == seen)
			;
		if (now == STOP)
			_exit(0);
		seen = now + 1;
		atomic_store_explicit(&l->turn, seen, memory_order_release);
	}
}

static double turns_for(struct line *l, double secs)
{
	const double start = probe_now();
	uint32_t turn = atomic_load(&l->turn);
	uint64_t n = 0;
	double took;
	int i;

	do {
		for (i = 0; i < 1000; i++) {
			atomic_store_explicit(&l->turn, turn + 1,
					      memory_order_release);
			turn += 2;
			while (atomic_load_explicit(
				       &l->turn, memory_order_acquire) != turn)
				;
		}
		n += 1000;
		took = probe_now() - start;
	} while (took < secs);
	return took * 1e9 / (double)n / 2;
}

int main(int argc, char **argv)
{
	struct line *l;
	double ns;
	pid_t pid;

	probe_options(argc, argv);
	l = mmap(NULL, sizeof(*l), PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (l == MAP_FAILED)
		probe_die("mmap");
	pid = fork();
	if (pid < 0)
		probe_die("fork");
	probe_pin(opt.cpu[pid ? CLIENT : SERVER]);
	if (pid == 0)
		answer(l);
	turns_for(l, 0.02);
	ns = turns_for(l, opt.secs);
	atomic_store(&l->turn, STOP);
	waitpid(pid, NULL, 0);
	printf("{\"ns\": %.2f}\n", ns);
	return 0;
}
