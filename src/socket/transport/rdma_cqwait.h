/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_TRANSPORT_RDMA_EAR_H
#define LIBSDP_SOCKET_TRANSPORT_RDMA_EAR_H

/*
 * A thread that sleeps on the completions of one queue pair itself: see
 * rdma_cqwait.c. All with the lock held.
 */

#include <stdbool.h>
#include "socket/transport/transport.h"

/*
 * Can this thread be the only one that waits for what comes there? `room`: it
 * waits for room alone.
 */
bool rdma_cqwait_free(const struct sock *s, bool room);
/*
 * Then, before it arms and looks for the last time: a descriptor to sleep on
 * beside the wake-up socket. rdma_cqwait_leave() behind it, and once more
 * before the next sleep.
 */
int rdma_cqwait_take(struct sock *s, bool room);
void rdma_cqwait_arm(struct sock *s);
void rdma_cqwait_leave(struct sock *s);
/* Armed without a sleep there: the service thread is to hear of it. */
void rdma_cqwait_back(struct sock *s);

#endif
