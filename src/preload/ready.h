/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_PRELOAD_READY_H
#define LIBSDP_PRELOAD_READY_H

/*
 * Readiness: epoll, poll, select with managed sockets among the descriptors.
 * The calls return a result or a negative errno.
 *
 * What the descriptor calls owe to this room (all in preload.h):
 *  - ep_born() for every new set.
 *  - ep_fd_closing() before every kernel close of a number that holds a sock
 *    or a set (close, dup2 target, close_range), in this order: table still
 *    filled, ep_fd_closing(), fdt_take_sock(), kernel close. A set is taken
 *    out of the table by ep_fd_closing() itself.
 *  - ep_dup() after dup(), dup2(), F_DUPFD of a number with ep_is_set(),
 *    managed numbers or not: a set may get managed members later.
 *  - ep_forget() before sock_forget(), while the table is still filled.
 *  - ep_forked() in every child, ep_parent_forked() where one is made.
 *  - ep_give_away() before a set itself leaves the process (SCM_RIGHTS, exec
 *    with the number open).
 */

#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>

#include "preload/preload.h"

int do_poll(struct pollfd *fds, nfds_t n, int ms);
int do_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts,
	     const sigset_t *mask);
int do_select(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *tv);
int do_pselect(int n, fd_set *r, fd_set *w, fd_set *x,
	       const struct timespec *ts, const sigset_t *mask);

int do_epoll_ctl(int ep, int op, int fd, struct epoll_event *ev);
int do_epoll_wait(int ep, struct epoll_event *ev, int max, int ms);
int do_epoll_pwait(int ep, struct epoll_event *ev, int max, int ms,
		   const sigset_t *mask);
int do_epoll_pwait2(int ep, struct epoll_event *ev, int max,
		    const struct timespec *ts, const sigset_t *mask);

/* A set was made; returns its argument, a failure too. */
int ep_born(int fd);
/* The number stays open, the sock behind it is forgotten (rule tcp). */
void ep_forget(int fd, struct sock *s);
/* A child is being made, or has been, that has our descriptors. */
void ep_parent_forked(void);
/* From now on code that libsdp does not see waits on the set `fd`. */
void ep_give_away(int fd);

#endif
