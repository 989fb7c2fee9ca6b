/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls that move bytes between two descriptors, and asynchronous I/O, whose
 * helper threads use system calls that are not seen: sockets fall back for
 * them.
 */
#include "preload/fd/real.h"

#include <limits.h>

#include <linux/aio_abi.h>

#include "base/mem.h"
#include "preload/preload.h"

ssize_t do_sendfile(int out, int in, off_t *off, size_t n)
{
	off_t at;

	if (likely(!fdt_known(out)) || fdt_has_sock(in) ||
	    n > (size_t)SSIZE_MAX)
		return real_sendfile(out, in, off, n);
	if (off && !mem_good(off, sizeof(*off), false))
		return ret_errno(-EFAULT);
	if (off && !mem_good(off, sizeof(*off), true)) {
		at = *off;
		do_sendfile(out, in, &at, n);
		return ret_errno(-EFAULT); /* it cannot be told how far */
	}
	FDT_CALL(out, sock_sendfile(e.sock, out, in, off, n),
		 real_sendfile(out, in, off, n));
}

/* An offset for the socket, or sockets at both ends: the kernel refuses. */
ssize_t do_splice(int in, off64_t *ioff, int out, off64_t *ooff, size_t n,
		  unsigned int flags)
{
	bool from = fdt_has_sock(in), to = fdt_has_sock(out);

	if (likely(from == to) || ioff || ooff || !n || n > (size_t)SSIZE_MAX)
		return real_splice(in, ioff, out, ooff, n, flags);
	FDT_CALL(from ? in : out,
		 from ? sock_splice_from(e.sock, in, out, n, flags) :
			sock_splice_to(e.sock, out, in, n, flags),
		 real_splice(in, ioff, out, ooff, n, flags));
}

int bring_back(int fd)
{
	ENTER(e, fd);

	return e.sock && !sock_listening(e.sock) ?
		       sock_fallback(e.sock, fd, WHY_BYPASSED) :
		       0;
}

/* What cannot be read the kernel does not come to either. */
int aio_submitting(long n, struct iocb *const *list)
{
	int ret = 0;
	long i;

	for (i = 0; fdt_any && !ret && i < n; i++) {
		if (!mem_good(&list[i], sizeof(list[i]), false) ||
		    !mem_good(list[i], sizeof(*list[i]), false))
			break;
		ret = bring_back((int)list[i]->aio_fildes);
	}
	return ret;
}

static int aio_fallback(const struct aiocb *cb)
{
	return cb ? bring_back(cb->aio_fildes) : 0;
}

int do_aio_read(struct aiocb *cb)
{
	int ret = fdt_any ? aio_fallback(cb) : 0;

	return ret ? (int)ret_errno(ret) : real_aio_read(cb);
}

int do_aio_write(struct aiocb *cb)
{
	int ret = fdt_any ? aio_fallback(cb) : 0;

	return ret ? (int)ret_errno(ret) : real_aio_write(cb);
}

int do_lio_listio(int mode, struct aiocb *const *list, int n,
		  struct sigevent *sig)
{
	int i, ret;

	for (i = 0; fdt_any && list && i < n; i++) {
		ret = aio_fallback(list[i]);
		if (ret)
			return (int)ret_errno(ret);
	}
	return real_lio_listio(mode, list, n, sig);
}
