/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Signals that are put off; see hush.h. */

#include "socket/hush.h"

#include <sys/signalfd.h>

#include "socket/impl.h"

#define MASKS	  4 /* signalfds of a process, one for each mask */
#define BIT_OF(s) (1ull << ((s)-1))

/* A signalfd of all that this mask lets through; -1: none. */
static int signal_fd(uint64_t mask)
{
	static struct {
		uint64_t mask;
		int fd; /* plus 1 */
	} known[MASKS];
	static struct lock lock;
	uint64_t all = ~mask;
	int i, fd = -1;

	for (i = 0; i < MASKS && fd < 0; i++) {
		if (!__atomic_load_n(&known[i].fd, __ATOMIC_ACQUIRE)) {
			if (lock_take(&lock))
				return -1;
			if (!known[i].fd) {
				fd = (int)sys_call6(SYS_signalfd4, -1,
						    (long)&all, 8,
						    SFD_CLOEXEC | SFD_NONBLOCK,
						    0, 0);
				fd = fd < 0 ? fd : fd_hide(fd);
				known[i].mask = mask;
				if (fd >= 0)
					__atomic_store_n(&known[i].fd, fd + 1,
							 __ATOMIC_RELEASE);
			}
			lock_drop(&lock);
			if (fd < 0 && !known[i].fd)
				return -1;
		}
		fd = known[i].mask == mask ? known[i].fd - 1 : -1;
	}
	return fd;
}

bool hush_begin(struct hush *h)
{
	/*
	 * What the thread's own code brings about is not put off; nor are
	 * libc's own two, whose handlers go back or unwind (cancellation, for
	 * which it would wait).
	 */
	uint64_t all = ~(BIT_OF(SIGSEGV) | BIT_OF(SIGBUS) | BIT_OF(SIGILL) |
			 BIT_OF(SIGFPE) | BIT_OF(SIGTRAP) | BIT_OF(SIGSYS) |
			 BIT_OF(32) | BIT_OF(33));
	uint64_t was = 0;

	memset(&h->was, 0, sizeof(h->was));
	if (sys_call6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&was, 8,
		      0, 0))
		return false;
	memcpy(&h->was, &was, sizeof(was));
	h->fd = signal_fd(was);
	if (h->fd >= 0)
		return true;
	sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&was, 0, 8, 0, 0);
	return false;
}

void hush_drop(struct hush *h)
{
	if (h->fd < 0)
		return;
	h->fd = -1;
	sys_call6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&h->was, 0, 8, 0, 0);
}

void hush_end(struct sock *s, struct hush *h)
{
	sock_unlock(s);
	hush_drop(h);
	lock_take(&s->lock);
}

int hush_heed(struct sock *s, struct hush *h)
{
	struct timespec now = { 0, 0 };
	int saved = errno, ret;

	sock_unlock(s);
	ret = hooks.ppoll(NULL, 0, &now, &h->was) < 0 ? -errno : 0;
	errno = saved;
	lock_take(&s->lock);
	return ret;
}
