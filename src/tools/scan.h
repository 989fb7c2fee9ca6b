/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_SCAN_H
#define LIBSDP_TOOLS_SCAN_H

/* Finding the pages (base/page.h) of the processes that have one. */

#include <stddef.h>
#include <sys/types.h>

#include "base/page.h"

struct found {
	pid_t pid; /* as seen from here; the page's own may differ */
	struct page *page; /* a checked copy; `rows` may be 0 */
	size_t len; /* of its memory */
	char path[128]; /* where it is; "": nowhere */
	struct page_row *stray; /* sockets that it does not tell of */
	size_t strays;
};

/*
 * All pages this user may read of processes that live, by pid: in /dev/shm
 * and, of processes in other mount namespaces, in theirs. Pages in /dev/shm
 * whose process has ended are removed when they were written in this process
 * namespace and this user may. A process that has the library and no page (a
 * rule keeps it from everything) has an empty one here. `only`: of this
 * process, 0: all.
 */
struct found *scan_pages(pid_t only, size_t *count);
void scan_free(struct found *found, size_t count);

/* The counters of a process, its open sockets included. */
void scan_totals(const struct page *p, struct page_counters *c);

/* How many sockets it has open, strays included. */
size_t scan_open(const struct found *f);

#endif
