/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_PROGRESS_PROGRESS_H
#define LIBSDP_SOCKET_PROGRESS_PROGRESS_H

#include "socket/handover/handover.h"

/* --- rdma_step.c ------------------------------------------------------- */

/* The service thread: an event of the module's descriptor, or time. */
void rdma_run(void);
/* ... looks after one sock. */
void rdma_serve(struct sock *s);

/* --- rdma_serve.c ------------------------------------------------------ */

/* The service thread: completions came; or time. */
void rdma_readable(struct sock *s);
bool rdma_called(struct sock *s); /* r->called: the peer says it is broken */
void rdma_look_after(struct sock *s);

/* The queue pair has ended; lock held. */
void rdma_down(struct sock *s, int error);
/* What broke is destroyed once no thread looks at it: is it? */
bool rdma_old_gone(struct sock *s);
/* Lock held, a fork: one that forks often is lifted the more seldom. */
void rdma_parts(struct sock *s);
void rdma_reunite(struct sock *s); /* rdma_parted(): no more, perhaps */

#endif
