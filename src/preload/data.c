/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Bytes in and out through one buffer or a vector. Every name of this file
 * is also called for files and pipes: one look-up, then the real call.
 */
#include "preload/fd/real.h"

#include <limits.h>

#include "base/mem.h"
#include "preload/preload.h"

/*
 * The kernel moves no more in one call, and refuses a buffer that reaches
 * beyond a process's memory: without a socket's part in it.
 */
/* Of a 32-bit program, inside the kernel; libc has no name for it. */
#define COMPAT 0x80000000u
#define MOST   ((size_t)INT_MAX & ~(size_t)4095)

static inline bool refused(const void *buf, size_t n)
{
	return unlikely(mem_beyond(buf, n < MOST ? n : MOST));
}

/* For these calls the bit has no meaning; for sendmsg() and its kin it has. */
static inline int no_compat(int flags)
{
	return flags & ~(int)COMPAT;
}

/* read() of nothing returns at once on a socket, recv() would wait. */
__attribute__((noinline)) static ssize_t read_sock(int fd, void *buf, size_t n)
{
	if (unlikely(!n || mem_beyond(buf, n)))
		return real_read(fd, buf, n);
	if (unlikely(n > MOST))
		n = MOST;
	FDT_CALL(fd, sock_recv(e.sock, fd, buf, n, 0), real_read(fd, buf, n));
}

ssize_t do_read(int fd, void *buf, size_t n)
{
	if (likely(!fdt_known(fd)))
		return real_read(fd, buf, n);
	return read_sock(fd, buf, n);
}

__attribute__((noinline)) static ssize_t write_sock(int fd, const void *buf,
						    size_t n)
{
	if (unlikely(mem_beyond(buf, n)))
		return real_write(fd, buf, n);
	if (unlikely(n > MOST))
		n = MOST;
	FDT_CALL(fd, sock_send(e.sock, fd, buf, n, 0), real_write(fd, buf, n));
}

ssize_t do_write(int fd, const void *buf, size_t n)
{
	if (likely(!fdt_known(fd)))
		return real_write(fd, buf, n);
	return write_sock(fd, buf, n);
}

ssize_t do_recv(int fd, void *buf, size_t n, int flags)
{
	if (refused(buf, n))
		return real_recv(fd, buf, n, flags);
	FDT_CALL(fd,
		 sock_recv(e.sock, fd, buf, n < MOST ? n : MOST,
			   no_compat(flags)),
		 real_recv(fd, buf, n, flags));
}

ssize_t do_send(int fd, const void *buf, size_t n, int flags)
{
	/* without an address the flag is refused */
	if (refused(buf, n) || unlikely(flags & MSG_FASTOPEN))
		return real_send(fd, buf, n, flags);
	FDT_CALL(fd,
		 sock_send(e.sock, fd, buf, n < MOST ? n : MOST,
			   no_compat(flags)),
		 real_send(fd, buf, n, flags));
}

/*
 * TCP gives no address: *len becomes 0, as recvmsg() says it. A length that is
 * none is told when the bytes are taken, as in the kernel.
 */
static ssize_t recvfrom_sock(struct entered *e, void *buf, size_t n, int flags,
			     struct sockaddr *sa, socklen_t *len)
{
	ssize_t ret = sock_recv(e->sock, e->fd, buf, n, no_compat(flags));

	if (likely(ret < 0 || !sa))
		return ret;
	if (!mem_good(len, sizeof(*len), false))
		return -EFAULT;
	if ((int)*len < 0)
		return -EINVAL;
	if (!mem_good(len, sizeof(*len), true))
		return -EFAULT;
	*len = 0;
	return ret;
}

ssize_t do_recvfrom(int fd, void *buf, size_t n, int flags, struct sockaddr *sa,
		    socklen_t *len)
{
	if (refused(buf, n))
		return real_recvfrom(fd, buf, n, flags, sa, len);
	FDT_CALL(fd,
		 recvfrom_sock(&e, buf, n < MOST ? n : MOST, flags, sa, len),
		 real_recvfrom(fd, buf, n, flags, sa, len));
}

/*
 * MSG_FASTOPEN is a connect in disguise. It goes through the rules as the two
 * calls it stands for, which is what the kernel does without a cookie. Where it
 * would refuse to connect it says so, and moves no byte.
 */
ssize_t do_sendto(int fd, const void *buf, size_t n, int flags,
		  const struct sockaddr *sa, socklen_t len)
{
	if (likely(!fdt_has_sock(fd)) || refused(buf, n) ||
	    (sa && (len > sizeof(struct sockaddr_storage) ||
		    !mem_good(sa, len, false))))
		return real_sendto(fd, buf, n, flags, sa, len);
	if (unlikely(flags & MSG_FASTOPEN)) {
		if (!fastopens(fd, sa, len))
			return real_sendto(fd, buf, n, flags, sa, len);
		if (do_connect(fd, sa, len))
			return -1;
		return do_send(fd, buf, n, flags & ~MSG_FASTOPEN);
	}
	FDT_CALL(fd,
		 sock_send(e.sock, fd, buf, n < MOST ? n : MOST,
			   no_compat(flags)),
		 real_sendto(fd, buf, n, flags, sa, len));
}

