/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whose signal is it that came while a thread held them back? */
#include "preload/hold.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/proc.h"

#define PATIENCE_NS 200000000u /* the first thread has so long to take it */
#define NAP_NS	    50000

/* The set of signals behind `name` in what /proc tells of a thread. */
static uint64_t set_of(const char *status, const char *name)
{
	static const char digits[] = "0123456789abcdef";
	const char *p = strstr(status, name), *d;
	uint64_t set = 0;

	if (!p)
		return 0;
	for (p += strlen(name); *p && (d = strchr(digits, *p)); p++)
		set = set << 4 | (uint64_t)(d - digits);
	return set;
}

/* Pending for the process, and the first thread, if it lives, lets them in. */
static uint64_t of_the_first(int pid)
{
	char status[2048];

	if (proc_read(status, sizeof(status), "/proc/self/task/%d/status",
		      pid) <= 0)
		return 0;
	if (strstr(status, "\nState:\tZ") || strstr(status, "\nState:\tX"))
		return 0;
	return set_of(status, "\nShdPnd:\t") & ~set_of(status, "\nSigBlk:\t");
}

void hold_give_way(const struct hold *h)
{
	struct timespec nap = { .tv_nsec = NAP_NS };
	uint64_t pending = 0, until;
	int pid;

	if (sys_call3(SYS_rt_sigpending, (long)&pending, 8, 0))
		return;
	pending &= ~h->saved[0];
	if (__builtin_expect(!pending, 1))
		return;
	pid = sys_getpid();
	if (lock_tid() == (uint32_t)pid)
		return;
	until = clock_ns() + PATIENCE_NS;
	while ((of_the_first(pid) & pending) && clock_ns() < until)
		sys_call6(SYS_ppoll, 0, 0, (long)&nap, 0, 8, 0);
}
