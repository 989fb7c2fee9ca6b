/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * New processes.
 *
 * What fork() needs here is done by a set of handlers like those of
 * pthread_atfork(), registered before any other: so its first part is the last
 * thing that happens before the process is copied, and its second part the
 * first thing after it. The program's own handlers run outside of both, with no
 * lock of ours held, and may use sockets.
 *
 * vfork() raises a flag and jumps on, since its child may not return through
 * a frame of ours (vfork.c). The child runs in our memory with descriptors of
 * its own; fdt_is_owner() tells the calls that would change the table, and exec
 * looks at the kernel's descriptors instead of the table's (exec.c).
 */
#include "preload/fd/real.h"

#include <linux/sched.h>
#include <sched.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/sys.h"
#include "preload/fd/asleep.h"
#include "preload/preload.h"
#include "preload/ready.h"

extern void *__dso_handle __attribute__((visibility("hidden")));

static int child_of; /* process id for which proc_child() has run */

/* A fork by this thread, from one of our calls on. */
struct turn {
	bool expected; /* the handlers have not run yet */
	bool held; /* between the two parts */
	int32_t birth; /* the child's name until its process id is known */
	struct guarded in; /* as long as it is held: no handler finds locks */
};
static __thread struct turn turn __attribute__((tls_model("initial-exec")));

/* --- the parts ----------------------------------------------------------- */

/* Between hosts, or with more processes than can be counted. */
static void wait_each(void)
{
	uint64_t until = sock_fallback_limit();
	struct sock *s;
	int fd;

	for (fd = fdt_next(0); fd >= 0; fd = fdt_next(fd + 1)) {
		s = fdt_sock(&turn.in, fd);
		if (s && fdt_has(fd, s))
			sock_fork_wait(s, fd, until);
	}
}

static void before(void)
{
	bool wait = false;
	struct sock *s;
	int fd;

	if (!fdt_ever || !fdt_is_owner())
		return;
	guarded_begin(&turn.in);
	guard_stays();
	ep_parent_forked();
	fdt_freeze();
	turn.held = true;
	turn.birth = sock_birth();
	for (fd = fdt_next(0); fd >= 0; fd = fdt_next(fd + 1)) {
		s = fdt_sock(&turn.in, fd);
		if (s && fdt_has(fd, s))
			wait |= sock_fork_before(s, fd, turn.birth);
	}
	if (unlikely(wait))
		wait_each();
	sock_fork_hold();
}

static void in_parent(void)
{
	if (!turn.held)
		return;
	turn.held = false;
	sock_fork_resume();
	fdt_thaw();
	guarded_end(&turn.in);
}

static void in_child(void)
{
	if (!turn.held) {
		sock_renamed(); /* its sockets, if any, are its first */
		return;
	}
	turn.held = false;
	proc_child();
	guarded_end(&turn.in);
}

/* `pid`: what fork() said. The child may have given its name before. */
static void named(pid_t pid)
{
	struct sock *s;
	GUARDED_LATER(in);
	int fd;

	if (!turn.birth)
		return;
	guarded_begin(&in);
	fdt_freeze();
	for (fd = fdt_next(0); fd >= 0; fd = fdt_next(fd + 1)) {
		s = fdt_sock(&in, fd);
		if (s)
			sock_fork_parent(s, turn.birth, pid);
	}
	fdt_thaw();
}

void proc_child(void)
{
	struct sock *s;
	GUARDED_LATER(in);
	int fd;

	fdt_forked();
	if (child_of == sys_getpid())
		return;
	child_of = sys_getpid();
	log_forked();
	lock_forked();
	guard_forked();
	guarded_begin(&in);
	sigaction_forked();
	sock_forked();
	asleep_forked();
	ep_forked();
	sockets_forked();
	for (fd = fdt_next(0); fd >= 0; fd = fdt_next(fd + 1)) {
		s = fdt_sock(&in, fd);
		if (!s || fdt_lower(s, fd) ||
		    (fdt_has(fd, s) && sock_fork_child(s, turn.birth)))
			continue; /* or it was just being closed */
		ep_forget(fd, s);
		fdt_take_sock(fd);
	}
}

/* --- handlers ------------------------------------------------------------ */

static void at_prepare(void)
{
	if (!turn.expected)
		return;
	turn.expected = false;
	before();
}

