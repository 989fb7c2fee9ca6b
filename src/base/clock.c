/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Spinning, a step at a time. An x86 processor that QEMU emulates leaves its
 * loop at each pause and takes the lock that the devices need: whoever spins
 * for a message holds up the one that is to bring it. There it is not used.
 */

#include "base/clock.h"

#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

bool clock_no_pause(const char name[12])
{
	return !memcmp(name, "TCGTCGTCGTCG", 12);
}

#ifdef __x86_64__

#define HYPERVISOR	(1u << 31) /* in ECX of leaf 1: there is a name */
#define HYPERVISOR_NAME 0x40000000u

static bool asked_no_pause(void)
{
	uint32_t a, b, c, d, name[3];

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & HYPERVISOR))
		return false;
	__cpuid(HYPERVISOR_NAME, a, name[0], name[1], name[2]);
	return clock_no_pause((const char *)name);
}

void clock_relax(void)
{
	enum { UNKNOWN, PAUSES, DOES_NOT };
	static uint8_t how;
	uint8_t is = __atomic_load_n(&how, __ATOMIC_RELAXED);

	if (is == PAUSES) {
		__builtin_ia32_pause();
	} else if (is == UNKNOWN) {
		is = asked_no_pause() ? DOES_NOT : PAUSES;
		__atomic_store_n(&how, is, __ATOMIC_RELAXED);
	}
}

#else

void clock_relax(void)
{
#ifdef __aarch64__
	__asm__ volatile("yield" ::: "memory");
#endif
}

#endif
