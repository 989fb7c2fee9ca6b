/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_PRELOAD_FD_FDTABLE_H
#define LIBSDP_PRELOAD_FD_FDTABLE_H

/*
 * The descriptor table: what a number stands for, and how a call enters it. The
 * lowest part of the preload room.
 */

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/foreign.h"
#include "base/guard.h"
#include "socket/sock.h"

/* Exported from the library; everything else is hidden. */
#define SDP_EXPORT __attribute__((visibility("default")))

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Turn a negative errno into -1 and errno. */
static inline long ret_errno(long r)
{
	if (r < 0) {
		errno = (int)-r;
		return -1;
	}
	return r;
}

/*
 * Two-level table, number -> entry. The first level is static, leaves are
 * made when a managed number first falls into them and are never freed: a
 * look-up is lock-free, two loads for managed processes and one load and one
 * branch (fdt_any) while no descriptor is managed at all.
 *
 * Entries change by atomic exchange. A thread that puts or takes one holds
 * fdt_lock as well, so that fork() sees a table that stands still.
 */
struct epset; /* preload/epoll */
struct fdent {
	struct sock *sock; /* a managed TCP socket, or NULL */
	struct epset *set; /* an epoll set with managed members, or NULL */
	uint32_t shared; /* the sock has (had) another number here: dup; then */
	int next, prev; /* atomic; a ring of them, with the lock of the table */
	uint32_t ever; /* atomic; the number was a managed socket's once */
	uint32_t going; /* atomic; the thread that takes the number from sock, */
};

#define FDT_REPLACED 0x80000000u /* to give it to another file at once */

#define FDT_LEAF 256
#define FDT_ROOT 4096 /* numbers up to 1,048,575 */
extern struct fdent *fdt_root[FDT_ROOT];
extern uint32_t fdt_any; /* managed numbers */
extern bool fdt_ever; /* there has been one */

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

/* Is there a sock, is it this one, is there a set? Nothing to be used. */
static inline bool fdt_has_sock(int fd)
{
	struct fdent *e = fdt_at(fd);

	return e && __atomic_load_n(&e->sock, __ATOMIC_RELAXED);
}

/* Must a call by it be entered, though there may be none (any more)? */
static inline bool fdt_known(int fd)
{
	struct fdent *e = fdt_at(fd);

	return e && __atomic_load_n(&e->ever, __ATOMIC_RELAXED);
}

static inline bool fdt_is(int fd, const struct sock *s)
{
	struct fdent *e = fdt_at(fd);

	return e && __atomic_load_n(&e->sock, __ATOMIC_ACQUIRE) == s;
}

static inline bool fdt_is_set(int fd, const struct epset *set)
{
	struct fdent *e = fdt_at(fd);

	return e && __atomic_load_n(&e->set, __ATOMIC_ACQUIRE) == set;
}

static inline bool fdt_has_set(int fd)
{
	struct fdent *e = fdt_at(fd);

	return e && __atomic_load_n(&e->set, __ATOMIC_RELAXED);
}

/*
 * What a number stands for, to be used by a thread that is inside (guard.h),
 * which `in` is the proof of, until it is not.
 */
static inline struct sock *fdt_sock(const struct guarded *in, int fd)
{
	struct fdent *e = fdt_at(fd);

	(void)in;
	return e ? __atomic_load_n(&e->sock, __ATOMIC_ACQUIRE) : NULL;
}

static inline struct epset *fdt_set(const struct guarded *in, int fd)
{
	struct fdent *e = fdt_at(fd);

	(void)in;
	return e ? __atomic_load_n(&e->set, __ATOMIC_ACQUIRE) : NULL;
}

/*
 * A call by a number: the sock behind it, which stays what it is until the end
 * of the block, even if it is closed; NULL: the number is the kernel's alone,
 * and the thread is not inside, so that the real call may sleep. A number that
 * is just being closed has one or the other, but is not left half way.
 */
