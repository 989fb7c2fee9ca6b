/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/scan.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/text.h"
#include "tools/ended.h"
#include "tools/kernel.h"
#include "tools/names.h"
#include "tools/stray.h"

/* A process of this machine. */
struct proc {
	pid_t pid; /* here */
	pid_t inner; /* in its own process namespace */
	uint64_t start;
	unsigned int uid[4]; /* real, effective, saved, file system */
	unsigned int root; /* the user that is root in its user namespace */
};

struct scan {
	struct proc *procs;
	size_t nprocs, procs_room;
	struct stat *dirs; /* visited */
	size_t ndirs, dirs_room;
	struct found *found;
	size_t nfound, found_room;
	pid_t only;
	uint64_t pidns;
};

/* Room for one more of `size` bytes. */
static void *grown(void *list, size_t count, size_t *room, size_t size)
{
	if (count < *room)
		return list;
	*room = *room ? *room * 2 : 64;
	list = reallocarray(list, *room, size);
	if (!list)
		err(2, "memory");
	return list;
}

/* User ids and the innermost process id, from /proc/PID/status. */
static void proc_status(struct proc *p)
{
	char path[64], line[512];
	FILE *f;

	p->inner = p->pid;
	memset(p->uid, 0xff, sizeof(p->uid));
	snprintf(path, sizeof(path), "/proc/%d/status", p->pid);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		char *last = strrchr(line, '\t');

		if (!strncmp(line, "NSpid:", 6) && last)
			p->inner = atoi(last + 1);
		sscanf(line, "Uid: %u %u %u %u", &p->uid[0], &p->uid[1],
		       &p->uid[2], &p->uid[3]);
	}
	fclose(f);
}

/* As seen from here; if that cannot be read, or it has none: root here. */
static void proc_root(struct proc *p)
{
	unsigned int inside, outside;
	char path[64];
	FILE *f;

	p->root = 0;
	snprintf(path, sizeof(path), "/proc/%d/uid_map", p->pid);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fscanf(f, "%u %u %*u", &inside, &outside) == 2)
		if (!inside)
			p->root = outside;
	fclose(f);
}

static void list_procs(struct scan *s)
{
	DIR *dir = opendir("/proc");
	struct dirent *d;

	if (!dir)
		err(2, "/proc");
	while ((d = readdir(dir))) {
		uint64_t pid;
		size_t n = text_number(d->d_name, 1u << 30, &pid);
		struct proc *p;

		if (!n || d->d_name[n])
			continue;
		s->procs = grown(s->procs, s->nprocs, &s->procs_room,
				 sizeof(*s->procs));
		p = &s->procs[s->nprocs];
		p->pid = (pid_t)pid;
		p->start = page_start_time(p->pid);
		proc_status(p);
		proc_root(p);
		s->nprocs += p->start != 0;
	}
	closedir(dir);
}

static const struct proc *owner_of(const struct scan *s, const struct page *p)
{
	size_t i;

	for (i = 0; i < s->nprocs; i++)
		if (s->procs[i].inner == p->pid &&
		    s->procs[i].start == p->start)
			return &s->procs[i];
	return NULL;
}

static bool known(const struct scan *s, const struct page *page)
{
	size_t i;

	for (i = 0; i < s->nfound; i++) {
		const struct page *p = s->found[i].page;

		if (p->pid == page->pid && p->start == page->start &&
		    p->pidns == page->pidns)
			return true;
	}
	return false;
}

/*
 * No user may speak for another user's process, whatever namespaces it makes.
 * Root's pages stay root's when the process becomes another user.
 */
static bool may_speak(const struct page *p, const struct proc *owner)
{
	size_t i;

	for (i = 0; i < 4; i++)
		if (owner->uid[i] == p->uid)
			return true;
	return p->uid == owner->root;
}

/*
 * The list of processes is older than the page may be: before a page is taken
 * for stale, its process is looked for again.
 */
static bool stale(const struct scan *s, const struct page *p)
{
	return p->pidns && p->pidns == s->pidns &&
	       page_start_time(p->pid) != p->start;
}

/* Does the file name say what the page says? */
static bool named_for(const char *name, const struct page *p)
{
	char want[64];

	snprintf(want, sizeof(want), PAGE_PREFIX "%d.%lu", p->pid,
		 (unsigned long)p->start);
	return !strcmp(name, want);
}

static struct found *add_found(struct scan *s, pid_t pid, struct page *page,
			       size_t len)
{
	s->found =
		grown(s->found, s->nfound, &s->found_room, sizeof(*s->found));
	s->found[s->nfound] =
		(struct found){ .pid = pid, .page = page, .len = len };
	return &s->found[s->nfound++];
}

/* One that cannot be read: if it is a living process's, it is said why. */
static void other_version(const struct scan *s, const char *path,
			  const char *name)
{
	uint64_t pid = 0;
	struct {
		uint64_t magic;
		uint32_t version;
	} head = { 0 };
	int fd;

	text_number(name + sizeof(PAGE_PREFIX) - 1, INT32_MAX, &pid);
	if (!pid || (s->only && s->only != (pid_t)pid) ||
	    proc_ended((pid_t)pid))
		return;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return;
	if (read(fd, &head, sizeof(head)) == sizeof(head) &&
	    head.magic == PAGE_MAGIC && head.version != PAGE_VERSION &&
	    head.version != PAGE_LEFT)
		warnx("process %d runs with another version of libsdp (page %u, "
		      "not %u): not shown",
		      (int)pid, head.version, PAGE_VERSION);
	close(fd);
}

