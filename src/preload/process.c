/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* daemon(), the end of this process, and its limits. New ones: fork.c. */
#include "preload/fd/real.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/sys.h"
#include "preload/preload.h"

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
static int limited(int ret, __rlimit_resource_t res)
{
	if (unlikely(res == RLIMIT_NOFILE && !ret) && fdt_ever)
		sock_fd_limit();
	return ret;
}

static void limiting(__rlimit_resource_t res, const struct rlimit *rl)
{
	if (unlikely(res == RLIMIT_NPROC && rl) && fdt_ever && fdt_is_owner())
		sock_serve_always();
}

int do_setrlimit(__rlimit_resource_t res, const struct rlimit *rl)
{
	limiting(res, rl);
	return limited(real_setrlimit(res, rl), res);
}

int do_prlimit(pid_t pid, __rlimit_resource_t res, const struct rlimit *rl,
	       struct rlimit *old)
{
	if (!rl || (pid && pid != sys_getpid()))
		return real_prlimit(pid, res, rl, old);
	limiting(res, rl);
	return limited(real_prlimit(pid, res, rl, old), res);
}