struct entered {
	struct guard *g; /* told; NULL: the number never concerned us */
	struct sock *sock;
	int fd;
	bool nested; /* then there is something to go back to: */
	struct guarded in;
	struct guard_call was;
};

/* All but the plain case; the call's frame. */
void fdt_begin_nested(struct entered *e, int fd, uintptr_t frame);
void fdt_leave_nested(struct entered *e);
/* The number is free, or about to be: looks again. */
void fdt_enter_slow(struct entered *e);

/*
 * Told first, then looked up (guard_elsewhere()), and again from inside: what
 * the first look found may be gone by then. `what` is NULL between calls.
 */
static inline __attribute__((always_inline)) void fdt_begin(struct entered *e,
							    int fd)
{
	struct fdent *ent = fdt_at(fd);
	struct guard *g;

	e->g = NULL;
	e->sock = NULL;
	if (likely(!ent || !__atomic_load_n(&ent->ever, __ATOMIC_RELAXED)))
		return;
	g = guard_own;
	if (unlikely(!g || !guard_plain(g))) {
		fdt_begin_nested(e, fd, (uintptr_t)__builtin_frame_address(0));
		return;
	}
	e->g = g;
	e->fd = fd;
	e->nested = false;
	guard_call_new(g, fd, (uintptr_t)__builtin_frame_address(0));
	if (!__atomic_load_n(&ent->sock, __ATOMIC_ACQUIRE))
		return;
	guard_in_plain(g, (uintptr_t)__builtin_frame_address(0));
	e->sock = __atomic_load_n(&ent->sock, __ATOMIC_ACQUIRE);
	guard_call_on(g, e->sock);
	if (unlikely(!e->sock ||
		     __atomic_load_n(&ent->going, __ATOMIC_RELAXED)))
		fdt_enter_slow(e);
}

static inline void fdt_leave(struct entered *e)
{
	struct guard *g = e->g;

	if (likely(!g))
		return;
	e->g = NULL;
	e->sock = NULL;
	if (unlikely(e->nested)) {
		e->g = g;
		fdt_leave_nested(e);
		return;
	}
	guard_call_end(g, GUARD_NO_CALL);
	guard_leave_by(g, 0); /* it may have been outside: no harm */
}

#define ENTER(name, number)                                      \
	struct entered name __attribute__((cleanup(fdt_leave))); \
	fdt_begin(&name, number)

/*
 * What the table calls in rooms above it; set once, before anything is put
 * into it.
 */
struct fdt_above {
	/* ep_fd_closing(), ep_dup() */
	void (*closing)(int fd, struct sock *s, bool last_number);
	void (*dup)(int from, int to);
	void (*child)(void); /* this is a child that was not announced */
	void (*parent_forked)(void); /* this process has made a child */
};
void fdt_setup(const struct fdt_above *from);
/* Put a sock / set at a number (the entry's old content must be gone). */
int fdt_put_sock(int fd, struct sock *s);
int fdt_put_set(int fd, struct epset *set);
/*
 * This thread takes the number `fd` from s (in two steps: the kernel's and the
 * table's), `replaced`: by a dup2(). False: another one does, or has done so.
 * From here on calls that come by it wait for the second step, or for the
 * kernel's where the number is closed, but those of this thread's handlers.
 */
bool fdt_go(int fd, const struct sock *s, bool replaced);
void fdt_stay(int fd, const struct sock *s); /* it was not done after all */
/* The second step. False: the number is another's already, by a dup2(). */
bool fdt_gone(int fd, const struct sock *s);
/* Is it s, and not about to be something else? (sock_hooks.has) */
bool fdt_has(int fd, const struct sock *s);
/*
 * A thread that is inside waits for what fdt_go() has begun at `fd`. True: the
 * kernel's step is done, and the number is free. False: s may be no more,
 * look again.
 */