static void take_page(struct scan *s, const char *dir, const char *name,
		      bool own)
{
	const struct proc *owner = NULL;
	struct page *p;
	char path[512];
	size_t len;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	p = page_map(path, &len);
	if (!p) {
		other_version(s, path, name);
		return;
	}
	if (named_for(name, p) && !known(s, p)) {
		owner = owner_of(s, p);
		if (!owner && own && stale(s, p))
			ended_retire(path, p);
		if (owner && !may_speak(p, owner))
			owner = NULL;
	}
	if (owner)
		text_copy(add_found(s, owner->pid, p, len)->path,
			  sizeof(s->found->path), path);
	else
		munmap(p, len);
}

/* `own`: this process's own PAGE_DIR. Each directory is visited once. */
static void visit(struct scan *s, const char *path, bool own)
{
	struct dirent *d;
	struct stat st;
	DIR *dir;
	size_t i;

	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		return;
	for (i = 0; i < s->ndirs; i++)
		if (s->dirs[i].st_dev == st.st_dev &&
		    s->dirs[i].st_ino == st.st_ino)
			return;
	s->dirs = grown(s->dirs, s->ndirs, &s->dirs_room, sizeof(*s->dirs));
	s->dirs[s->ndirs++] = st;
	if (own)
		page_sweep();
	dir = opendir(path);
	if (!dir)
		return;
	while ((d = readdir(dir)))
		if (!strncmp(d->d_name, PAGE_PREFIX, strlen(PAGE_PREFIX)))
			take_page(s, path, d->d_name, own);
	closedir(dir);
}

static int by_pid(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* What a process would say of itself that has nothing to say. */
static struct page *bare_page(const struct proc *proc)
{
	struct page *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char path[64];
	FILE *f;

	if (p == MAP_FAILED)
		err(2, "memory");
	p->pid = proc->inner;
	p->uid = proc->uid[1];
	p->start = proc->start;
	snprintf(path, sizeof(path), "/proc/%d/comm", proc->pid);
	f = fopen(path, "re");
	if (f && fgets(p->program, sizeof(p->program), f))
		p->program[strcspn(p->program, "\n")] = '\0';
	if (f)
		fclose(f);
	return p;
}

static void add_bare(struct scan *s)
{
	const size_t pages = s->nfound;
	size_t i, k;

	for (i = 0; i < s->nprocs; i++) {
		for (k = 0; k < pages && s->found[k].pid != s->procs[i].pid;
		     k++)
			;
		if (k == pages && stray_suspect(s->procs[i].pid))
			add_found(s, s->procs[i].pid, bare_page(&s->procs[i]),
				  sizeof(struct page));
	}
}

/* Relatives share sockets: what one of them tells of is no stray. */
static void ask_kernel(struct scan *s)
{
	struct found *f;
	size_t i;

	for (i = 0; i < s->nfound; i++)
		stray_follow(s->found[i].pid, s->found[i].page);
	for (i = 0; i < s->nfound; i++) {
		f = &s->found[i];
		if (s->only && f->pid != s->only)
			continue;
		kernel_names(f->pid, f->page);
		f->stray = stray_rows(f->pid, f->page, &f->strays);
	}
}

static void found_free(struct found *f)
{
	munmap(f->page, f->len);
	free(f->stray);
}

void scan_free(struct found *found, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		found_free(&found[i]);
	free(found);
}

static void keep_only(struct scan *s)
{
	size_t i, kept = 0;

	for (i = 0; i < s->nfound; i++) {
		if (s->found[i].pid == s->only)
			s->found[kept++] = s->found[i];
		else
			found_free(&s->found[i]);
	}
	s->nfound = kept;
}

struct found *scan_pages(pid_t only, size_t *count)
{
	struct scan s = { .only = only, .pidns = page_pidns() };
	char path[64];
	size_t i;

	list_procs(&s);
	visit(&s, PAGE_DIR, true);
	for (i = 0; i < s.nprocs; i++) {
		snprintf(path, sizeof(path), "/proc/%d/root" PAGE_DIR,
			 s.procs[i].pid);
		visit(&s, path, false);
	}
	add_bare(&s);
	ask_kernel(&s);
	kernel_forget();
	if (only)
		keep_only(&s);
	if (s.nfound)
		qsort(s.found, s.nfound, sizeof(*s.found), by_pid);
	free(s.procs);
	free(s.dirs);
	*count = s.nfound;
	return s.found;
}

void scan_totals(const struct page *p, struct page_counters *c)
{
	page_totals(p, p->rows, c);
}

size_t scan_open(const struct found *f)
{
	size_t n = f->strays, i;

	for (i = 0; i < f->page->rows; i++)
		n += row_used(&f->page->row[i]);
	return n;
}
