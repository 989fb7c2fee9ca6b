/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a thread is counted asleep, and counted out however its sleep ends. */

#include "socket/wait/wait.h"

uint64_t wait_deadline(int64_t timeo)
{
	return timeo > 0 ? clock_ns() + (uint64_t)timeo : UINT64_MAX;
}

void wait_away(struct sleep *in, struct sock *s, bool writer)
{
	struct inside *noted;

	sleeper_in(s, &in->sleeper, writer);
	in->s = s;
	PROBE3(sleep, s->id.inode, writer, 0);
	noted = inside_begin(INSIDE_SLEEP, in);
	if (likely(noted != NULL)) {
		noted->sleeper = in->sleeper;
		inside_set(noted, s);
	}
	sock_unlock(s);
}

void wait_back(struct sleep *in)
{
	lock_take(&in->s->lock);
	sleeper_out(in->s, &in->sleeper);
	PROBE3(wake, in->s->id.inode, in->sleeper.writer, 0);
	in->s = NULL;
	inside_end(in);
}

/* It was the last, perhaps, of a closed socket. */
void wait_cancelled(struct sleep *in)
{
	if (!in->s)
		return;
	inside_end(in);
	lock_take(&in->s->lock);
	zc_abandon(in->s);
	zc_abandon_sink(in->s);
	rdma_cqwait_leave(in->s);
	sleeper_out(in->s, &in->sleeper);
	sock_unlock(in->s);
	if (in->s->waits.orphan_fd >= 0)
		reports.left(in->s);
}

/*
 * A sleep with a time limit always ends with EINTR, a blocking send on TCP is
 * restarted after a handler with SA_RESTART. Which handler ran can be known
 * only where signals were pending; else the send goes on when every handler of
 * the process restarts.
 */
bool wait_restarts(uint64_t signals)
{
	struct {
		void *handler;
		unsigned long flags;
		void *restorer;
		unsigned long mask;
	} act;
	int sig;

	for (sig = 1; sig < 65; sig++) {
		if (!(signals & 1ull << (sig - 1)) ||
		    sys_call6(SYS_rt_sigaction, sig, 0, (long)&act, 8, 0, 0))
			continue;
		if (act.handler != (void *)SIG_DFL &&
		    act.handler != (void *)SIG_IGN && !(act.flags & SA_RESTART))
			return false;
	}
	return true;
}
