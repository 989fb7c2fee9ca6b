/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whose signal is it that came while a thread held them back? */
#include "base/hold.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/proc.h"
#include "base/scratch.h"

#define PATIENCE_NS 200000000u /* the first thread has so long to take it */
#define NAP_NS	    50000

/* The set of signals behind `name`; false: there is none, or it is cut. */
static bool set_of(const char *status, const char *name, uint64_t *set)
{
	static const char digits[] = "0123456789abcdef";
	const char *p = strstr(status, name), *d;

	if (!p)
		return false;
	*set = 0;
	for (p += strlen(name); *p && (d = strchr(digits, *p)); p++)
		*set = *set << 4 | (uint64_t)(d - digits);
	return *p == '\n';
}

uint64_t hold_lets_in(const char *status, const struct lock_mask *own)
{
	uint64_t pending, blocked;
	unsigned char held;

	if (strstr(status, "\nState:\tZ") || strstr(status, "\nState:\tX") ||
	    !set_of(status, "\nShdPnd:\t", &pending) ||
	    !set_of(status, "\nSigBlk:\t", &blocked))
		return 0;
	held = own ? __atomic_load_n(&own->held, __ATOMIC_ACQUIRE) : HELD_NOT;
	if (held == HELD_SOON)
		blocked = 0;
	else if (held == HELD_BACK)
		blocked = __atomic_load_n(&own->set, __ATOMIC_RELAXED);
	return pending & ~blocked;
}

/* Pending for the process, and the first thread, if it lives, lets them in. */
static uint64_t of_the_first(int pid)
{
	const size_t size = 2048;
	SCRATCH(room);
	char *status = scratch_take(&room, size);

	if (!status ||
	    proc_read(status, size, "/proc/self/task/%d/status", pid) <= 0)
		return 0;
	return hold_lets_in(status, lock_mask_first);
}

/* Asked once a thread; the one that a fork() copies has another number. */
static bool am_first(void)
{
	static __thread uint32_t asked
		__attribute__((tls_model("initial-exec")));
	static __thread bool first __attribute__((tls_model("initial-exec")));

	if (__builtin_expect(asked != lock_tid(), 0)) {
		asked = lock_tid();
		first = asked == (uint32_t)sys_getpid();
	}
	return first;
}

void hold_give_way(const struct hold *h)
{
	uint64_t pending = 0, until;
	int pid;

	if (am_first() || sys_call3(SYS_rt_sigpending, (long)&pending, 8, 0))
		return;
	pending &= ~h->saved[0];
	if (__builtin_expect(!pending, 1))
		return;
	pid = sys_getpid();
	until = clock_ns() + PATIENCE_NS;
	while ((of_the_first(pid) & pending) && clock_ns() < until) {
		/* anew: the kernel writes into it what is left */
		struct timespec nap = { .tv_nsec = NAP_NS };

		sys_call6(SYS_ppoll, 0, 0, (long)&nap, 0, 8, 0);
	}
}
