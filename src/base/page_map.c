/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "base/page.h"
#include "base/sys.h"

/*
 * The reader's side. The file belongs to another process, which may change or
 * cut it at any moment: it is read, not mapped, checked once, and the copy
 * used.
 */

#define PAGE_TRIES 8
#define PAGE_UNIT  65536 /* what is given back: whole pages of any processor */

static int page_read(int fd, struct page *p)
{
	size_t got = 0;
	ssize_t n;

	while (got < sizeof(*p)) {
		n = sys_pread(fd, (char *)p + got, sizeof(*p) - got,
			      (off_t)got);
		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n ? (int)n : -EPROTO;
		got += (size_t)n;
	}
	return 0;
}

/*
 * A row is good when its generation was even and the same before its first
 * copy and after it: that is, in a second copy. Returns how many were not.
 */
static uint32_t page_settle(struct page *p, const struct page *again)
{
	uint32_t i, bad = 0;

	for (i = 0; i < PAGE_ROWS; i++) {
		struct page_row *r = &p->row[i];

		if (!r->gen && !again->row[i].gen)
			r->fd = -1;
		else if ((r->gen & 1) || r->gen != again->row[i].gen) {
			r->fd = -1;
			bad++;
		}
	}
	return bad;
}

/*
 * A row that went between the copy of the counters and its own is in neither:
 * then the counters have changed.
 */
static bool page_folded(const struct page *p, const struct page *again)
{
#define SAME(to, from)              \
	if (p->c.to != again->c.to) \
		return true;
	PAGE_FOLDED(SAME)
#undef SAME
	return false;
}

static int page_snapshot(int fd, struct page *p, struct page *again)
{
	int tries, err;

	for (tries = 0; tries < PAGE_TRIES; tries++) {
		err = page_read(fd, p);
		if (!err)
			err = page_read(fd, again);
		if (err)
			return err;
		if (!page_settle(p, again) && !page_folded(p, again))
			break;
	}
	return 0;
}

static int page_check(const struct page *p)
{
	if (p->magic != PAGE_MAGIC || p->version != PAGE_VERSION ||
	    p->rows != PAGE_ROWS || p->pid <= 0)
		return -EPROTO;
	return 0;
}

static int page_load(int fd, struct page *p, struct page *again)
{
	struct stat st;
	int err = sys_fstat(fd, &st);
	size_t i;

	if (err)
		return err;
	if (!S_ISREG(st.st_mode) || (size_t)st.st_size < sizeof(*p) ||
	    (st.st_mode & 022))
		return -EPROTO;
	err = page_snapshot(fd, p, again);
	if (!err)
		err = page_check(p);
	for (i = 0; i < PAGE_EVENTS; i++)
		if (memcmp(&p->event[i], &again->event[i], sizeof(p->event[i])))
			p->event[i].seq = 0; /* it was just being written */
	p->uid = st.st_uid;
	p->program[sizeof(p->program) - 1] = '\0';
	p->reload.said[sizeof(p->reload.said) - 1] = '\0';
	for (i = 0; i < PAGE_ROWS; i++)
		p->row[i].device[sizeof(p->row[i].device) - 1] = '\0';
	return err;
}

/* Gives back what lies behind the last row in use. Returns what is kept. */
static size_t page_trim(struct page *p, size_t bytes)
{
	size_t kept;

	while (p->rows && p->row[p->rows - 1].fd < 0)
		p->rows--;
	kept = offsetof(struct page, row) + p->rows * sizeof(p->row[0]);
	kept = (kept + PAGE_UNIT - 1) / PAGE_UNIT * PAGE_UNIT;
	sys_munmap((char *)p + kept, bytes - kept);
	return kept;
}

struct page *page_map(const char *path, size_t *len)
{
	size_t bytes = 2 * sizeof(struct page);
	struct page *p;
	int fd, err;

	fd = sys_open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
	if (fd < 0) {
		errno = -fd;
		return NULL;
	}
	p = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	err = sys_is_err(p) ? (int)(long)p : page_load(fd, p, p + 1);
	sys_close(fd);
	if (err) {
		if (!sys_is_err(p))
			sys_munmap(p, bytes);
		errno = -err;
		return NULL;
	}
	*len = page_trim(p, bytes);
	return p;
}
