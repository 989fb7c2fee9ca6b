/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_BUDGET_H
#define LIBSDP_SOCKET_CORE_BUDGET_H

/*
 * The program's resources are an account (H7): of each limit the library uses a
 * sixteenth at most, and never the last sixteenth, which is the program's. What
 * it has is counted where it is taken (shm_account); the limits, and what the
 * program itself uses of them, are read anew at each 64th lift, and as rings
 * grow.
 *
 * Limits: mappings (vm.max_map_count), address space (RLIMIT_AS), memory of the
 * control groups, size of files (RLIMIT_FSIZE), threads (RLIMIT_NPROC,
 * pids.max). Descriptors have a share of their own (fdhide.c).
 *
 * Over it connections get smaller rings, then they stay on TCP, each with its
 * reason. Everything here is async-signal-safe.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/reason.h"
#include "socket/core/core.h"

#define BUDGET_SHARE 16 /* a limit by this is ours */
#define BUDGET_EACH  64 /* lifts from one look at the limits to the next */

/* What is in force; UINT64_MAX: no limit. For tests and for the log. */
struct budget {
	uint64_t maps_most, maps_others; /* mappings that are not segments */
	uint64_t space_most, space_others; /* bytes, the same */
	uint64_t memory_most; /* bytes, for us alone */
};

/*
 * May one more segment be made? `*ring`, the largest that is wanted, becomes
 * the largest that fits. WHY_NONE or the reason.
 */
enum reason budget_make(uint32_t *ring);
/* May a segment of that size, which the peer made, be mapped? */
enum reason budget_map(uint64_t len);
/* What it means when the kernel refused one: a negative errno. */
enum reason budget_refused(int err);
/* May there be a thread more? */
bool budget_thread(void);

/*
 * Is most of the share of memory in use? Then what idle connections have is
 * given back within a second (service.c), not within a minute.
 */
bool budget_pressed(void);

/* Look at the limits now. */
void budget_look(void);
void budget_forked(void);

#endif
