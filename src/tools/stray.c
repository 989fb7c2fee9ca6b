/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/stray.h"

#include <dirent.h>
#include <err.h>
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/reason.h"
#include "base/seccomp.h"
#include "base/text.h"

/* Followed by some process: a family shares its sockets. */
static void *followed;

static int by_inode(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

bool stray_suspect(pid_t pid)
{
	char path[64], line[512];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f))
		found = strstr(line, "/libsdp.so") != NULL;
	fclose(f);
	return found;
}

/* The inode of a descriptor that is a socket, else 0. */
static uint64_t socket_inode(pid_t pid, const char *fd)
{
	const char *const word = "socket:[";
	char path[64], to[64] = "";
	uint64_t inode = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", pid, fd);
	if (readlink(path, to, sizeof(to) - 1) > 0 &&
	    !strncmp(to, word, strlen(word)))
		text_number(to + strlen(word), UINT64_MAX, &inode);
	return inode;
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
		inode = socket_inode(pid, fd);
		if (inode)
			remember(inode);
	}
}

/* --- /proc/PID/net/tcp and tcp6 ----------------------------------------- */

/* The kernel prints addresses as words of its own byte order. */
static bool hex_addr(const char *s, unsigned int port, struct page_addr *a)
{
	size_t words = strlen(s) / 8, i;
	uint32_t w;

	memset(a, 0, sizeof(*a));
	if (words != 1 && words != 4)
		return false;
	for (i = 0; i < words; i++) {
		if (sscanf(s + 8 * i, "%8" SCNx32, &w) != 1)
			return false;
		memcpy(&a->ip[4 * i], &w, 4);
	}
	a->family = words == 1 ? AF_INET : AF_INET6;
	a->port = (uint16_t)port;
	return true;
}

/* One line of the list: false if it is none that is open. */
static bool parse(const char *line, struct page_row *r)
{
	enum { ESTABLISHED = 1, CLOSE_WAIT = 8, LISTENING = 10 };
	unsigned int state, port, peer_port;
	char local[33], peer[33];

	memset(r, 0, sizeof(*r));
	if (sscanf(line,
		   " %*d: %32[0-9A-F]:%x %32[0-9A-F]:%x %x %*s %*s %*s %*u "
		   "%*u %" SCNu64,
		   local, &port, peer, &peer_port, &state, &r->inode) != 6 ||
	    !r->inode || !hex_addr(local, port, &r->local))
		return false;
	r->state = state == LISTENING			       ? 1 :
		   state == ESTABLISHED || state == CLOSE_WAIT ? 2 :
								 3;
	if (state != LISTENING)
		hex_addr(peer, peer_port, &r->peer);
	r->path[0] = r->path[1] = PATH_TCP;
	r->rule = PAGE_NO_RULE;
	r->why = WHY_UNMANAGED;
	return true;
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
		inode = socket_inode(pid, d->d_name);
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

/* Adds what one of the kernel's lists says about these numbers. */
static void add_rows(const char *name, pid_t pid, const struct number *list,
		     size_t n, struct page_row **rows, size_t *count)
{
	char path[64], line[512];
	struct page_row r;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", pid, name);
	f = fopen(path, "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f)) {
		if (!parse(line, &r))
			continue;
		r.fd = number_of(list, n, r.inode);
		if (r.fd < 0)
			continue;
		*rows = reallocarray(*rows, *count + 1, sizeof(r));
		if (!*rows)
			err(2, "memory");
		(*rows)[(*count)++] = r;
	}
	fclose(f);
}

bool stray_filtered(pid_t pid)
{
	char path[64];
	int n;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	n = seccomp_filters(path);
	return n > 0 || n == SECCOMP_UNCOUNTED;
}

struct page_row *stray_rows(pid_t pid, bool bare, size_t *count)
{
	struct page_row *rows = NULL;
	struct number *list;
	size_t n, i;

	*count = 0;
	list = numbers_of(pid, &n);
	if (n) {
		add_rows("tcp", pid, list, n, &rows, count);
		add_rows("tcp6", pid, list, n, &rows, count);
	}
	if (*count)
		qsort(rows, *count, sizeof(*rows), by_fd);
	if (*count && bare && stray_filtered(pid))
		for (i = 0; i < *count; i++)
			rows[i].why = WHY_SANDBOX;
	free(list);
	return rows;
}
