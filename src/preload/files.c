/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The life of descriptors: close(), dup(), fcntl(), ioctl(). Closing many at
 * once is range.c.
 *
 * A number leaves the table before the kernel closes it, so that whoever gets
 * it next finds the table empty. The library's own descriptors are not the
 * program's to close: close loops meet EBADF there, as on any free number.
 */
#include "preload/real.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/sys.h"
#include "preload/preload.h"

/* A close may wait (SO_LINGER). */
static int close_real(int fd)
{
	ASLEEP(out);

	return real_close(fd);
}

int do_close(int fd)
{
	struct fdent *e;
	struct sock *s;
	GUARDED_LATER(in);

	uring_closing((unsigned int)fd, (unsigned int)fd);
	if (likely(!fdt_ever))
		return real_close(fd);
	e = fdt_at(fd);
	if (!e || (!e->sock && !e->set)) {
		if (unlikely(fd_hidden(fd)))
			return (int)ret_errno(-EBADF);
		return real_close(fd);
	}
	if (!fdt_is_owner())
		return real_close(fd);
	guarded_begin(&in);
	s = fdt_sock(&in, fd);
	ep_fd_closing(fd, s, s && fdt_other(s, fd) < 0);
	s = fdt_take_sock(fd);
	if (s && sock_close(s, fd) == SOCK_CLOSED)
		return 0;
	return close_real(fd);
}

/* --- duplicates -------------------------------------------------------- */

/*
 * `to` now is `from`. The standard descriptors are stdio's, which reads and
 * writes without asking us: they get the kernel's socket.
 */
static void duplicated(int from, int to)
{
	if (to <= STDERR_FILENO) {
		ENTER(e, from);

		if (e.sock && !sock_listening(e.sock)) {
			sock_home(e.sock, from, WHY_STDIO);
			return;
		}
	}
	fdt_dup(from, to);
}

int do_dup(int fd)
{
	int ret;

	do
		ret = real_dup(fd);
	while (unlikely(sock_retry(ret)));
	if (ret >= 0 && (fdt_any || ep_is_set(fd)) && fdt_is_owner()) {
		fdt_forget(ret);
		duplicated(fd, ret);
	}
	return ret;
}

/*
 * A number that the program names may be one of ours, which becomes another
 * one, or is given up. What is left has no owner who could move it.
 */
static int make_way(int fd)
{
	if (likely(!fdt_ever) || !fd_hidden(fd))
		return 0;
	return yield_that(fd) || !fd_hidden(fd) ? 0 : -EBUSY;
}

/*
 * dup2() and dup3() replace atomically: the number is never free in between.
 * So what the number stood for moves aside first and is closed from there.
 */
static int replace(int from, int to, int flags, int (*real)(int, int, int))
{
	struct sock *old, *s;
	int aside = -1, ret;
	GUARDED_LATER(in);

	if (from == to || !(fdt_ever || uring_any || ep_is_set(from)) ||
	    !fdt_is_owner() || sys_fcntl(from, F_GETFD, 0) < 0)
		return real(from, to, flags);
	uring_closing((unsigned int)to, (unsigned int)to);
	ret = make_way(to);
	if (ret)
		return (int)ret_errno(ret);
	guarded_begin(&in);
	old = fdt_sock(&in, to);
	s = fdt_sock(&in, from);
	if (s && to <= STDERR_FILENO && !sock_listening(s)) {
		ret = sock_home(s, from, WHY_STDIO);
		if (ret)
			return (int)ret_errno(ret);
	}
	if (old && old == s)
		return real(from, to, flags);
	if (old)
		aside = sys_fcntl(to, F_DUPFD_CLOEXEC, to + 1);
	if (old || fdt_has_set(to)) {
		ep_fd_closing(to, old, old && fdt_other(old, to) < 0);
		old = fdt_take_sock(to);
	}
	if (old && aside < 0)
		(void)sock_close(old, to);
	ret = real(from, to, flags);
	if (old && aside >= 0 && sock_close_at(old, to, aside) == SOCK_CLOSE_IT)
		sys_close(aside);
	if (ret >= 0)
		duplicated(from, to);
	return ret;
}

static int real_dup2_flags(int from, int to, int flags)
{
	(void)flags;
	return real_dup2(from, to);
}

static int real_dup3_flags(int from, int to, int flags)
{
	return real_dup3(from, to, flags);
}

int do_dup2(int from, int to)
{
	return replace(from, to, 0, real_dup2_flags);
}

int do_dup3(int from, int to, int flags)
{
	if (flags & ~O_CLOEXEC)
		return real_dup3(from, to, flags);
	return replace(from, to, flags, real_dup3_flags);
}

/* --- fcntl, ioctl ------------------------------------------------------ */

static int fcntl_sock(struct sock *s, int fd, int cmd, long arg)
{
	int ret;

	if (cmd == F_SETFL && arg & O_ASYNC) {
		/* SIGIO comes from the kernel's queue or not at all */
		ret = sock_async(s, fd, true);
		if (ret)
			return (int)ret_errno(ret);
	}
	ret = real_fcntl(fd, cmd, arg);
	if (ret < 0 || cmd != F_SETFL)
		return ret;
	sock_nonblock(s, arg & O_NONBLOCK);
	if (!(arg & O_ASYNC))
		sock_async(s, fd, false);
	return ret;
}

int do_fcntl(int fd, int cmd, long arg)
{
	int ret;

	if (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC) {
		do
			ret = real_fcntl(fd, cmd, arg);
		while (unlikely(sock_retry(ret)));
		if (ret >= 0 && (fdt_any || ep_is_set(fd)) && fdt_is_owner()) {
			fdt_forget(ret);
			duplicated(fd, ret);
		}
		return ret;
	}
	if (likely(!fdt_has_sock(fd)))
		return real_fcntl(fd, cmd, arg);
	ENTER(e, fd);
	if (unlikely(!e.sock))
		return real_fcntl(fd, cmd, arg);
	return fcntl_sock(e.sock, fd, cmd, arg);
}

int do_ioctl(int fd, unsigned long req, void *arg)
{
	if (likely(!fdt_has_sock(fd)))
		return real_ioctl(fd, req, arg);
	FDT_ASK(fd, sock_ioctl(e.sock, fd, req, arg), real_ioctl(fd, req, arg));
}
