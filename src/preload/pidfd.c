/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * pidfd_getfd(): a descriptor of another process is taken without its help. The
 * stream has to be on TCP before the taker uses it, as if it had been passed.
 */
#include "preload/fd/real.h"

#include <limits.h>
#include <string.h>

#include "base/proc.h"
#include "base/sys.h"
#include "base/text.h"
#include "preload/preload.h"

/* Whose descriptor it is; 0: not known. */
static int pid_of(int pidfd)
{
	char info[512];
	const char *at;
	uint64_t pid;

	if (proc_read(info, sizeof(info), "/proc/self/fdinfo/%d", pidfd) <= 0)
		return 0;
	at = strstr(info, "\nPid:\t");
	return at && text_number(at + 6, INT_MAX, &pid) ? (int)pid : 0;
}

/* The new number `fd` is a socket that process `pid` may have lifted. */
static int taken(int fd, int pid)
{
	struct stat st;
	int from;

	if (sys_fstat(fd, &st) || !S_ISSOCK(st.st_mode))
		return 0;
	if (pid != sys_getpid())
		return sock_passed_by(pid, st.st_ino);
	if (fdt_by_inode(st.st_ino, &from))
		fdt_dup(from, fd);
	return 0;
}

int do_pidfd_getfd(int pidfd, int target, unsigned int flags)
{
	int fd = real_pidfd_getfd(pidfd, target, flags);
	int keep = errno, ret;

	if (fd < 0 || preload_off || !sock_possible() || !fdt_is_owner())
		return fd;
	fdt_forget(fd);
	ret = taken(fd, pid_of(pidfd));
	errno = keep;
	if (!ret)
		return fd;
	sys_close(fd);
	return (int)ret_errno(ret);
}
