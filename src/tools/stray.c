/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/stray.h"

#include <dirent.h>
#include <err.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/reason.h"
#include "base/seccomp.h"
#include "tools/kernel.h"

/* Followed by some process: a family shares its sockets. */
static void *followed;

static int by_inode(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static bool maps_name(pid_t pid, const char *file)
{
	char path[64], line[512];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f))
		found = strstr(line, file) != NULL;
	fclose(f);
	return found;
}

bool stray_suspect(pid_t pid)
{
	return maps_name(pid, "/libsdp.so");
}

bool stray_lifted(pid_t pid)
{
	return maps_name(pid, "/memfd:libsdp");
}

static void remember(uint64_t inode)
{
	uint64_t *key = malloc(sizeof(*key)), **at;

	if (!key)
		err(2, "memory");
	*key = inode;
	at = tsearch(key, &followed, by_inode);
	if (!at)
		err(2, "memory");
	if (*at != key)
		free(key);
}

void stray_follow(pid_t pid, const struct page *page)
{
	uint64_t inode;
	char fd[16];
	uint32_t i;

	for (i = 0; i < page->rows; i++) {
		if (page->row[i].fd < 0)
			continue;
		snprintf(fd, sizeof(fd), "%d", page->row[i].fd);
		inode = kernel_inode(pid, fd);
		if (inode)
			remember(inode);
	}
}

/* --- the descriptors of a process ---------------------------------------- */

struct number {
	uint64_t inode; /* first: by_inode() finds numbers as well */
	int32_t fd;
};

static int by_number(const void *a, const void *b)
{
	const struct number *x = a, *y = b;

	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	return (x->fd > y->fd) - (x->fd < y->fd);
}

static int by_fd(const void *a, const void *b)
{
	const struct page_row *x = a, *y = b;

	return (x->fd > y->fd) - (x->fd < y->fd);
}

static struct number *numbers_of(pid_t pid, size_t *count)
{
	struct number *list = NULL;
	struct dirent *d;
	char path[64];
	uint64_t inode;
	DIR *dir;

	*count = 0;
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return NULL;
	while ((d = readdir(dir))) {
		inode = kernel_inode(pid, d->d_name);
		if (!inode || tfind(&inode, &followed, by_inode))
			continue;
		list = reallocarray(list, *count + 1, sizeof(*list));
		if (!list)
			err(2, "memory");
		list[*count].inode = inode;
		list[(*count)++].fd = atoi(d->d_name);
	}
	closedir(dir);
	if (*count)
		qsort(list, *count, sizeof(*list), by_number);
	return list;
}

/* The lowest number of that inode, or -1. */
static int32_t number_of(const struct number *list, size_t n, uint64_t inode)
{
	const struct number *hit =
		bsearch(&inode, list, n, sizeof(*list), by_inode);

	while (hit && hit > list && hit[-1].inode == inode)
		hit--;
	return hit ? hit->fd : -1;
}

/* Those of the kernel's rows that have one of these numbers; *count of them. */
static struct page_row *rows_of(pid_t pid, const struct number *list, size_t n,
				bool blind, size_t *count)
{
	const uint8_t path = blind ? PATH_UNSEEN : PATH_TCP;
	struct page_row *rows = NULL, *r;
	size_t all, i;
	const struct page_row *k = kernel_rows(pid, &all);
	int32_t fd;

	for (i = 0; i < all; i++) {
		fd = number_of(list, n, k[i].inode);
		if (fd < 0)
			continue;
		rows = reallocarray(rows, *count + 1, sizeof(*rows));
		if (!rows)
			err(2, "memory");
		r = &rows[(*count)++];
		*r = k[i];
		r->fd = fd;
		r->path[0] = r->path[1] = path;
		r->rule = PAGE_NO_RULE;
		r->why = WHY_UNMANAGED;
	}
	return rows;
}

bool stray_filtered(pid_t pid)
{
	char path[64];
	int n;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	n = seccomp_filters(path);
	return n > 0 || n == SECCOMP_UNCOUNTED;
}

struct page_row *stray_rows(pid_t pid, const struct page *page, size_t *count)
{
	const bool bare = !page->magic;
	const bool blind = bare ? stray_lifted(pid) : page->rows == PAGE_ROWS;
	struct page_row *rows = NULL;
	struct number *list;
	size_t n, i;

	*count = 0;
	list = numbers_of(pid, &n);
	if (n)
		rows = rows_of(pid, list, n, blind, count);
	if (*count)
		qsort(rows, *count, sizeof(*rows), by_fd);
	if (*count && bare && stray_filtered(pid))
		for (i = 0; i < *count; i++)
			rows[i].why = WHY_SANDBOX;
	free(list);
	return rows;
}
