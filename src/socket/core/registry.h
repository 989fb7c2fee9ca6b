/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_REGISTRY_H
#define LIBSDP_SOCKET_CORE_REGISTRY_H

/*
 * The registry as its background thread sees it; service.h has what others
 * may ask.
 */

#include <pthread.h>
#include "socket/core/core.h"

#define REGISTRY_NONE	UINT32_MAX
#define REGISTRY_ANCHOR ((uintptr_t)1) /* in an event's word, beside the sock */

struct registry {
	struct lock lock;
	struct sock **socks;
	uint32_t count, room;
	uint64_t id;
	int dgram, epoll;
	pthread_t thread;
	/* atomic: when it wakes; UINT64_MAX: not known yet, 0: no thread */
	uint64_t due;
	bool running, failed, quit, stays;
};

extern struct registry registry;

/*
 * Note v stands at s from now on, or at the i-th, which is the answer; NULL:
 * there is none. Note 0 is the background thread's.
 */
struct sock *registry_visit(uint32_t v, struct sock *s, uint32_t i);
void registry_walk(uint32_t v, void (*fn)(struct sock *s, void *arg),
		   void *arg);
void registry_close(void); /* its sockets; no thread can be told any more */
void registry_forked(void);

#endif
