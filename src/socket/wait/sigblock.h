/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_WAIT_SIGBLOCK_H
#define LIBSDP_SOCKET_WAIT_SIGBLOCK_H

/*
 * While the peer may read or write the memory of a call, this thread's signals
 * are blocked: a handler could leave the call by a jump, which is not seen. A
 * signalfd ends the sleep instead; the memory comes back, and then the handlers
 * run inside a system call that they end, as they would have ended the
 * program's. Not put off is what the thread's own code brings about, nor
 * libc's own two signals, whose handlers go back or unwind.
 *
 * The kernel gives a signal for the process to the first thread, if that lets
 * it in. So other threads leave it to that one (hold.h); and the first itself,
 * where there are others that it would be given to instead, lends nothing
 * unasked.
 */

#include <stdbool.h>

#include "base/hold.h"
#include "socket/wait/wait.h"

struct sigblock {
	struct hold hold; /* the program's mask */
	int fd; /* readable: something is pending; -1: nothing is blocked */
};

/* False: it cannot be done (no descriptor), or had better not be. */
bool sigblock_begin(struct sigblock *h);
/* Is there something pending that the program's mask lets in? */
bool sigblock_pending(const struct sigblock *h);
/*
 * Something is pending: handlers run now. -EINTR, or 0 if there was none;
 * *restarts: the kernel would have gone on behind them (SA_RESTART).
 */
int sigblock_heed(struct sock *s, struct sigblock *h, bool *restarts);
/* What is pending is delivered after this. The lock is held again at exit. */
void sigblock_end(struct sock *s, struct sigblock *h);
/* The same where the lock stays as it is, and for threads that unwind. */
void sigblock_drop(struct sigblock *h);
/* Let go of a number (fd_move()); false: none has it. */
bool sigblock_vacate(int fd);
/* In a forked child. */
void sigblock_forked(void);

#endif
