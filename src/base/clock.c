/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Where the time comes from, and spinning, a step at a time. An x86 processor
 * that QEMU emulates leaves its loop at each pause and takes the lock that the
 * devices need: a thread that spins for a message holds up the one that is to
 * bring it. There it is not used.
 */

#include "base/clock.h"

#include <string.h>

#include "base/sys.h"
#include "base/vdso.h"

#ifdef __x86_64__
#include <cpuid.h>

#endif

#if defined(__x86_64__) || defined(__riscv)
#define VDSO_CLOCK "__vdso_clock_gettime"
#else
#define VDSO_CLOCK "__kernel_clock_gettime"
#endif

static int by_system_call(clockid_t id, struct timespec *ts)
{
	return sys_call3(SYS_clock_gettime, id, (long)ts, 0) ? -1 : 0;
}

/* Looked up by the first reader; two that do so at once find the same. */
static int first_look(clockid_t id, struct timespec *ts)
{
	int (*source)(clockid_t, struct timespec *) = vdso_symbol(VDSO_CLOCK);

	if (!source || source(id, ts)) {
		source = by_system_call;
		source(id, ts);
	}
	__atomic_store_n(&clock_source, source, __ATOMIC_RELAXED);
	return 0;
}

int (*clock_source)(clockid_t id, struct timespec *ts) = first_look;

bool clock_no_pause(const char name[12])
{
	return !memcmp(name, "TCGTCGTCGTCG", 12);
}

#ifdef __x86_64__

#define HYPERVISOR	(1u << 31) /* in ECX of leaf 1: there is a name */
#define HYPERVISOR_NAME 0x40000000u

static bool no_pause;

bool clock_learn(void)
{
	uint32_t a, b, c, d, name[3];

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & HYPERVISOR))
		return false;
	__cpuid(HYPERVISOR_NAME, a, name[0], name[1], name[2]);
	if (!clock_no_pause((const char *)name))
		return false;
	__atomic_store_n(&no_pause, true, __ATOMIC_RELAXED);
	return true;
}

void clock_relax(void)
{
	if (!__atomic_load_n(&no_pause, __ATOMIC_RELAXED))
		__builtin_ia32_pause();
}

#else

bool clock_learn(void)
{
	return false;
}

void clock_relax(void)
{
#ifdef __aarch64__
	__asm__ volatile("yield" ::: "memory");
#endif
}

#endif
