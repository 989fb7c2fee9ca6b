/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Signals that are put off; see sigblock.h. */

#include "socket/wait/wait.h"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#define MASKS	  4 /* signalfds of a process, one for each mask */
#define BIT_OF(s) (1ull << ((s)-1))

static struct {
	uint64_t mask;
	int fd; /* plus 1 */
} known[MASKS];
static struct lock known_lock;
static int tasks_fd = -1; /* of tasks() */

/* In the child: another thread may have had it. */
void sigblock_forked(void)
{
	known_lock = (struct lock){ 0 };
}

bool sigblock_vacate(int fd)
{
	int i, n;

	if (fd_move(&tasks_fd, fd))
		return true;
	for (i = 0; i < MASKS; i++) {
		n = __atomic_load_n(&known[i].fd, __ATOMIC_ACQUIRE) - 1;
		if (!fd_move(&n, fd))
			continue;
		__atomic_store_n(&known[i].fd, n + 1, __ATOMIC_RELEASE);
		return true;
	}
	return false;
}

/* A signalfd of all that this mask lets through; -1: none. */
static int signal_fd(uint64_t mask)
{
	uint64_t all = ~mask;
	int i, fd = -1;

	for (i = 0; i < MASKS && fd < 0; i++) {
		if (!__atomic_load_n(&known[i].fd, __ATOMIC_ACQUIRE)) {
			if (lock_take(&known_lock) == -EDEADLK)
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
			lock_drop(&known_lock);
			if (fd < 0 && !known[i].fd)
				return -1;
		}
		fd = known[i].mask == mask ? known[i].fd - 1 : -1;
	}
	return fd;
}

static bool same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

/*
 * The directory of this process's threads. It is kept open, since it is asked
 * before each sleep, and its path is most of what that costs. Of the first
 * thread alone, hence no lock; a child has one of its own.
 */
static int tasks(struct stat *st)
{
	static const char path[] = "/proc/self/task";
	static struct stat kept;
	static int pid;

	if (tasks_fd >= 0 && !sys_fstat(tasks_fd, st) && same(st, &kept)) {
		if (pid == sock_pid)
			return 0;
		fd_unhide(tasks_fd);
		sys_close(tasks_fd);
	}
	if (pid != sock_pid) {
		pid = sock_pid;
		tasks_fd = sys_open(path, O_PATH | O_CLOEXEC, 0);
		tasks_fd = tasks_fd < 0 ? tasks_fd : fd_hide(tasks_fd);
		if (tasks_fd >= 0 && !sys_fstat(tasks_fd, &kept)) {
			*st = kept;
			return 0;
		}
	}
	return sys_stat(path, st);
}

/*
 * This is the first thread, and the program has others: its links in /proc are
 * two more than its threads, one of which is our service thread.
 */
static bool missed(void)
{
	struct stat st;

	return settings.zcopy != SET_ZCOPY_ALWAYS &&
	       lock_tid() == (uint32_t)sock_pid &&
	       (tasks(&st) || st.st_nlink > 4);
}

bool sigblock_begin(struct sigblock *h)
{
	/*
	 * What the thread's own code brings about is not put off; nor are
	 * libc's own two, whose handlers go back or unwind (cancellation, for
	 * which it would wait).
	 */
	uint64_t all = ~(BIT_OF(SIGSEGV) | BIT_OF(SIGBUS) | BIT_OF(SIGILL) |
			 BIT_OF(SIGFPE) | BIT_OF(SIGTRAP) | BIT_OF(SIGSYS) |
			 BIT_OF(32) | BIT_OF(33));

	memset(&h->hold, 0, sizeof(h->hold));
	if (missed() || !hold_block(&h->hold, all))
		return false;
	h->fd = signal_fd(h->hold.saved[0]);
	h->hold.on = h->fd >= 0;
	if (h->hold.on)
		hold_on(&h->hold);
	else
		hold_unblock(&h->hold);
	return h->hold.on;
}

void sigblock_drop(struct sigblock *h)
{
	if (h->fd < 0)
		return;
	h->fd = -1;
	hold_unblock(&h->hold);
}

void sigblock_end(struct sock *s, struct sigblock *h)
{
	SLEEP(in);

	wait_away(&in, s, false);
	hold_give_way(&h->hold);
	sigblock_drop(h);
	wait_back(&in);
}

static uint64_t pending_of(const struct sigblock *h)
{
	uint64_t pending = 0;

	sys_call3(SYS_rt_sigpending, (long)&pending, 8, 0);
	return pending & ~h->hold.saved[0];
}

bool sigblock_pending(const struct sigblock *h)
{
	return pending_of(h) != 0;
}

int sigblock_heed(struct sock *s, struct sigblock *h, bool *restarts)
{
	struct timespec now = { 0, 0 };
	uint64_t pending;
	const sigset_t *mask;
	int saved = errno, ret;
	SLEEP(in);

	wait_away(&in, s, false);
	mask = hold_mask(&h->hold, NULL);
	pending = pending_of(h);
	ret = hooks.ppoll(NULL, 0, &now, mask) < 0 ? -errno : 0;
	hold_on(&h->hold);
	*restarts = wait_restarts(pending ? pending : UINT64_MAX);
	errno = saved;
	wait_back(&in);
	return ret;
}
