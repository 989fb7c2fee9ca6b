/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_CGROUP_H
#define LIBSDP_BASE_CGROUP_H

/*
 * Limits of the control groups that this process is in: its own and those
 * above, of version 1 and 2. What cannot be read limits nothing. Files are read
 * anew at each question, without memory or libc.
 */

#include <stdint.h>

#define CGROUP_NONE UINT64_MAX

struct cgroup {
	uint64_t limit; /* the nearest one; CGROUP_NONE: there is none */
	uint64_t left; /* the least that is left of any of them */
};

/*
 * Bytes of memory. What holds back (memory.high) counts as what refuses; what
 * the kernel would drop first, files that were read once, counts as free.
 */
void cgroup_memory(struct cgroup *g);
/* Threads (pids.max). */
void cgroup_threads(struct cgroup *g);

/* Where to look: "/proc/self/cgroup", "/sys/fs/cgroup"; others for tests. */
extern const char *cgroup_own, *cgroup_root;

#endif
