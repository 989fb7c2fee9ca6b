/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_SERVICE_H
#define LIBSDP_SOCKET_CORE_SERVICE_H

/* The service thread and the registry of what it serves (service.c). */

#include "socket/core/core.h"

int service_start(void); /* 0, or negative: no thread here */
/* A thread of ours: no signals, a small stack. */
int service_spawn(pthread_t *thread, void *(*run)(void *arg));
uint64_t service_id(void);
void service_add(struct sock *s);
void service_del(struct sock *s);
bool service_running(void);
/* rdma_run() is called when `fd` is readable. */
int service_watch(int fd, void *tag);
/* `called` of its RDMA half is set when something comes on `fd`, its anchor. */
void service_anchor(struct sock *s, int fd, bool on);
void service_stop(void);
void service_poke(uint64_t id);
/* Our thread looks again at that time, clock_ns(), or before. */
void service_by(uint64_t ns);
/*
 * A segment was retired (RETIRED_HEAVY): it is unmapped within about 100 ms of
 * the last thread's leaving it, though nothing else is closed.
 */
void service_retired(void);
/*
 * Of the service thread, outside visits. reap(): frees what is due; true: it
 * has to look again before it may end. reap_ms(): when, `most` if there is
 * nothing.
 */
bool reap(uint64_t now);
int reap_ms(uint64_t now, int most);
/*
 * For service_each(), once a tick: idle for a whole one it gives its pages
 * back.
 */
void reap_trim(struct sock *s, void *arg);
void reap_forked(void);
/* Calls `fn` for every paired sock of this process. */
void service_each(void (*fn)(struct sock *s, void *arg), void *arg);
/* Is a thread just looking at it from there? Its memory must stay then. */
bool service_visits(const struct sock *s);

#endif
