/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/page.h"
#include "base/proc.h"
#include "base/scratch.h"
#include "base/sums.h"
#include "base/sys.h"
#include "base/text.h"

/* A directory with more in it is left to others. */
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

/* The process that the file is named for, if it has ended; or 0. */
static __attribute__((noinline)) int ended_of(const char *name)
{
	int pid = name_pid(name);

	return pid && proc_ended(pid) ? pid : 0;
}

/*
 * Only whose process ids we share can be known to be gone, and only our own
 * user's pages are ours to add to the sums.
 */
static bool page_is_ours(const struct page *p, int pid)
{
	return p->magic == PAGE_MAGIC && p->pid == pid && p->pidns &&
	       p->pidns == page_pidns();
}

/* The page in a file, mapped: it is this user's, or NULL. */
static __attribute__((noinline)) struct page *page_of(int dir, const char *name)
{
	int fd = sys_openat(dir, name,
			    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
	struct page *p = NULL;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (!sys_fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    (uid_t)sys_geteuid() == st.st_uid && !(st.st_mode & 022) &&
	    st.st_size >= (off_t)sizeof(*p))
		p = sys_mmap(NULL, sizeof(*p), PROT_READ, MAP_SHARED, fd, 0);
	sys_close(fd);
	return sys_is_err(p) ? NULL : p;
}

/* Looking at those never used would take memory for them. */
static uint32_t rows_used(const struct page *p)
{
	uint32_t n = 0;

	while (n < PAGE_ROWS &&
	       (p->row[n].gen || (n + 1 < PAGE_ROWS && p->row[n + 1].gen)))
		n++;
	return n;
}

/* Nothing can ask for anything by it any more. */
static bool sweep_note(int dir, const char *name)
{
	const size_t len = strlen(name), end = sizeof(PAGE_ASK) - 1;

	if (len < end || strcmp(name + len - end, PAGE_ASK))
		return false;
	sys_call3(SYS_unlinkat, dir, name, 0);
	return true;
}

/* The process that removes the name has the counters: they are added once. */
static void sweep_page(int dir, const char *name, int pid)
{
	struct page_counters *c, *had;
	struct page *p = NULL;
	SCRATCH(room);

	if (!sweep_note(dir, name))
		p = page_of(dir, name);
	if (!p)
		return;
	c = scratch_take(&room, 2 * sizeof(*c));
	had = c ? c + 1 : NULL;
	if (c && page_is_ours(p, pid)) {
		if (p->version == PAGE_VERSION && p->rows == PAGE_ROWS) {
			page_totals(p, rows_used(p), c);
			*had = p->summed;
			sums_open(false);
			sums_inherit(c, had, dir, name);
		} else {
			sys_call3(SYS_unlinkat, dir, name, 0);
		}
	}
	sys_munmap(p, sizeof(*p));
}

static void sweep_names(int dir, const char *buf, size_t len)
{
	const struct dirent64 *d;
	size_t at;

	for (at = 0; at < len; at += d->d_reclen) {
		int pid;

		d = (const void *)(buf + at);
		pid = ended_of(d->d_name);
		if (pid)
			sweep_page(dir, d->d_name, pid);
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
