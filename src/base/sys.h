/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_SYS_H
#define LIBSDP_BASE_SYS_H

/*
 * System calls without libc.
 *
 * The library exports read(), socket(), close() and the rest of the family,
 * so a plain call from inside would land in its own wrapper. Rooms below
 * `preload` therefore go to the kernel directly. Every function returns what
 * the kernel returns: a result, or a negative errno. errno is not touched,
 * nothing here is a cancellation point, everything is async-signal-safe.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>

#include "base/pollmany.h"

#if defined(__clang_analyzer__)
/* It does not look into instructions: a call that may write anything. */
long sys_call6(long nr, ...);
#elif defined(__x86_64__)
static inline long sys_call6(long nr, long a, long b, long c, long d, long e,
			     long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
			   "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
static inline long sys_call6(long nr, long a, long b, long c, long d, long e,
			     long f)
{
	register long x8 __asm__("x8") = nr;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;

	__asm__ volatile("svc 0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}
#else
#error "libsdp: add the system call instruction of this processor here"
#endif

#define sys_call3(nr, a, b, c) \
	sys_call6(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)

static inline ssize_t sys_read(int fd, void *buf, size_t n)
{
	return sys_call3(SYS_read, fd, buf, n);
}

static inline ssize_t sys_write(int fd, const void *buf, size_t n)
{
	return sys_call3(SYS_write, fd, buf, n);
}

static inline int sys_close(int fd)
{
	return (int)sys_call3(SYS_close, fd, 0, 0);
}

static inline int sys_open(const char *path, int flags, unsigned int mode)
{
	return (int)sys_call6(SYS_openat, AT_FDCWD, (long)path, flags,
			      (long)mode, 0, 0);
}

static inline int sys_fcntl(int fd, int cmd, long arg)
{
	return (int)sys_call3(SYS_fcntl, fd, cmd, arg);
}

static inline int sys_ioctl(int fd, unsigned long req, void *arg)
{
	return (int)sys_call3(SYS_ioctl, fd, req, arg);
}

static inline int sys_socket(int family, int type, int proto)
{
	return (int)sys_call3(SYS_socket, family, type, proto);
}

static inline int sys_bind(int fd, const void *sa, socklen_t len)
{
	return (int)sys_call3(SYS_bind, fd, sa, len);
}

static inline int sys_connect(int fd, const void *sa, socklen_t len)
{
	return (int)sys_call3(SYS_connect, fd, sa, len);
}

static inline int sys_listen(int fd, int backlog)
{
	return (int)sys_call3(SYS_listen, fd, backlog, 0);
}

static inline int sys_accept4(int fd, void *sa, socklen_t *len, int flags)
{
	return (int)sys_call6(SYS_accept4, fd, (long)sa, (long)len, flags, 0,
			      0);
}

static inline int sys_getsockname(int fd, void *sa, socklen_t *len)
{
	return (int)sys_call3(SYS_getsockname, fd, sa, len);
}

static inline int sys_getpeername(int fd, void *sa, socklen_t *len)
{
	return (int)sys_call3(SYS_getpeername, fd, sa, len);
}

static inline int sys_getsockopt(int fd, int lvl, int opt, void *v,
				 socklen_t *len)
{
	return (int)sys_call6(SYS_getsockopt, fd, lvl, opt, (long)v, (long)len,
			      0);
}

static inline int sys_setsockopt(int fd, int lvl, int opt, const void *v,
				 socklen_t len)
{
	return (int)sys_call6(SYS_setsockopt, fd, lvl, opt, (long)v, (long)len,
			      0);
}

static inline int sys_shutdown(int fd, int how)
{
	return (int)sys_call3(SYS_shutdown, fd, how, 0);
}

static inline ssize_t sys_send(int fd, const void *buf, size_t n, int flags)
{
	return sys_call6(SYS_sendto, fd, (long)buf, (long)n, flags, 0, 0);
}

static inline ssize_t sys_sendto(int fd, const void *buf, size_t n, int flags,
				 const void *sa, socklen_t len)
{
	return sys_call6(SYS_sendto, fd, (long)buf, (long)n, flags, (long)sa,
			 (long)len);
}

static inline ssize_t sys_recv(int fd, void *buf, size_t n, int flags)
{
	return sys_call6(SYS_recvfrom, fd, (long)buf, (long)n, flags, 0, 0);
}

static inline ssize_t sys_sendmsg(int fd, const struct msghdr *m, int flags)
{
	return sys_call3(SYS_sendmsg, fd, m, flags);
}

static inline ssize_t sys_recvmsg(int fd, struct msghdr *m, int flags)
{
	return sys_call3(SYS_recvmsg, fd, m, flags);
}

/*
 * As many entries as one likes. *ts is not written (a copy goes to the kernel).
 * NULL waits for ever.
 */
static inline int sys_ppoll(struct pollfd *fds, unsigned long n,
			    const struct timespec *ts, const void *mask)
{
	struct timespec copy = ts ? *ts : (struct timespec){ 0 };
	int ret = (int)sys_call6(SYS_ppoll, (long)fds, (long)n,
				 ts ? (long)&copy : 0, (long)mask, 8, 0);

	if (__builtin_expect(ret == -22 /* EINVAL */ && n, 0))
		return pollmany(fds, n, ts, mask, NULL);
	return ret;
}

static inline int sys_epoll_ctl(int ep, int op, int fd, void *ev)
{
	return (int)sys_call6(SYS_epoll_ctl, ep, op, fd, (long)ev, 0, 0);
}

/* What is ready now. */
static inline int sys_epoll_look(int ep, void *ev, int max)
{
	return (int)sys_call6(SYS_epoll_pwait, ep, (long)ev, max, 0, 0, 8);
}

static inline int sys_memfd_create(const char *name, unsigned int flags)
{
	return (int)sys_call3(SYS_memfd_create, name, flags, 0);
}

/*
 * May a file of this process grow to `len`? Past RLIMIT_FSIZE the kernel
 * sends SIGXFSZ, which ends a program that knows nothing of our files.
 */
static inline int sys_may_grow(off_t len)
{
	uint64_t lim[2] = { 0 };

	return sys_call6(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, (long)lim, 0, 0) ||
	       lim[0] >= (uint64_t)len;
}

static inline int sys_ftruncate(int fd, off_t len)
{
	if (!sys_may_grow(len))
		return -EFBIG;
	return (int)sys_call3(SYS_ftruncate, fd, len, 0);
}

/* Result as of mmap(): an address, or a negative errno (test sys_is_err). */
static inline void *sys_mmap(void *at, size_t len, int prot, int flags, int fd,
			     off_t off)
{
	return (void *)sys_call6(SYS_mmap, (long)at, (long)len, prot, flags, fd,
				 off);
}

static inline int sys_is_err(const void *p)
{
	return (unsigned long)p > (unsigned long)-4096L;
}

static inline int sys_munmap(void *at, size_t len)
{
	return (int)sys_call3(SYS_munmap, at, len, 0);
}

static inline int sys_gettid(void)
{
	return (int)sys_call3(SYS_gettid, 0, 0, 0);
}

static inline int sys_getpid(void)
{
	return (int)sys_call3(SYS_getpid, 0, 0, 0);
}

static inline int sys_kill(int pid, int sig)
{
	return (int)sys_call3(SYS_kill, pid, sig, 0);
}

/* op without FUTEX_PRIVATE_FLAG works across processes. */
static inline int sys_futex(void *word, int op, uint32_t val,
			    const struct timespec *ts)
{
	return (int)sys_call6(SYS_futex, (long)word, op, (long)val, (long)ts, 0,
			      0);
}

static inline int sys_fstat(int fd, struct stat *st)
{
#ifdef __x86_64__
	return (int)sys_call3(SYS_fstat, fd, (long)st, 0);
#else
	return (int)sys_call6(SYS_newfstatat, fd, (long)"", (long)st,
			      AT_EMPTY_PATH, 0, 0);
#endif
}

static inline int sys_stat(const char *path, struct stat *st)
{
	return (int)sys_call6(SYS_newfstatat, AT_FDCWD, (long)path, (long)st, 0,
			      0, 0);
}

static inline int sys_openat(int dir, const char *name, int flags,
			     unsigned int mode)
{
	return (int)sys_call6(SYS_openat, dir, (long)name, flags, (long)mode, 0,
			      0);
}

static inline int sys_mkdir(const char *path, unsigned int mode)
{
	return (int)sys_call3(SYS_mkdirat, AT_FDCWD, path, mode);
}

/* Also of a file without a name: `from` below /proc/self/fd. */
static inline int sys_link(const char *from, const char *to)
{
	return (int)sys_call6(SYS_linkat, AT_FDCWD, (long)from, AT_FDCWD,
			      (long)to, AT_SYMLINK_FOLLOW, 0);
}

static inline int sys_unlink(const char *path)
{
	return (int)sys_call3(SYS_unlinkat, AT_FDCWD, path, 0);
}

static inline ssize_t sys_readlink(const char *path, char *buf, size_t n)
{
	return sys_call6(SYS_readlinkat, AT_FDCWD, (long)path, (long)buf,
			 (long)n, 0, 0);
}

static inline ssize_t sys_pread(int fd, void *buf, size_t n, off_t at)
{
	return sys_call6(SYS_pread64, fd, (long)buf, (long)n, at, 0, 0);
}

static inline int sys_fallocate(int fd, int mode, off_t at, off_t len)
{
	return (int)sys_call6(SYS_fallocate, fd, mode, at, len, 0, 0);
}

static inline int sys_madvise(void *at, size_t len, int advice)
{
	return (int)sys_call3(SYS_madvise, at, len, advice);
}

static inline unsigned int sys_geteuid(void)
{
	return (unsigned int)sys_call3(SYS_geteuid, 0, 0, 0);
}

#endif
