/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls that move bytes between two descriptors, and asynchronous I/O, whose
 * helper threads use system calls that nobody sees: sockets go home for them.
 */
#include "preload/real.h"

#include "base/mem.h"
#include "preload/preload.h"

ssize_t do_sendfile(int out, int in, off_t *off, size_t n)
{
	struct sock *s = fdt_sock(out);
	ssize_t ret;

	if (likely(!s) || fdt_sock(in))
		return real_sendfile(out, in, off, n);
	if (off && !mem_good(off, sizeof(*off), true))
		return ret_errno(-EFAULT);
	ret = sock_sendfile(s, out, in, off, n);
	if (fdt_stale(out, s, ret))
		return real_sendfile(out, in, off, n);
	return ret_errno(ret);
}

/* An offset for the socket, or sockets at both ends: the kernel refuses. */
ssize_t do_splice(int in, off64_t *ioff, int out, off64_t *ooff, size_t n,
		  unsigned int flags)
{
	struct sock *from = fdt_sock(in), *to = fdt_sock(out);
	ssize_t ret;

	if (likely(!from && !to) || (from && to) || ioff || ooff || !n)
		return real_splice(in, ioff, out, ooff, n, flags);
	if (from)
		ret = sock_splice_from(from, in, out, n, flags);
	else
		ret = sock_splice_to(to, out, in, n, flags);
	if (from ? fdt_stale(in, from, ret) : fdt_stale(out, to, ret))
		return real_splice(in, ioff, out, ooff, n, flags);
	return ret_errno(ret);
}

/* 0, or a negative errno: the socket cannot be brought home. */
static int aio_home(const struct aiocb *cb)
{
	struct sock *s = cb ? fdt_sock(cb->aio_fildes) : NULL;

	return s ? sock_home(s, cb->aio_fildes, WHY_RAW_USE) : 0;
}

int do_aio_read(struct aiocb *cb)
{
	int ret = fdt_any ? aio_home(cb) : 0;

	return ret ? (int)ret_errno(ret) : real_aio_read(cb);
}

int do_aio_write(struct aiocb *cb)
{
	int ret = fdt_any ? aio_home(cb) : 0;

	return ret ? (int)ret_errno(ret) : real_aio_write(cb);
}

int do_lio_listio(int mode, struct aiocb *const *list, int n,
		  struct sigevent *sig)
{
	int i, ret;

	for (i = 0; fdt_any && list && i < n; i++) {
		ret = aio_home(list[i]);
		if (ret)
			return (int)ret_errno(ret);
	}
	return real_lio_listio(mode, list, n, sig);
}
