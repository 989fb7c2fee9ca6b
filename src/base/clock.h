/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_CLOCK_H
#define LIBSDP_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* Monotonic time in nanoseconds; the vDSO, about 20 ns. */
static inline uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The same, up to some milliseconds old; about 5 ns. */
static inline uint64_t clock_coarse_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 * One step of a spinning loop: what the processor has for it, but where that
 * costs others more than it spares them (clock.c).
 */
void clock_relax(void);
/*
 * Once, before the program runs: later it may have made CPUID fault. Whoever
 * does not call it pauses.
 */
void clock_learn(void);
/* Is this the name of a hypervisor, as CPUID gives it, whose pause does so? */
bool clock_no_pause(const char name[12]);

#endif