static bool handlers; /* are registered */

/*
 * Before all others. Where there are none in this libc the parts are done
 * around fork().
 */
void fork_handlers(void)
{
	if (__atomic_exchange_n(&handlers, true, __ATOMIC_ACQ_REL))
		return;
	if (real___register_atfork(at_prepare, in_parent, in_child,
				   &__dso_handle))
		__atomic_store_n(&handlers, false, __ATOMIC_RELEASE);
}

int do___register_atfork(void (*prepare)(void), void (*parent)(void),
			 void (*child)(void), void *dso)
{
	fork_handlers();
	return real___register_atfork(prepare, parent, child, dso);
}

/* --- fork ---------------------------------------------------------------- */

/* One of these, and the child's process id or what it said instead. */
struct way {
	pid_t (*fork)(void);
	int *master; /* of forkpty() */
	char *name;
	const struct termios *mode;
	const struct winsize *size;
};

static pid_t go(const struct way *w)
{
	if (w->fork)
		return w->fork();
	return real_forkpty(w->master, w->name, w->mode, w->size);
}

/*
 * Whose numbers fork() copies: the child of vfork() forks its own. The
 * program's handlers may fork, too.
 */
static pid_t fork_by(const struct way *w, bool asks_handlers)
{
	const struct turn was = turn;
	pid_t pid;
	int keep;

	if (preload_off || (fdt_ever && !fdt_is_owner())) {
		pid = go(w);
		if (!pid)
			sigaction_forked();
		return pid;
	}
	asks_handlers = asks_handlers && handlers;
	turn = (struct turn){ .expected = asks_handlers };
	if (!asks_handlers)
		before();
	pid = go(w);
	keep = errno;
	if (!pid) {
		sigaction_forked();
		in_child();
	} else {
		in_parent();
		named(pid);
	}
	turn = was;
	errno = keep;
	return pid;
}

pid_t do_fork(void)
{
	return fork_by(&(struct way){ .fork = real_fork }, true);
}

/* Without handlers, by its definition. */
pid_t do__Fork(void)
{
	return fork_by(&(struct way){ .fork = real__Fork }, false);
}

int do_forkpty(int *master, char *name, const struct termios *mode,
	       const struct winsize *size)
{
	struct way w = { NULL, master, name, mode, size };

	return fork_by(&w, true);
}

/* --- clone --------------------------------------------------------------- */

struct start {
	int (*fn)(void *);
	void *arg;
	struct turn turn;
};

/* In the child's copy of the caller's memory. */
static int clone_start(void *arg)
{
	const struct start *st = arg;

	turn = st->turn; /* thread-locals may be others */
	in_child();
	turn = (struct turn){ 0 };
	return st->fn(st->arg);
}

/* The child shares our memory, not our descriptors, maybe not our TLS. */
static int clone_start_shared(void *arg)
{
	const struct start st = *(const struct start *)arg;

	fdt_vforked = 1;
	return st.fn(st.arg);
}

/*
 * Without CLONE_VM it is a fork that starts elsewhere. With it, a thread (no
 * concern of ours) or a child like vfork()'s, which may outlive this frame:
 * what it starts with lies on its own stack.
 */
int do_clone(int (*fn)(void *), void *stack, int flags, void *arg, void *ptid,
	     void *tls, void *ctid)
{
	struct start *st = stack, here = { .fn = fn, .arg = arg };
	const struct turn was = turn;
	int pid, keep;

	if (!fdt_ever || flags & CLONE_THREAD || !fn || !stack ||
	    !fdt_is_owner())
		return real_clone(fn, stack, flags, arg, ptid, tls, ctid);
	if (flags & CLONE_VM) {
		*--st = here;
		ep_parent_forked();
		fdt_vforked = 1;
		return real_clone(clone_start_shared, st, flags, st, ptid, tls,
				  ctid);
	}
	/* one table cannot serve two; holders are counted by process id */
	if (flags & (CLONE_FILES | CLONE_NEWPID))
		sock_fallback_all(WHY_FD_SHARED);
	turn = (struct turn){ 0 };
	before();
	here.turn = turn;
	pid = real_clone(clone_start, stack, flags, &here, ptid, tls, ctid);
	keep = errno;
	in_parent();
	named(pid);
	turn = was;
	errno = keep;
	return pid;
}
