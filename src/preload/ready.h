/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_PRELOAD_READY_H
#define LIBSDP_PRELOAD_READY_H

/*
 * poll and select with managed sockets among the descriptors. The calls return
 * a result or a negative errno.
 */

#include <poll.h>
#include <signal.h>
#include <sys/select.h>
#include <time.h>

#include "preload/preload.h"

int do_poll(struct pollfd *fds, nfds_t n, int ms);
int do_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts,
	     const sigset_t *mask);
int do_select(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *tv);
int do_pselect(int n, fd_set *r, fd_set *w, fd_set *x,
	       const struct timespec *ts, const sigset_t *mask);

#endif
