/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_CLOCK_H
#define LIBSDP_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/*
 * Where the time comes from: the vDSO, past the PLT, so that a preloaded
 * clock_gettime() (libfaketime) neither sees nor alters the library's limits;
 * the system call where there is none. As clock_gettime(); tests put another
 * here.
 */
extern int (*clock_source)(clockid_t id, struct timespec *ts);

/* A clock that cannot be read stands still. */
static inline uint64_t clock_read_ns(clockid_t id)
{
	struct timespec ts = { 0, 0 };

	__atomic_load_n(&clock_source, __ATOMIC_RELAXED)(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Monotonic time in nanoseconds; about 20 ns. */
static inline uint64_t clock_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

/* The same, up to some milliseconds old; about 5 ns. */
static inline uint64_t clock_coarse_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC_COARSE);
}

/*
 * How often the clock is read within `ns` at most, if it goes: a spin ends by
 * that count where it stands still (a recorded run, a filter of system calls).
 */
static inline uint64_t clock_looks(uint64_t ns)
{
	return ns / 8 + 64;
}

/*
 * One step of a spinning loop: what the processor has for it, but where that
 * costs others more than it spares them (clock.c).
 */
void clock_relax(void);
/*
 * Once, before the program runs: later it may have made CPUID fault. True: this
 * is an emulated processor, and clock_relax() does not pause from here on.
 */
bool clock_learn(void);
/* Is this the name of a hypervisor, as CPUID gives it, whose pause does so? */
bool clock_no_pause(const char name[12]);

#endif