static bool vector_empty(const struct iovec *iov, int n)
{
	int i;

	for (i = 0; i < n; i++)
		if (iov[i].iov_len)
			return false;
	return true;
}

/* The kernel's own judgement of vectors that are not to be believed. */
static bool vector_bad(const struct iovec *iov, int n)
{
	return n <= 0 || n > IOV_MAX ||
	       !mem_good(iov, (size_t)n * sizeof(*iov), false);
}

/*
 * Offset -1 means "where the file is", which a socket has. Other offsets are
 * refused by the kernel without moving a byte. Flags that we do not know it may
 * know: it does the call, on the anchor.
 */
#define RWF_KNOWN    0x1f /* HIPRI, DSYNC, SYNC, NOWAIT, APPEND */
#define RWF_DONTWAIT 0x08 /* RWF_NOWAIT */

static int rwf_msg(int rwf)
{
	return rwf & RWF_DONTWAIT ? MSG_DONTWAIT : 0;
}

/* The number may be a file's by now, for which the flags mean more. */
static ssize_t readv_real(int fd, const struct iovec *iov, int n, int rwf)
{
	return rwf ? real_preadv2(fd, iov, n, -1, rwf) : real_readv(fd, iov, n);
}

static ssize_t writev_real(int fd, const struct iovec *iov, int n, int rwf)
{
	return rwf ? real_pwritev2(fd, iov, n, -1, rwf) :
		     real_writev(fd, iov, n);
}

__attribute__((noinline)) static ssize_t
readv_sock(int fd, const struct iovec *iov, int n, int rwf)
{
	struct msghdr m = { .msg_iov = (struct iovec *)iov,
			    .msg_iovlen = (size_t)n };

	if (vector_bad(iov, n) || vector_empty(iov, n))
		return readv_real(fd, iov, n, rwf);
	FDT_CALL(fd, sock_recvmsg(e.sock, fd, &m, rwf_msg(rwf)),
		 readv_real(fd, iov, n, rwf));
}

__attribute__((noinline)) static ssize_t
writev_sock(int fd, const struct iovec *iov, int n, int rwf)
{
	struct msghdr m = { .msg_iov = (struct iovec *)iov,
			    .msg_iovlen = (size_t)n };

	if (vector_bad(iov, n) || vector_empty(iov, n))
		return writev_real(fd, iov, n, rwf);
	FDT_CALL(fd, sock_sendmsg(e.sock, fd, &m, rwf_msg(rwf)),
		 writev_real(fd, iov, n, rwf));
}

ssize_t do_readv(int fd, const struct iovec *iov, int n)
{
	if (likely(!fdt_known(fd)))
		return real_readv(fd, iov, n);
	return readv_sock(fd, iov, n, 0);
}

ssize_t do_writev(int fd, const struct iovec *iov, int n)
{
	if (likely(!fdt_known(fd)))
		return real_writev(fd, iov, n);
	return writev_sock(fd, iov, n, 0);
}

ssize_t do_preadv2(int fd, const struct iovec *iov, int n, off_t off, int flags)
{
	int ret;

	if (likely(!fdt_known(fd)) || off != -1)
		return real_preadv2(fd, iov, n, off, flags);
	if (likely(!(flags & ~RWF_KNOWN)))
		return readv_sock(fd, iov, n, flags);
	ret = bring_back(fd);
	return ret ? ret_errno(ret) : real_preadv2(fd, iov, n, off, flags);
}

ssize_t do_pwritev2(int fd, const struct iovec *iov, int n, off_t off,
		    int flags)
{
	int ret;

	if (likely(!fdt_known(fd)) || off != -1)
		return real_pwritev2(fd, iov, n, off, flags);
	if (likely(!(flags & ~RWF_KNOWN)))
		return writev_sock(fd, iov, n, flags);
	ret = bring_back(fd);
	return ret ? ret_errno(ret) : real_pwritev2(fd, iov, n, off, flags);
}

ssize_t do___read_chk(int fd, void *buf, size_t n, size_t room)
{
	if (unlikely(n > room))
		__chk_fail();
	return do_read(fd, buf, n);
}

ssize_t do___recv_chk(int fd, void *buf, size_t n, size_t room, int flags)
{
	if (unlikely(n > room))
		__chk_fail();
	return do_recv(fd, buf, n, flags);
}

ssize_t do___recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags,
			  struct sockaddr *sa, socklen_t *len)
{
	if (unlikely(n > room))
		__chk_fail();
	return do_recvfrom(fd, buf, n, flags, sa, len);
}
