/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * New processes and the end of this one.
 *
 * vfork() raises a flag and jumps on, since its child may not return through
 * a frame of ours. The child runs in our memory with descriptors of its own;
 * fdt_is_owner() tells the calls that would change the table, and exec looks
 * at the kernel's descriptors instead of the table's (exec.c).
 */
#include "preload/real.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/sys.h"
#include "preload/preload.h"
#include "preload/ready.h"

static int child_of; /* process id for which proc_child() has run */

/* --- fork -------------------------------------------------------------- */

static void fork_before(void)
{
	struct sock *s;
	int fd;

	fdt_freeze();
	for (fd = fdt_next(0); fd >= 0; fd = fdt_next(fd + 1)) {
		s = fdt_sock(fd);
		if (s)
			sock_fork_before(s, fd);
	}
	sock_fork_hold();
}

static void fork_parent(pid_t pid)
{
	struct sock *s;
	int fd;

	sock_fork_resume();
	for (fd = fdt_next(0); fd >= 0; fd = fdt_next(fd + 1)) {
		s = fdt_sock(fd);
		if (s)
			sock_fork_parent(s, pid);
	}
	fdt_thaw();
}

/* Has the walk met the sock at a lower number (dup)? */
static bool seen_before(const struct sock *s, int fd)
{
	const struct fdent *e = fdt_at(fd);
	int n;

	if (!e || !e->shared)
		return false;
	for (n = fdt_next(0); n >= 0 && n < fd; n = fdt_next(n + 1))
		if (fdt_sock(n) == s)
			return true;
	return false;
}

void proc_child(void)
{
	struct sock *s;
	int fd;

	fdt_forked();
	if (child_of == sys_getpid())
		return;
	child_of = sys_getpid();
	log_forked();
	lock_forked();
	sock_forked();
	ep_forked();
	for (fd = fdt_next(0); fd >= 0; fd = fdt_next(fd + 1)) {
		s = fdt_sock(fd);
		if (!s || seen_before(s, fd) || sock_fork_child(s))
			continue;
		ep_forget(fd, s);
		fdt_take_sock(fd);
	}
}

/* Whose numbers fork() copies: the child of vfork() forks its own. */
static pid_t fork_by(pid_t (*real)(void))
{
	pid_t pid;
	int keep;

	if (!fdt_ever || !fdt_is_owner())
		return real();
	fork_before();
	pid = real();
	keep = errno;
	if (!pid)
		proc_child();
	else
		fork_parent(pid);
	errno = keep;
	return pid;
}

pid_t do_fork(void)
{
	return fork_by(real_fork);
}

pid_t do__Fork(void)
{
	return fork_by(real__Fork);
}

/* --- clone ------------------------------------------------------------- */

struct start {
	int (*fn)(void *);
	void *arg;
};

/* In the child's copy of the caller's memory. */
static int clone_start(void *arg)
{
	const struct start *st = arg;

	proc_child();
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
	struct start *st = stack, here = { fn, arg };
	int pid, keep;

	if (!fdt_ever || flags & CLONE_THREAD || !fn || !stack ||
	    !fdt_is_owner())
		return real_clone(fn, stack, flags, arg, ptid, tls, ctid);
	if (flags & CLONE_VM) {
		*--st = here;
		fdt_vforked = 1;
		return real_clone(clone_start_shared, st, flags, st, ptid, tls,
				  ctid);
	}
	/* one table cannot serve two; holders are counted by process id */
	if (flags & (CLONE_FILES | CLONE_NEWPID))
		sock_home_all(WHY_SHARED);
	fork_before();
	pid = real_clone(clone_start, stack, flags, &here, ptid, tls, ctid);
	keep = errno;
	fork_parent(pid);
	errno = keep;
	return pid;
}

/* fork, setsid and the rest happen inside libc: done here, by our calls. */
int do_daemon(int nochdir, int noclose)
{
	pid_t pid;
	int fd;

	if (!fdt_ever)
		return real_daemon(nochdir, noclose);
	pid = do_fork();
	if (pid < 0)
		return -1;
	if (pid)
		do__exit(0);
	if (setsid() < 0)
		return -1;
	if (!nochdir && chdir("/")) {
		/* libc does not mind either */
	}
	if (noclose)
		return 0;
	fd = do_open("/dev/null", O_RDWR, 0);
	if (fd < 0)
		return -1;
	do_dup2(fd, STDIN_FILENO);
	do_dup2(fd, STDOUT_FILENO);
	do_dup2(fd, STDERR_FILENO);
	if (fd > STDERR_FILENO)
		do_close(fd);
	return 0;
}

/* --- the end ----------------------------------------------------------- */

void do__exit(int status)
{
	if (!preload_off && fdt_is_owner())
		sock_exit();
	for (;;)
		real__exit(status);
}

/* --- limits ------------------------------------------------------------ */

/*
 * Programs that forbid themselves new threads (haproxy) do so when all of
 * theirs run: the library's, which may be needed later, has to run by then.
 */
static void limiting(__rlimit_resource_t res, const struct rlimit *rl)
{
	if (unlikely(res == RLIMIT_NPROC && rl) && fdt_ever && fdt_is_owner())
		sock_serve_always();
}

int do_setrlimit(__rlimit_resource_t res, const struct rlimit *rl)
{
	limiting(res, rl);
	return real_setrlimit(res, rl);
}

int do_prlimit(pid_t pid, __rlimit_resource_t res, const struct rlimit *rl,
	       struct rlimit *old)
{
	if (!pid || pid == sys_getpid())
		limiting(res, rl);
	return real_prlimit(pid, res, rl, old);
}
