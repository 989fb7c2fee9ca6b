/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/page.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/proc.h"
#include "base/reason.h"
#include "base/scratch.h"
#include "base/sums.h"
#include "base/sys.h"
#include "base/table.h"
#include "base/text.h"

#define PAGE_ALIGN 65536 /* the largest page size of the processors we know */
#define PAGE_HEAD  offsetof(struct page, row)
#define PAGE_BLOCK 16 /* rows for which memory is taken at a time */

/* Padded to whole pages: mappings are put over it. */
static TABLE union {
	struct page page;
	char whole[(sizeof(struct page) + PAGE_ALIGN - 1) / PAGE_ALIGN *
		   PAGE_ALIGN];
} self __attribute__((aligned(PAGE_ALIGN)));

struct page *page_self = &self.page;

static uint64_t used[PAGE_ROWS / 64]; /* rows in use by this process */
static uint32_t rows_hi; /* rows below have been used at some time */
static uint32_t rows_backed = PAGE_ROWS; /* rows below have memory */
static char page_path[64]; /* "" while private */
/* Of statistics. Not on the stack: that of a signal handler may be small. */
static TABLE char line[4096];
static bool line_taken;
/* What is added to the sums; not on the stack either. */
static TABLE struct page_counters totals;
static bool summing;

uint64_t page_start_time(int pid)
{
	const size_t size = 1024;
	SCRATCH(room);
	char *stat = scratch_take(&room, size);
	uint64_t start = 0;
	const char *p;
	int field;

	if (!stat || proc_ended(pid) ||
	    proc_read(stat, size, "/proc/%d/stat", pid) <= 0)
		return 0;
	p = proc_state(stat);
	for (field = 3; p && field < 22; field++) {
		p = strchr(p, ' ');
		p = p ? p + 1 : p;
	}
	if (p)
		text_number(p, UINT64_MAX, &start);
	return start;
}

uint64_t page_pidns(void)
{
	char link[64];
	ssize_t n = sys_readlink("/proc/self/ns/pid", link, sizeof(link) - 1);
	uint64_t inode = 0;
	const char *p;

	if (n <= 0)
		return 0;
	link[n] = '\0';
	p = strchr(link, '[');
	if (p)
		text_number(p + 1, UINT64_MAX, &inode);
	return inode;
}

/*
 * A file gets its name when it is whole: one that is not is left alone by all
 * others, and would stay for good if its process is killed.
 */
