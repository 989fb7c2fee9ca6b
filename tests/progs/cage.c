/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * cage - runs a program with less than it might expect; static, so that what
 * is preloaded into the program is not preloaded here
 *
 * cage [-r NAME=N]... [-a] [-f CALL]... [-k CALL]... [-e NAME=VALUE]...
 *	PROGRAM [ARG]...
 *	-r nofile=20	both resource limits of that name
 *	-f memfd_create	the system call fails with EPERM, for good
 *	-f unix		so does socket(AF_UNIX); `netlink` likewise
 *	-k kill		the process is killed for it,
 *	-x kill		the thread, or
 *	-t kill		it is sent SIGSYS
 *	-a		a filter that allows everything
 *	-e LD_PRELOAD=x	the program's environment, not this one's
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#define BY_NAME(name)                \
	{                            \
#name, SYS_##name, 0 \
	}

static const struct {
	const char *name;
	int nr, domain; /* domain: of socket(), 0 all calls */
} calls[] = {
	BY_NAME(memfd_create),
	BY_NAME(membarrier),
	BY_NAME(sendmsg),
	BY_NAME(recvmsg),
	BY_NAME(clone),
	BY_NAME(clone3),
	BY_NAME(ptrace),
	BY_NAME(process_vm_readv),
	BY_NAME(process_vm_writev),
	BY_NAME(getrandom),
	BY_NAME(accept4),
	BY_NAME(socketpair),
	BY_NAME(epoll_create1),
	BY_NAME(epoll_ctl),
	BY_NAME(epoll_pwait),
	BY_NAME(eventfd2),
	BY_NAME(kill),
	BY_NAME(tgkill),
	BY_NAME(getpid),
	BY_NAME(gettid),
	BY_NAME(geteuid),
	BY_NAME(prctl),
	BY_NAME(readlinkat),
	BY_NAME(linkat),
	BY_NAME(unlinkat),
	BY_NAME(mkdirat),
	BY_NAME(ftruncate),
	BY_NAME(fallocate),
	BY_NAME(fstatfs),
	BY_NAME(getdents64),
	BY_NAME(fcntl),
	BY_NAME(ioctl),
	BY_NAME(ppoll),
	BY_NAME(dup3),
	BY_NAME(mremap),
	BY_NAME(madvise),
	BY_NAME(sched_yield),
	BY_NAME(recvfrom),
	BY_NAME(sendto),
	BY_NAME(rt_sigpending),
	BY_NAME(rt_sigtimedwait),
	BY_NAME(rt_sigqueueinfo),
	BY_NAME(clock_gettime),
	BY_NAME(getpeername),
	BY_NAME(shutdown),
	{ "unix", SYS_socket, AF_UNIX },
	{ "netlink", SYS_socket, AF_NETLINK },
};

static const struct {
	const char *name;
	__rlimit_resource_t res;
} limits[] = {
	{ "nofile", RLIMIT_NOFILE },   { "as", RLIMIT_AS },
	{ "memlock", RLIMIT_MEMLOCK }, { "fsize", RLIMIT_FSIZE },
	{ "nproc", RLIMIT_NPROC },
};

static void die(const char *what)
{
	fprintf(stderr, "cage: %s: %s\n", what, strerror(errno));
	_exit(126);
}

static void limit(char *arg)
{
	char *eq = strchr(arg, '=');
	struct rlimit rl;
	size_t i;

	for (i = 0; eq && i < ARRAY_SIZE(limits); i++) {
		if (strncmp(arg, limits[i].name, (size_t)(eq - arg)))
			continue;
		rl.rlim_cur = rl.rlim_max = strtoul(eq + 1, NULL, 10);
		if (setrlimit(limits[i].res, &rl))
			die(arg);
		return;
	}
	errno = EINVAL;
	die(arg);
}

#define LOAD(field)                        \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, \
		 (unsigned int)offsetof(struct seccomp_data, field))

static void forbid(const char *name, uint32_t verdict)
{
	struct sock_filter code[] = {
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3),
		LOAD(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, verdict),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_SIZE(code), code };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(calls); i++)
		if (!strcmp(name, calls[i].name))
			break;
	errno = EINVAL;
	if (i == ARRAY_SIZE(calls))
		die(name);
	code[1].k = (unsigned int)calls[i].nr;
	code[3].k = (unsigned int)calls[i].domain;
	if (!calls[i].domain) /* whatever its arguments */
		code[3] =
			(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		die(name);
}

static void allow_all(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_SIZE(code), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		die("filter");
}

int main(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "+r:f:k:x:t:ae:")) != -1) {
		if (c == 'r')
			limit(optarg);
		else if (c == 'f')
			forbid(optarg, SECCOMP_RET_ERRNO | EPERM);
		else if (c == 'k')
			forbid(optarg, SECCOMP_RET_KILL_PROCESS);
		else if (c == 'x')
			forbid(optarg, SECCOMP_RET_KILL_THREAD);
		else if (c == 't')
			forbid(optarg, SECCOMP_RET_TRAP);
		else if (c == 'a')
			allow_all();
		else if (c != 'e' || putenv(optarg))
			return 126;
	}
	if (optind >= argc)
		return 126;
	execvp(argv[optind], argv + optind);
	die(argv[optind]);
}
