/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The life of descriptors: close(), dup(), fcntl(), ioctl(). Closing many at
 * once is range.c.
 *
 * A number leaves the table before the kernel closes it, so that the next
 * owner finds the table empty. The library's own descriptors are not the
 * program's to close: close loops meet EBADF there, as on any free number.
 */
#include "preload/fd/real.h"

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

static bool cover(int fd)
{
	ASLEEP(out);

	return fd_cover(fd);
}

/*
 * What is the kernel's takes its number, if it is ours to give. Between the
 * sock's end and the kernel's a raw call by the number would meet a lifted
 * anchor: so a number that is nothing comes in between. Another thread may have
 * replaced that by a dup2() meanwhile.
 */
static int close_sock(struct sock *s, int fd)
{
	SOCK_STAYS(stays, s);
	int ret;

	ep_fd_closing(fd, s, fdt_other(s, fd) < 0);
	if (sock_close(s, fd))
		cover(fd);
	ret = fdt_gone(fd, s) ? close_real(fd) : 0;
	sock_ended(s);
	return ret;
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
	if (!s) {
		ep_fd_closing(fd, NULL, false);
		return close_real(fd);
	}
	/* of two closes at the same time one is the first */
	if (!fdt_go(fd, s, false))
		return (int)ret_errno(-EBADF);
	return close_sock(s, fd);
}

static void close_quietly(int fd)
{
	ASLEEP(out);

	sys_close(fd);
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
			sock_fallback(e.sock, from, WHY_STDIO);
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
 * one, or is given up. What is left has no owner that could move it.
 */
static int make_way(int fd)
{
	if (likely(!fdt_ever) || !fd_hidden(fd))
		return 0;
	return yield_that(fd) || !fd_hidden(fd) ? 0 : -EBUSY;
}

/*
 * dup2() and dup3() replace atomically: the number is never free in between.
 * So what the number stood for gets another one first and is closed from there.
 * The kernel's exchange and the table's are two steps, and calls that come by
 * the number wait for both; one that came before and is still to go to the
 * kernel would meet what takes its place, so that one stays on TCP.
 */
struct replacing {
	int from, to, flags;
	int (*real)(int from, int to, int flags);
	struct sock *s; /* at `from` */
};

/* The new one must be the kernel's, where others may take it for the old. */
static int to_tcp(const struct replacing *r, enum reason why)
{
	if (!r->s || sock_listening(r->s))
		return 0;
	return sock_fallback(r->s, r->from, why);
}

/* 0: no call that began by the number before meets a lifted anchor there. */
static int not_mistaken(const struct replacing *r)
{
	if (!r->s || !guard_elsewhere(r->to, r->s))
		return 0;
	return to_tcp(r, WHY_BYPASSED);
}

static int replace_sock(const struct replacing *r, struct sock *old)
{
	int aside = sys_fcntl(r->to, F_DUPFD_CLOEXEC, r->to + 1), ret;
	SOCK_STAYS(stays, old);

	ep_fd_closing(r->to, old, fdt_other(old, r->to) < 0);
	ret = not_mistaken(r);
	if (aside < 0)
		sock_close_at(old, r->to, r->to);
	ret = ret ? (int)ret_errno(ret) : r->real(r->from, r->to, r->flags);
	if (ret < 0 && aside >= 0) {
		fdt_stay(r->to, old);
		sys_close(aside);
		return ret;
	}
	if (ret >= 0)
		duplicated(r->from, ret);
	fdt_gone(r->to, old); /* unless that was the second step */
	if (aside >= 0) {
		sock_close_at(old, r->to, aside);
		close_quietly(aside);
	}
	sock_ended(old);
	return ret;
}

/* What another thread is closing is waited for. */
static int replace_old(const struct replacing *r, const struct guarded *in)
{
	struct sock *old;
	int ret;

	while ((old = fdt_sock(in, r->to))) {
		if (old == r->s)
			return r->real(r->from, r->to, r->flags);
		if (fdt_go(r->to, old, true))
			return replace_sock(r, old);
		if (fdt_await(r->to, old))
			break;
	}
	if (fdt_has_set(r->to))
		ep_fd_closing(r->to, NULL, false);
	ret = not_mistaken(r);
	ret = ret ? (int)ret_errno(ret) : r->real(r->from, r->to, r->flags);
	if (ret >= 0)
		duplicated(r->from, ret);
	return ret;
}

static int replace(int from, int to, int flags, int (*real)(int, int, int))
{
	struct replacing r = { from, to, flags, real, NULL };
	int ret;
	GUARDED_LATER(in);

	if (from == to || !(fdt_ever || uring_any || ep_is_set(from)) ||
	    !fdt_is_owner() || sys_fcntl(from, F_GETFD, 0) < 0)
		return real(from, to, flags);
	uring_closing((unsigned int)to, (unsigned int)to);
	ret = make_way(to);
	if (ret)
		return (int)ret_errno(ret);
	guarded_begin(&in);
	r.s = fdt_sock(&in, from);
	if (to <= STDERR_FILENO) {
		ret = to_tcp(&r, WHY_STDIO);
		if (ret)
			return (int)ret_errno(ret);
	}
	return replace_old(&r, &in);
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
	if (likely(!fdt_known(fd)))
		return real_fcntl(fd, cmd, arg);
	ENTER(e, fd);
	if (unlikely(!e.sock))
		return real_fcntl(fd, cmd, arg);
	return fcntl_sock(e.sock, fd, cmd, arg);
}

int do_ioctl(int fd, unsigned long req, void *arg)
{
	if (likely(!fdt_known(fd)))
		return real_ioctl(fd, req, arg);
	FDT_ASK(fd, sock_ioctl(e.sock, fd, req, arg), real_ioctl(fd, req, arg));
}
