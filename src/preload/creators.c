/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Calls that give out numbers which are no TCP sockets. Two things matter:
 * what the table believes about the number is void, and the program must not
 * run out of numbers because the library holds some.
 */
#include "preload/fd/real.h"

#include "preload/preload.h"
#include "preload/ready.h"

static int created(int fd)
{
	if (likely(!fdt_any))
		return fd;
	if (fd >= 0)
		fdt_forget(fd);
	return fd;
}

#define CREATE_AS(call, born)                         \
	int fd_;                                      \
                                                      \
	do                                            \
		fd_ = call;                           \
	while (unlikely(fd_ < 0) && sock_retry(fd_)); \
	return born(created(fd_))
#define CREATE(call) CREATE_AS(call, )

int do_open(const char *path, int flags, mode_t mode)
{
	CREATE(real_open(path, flags, mode));
}

int do_openat(int dir, const char *path, int flags, mode_t mode)
{
	CREATE(real_openat(dir, path, flags, mode));
}

int do___open_2(const char *path, int flags)
{
	CREATE(real___open_2(path, flags));
}

int do___openat_2(int dir, const char *path, int flags)
{
	CREATE(real___openat_2(dir, path, flags));
}

int do_creat(const char *path, mode_t mode)
{
	CREATE(real_creat(path, mode));
}

int do_eventfd(unsigned int count, int flags)
{
	CREATE(real_eventfd(count, flags));
}

int do_timerfd_create(int clock, int flags)
{
	CREATE(real_timerfd_create(clock, flags));
}

int do_signalfd(int fd, const sigset_t *mask, int flags)
{
	if (fd != -1)
		return real_signalfd(fd, mask, flags);
	CREATE(real_signalfd(fd, mask, flags));
}

int do_inotify_init1(int flags)
{
	CREATE(real_inotify_init1(flags));
}

int do_memfd_create(const char *name, unsigned int flags)
{
	CREATE(real_memfd_create(name, flags));
}

int do_epoll_create(int size)
{
	CREATE_AS(real_epoll_create(size), ep_born);
}

int do_epoll_create1(int flags)
{
	CREATE_AS(real_epoll_create1(flags), ep_born);
}

static FILE *opened(FILE *f)
{
	if (f && fdt_any)
		created(fileno(f));
	return f;
}

FILE *do_fopen(const char *path, const char *mode)
{
	FILE *f;

	do
		f = real_fopen(path, mode);
	while (unlikely(!f) && sock_retry(-1));
	return opened(f);
}

FILE *do_fopen64(const char *path, const char *mode)
{
	FILE *f;

	do
		f = real_fopen64(path, mode);
	while (unlikely(!f) && sock_retry(-1));
	return opened(f);
}

static int created_two(int ret, const int fds[2])
{
	if (!ret && fdt_any) {
		created(fds[0]);
		created(fds[1]);
	}
	return ret;
}

int do_pipe(int fds[2])
{
	int ret;

	do
		ret = real_pipe(fds);
	while (unlikely(sock_retry(ret)));
	return created_two(ret, fds);
}

int do_pipe2(int fds[2], int flags)
{
	int ret;

	do
		ret = real_pipe2(fds, flags);
	while (unlikely(sock_retry(ret)));
	return created_two(ret, fds);
}

int do_socketpair(int family, int type, int proto, int fds[2])
{
	int ret;

	do
		ret = real_socketpair(family, type, proto, fds);
	while (unlikely(sock_retry(ret)));
	return created_two(ret, fds);
}
