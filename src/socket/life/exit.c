/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a process does for its connections when it ends. */

#include "socket/life/life.h"

void sock_exit(void)
{
	bridge_exit();
	sock_last_words();
}

static bool said; /* the last words */

void sock_last_words(void)
{
	if (!said)
		rdma_exit();
	sock_killed();
}

void sock_leave(bool leaves)
{
	if (leaves)
		bridge_settle();
	if (!row_opened())
		return;
	if (leaves)
		row_tell(false);
	page_leave(leaves);
}

void sock_killed(void)
{
	if (__atomic_exchange_n(&said, true, __ATOMIC_RELAXED) ||
	    (!row_opened() && config.disabled))
		return;
	row_tell(true);
	page_close();
}