bool fdt_await(int fd, const struct sock *s);
/* sock_hooks.elsewhere */
bool fdt_elsewhere(const struct sock *s, int fd);
/* Take it out; returns what was there. Atomic against other takers. */
struct sock *fdt_take_sock(int fd);
struct epset *fdt_take_set(int fd);
/* Highest managed number so far, for walks. */
int fdt_top(void);
/* The first managed number from `fd` on, or -1. */
int fdt_next(int fd);
/* The other number `to` now means what `from` means (after the dup). */
void fdt_dup(int from, int to);
/* Number of this process whose sock is `s`, other than `but`; -1: none. */
int fdt_other(const struct sock *s, int but);
/* sock_hooks.another: one that is not about to be something else. */
int fdt_another(const struct sock *s, int but);
/* sock_hooks.numbers */
void fdt_numbers(const struct sock *s, void (*fn)(int fd, void *arg),
		 void *arg);
/* Is there a lower one than its number `fd`? For walks. */
bool fdt_lower(const struct sock *s, int fd);
/* sock_hooks.each */
void fdt_each(void (*fn)(struct sock *s, int fd, void *arg), void *arg);
/* sock_hooks.by_inode */
struct sock *fdt_by_inode(uint64_t inode, int *fd); /* caller inside */
/*
 * The kernel has just given out the number `fd`: whatever the table believes
 * about it is the remains of a close that was not seen.
 */
void fdt_forget_slow(int fd);
static inline void fdt_forget(int fd)
{
	struct fdent *e = fdt_at(fd);

	if (e && (__atomic_load_n(&e->sock, __ATOMIC_RELAXED) ||
		  __atomic_load_n(&e->set, __ATOMIC_RELAXED)))
		fdt_forget_slow(fd);
}
/*
 * A call on the sock of `e` said `ret`. True: the number is not the socket it
 * was when the entry was made; the entry is another one, or gone, and the
 * caller looks the number up again.
 */
bool fdt_stale_slow(struct entered *e);
static inline bool fdt_stale(struct entered *e, long ret)
{
	return __builtin_expect(ret == -EBADF || ret == -ENOTSOCK, 0) &&
	       fdt_stale_slow(e);
}
/* As fdt_begin(), after a look at the inode, for calls that are rare. */
void fdt_begin_checked(struct entered *e, int fd);
#define ENTER_CHECKED(name, number)                              \
	struct entered name __attribute__((cleanup(fdt_leave))); \
	fdt_begin_checked(&name, number)

/*
 * The whole of an exported call: `call`, a count or a negative errno, on
 * e.sock, and again where the number has become another socket meanwhile;
 * `real` where it is the kernel's. FDT_ASK: 1 also says that it is.
 */
#define FDT_CALL_(number, call, real, ask)                        \
	for (;;) {                                                \
		ENTER(e, number);                                 \
		long ret_;                                        \
                                                                  \
		if (likely(!e.sock))                              \
			return real;                              \
		ret_ = call;                                      \
		if ((ask) && ret_ == 1)                           \
			return real;                              \
		if (likely(ret_ >= 0) || !fdt_stale(&e, ret_))    \
			return (__typeof__(real))ret_errno(ret_); \
	}
#define FDT_CALL(number, call, real) FDT_CALL_(number, call, real, false)
#define FDT_ASK(number, call, real)  FDT_CALL_(number, call, real, true)

/* Hold the table still (fork); the child frees it by fdt_forked(). */
void fdt_freeze(void);
void fdt_thaw(void);
void fdt_forked(void);
/*
 * Does the table describe the calling process? No in the child of vfork()
 * and clone(CLONE_VM): it runs in our memory with descriptors of its own, so
 * the table must rest. In the child of a fork that was not seen: does what
 * fork() would have done, then yes.
 *
 * fdt_vforked is raised before such a child is made and seen by both; the
 * first that asks afterwards finds out which of the two it is.
 */
extern __thread int fdt_vforked __attribute__((tls_model("initial-exec")));
bool fdt_is_owner(void);

/* --- real.c ------------------------------------------------------------- */

/* LIBSDP_DISABLE, AT_SECURE, a filter of system calls: manage nothing */
extern bool preload_off;

#endif
