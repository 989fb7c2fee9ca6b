/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/kernel.h"

#include <err.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

uint64_t kernel_inode(pid_t pid, const char *fd)
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

/* --- the lists ------------------------------------------------------------ */

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
	enum { ESTABLISHED = 1, SYN_SENT, CLOSE_WAIT = 8, LISTENING = 10 };
	unsigned int state, port, peer_port;
	char local[33], peer[33];

	memset(r, 0, sizeof(*r));
	if (sscanf(line,
		   " %*d: %32[0-9A-F]:%x %32[0-9A-F]:%x %x %*s %*s %*s %*u "
		   "%*u %" SCNu64,
		   local, &port, peer, &peer_port, &state, &r->inode) != 6 ||
	    !r->inode || !hex_addr(local, port, &r->local))
		return false;
	r->state = state == SYN_SENT			       ? 0 :
		   state == LISTENING			       ? 1 :
		   state == ESTABLISHED || state == CLOSE_WAIT ? 2 :
								 3;
	if (state != LISTENING)
		hex_addr(peer, peer_port, &r->peer);
	return true;
}

struct list {
	struct page_row *rows;
	size_t count, room;
};

static void read_list(pid_t pid, const char *name, struct list *l)
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
		if (l->count == l->room) {
			l->room = l->room ? l->room * 2 : 64;
			l->rows = reallocarray(l->rows, l->room, sizeof(r));
			if (!l->rows)
				err(2, "memory");
		}
		l->rows[l->count++] = r;
	}
	fclose(f);
}

static int by_inode(const void *a, const void *b)
{
	const struct page_row *x = a, *y = b;

	return (x->inode > y->inode) - (x->inode < y->inode);
}

/* Of the network that was asked for last. */
static struct list last;
static struct stat last_net;

void kernel_forget(void)
{
	free(last.rows);
	memset(&last, 0, sizeof(last));
	memset(&last_net, 0, sizeof(last_net));
}

const struct page_row *kernel_rows(pid_t pid, size_t *count)
{
	char path[64];
	struct stat net;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	if (stat(path, &net))
		memset(&net, 0, sizeof(net));
	if (!net.st_ino || net.st_ino != last_net.st_ino ||
	    net.st_dev != last_net.st_dev) {
		kernel_forget();
		last_net = net;
		read_list(pid, "tcp", &last);
		read_list(pid, "tcp6", &last);
		if (last.count)
			qsort(last.rows, last.count, sizeof(*last.rows),
			      by_inode);
	}
	*count = last.count;
	return last.rows;
}

static const struct page_row *row_of(const struct page_row *rows, size_t count,
				     uint64_t inode)
{
	const struct page_row key = { .inode = inode };

	return count ? bsearch(&key, rows, count, sizeof(key), by_inode) : NULL;
}

/* --- rows of a page -------------------------------------------------------- */

static bool named(const struct page_addr *a)
{
	return a->family == AF_INET || a->family == AF_INET6;
}

/* Has it a peer, or will it have one, and its page does not say which? */
static bool nameless(const struct page_row *r)
{
	return r->fd >= 0 && r->state != 1 &&
	       (!named(&r->local) || !named(&r->peer));
}

/* What the page says of the inode is not believed: another may have that. */
static void name_row(pid_t pid, const struct page_row *rows, size_t count,
		     struct page_row *r)
{
	const struct page_row *k;
	uint64_t inode;
	char fd[16];

	snprintf(fd, sizeof(fd), "%d", r->fd);
	inode = kernel_inode(pid, fd);
	k = inode ? row_of(rows, count, inode) : NULL;
	if (!k || (r->inode && r->inode != inode))
		return;
	r->inode = inode;
	r->local = k->local;
	r->peer = k->peer;
	if (!r->state)
		r->state = k->state;
}

void kernel_names(pid_t pid, struct page *page)
{
	const struct page_row *rows;
	uint32_t i = 0;
	size_t count;

	while (i < page->rows && !nameless(&page->row[i]))
		i++;
	if (i == page->rows)
		return;
	rows = kernel_rows(pid, &count);
	for (; i < page->rows && rows; i++)
		if (nameless(&page->row[i]))
			name_row(pid, rows, count, &page->row[i]);
}
