/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What this process is to the room: its number, and what it tells. */

#include "socket/core/core.h"

struct sock_hooks hooks;

int32_t sock_pid;
struct sock_reports reports;

/*
 * The lock was not free in the ordinary way: its owner was killed inside
 * (what it guarded may be half changed: the stream cannot be trusted), or
 * this thread holds it and we are in a signal handler.
 */
int sock_lock_odd(struct sock *s, int ret)
{
	if (ret == -EOWNERDEAD) {
		log_err("Error: a process died inside socket inode %llu",
			(unsigned long long)s->id.inode);
		if (s->paired)
			conn_on_lost(&s->conn, -ECONNRESET);
		return 0;
	}
	return ret;
}

/*
 * Threads bound to one processor each: they move side by side, or only in
 * turns if it is the same one. Asked once a connection, by the thread that
 * pairs; a thread bound later only spins less cleverly.
 */
void spin_bound(struct sock *s)
{
	uint32_t bound = 0;
	cpu_set_t set;
	size_t cpu;

	CPU_ZERO(&set);
	if (!sched_getaffinity(0, sizeof(set), &set) && CPU_COUNT(&set) == 1)
		for (cpu = 0; cpu < CPU_SETSIZE && !bound; cpu++)
			if (CPU_ISSET(cpu, &set))
				bound = (uint32_t)cpu + 1;
	__atomic_store_n(&s->own->bound, bound, __ATOMIC_RELAXED);
}
