/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Internal descriptors live at high numbers, out of the way of programs that
 * count on the lowest free one, and are known by a bit each, so that close
 * loops can spare them. The kernel's table grows with the highest number in
 * use, hence the moderate top.
 */

#include <errno.h>
#include <sys/resource.h>

#include "base/sys.h"
#include "base/table.h"
#include "socket/core/core.h"

#define TOP_WANTED 8192 /* a table of 64 KiB */

static TABLE uint64_t hidden[FD_TOP / 64];
static int next_try; /* 0: not known yet */
static uint32_t count;

uint32_t fd_hidden_count(void)
{
	return __atomic_load_n(&count, __ATOMIC_RELAXED);
}

static int fd_top(void)
{
	struct rlimit rl;

	if (sys_call6(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&rl, 0, 0))
		return 1024;
	return rl.rlim_cur < TOP_WANTED ? (int)rl.rlim_cur : TOP_WANTED;
}

/* Downwards from the top while numbers are free, else anything above. */
static int fd_place(int fd)
{
	int top = fd_top(), base = top - top / 4, n, at;

	at = __atomic_load_n(&next_try, __ATOMIC_RELAXED);
	if (at < base || at >= top)
		at = top - 1;
	n = sys_fcntl(fd, F_DUPFD_CLOEXEC, at);
	if (n < 0)
		n = sys_fcntl(fd, F_DUPFD_CLOEXEC, base);
	if (n >= FD_TOP) {
		sys_close(n);
		n = -EMFILE;
	}
	if (n >= 0)
		__atomic_store_n(&next_try, at - 1, __ATOMIC_RELAXED);
	return n == -EINVAL ? -EMFILE : n;
}

static void fd_mark(int n)
{
	if (!(__atomic_fetch_or(&hidden[n / 64], 1ull << n % 64,
				__ATOMIC_RELAXED) >>
		      n % 64 &
	      1))
		__atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
}

int fd_hide(int fd)
{
	int n = fd_place(fd);

	sys_close(fd);
	if (n >= 0)
		fd_mark(n);
	return n;
}

bool fd_move(int *fd, int from)
{
	int n;

	if (from < 0 || __atomic_load_n(fd, __ATOMIC_RELAXED) != from)
		return false;
	n = fd_place(from);
	if (n < 0) /* the program has the upper quarter: anything */
		n = sys_fcntl(from, F_DUPFD_CLOEXEC, 3);
	if (n < 0)
		return false;
	fd_mark(n);
	__atomic_store_n(fd, n, __ATOMIC_SEQ_CST);
	fd_unhide(from);
	return true;
}

bool fd_hidden(int fd)
{
	if ((unsigned int)fd >= FD_TOP)
		return false;
	return __atomic_load_n(&hidden[fd / 64], __ATOMIC_RELAXED) >> fd % 64 &
	       1;
}

static int kept = -1; /* of nothing_fd() */

bool fd_vacate(int fd)
{
	return fd_move(&kept, fd);
}

/* A descriptor that can do nothing, made when first needed; -1: none. */
static int nothing_fd(int but)
{
	int fd = __atomic_load_n(&kept, __ATOMIC_ACQUIRE);

	if (fd >= 0 && fd != but)
		return fd;
	fd = sys_open("/", O_PATH | O_CLOEXEC, 0);
	if (fd >= 0)
		fd = fd_hide(fd);
	if (fd < 0)
		return -1;
	if (__atomic_compare_exchange_n(&kept, &but, fd, false,
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		return fd;
	fd_unhide(fd);
	sys_close(fd);
	return but;
}

bool fd_cover(int fd)
{
	int with = nothing_fd(-1), ret;

	if (with < 0)
		return false;
	ret = (int)sys_call3(SYS_dup3, with, fd, O_CLOEXEC);
	if (ret == -EBADF) { /* the program has closed it by force */
		with = nothing_fd(with);
		if (with >= 0)
			ret = (int)sys_call3(SYS_dup3, with, fd, O_CLOEXEC);
	}
	return ret >= 0;
}

int fd_hidden_next(unsigned int from)
{
	unsigned int i = from / 64;
	uint64_t word;

	if (from >= FD_TOP)
		return -1;
	word = __atomic_load_n(&hidden[i], __ATOMIC_RELAXED) &
	       ~0ull << from % 64;
	while (!word && ++i < FD_TOP / 64)
		word = __atomic_load_n(&hidden[i], __ATOMIC_RELAXED);
	return word ? (int)(i * 64 + (unsigned int)__builtin_ctzll(word)) : -1;
}

void fd_unhide(int fd)
{
	if ((unsigned int)fd < FD_TOP &&
	    __atomic_fetch_and(&hidden[fd / 64], ~(1ull << fd % 64),
			       __ATOMIC_RELAXED) >>
			    fd % 64 &
		    1)
		__atomic_sub_fetch(&count, 1, __ATOMIC_RELAXED);
}
