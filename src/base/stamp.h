/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_STAMP_H
#define LIBSDP_BASE_STAMP_H

/*
 * Stamps order what processes of one host do: a stamp that is taken after
 * another was, by whatever process, is not less. They are for comparing, not
 * for measuring: the unit is a tick of the time stamp counter where the kernel
 * trusts it on all processors, else a nanosecond of CLOCK_MONOTONIC. Stamps of
 * the two kinds, told apart by STAMP_CLOCK, cannot be compared.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define STAMP_MIXED 1ull /* bit 0, in a message: see below */
#define STAMP_CLOCK (1ull << 63) /* nanoseconds, no ticks */

extern bool stamp_ticks; /* of the time stamp counter */
extern bool stamp_used; /* atomic: this process has sent or got messages */

/*
 * Chooses the clock: once, before the program runs and anything has a stamp.
 * A process that does not call it has nanoseconds.
 */
void stamp_learn(void);

/*
 * The processor reads the counter no sooner than what comes before has been
 * done (without the fence it may, by some hundred ticks), and what is written
 * behind it is seen later.
 */
static inline uint64_t stamp_now(void)
{
#ifdef __x86_64__
	if (__builtin_expect(__atomic_load_n(&stamp_ticks, __ATOMIC_RELAXED),
			     1)) {
		__builtin_ia32_lfence();
		return __builtin_ia32_rdtsc() & ~(STAMP_CLOCK | STAMP_MIXED);
	}
#endif
	return (clock_ns() & ~STAMP_MIXED) | STAMP_CLOCK;
}

/* And nothing behind it is read sooner, either. */
static inline uint64_t stamp_before(void)
{
	uint64_t now = stamp_now();

#ifdef __x86_64__
	__builtin_ia32_lfence();
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
	return now;
}

/*
 * What this process sent through the kernel, newest last: the log that goes
 * along with messages through shared memory, so that their reader can tell
 * which of the kernel's events were caused before. An entry has the middle of
 * a stamp that was taken when the send had returned, and the port that it was
 * sent from; 0: none. The port 0 stands for a connection that was begun: its
 * event is a listener's.
 */
#define STAMP_LOG 8 /* entries: one cache line */

struct stamp_log {
	uint64_t entry[STAMP_LOG];
};

/* The log of this process; only its words are atomic. */
extern struct stamp_log stamp_log;
extern uint64_t stamp_logged; /* atomic: stamp of the newest entry, 0: none */

/* This process has sent from `port` by the kernel. */
void stamp_log_add(uint16_t port);
/* In a child: what the parent sent is not its own. */
void stamp_forked(void);

static inline uint16_t stamp_log_port(uint64_t entry)
{
	return (uint16_t)entry;
}

static inline uint64_t stamp_log_entry(uint64_t stamp, uint16_t port)
{
	return stamp >> 4 << 16 | port;
}

/* Was the send logged at `from` or later, and not behind `to`? */
static inline bool stamp_log_within(uint64_t entry, uint64_t from, uint64_t to)
{
	uint64_t at = entry & ~0xffffull;

	/* the upper bits are gone: near means before or behind */
	return entry && (int64_t)(at - stamp_log_entry(from, 0)) >= 0 &&
	       (int64_t)(at - stamp_log_entry(to, 0)) <= 0;
}

/*
 * A message is sent at `now`: true if the log may concern its reader, which was
 * away for so long at most.
 */
#define STAMP_LATELY (1ull << 34) /* some seconds, in either unit */

static inline bool stamp_mixed(uint64_t now)
{
	uint64_t last = __atomic_load_n(&stamp_logged, __ATOMIC_RELAXED);

	return __builtin_expect(last && now - last < STAMP_LATELY, 0);
}

#endif