static int page_nameless(void)
{
	return sys_open(PAGE_DIR, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

/* A left-over of this process before its exec() has the same name. */
static int page_name(int fd)
{
	char file[32];
	struct text t = TEXT_IN(file);
	int err;

	text_add(&t, "/proc/self/fd/%d", fd);
	err = sys_link(file, page_path);
	if (err == -EEXIST && !sys_unlink(page_path))
		err = sys_link(file, page_path);
	return err;
}

/* Where files without a name, or links to them, are not to be had. */
static int page_create(void)
{
	const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	int fd = sys_open(page_path, flags, 0600);

	if (fd == -EEXIST && !sys_unlink(page_path))
		fd = sys_open(page_path, flags, 0600);
	return fd;
}

uint32_t page_rows(void)
{
	return __atomic_load_n(&rows_hi, __ATOMIC_RELAXED);
}

/* Bytes of the page that hold something now. */
static size_t page_used_bytes(void)
{
	return PAGE_HEAD + page_rows() * sizeof(struct page_row);
}

/* Memory for what is used; without MADV_POPULATE_WRITE for all of it. */
static int page_reserve(int fd, size_t bytes)
{
	int err = sys_ftruncate(fd, sizeof(self));

	if (err)
		return err;
	if (sys_madvise(&self, 4096, MADV_POPULATE_WRITE) == -EINVAL) {
		rows_backed = PAGE_ROWS;
		return sys_fallocate(fd, 0, 0, sizeof(self));
	}
	err = sys_fallocate(fd, 0, 0, (off_t)bytes);
	if (!err)
		rows_backed = (uint32_t)((bytes - PAGE_HEAD) /
					 sizeof(struct page_row));
	return err;
}

/* Copies the page into the file and puts the file's memory in its place. */
static int page_share(int fd)
{
	size_t bytes = page_used_bytes();
	int err = page_reserve(fd, bytes);
	void *at;

	if (err)
		return err;
	at = sys_mmap(NULL, sizeof(self), PROT_READ | PROT_WRITE, MAP_SHARED,
		      fd, 0);
	if (sys_is_err(at))
		return (int)(long)at;
	memcpy(at, &self, bytes);
	sys_munmap(at, sizeof(self));
	at = sys_mmap(&self, sizeof(self), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_FIXED, fd, 0);
	return sys_is_err(at) ? (int)(long)at : 0;
}

/* Into that file, which is closed then; `named`: it gets its name now. */
static int page_put(int fd, bool named)
{
	int err;

	if (fd < 0)
		return fd;
	err = page_share(fd);
	if (!err) {
		__atomic_store_n(&page_self->magic, PAGE_MAGIC,
				 __ATOMIC_RELEASE);
		if (named)
			err = page_name(fd);
	}
	sys_close(fd);
	return err;
}

static __attribute__((noinline)) int page_make(const char *program)
{
	struct text t = TEXT_IN(page_path);
	struct page *p = page_self;
	int fd, err;

	p->version = PAGE_VERSION;
	p->rows = PAGE_ROWS;
	p->pid = sys_getpid();
	p->uid = sys_geteuid();
	p->start = page_start_time(p->pid);
	p->pidns = page_pidns();
	text_copy(p->program, sizeof(p->program), program);
	text_add(&t, PAGE_DIR "/" PAGE_PREFIX "%d.%lu", p->pid, p->start);
	if (!page_put(page_nameless(), true))
		return 0;
	fd = page_create();
	err = page_put(fd, false);
	if (err && fd >= 0)
		sys_unlink(page_path);
	return err;
}

/* Was it asked for something before it had a page? */
static __attribute__((noinline)) void page_note(void)
{
	char path[64];
	struct text t = TEXT_IN(path);
	struct stat st;
	int fd;

	text_add(&t, "%s" PAGE_ASK, page_path);
	fd = sys_open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0);
	if (fd < 0)
		return;
	if (!sys_fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    (!st.st_uid || st.st_uid == (uid_t)sys_geteuid())) {
		sys_unlink(path);
		__atomic_store_n(&page_self->reload.asked, PAGE_ASK_NEXT,
				 __ATOMIC_RELEASE);
	}
	sys_close(fd);
}

/* The steps one after the other: their frames do not add up. */
int page_open(const char *program)
{
	int err;

	if (page_path[0])
		return 0;
	err = page_make(program);
	if (err) {
		log_once(LOG_WARN, "sdpstat will not see this process: %s (%d)",
			 page_path, -err);
		rows_backed = PAGE_ROWS;
		page_path[0] = '\0';
		return err;
	}
	page_note();
	sums_open(false);
	page_sweep();
	return 0;
}

void page_totals(const struct page *p, uint32_t rows, struct page_counters *c)
{
	uint32_t i;

	*c = p->c;
	for (i = 0; i < rows; i++) {
		const struct page_row *r = &p->row[i];

		if (!r->gen || r->fd < 0)
			continue;
		page_fold(c, r);
		if (r->why < PAGE_REASONS)
			c->reasons[r->why]++;
	}
}

/* By one thread at a time; another's counts come with the next. */
static void page_sum_up(void)
{
	if (!page_path[0] ||
	    __atomic_exchange_n(&summing, true, __ATOMIC_ACQUIRE))
		return;
	page_totals(page_self, page_rows(), &totals);
	sums_add(&totals, &page_self->summed);
	__atomic_store_n(&summing, false, __ATOMIC_RELEASE);
}

void page_close(void)
{
	page_sum_up();
	if (page_path[0])
		sys_unlink(page_path);
	page_path[0] = '\0';
}

void page_leave(bool left)
{
	if (left)
		page_sum_up();
	if (page_path[0])
		__atomic_store_n(&page_self->version,
				 left ? PAGE_LEFT : PAGE_VERSION,
				 __ATOMIC_RELEASE);
}

void page_forked(void)
{
	if (page_path[0])
		sys_mmap(&self, sizeof(self), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	else
		memset(&self, 0, page_used_bytes());
	memset(used, 0, sizeof(used));
	rows_hi = 0;
	rows_backed = PAGE_ROWS;
	page_path[0] = '\0';
	line_taken = false;
	summing = false;
}

/* Takes memory for row `i` if that may still fail. */
static bool page_row_back(uint32_t i)
{
	uintptr_t at, end, mask = 4095;
	uint32_t to = i + PAGE_BLOCK;

	if (i < __atomic_load_n(&rows_backed, __ATOMIC_RELAXED))
		return true;
	to = to > PAGE_ROWS ? PAGE_ROWS : to;
	at = (uintptr_t)&page_self->row[rows_backed] & ~mask;
	end = ((uintptr_t)(page_self->row + to) + mask) & ~mask;
	if (sys_madvise((void *)at, end - at, MADV_POPULATE_WRITE))
		return false;
	__atomic_store_n(&rows_backed, to, __ATOMIC_RELAXED);
	return true;
}

static int page_row_take(void)
{
	uint32_t w;

	for (w = 0; w < PAGE_ROWS / 64; w++) {
		uint64_t seen = __atomic_load_n(&used[w], __ATOMIC_RELAXED);

		while (~seen) {
			uint64_t bit = ~seen & (seen + 1);

			if (__atomic_compare_exchange_n(
				    &used[w], &seen, seen | bit, 0,
				    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return (int)(w * 64) + __builtin_ctzll(bit);
		}
	}
	return -1;
}

static void page_row_free(uint32_t i)
{
	__atomic_fetch_and(&used[i / 64], ~(1ull << (i % 64)),
			   __ATOMIC_RELEASE);
}

struct page_row *page_row_get(int fd)
{
	int i = page_row_take();
	struct page_row *r;
	uint32_t gen, hi;

	if (i < 0)
		return NULL;
	if (!page_row_back((uint32_t)i)) {
		page_row_free((uint32_t)i);
		return NULL;
	}
	hi = __atomic_load_n(&rows_hi, __ATOMIC_RELAXED);
	while (hi <= (uint32_t)i &&
	       !__atomic_compare_exchange_n(&rows_hi, &hi, (uint32_t)i + 1, 0,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	r = &page_self->row[i];
	page_row_begin(r);
	gen = r->gen;
	memset(&r->fd, 0, sizeof(*r) - offsetof(struct page_row, fd));
	r->fd = fd;
	r->gen = gen;
	page_row_end(r);
	return r;
}

void page_row_put(struct page_row *r)
{
	page_row_begin(r);
	page_fold(&page_self->c, r);
	r->fd = -1;
	page_row_end(r);
	page_row_free((uint32_t)(r - page_self->row));
}

static void page_json(struct text *t, const struct page_counters *c)
{
	const char *comma = "";
	int i;

	text_add(t, "{\"pid\":%d,\"program\":", sys_getpid());
	text_json(t,
		  page_self->program[0] ? page_self->program : log_program());
#define X(name) text_add(t, ",\"" #name "\":%lu", c->name);
	PAGE_COUNTERS(X)
#undef X
#define X(name, former) text_add(t, ",\"" #former "\":%lu", c->name);
	PAGE_FORMER(X)
#undef X
	text_add(t, ",\"reasons\":{");
	for (i = 0; i < WHY_COUNT; i++) {
		if (!c->reasons[i])
			continue;
		text_add(t, "%s\"%s\":%lu", comma, reason_name((enum reason)i),
			 c->reasons[i]);
		comma = ",";
	}
	text_add(t, "}}\n");
}

static int append_line(const char *path, const struct page_counters *c)
{
	const int flags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW |
			  O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	struct text t = TEXT_IN(line);
	struct stat st;
	ssize_t n;
	int fd, err;

	line[0] = '\0';
	page_json(&t, c);
	fd = sys_open(path, flags, 0666);
	if (fd < 0)
		return fd;
	err = sys_fstat(fd, &st);
	if (!err && !S_ISREG(st.st_mode))
		err = -EINVAL;
	if (!err && !sys_may_grow(st.st_size + (off_t)t.len))
		err = -EFBIG;
	if (!err) {
		n = sys_write(fd, line, t.len);
		err = n < 0 ? (int)n : n < (ssize_t)t.len ? -EIO : 0;
	}
	sys_close(fd);
	return err;
}

int page_append_json(const char *path, const struct page_counters *c)
{
	int ret;

	if (__atomic_exchange_n(&line_taken, true, __ATOMIC_ACQUIRE))
		return -EBUSY;
	ret = append_line(path, c);
	__atomic_store_n(&line_taken, false, __ATOMIC_RELEASE);
	return ret;
}
