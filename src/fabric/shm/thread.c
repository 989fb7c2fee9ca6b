/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the kernel tells of another process's thread. */

#include "base/proc.h"
#include "fabric/shm/frame.h"

/* Doubt means that it runs. */
bool shm_thread_stopped(int32_t pid, int32_t tid)
{
	char stat[128];
	char c;

	proc_read(stat, sizeof(stat), "/proc/%d/task/%d/stat", pid, tid);
	c = *proc_state(stat);
	return c == 'T' || c == 't';
}
