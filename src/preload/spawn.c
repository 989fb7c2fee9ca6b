/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Children made inside libc by raw system calls: what they inherit falls back
 * before. The child of posix_spawn() and popen() lives on with it; system()
 * returns when its child is gone.
 */
#include "preload/fd/real.h"

#include "base/log.h"
#include "preload/preload.h"
#include "preload/ready.h"

/*
 * The source of a duplicate may be close-on-exec and is known only to libc
 * later: it falls back now and stays there.
 */
int do_posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *fa,
					int from, int to)
{
	ENTER_CHECKED(e, from);

	if (e.sock && !sock_listening(e.sock) &&
	    sock_fallback(e.sock, from, WHY_EXEC))
		log_warn(
			"descriptor %d could not be brought back to TCP for a child",
			from);
	return real_posix_spawn_file_actions_adddup2(fa, from, to);
}

#define SPAWN(call)                                   \
	struct kept *kept_ = exec_fallback(WHY_EXEC); \
	int ret_;                                     \
                                                      \
	ep_parent_forked();                           \
	ret_ = call;                                  \
	if (ret_)                                     \
		exec_undo(kept_);                     \
	else                                          \
		exec_done(kept_);                     \
	return ret_

int do_posix_spawn(pid_t *pid, const char *path,
		   const posix_spawn_file_actions_t *fa,
		   const posix_spawnattr_t *attr, char *const argv[],
		   char *const envp[])
{
	SPAWN(real_posix_spawn(pid, path, fa, attr, argv, envp));
}

int do_posix_spawnp(pid_t *pid, const char *file,
		    const posix_spawn_file_actions_t *fa,
		    const posix_spawnattr_t *attr, char *const argv[],
		    char *const envp[])
{
	SPAWN(real_posix_spawnp(pid, file, fa, attr, argv, envp));
}

int do_pidfd_spawn(int *pidfd, const char *path,
		   const posix_spawn_file_actions_t *fa,
		   const posix_spawnattr_t *attr, char *const argv[],
		   char *const envp[])
{
	SPAWN(real_pidfd_spawn(pidfd, path, fa, attr, argv, envp));
}

int do_pidfd_spawnp(int *pidfd, const char *file,
		    const posix_spawn_file_actions_t *fa,
		    const posix_spawnattr_t *attr, char *const argv[],
		    char *const envp[])
{
	SPAWN(real_pidfd_spawnp(pidfd, file, fa, attr, argv, envp));
}

int do_system(const char *command)
{
	struct kept *kept;
	int ret;

	if (!command)
		return real_system(command);
	kept = exec_fallback(WHY_EXEC);
	ep_parent_forked();
	ret = real_system(command);
	exec_undo(kept);
	return ret;
}

FILE *do_popen(const char *command, const char *mode)
{
	struct kept *kept = exec_fallback(WHY_EXEC);
	FILE *f;

	ep_parent_forked();
	do
		f = real_popen(command, mode);
	while (unlikely(!f) && sock_retry(-1));
	if (f)
		exec_done(kept);
	else
		exec_undo(kept);
	return f;
}
