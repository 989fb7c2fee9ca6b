/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * exec: the next program does not know us. Every socket that it inherits is
 * brought back to TCP before; all are asked first and then waited for. libc's
 * own functions call each other unseen, so each name is caught by itself.
 */
#include "preload/fd/real.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sys.h"
#include "preload/preload.h"
#include "preload/ready.h"

int execl_out(const char *path, const char *arg, ...) __asm__("execl")
	__attribute__((visibility("default")));
int execlp_out(const char *file, const char *arg, ...) __asm__("execlp")
	__attribute__((visibility("default")));
int execle_out(const char *path, const char *arg, ...) __asm__("execle")
	__attribute__((visibility("default")));

/* --- what falls back ---------------------------------------------------- */

/* The next managed socket from `fd` on that an exec would hand over. */
static struct sock *next_survivor(const struct guarded *in, int *fd)
{
	struct sock *s;

	for (*fd = fdt_next(*fd); *fd >= 0; *fd = fdt_next(*fd + 1)) {
		s = fdt_sock(in, *fd);
		if (s && !sock_listening(s) && number_survives(*fd))
			return s;
	}
	return NULL;
}

/*
 * Another holder of what the exec closes will be alone with it. A number that
 * survives comes later and takes it back.
 */
static void leave(bool leaves)
{
	struct sock *s;
	GUARDED(in);
	int fd;

	for (fd = fdt_next(0); fd >= 0; fd = fdt_next(fd + 1)) {
		s = fdt_sock(&in, fd);
		if (s && !sock_listening(s))
			sock_exec(s, fd, leaves);
	}
}

struct kept *exec_fallback(enum reason why)
{
	struct sock *s;
	uint64_t until;
	int fd;
	struct kept *k;
	GUARDED_LATER(in);

	if (!fdt_any)
		return NULL;
	if (!fdt_is_owner()) {
		numbers_fallback(why);
		return NULL;
	}
	guarded_begin(&in);
	k = kept_begin();
	for (fd = 0; (s = next_survivor(&in, &fd)); fd++) {
		sock_exec(s, fd, false);
		sock_fallback_begin(s, fd, why);
	}
	until = sock_fallback_limit();
	for (fd = 0; (s = next_survivor(&in, &fd)); fd++) {
		if (sock_fallback_until(s, fd, why, until))
			log_warn(
				"descriptor %d could not be brought back to TCP",
				fd);
		kept_add(k, sock_inode(s), fd);
	}
	for (fd = fdt_next(0); fd >= 0; fd = fdt_next(fd + 1))
		if (fdt_has_set(fd) && number_survives(fd))
			ep_give_away(fd);
	return k;
}

/* Not for spawn: there it is a child that becomes another program. */
static struct kept *exec_begin(void)
{
	bool ours = fdt_ever && fdt_is_owner();
	struct kept *k;

	if (ours) {
		sock_executes(true);
		leave(true);
	}
	k = exec_fallback(WHY_EXEC);
	if (ours)
		sock_leave(true);
	return k;
}

static void exec_failed(struct kept *k)
{
	int keep = errno;

	if (fdt_ever && fdt_is_owner()) {
		sock_executes(false);
		sock_leave(false);
		leave(false);
	}
	errno = keep;
	exec_undo(k);
}

void exec_undo(struct kept *k)
{
	int keep = errno;

	kept_unpin(k);
	kept_end(k);
	errno = keep;
}

void exec_done(struct kept *k)
{
	int keep = errno;

	kept_end(k);
	errno = keep;
}

/* --- the names --------------------------------------------------------- */

#define EXEC(call)                         \
	struct kept *kept_ = exec_begin(); \
	int ret_ = call;                   \
                                           \
	exec_failed(kept_);                \
	return ret_

int do_execve(const char *path, char *const argv[], char *const envp[])
{
	EXEC(real_execve(path, argv, envp));
}

int do_execv(const char *path, char *const argv[])
{
	EXEC(real_execv(path, argv));
}

int do_execvp(const char *file, char *const argv[])
{
	EXEC(real_execvp(file, argv));
}

int do_execvpe(const char *file, char *const argv[], char *const envp[])
{
	EXEC(real_execvpe(file, argv, envp));
}

int do_fexecve(int fd, char *const argv[], char *const envp[])
{
	EXEC(real_fexecve(fd, argv, envp));
}

int do_execveat(int dir, const char *path, char *const argv[],
		char *const envp[], int flags)
{
	EXEC(real_execveat(dir, path, argv, envp, flags));
}

/* --- lists ------------------------------------------------------------- */

static size_t list_length(va_list ap)
{
	size_t n = 1;

	while (va_arg(ap, char *))
		n++;
	return n;
}

static void list_copy(char **argv, const char *arg, size_t n, va_list ap)
{
	size_t i;

	argv[0] = (char *)arg;
	for (i = 1; i <= n; i++)
		argv[i] = va_arg(ap, char *);
}

/*
 * The array lives on the stack as in libc: these may be called between
 * vfork() and exec.
 */
#define LIST(arg)                                                \
	va_list ap;                                              \
	size_t n;                                                \
                                                                 \
	va_start(ap, arg);                                       \
	n = (arg) ? list_length(ap) : 0;                         \
	va_end(ap);                                              \
                                                                 \
	char **argv = __builtin_alloca((n + 1) * sizeof(*argv)); \
                                                                 \
	va_start(ap, arg);                                       \
	list_copy(argv, arg, n, ap)

int execl_out(const char *path, const char *arg, ...)
{
	LIST(arg);
	va_end(ap);
	return do_execv(path, argv);
}

int execlp_out(const char *file, const char *arg, ...)
{
	LIST(arg);
	va_end(ap);
	return do_execvp(file, argv);
}

int execle_out(const char *path, const char *arg, ...)
{
	char *const *envp;

	LIST(arg);
	envp = va_arg(ap, char *const *);
	va_end(ap);
	return do_execve(path, argv, envp);
}
