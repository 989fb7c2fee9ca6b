/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/probe.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/netlink.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/sys.h"

#define PATIENCE_MS 5000

struct call {
	const char *name;
	long nr;
	bool spare; /* the library knows what to do without */
	long arg[4]; /* such that nothing happens; the others are 0 */
};

static const struct timespec no_time;

#define CALL(name, ...)                   \
	{                                 \
#name, SYS_##name, false, \
		{                         \
			__VA_ARGS__       \
		}                         \
	}
#define SPARE(name, ...)                 \
	{                                \
#name, SYS_##name, true, \
		{                        \
			__VA_ARGS__      \
		}                        \
	}

/* Descriptors are -1, addresses null, lengths 0. */
static const struct call calls[] = {
	CALL(read, -1),
	CALL(write, -1),
	CALL(readv, -1),
	CALL(writev, -1),
	CALL(pread64, -1),
	SPARE(preadv2, -1),
	CALL(lseek, -1),
	CALL(close, -1),
	CALL(openat, -1),
	CALL(newfstatat, -1),
#ifdef SYS_fstat
	CALL(fstat, -1),
#endif
	CALL(fstatfs, -1),
	CALL(readlinkat, -1),
	CALL(unlinkat, -1),
	SPARE(linkat, -1, 0, -1),
	SPARE(renameat2, -1),
	CALL(mkdirat, -1),
	CALL(ftruncate, -1),
	CALL(fallocate, -1),
	CALL(getdents64, -1),
	CALL(fcntl, -1, F_GETFD),
	CALL(fcntl, -1, F_SETFD),
	CALL(fcntl, -1, F_GETFL),
	CALL(fcntl, -1, F_SETFL),
	CALL(fcntl, -1, F_DUPFD_CLOEXEC),
	SPARE(fcntl, -1, F_ADD_SEALS),
	SPARE(fcntl, -1, F_GET_SEALS),
	CALL(ioctl, -1),
	CALL(dup3, -1, -1),
	CALL(socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC),
	CALL(socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC),
	CALL(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC),
	SPARE(socket, AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG),
	SPARE(socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE),
	SPARE(socketpair, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC),
	CALL(bind, -1),
	CALL(connect, -1),
	CALL(listen, -1),
	CALL(accept4, -1),
	CALL(shutdown, -1),
	CALL(getsockname, -1),
	CALL(getpeername, -1),
	CALL(getsockopt, -1),
	CALL(setsockopt, -1),
	CALL(sendto, -1),
	CALL(recvfrom, -1),
	CALL(sendmsg, -1),
	CALL(recvmsg, -1),
	CALL(splice, -1),
	SPARE(vmsplice, -1),
	CALL(ppoll, 0, 0, (long)&no_time),
	CALL(epoll_create1, -1),
	CALL(epoll_ctl, -1),
	CALL(epoll_pwait, -1),
	SPARE(eventfd2, 0, -1),
	SPARE(memfd_create, 0, -1),
	CALL(mmap, 0),
	CALL(munmap, 1),
	CALL(mremap, 1),
	CALL(mprotect, 1),
	CALL(madvise, 1),
	SPARE(remap_file_pages, 1),
	SPARE(munlock, 1),
	SPARE(mincore, 1),
	SPARE(process_vm_readv, -1, 0, 0, 0),
	SPARE(process_vm_writev, -1, 0, 0, 0),
	SPARE(membarrier, 0),
	CALL(getrandom, 0),
	CALL(futex, 1, FUTEX_WAKE),
	CALL(rt_sigaction, -1),
	CALL(rt_sigprocmask, 0, 0, 0, 8),
	CALL(rt_sigpending, 0, 8),
	CALL(rt_sigtimedwait, 1),
	CALL(rt_sigqueueinfo, 0),
	CALL(rt_tgsigqueueinfo, 0),
	CALL(sigaltstack, 0),
	CALL(getpid, 0),
	CALL(gettid, 0),
	CALL(getuid, 0),
	CALL(geteuid, 0),
	CALL(sched_yield, 0),
	CALL(prlimit64, 0, RLIMIT_NOFILE),
	CALL(clock_gettime, -1),
	CALL(clock_nanosleep, -1),
	CALL(nanosleep, 1),
};

#define CALLS (sizeof(calls) / sizeof(calls[0]))

bool probe_call(size_t i, const char **name, bool *spare)
{
	/* of try_all(), and of starting a thread */
	static const char *const more[] = { "kill",   "tgkill", "clone",
					    "clone3", "exit",	"exit_group" };

	if (i >= CALLS + sizeof(more) / sizeof(more[0]))
		return false;
	*name = i < CALLS ? calls[i].name : more[i - CALLS];
	*spare = i < CALLS && calls[i].spare;
	return true;
}

struct shared {
	const char *at; /* what was tried last */
	bool through;
};

static void *nothing(void *arg)
{
	return arg;
}

static bool refused(long ret)
{
	return ret == -EPERM || ret == -EACCES || ret == -ENOSYS;
}

static bool try_one(const struct call *c)
{
	long ret = sys_call6(c->nr, c->arg[0], c->arg[1], c->arg[2], c->arg[3],
			     0, 0);

	if (c->nr == SYS_socket && ret >= 0)
		sys_close((int)ret);
	else if (c->nr == SYS_socket)
		return c->spare; /* a family that is not to be had */
	return c->spare || !refused(ret);
}

/* The child. Threads are made as the library makes its own. */
static _Noreturn void try_all(struct shared *sh)
{
	pthread_t thread;
	size_t i;

	for (i = 0; i < CALLS; i++) {
		sh->at = calls[i].name;
		if (!try_one(&calls[i]))
			_exit(0);
	}
	sh->at = "kill";
	if (sys_kill(sys_getpid(), 0))
		_exit(0);
	sh->at = "tgkill";
	if (sys_call3(SYS_tgkill, sys_getpid(), sys_gettid(), 0))
		_exit(0);
	sh->at = "clone";
	if (pthread_create(&thread, NULL, nothing, NULL) ||
	    pthread_join(thread, NULL))
		_exit(0);
	sh->at = "exit_group";
	sh->through = true;
	_exit(0);
}

/* False: it was killed, or is held up by what answers for the kernel. */
static bool ended_well(pid_t child)
{
	const struct timespec ms = { 0, 1000000 };
	int status, left;

	for (left = PATIENCE_MS; left; left--) {
		if (waitpid(child, &status, WNOHANG) == child)
			return WIFEXITED(status);
		nanosleep(&ms, NULL);
	}
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return false;
}

const char *probe_filter(void)
{
	const struct rlimit none = { 0, 0 };
	struct shared *sh;
	const char *what;
	bool well;
	pid_t child;

	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE,
		  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sh == MAP_FAILED)
		return "mmap";
	sh->at = "fork";
	child = fork();
	if (!child) {
		setrlimit(RLIMIT_CORE, &none);
		signal(SIGSYS, SIG_DFL);
		try_all(sh);
	}
	well = child > 0 && ended_well(child);
	what = well && sh->through ? NULL : sh->at;
	munmap(sh, sizeof(*sh));
	return what;
}
