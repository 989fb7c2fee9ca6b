/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_PRELOAD_PRELOAD_H
#define LIBSDP_PRELOAD_PRELOAD_H

/*
 * What the files of the preload room share: the descriptor table, the real
 * calls, and the three tiers of names: `real_X` is libc's call (through
 * RTLD_NEXT), `do_X` is our meaning of it, and the exported X is one line.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "socket/sock.h"

/* Exported from the library; everything else is hidden. */
#define SDP_EXPORT __attribute__((visibility("default")))

/* --- fdtable.c --------------------------------------------------------- */

/*
 * Two-level table, number -> entry. The first level is static, leaves are
 * made when a managed number first falls into them and are never freed: a
 * look-up is lock-free, two loads for managed processes and one load and one
 * branch (fdt_any) while no descriptor is managed at all.
 */
struct epset; /* epoll.c */
struct fdent {
	struct sock *sock; /* a managed TCP socket, or NULL */
	struct epset *set; /* an epoll set with managed members, or NULL */
};

#define FDT_LEAF 256
#define FDT_ROOT 4096 /* numbers up to 1,048,575 */
extern struct fdent *fdt_root[FDT_ROOT];
extern uint32_t fdt_any;

static inline struct fdent *fdt_at(int fd)
{
	struct fdent *leaf;

	if (!__atomic_load_n(&fdt_any, __ATOMIC_RELAXED) ||
	    (unsigned int)fd >= FDT_ROOT * FDT_LEAF)
		return NULL;
	leaf = __atomic_load_n(&fdt_root[(unsigned int)fd / FDT_LEAF],
			       __ATOMIC_ACQUIRE);
	return leaf ? &leaf[(unsigned int)fd % FDT_LEAF] : NULL;
}

static inline struct sock *fdt_sock(int fd)
{
	struct fdent *e = fdt_at(fd);

	return e ? __atomic_load_n(&e->sock, __ATOMIC_ACQUIRE) : NULL;
}

static inline struct epset *fdt_set(int fd)
{
	struct fdent *e = fdt_at(fd);

	return e ? __atomic_load_n(&e->set, __ATOMIC_ACQUIRE) : NULL;
}

/* Put a sock / set at a number (the entry's old content must be gone). */
int fdt_put_sock(int fd, struct sock *s);
int fdt_put_set(int fd, struct epset *set);
/* Take it out; returns what was there. Atomic against other takers. */
struct sock *fdt_take_sock(int fd);
struct epset *fdt_take_set(int fd);
/* Highest managed number so far, for walks. */
int fdt_top(void);
/* Calls in a vfork child run in the parent's memory: tables must rest. */
bool fdt_is_owner(void);

/* Turn a negative errno into -1 and errno. */
static inline long ret_errno(long r)
{
	if (r < 0) {
		errno = (int)-r;
		return -1;
	}
	return r;
}

/* --- epoll.c, poll.c --------------------------------------------------- */

/* close(), dup2() target: `fd` is about to go (before the kernel's close).
 * Registrations of a socket die when its last number in this process goes. */
void ep_fd_closing(int fd, struct sock *s, bool last_number);
void ep_dup(int from, int to); /* a set got one more number */
void ep_changed(struct sock *s); /* sock_hooks.changed */
void ep_risen(struct sock *s); /* sock_hooks.risen */
void ep_forked(void); /* in the child */
bool ep_is_set(int fd);

#endif
