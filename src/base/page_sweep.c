/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/page.h"
#include "base/scratch.h"
#include "base/sys.h"
#include "base/text.h"

/* A directory with more in it is somebody else's care. */
#define SWEEP_READS 16

/* The process id in the name of a page's file, or 0. */
static int name_pid(const char *name)
{
	const size_t prefix = sizeof(PAGE_PREFIX) - 1;
	uint64_t pid = 0;
	size_t n;

	if (strncmp(name, PAGE_PREFIX, prefix))
		return 0;
	n = text_number(name + prefix, INT32_MAX, &pid);
	return n && name[prefix + n] == '.' ? (int)pid : 0;
}

/* Only who shares our process ids can be known to be gone. */
static bool page_is_ours(int dir, const char *name, int pid)
{
	struct {
		uint64_t magic;
		uint32_t version, rows;
		int32_t pid;
		uint32_t uid;
		uint64_t start, pidns;
	} head;
	int fd = sys_openat(dir, name,
			    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
	ssize_t n;

	_Static_assert(sizeof(head) == offsetof(struct page, program),
		       "the head of struct page");
	if (fd < 0)
		return false;
	n = sys_pread(fd, &head, sizeof(head), 0);
	sys_close(fd);
	return n == (ssize_t)sizeof(head) && head.magic == PAGE_MAGIC &&
	       head.pid == pid && head.pidns && head.pidns == page_pidns();
}

static void sweep_names(int dir, const char *buf, size_t len)
{
	const struct dirent64 *d;
	size_t at;

	for (at = 0; at < len; at += d->d_reclen) {
		int pid;

		d = (const void *)(buf + at);
		pid = name_pid(d->d_name);
		if (pid && sys_kill(pid, 0) == -ESRCH &&
		    page_is_ours(dir, d->d_name, pid))
			sys_call3(SYS_unlinkat, dir, d->d_name, 0);
	}
}

void page_sweep(void)
{
	const size_t size = 4096;
	SCRATCH(room);
	char *buf = scratch_take(&room, size);
	int dir = sys_open(PAGE_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	int i;

	if (dir < 0)
		return;
	for (i = 0; buf && i < SWEEP_READS; i++) {
		long n = sys_call3(SYS_getdents64, dir, buf, size);

		if (n <= 0)
			break;
		sweep_names(dir, buf, (size_t)n);
	}
	sys_close(dir);
}
