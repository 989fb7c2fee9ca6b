/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What this process is to the room: its number, and what it tells. */

#include "base/proc.h"
#include "socket/core/core.h"

struct sock_hooks hooks;

int32_t sock_pid;
struct sock_reports reports;

static bool user_lives(const struct sock *s)
{
	char state = s->user > 0 ? proc_state_of(s->user) : 0;

	if (state == 'Z') /* its first thread may have ended alone */
		return proc_threads(s->user) > 1;
	return state && state != 'X';
}

/*
 * The lock was not free in the ordinary way: this thread holds it and we are in
 * a signal handler, or its owner was killed inside. What that moves of a stream
 * may be half moved then, and cannot be trusted; but only its user moves it
 * (handover/user.c), and if that is this process, or one that lives, or all is
 * on TCP, the stream is whole.
 */
int sock_lock_odd(struct sock *s, int ret)
{
	if (ret != -EOWNERDEAD)
		return ret;
	if (s->user == sock_pid || !sock_by_ring(s) || user_lives(s))
		return 0;
	log_err("Error: process %d was killed inside socket inode %llu",
		s->user, (unsigned long long)s->id.inode);
	conn_on_lost(&s->conn, -ECONNRESET);
	return 0;
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
