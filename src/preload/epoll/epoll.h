/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_PRELOAD_EPOLL_EPOLL_H
#define LIBSDP_PRELOAD_EPOLL_EPOLL_H

/*
 * epoll sets with managed sockets among their members. The calls return a
 * result or a negative errno.
 *
 * What the descriptor calls owe to this room:
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

#include <signal.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <time.h>

#include "socket/sock.h"

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
/* close(), dup2() target: `fd` is about to go (before the kernel's close).
 * Registrations of a socket die when its last number in this process goes. */
void ep_fd_closing(int fd, struct sock *s, bool last_number);
void ep_dup(int from, int to); /* a set got one more number */
void ep_changed(struct sock *s); /* sock_hooks.changed */
void ep_risen(struct sock *s); /* sock_hooks.risen */
void ep_forked(void); /* in the child */
bool ep_is_set(int fd);

#endif
