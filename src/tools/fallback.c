/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/fallback.h"

#include <err.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/told.h"
#include "tools/stray.h"

/* Longer than any `fallback_timeout_ms`. */
#define PATIENCE_MS 65000

/* The inode of a socket of another process; 0: it is none. */
static uint64_t inode_of(pid_t pid, int64_t fd)
{
	char path[64], to[64] = "";
	const char *const word = "socket:[";
	uint64_t inode = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd/%lld", pid, (long long)fd);
	if (readlink(path, to, sizeof(to) - 1) < 0)
		err(2, "%s", path);
	if (!strncmp(to, word, strlen(word)))
		text_number(to + strlen(word), UINT64_MAX, &inode);
	return inode;
}

/* False: the process listens no more, so nothing is lifted there. */
static bool exchange(const struct found *f, const struct told_ask *ask,
		     struct told_answer *a)
{
	struct sockaddr_un to, own = { .sun_family = AF_UNIX };
	socklen_t len = told_name(&to, f->page->service);
	int sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pollfd reply = { .fd = sock, .events = POLLIN };

	/* bound to no name of ours: the kernel chooses one */
	if (sock < 0 ||
	    bind(sock, (struct sockaddr *)&own, sizeof(own.sun_family)))
		err(2, "socket");
	if (connect(sock, (struct sockaddr *)&to, len) ||
	    send(sock, ask, sizeof(*ask), 0) < 0) {
		if (errno != ECONNREFUSED)
			err(2, "process %d", f->pid);
		close(sock);
		return false;
	}
	if (poll(&reply, 1, PATIENCE_MS) != 1 ||
	    recv(sock, a, sizeof(*a), 0) != (ssize_t)sizeof(*a) ||
	    a->magic != TOLD_HOME)
		errx(2, "process %d does not answer", f->pid);
	close(sock);
	return true;
}

static bool lifted(const struct page_row *r)
{
	return r->fd >= 0 &&
	       (r->path[0] == PATH_SHM || r->path[0] == PATH_RDMA ||
		r->path[1] == PATH_SHM || r->path[1] == PATH_RDMA);
}

static bool any_lifted(const struct page *p)
{
	size_t i;

	for (i = 0; i < p->rows; i++)
		if (lifted(&p->row[i]))
			return true;
	return false;
}

/*
 * No answer: that is well where nothing is on SDP by the page's word. But
 * its copy may be old, or torn: the connections were closed meanwhile, and the
 * service thread ended, or it had just begun. So it is read once more, until
 * it says the same. True: there is a process to ask; *now is freed behind it.
 */
static bool look_again(const struct found *f, struct found **now)
{
	const struct page *was = *now ? (*now)->page : f->page;
	uint64_t service = was->service;
	struct found *next;
	size_t count = 0;

	if (!any_lifted(was))
		return false;
	next = scan_pages(f->pid, &count);
	if (*now)
		scan_free(*now, 1);
	*now = next;
	if (!count || !any_lifted(next->page))
		return false;
	if (next->page->service == service)
		errx(2,
		     "process %d cannot be asked: it runs without a service"
		     " thread, or in another network namespace",
		     f->pid);
	return true;
}

static bool answered(const struct found *f, const struct told_ask *ask,
		     struct told_answer *a)
{
	return f->page->service && exchange(f, ask, a);
}

int fallback_tell(const struct found *f, int64_t fd)
{
	struct told_ask ask = { .magic = TOLD_HOME };
	struct told_answer a = { 0 };
	struct found *now = NULL;
	bool heard;

	if (!f->page->magic && stray_lifted(f->pid)) {
		warnx("process %d has connections on SDP, but no page that "
		      "says how it can be asked",
		      f->pid);
		return 1;
	}
	if (fd >= 0) {
		ask.inode = inode_of(f->pid, fd);
		if (!ask.inode) {
			warnx("%d/%lld: not a socket", f->pid, (long long)fd);
			return 1;
		}
	}
	heard = answered(f, &ask, &a);
	while (!heard && look_again(f, &now))
		heard = answered(now, &ask, &a);
	if (now)
		scan_free(now, 1);
	if (a.home == a.found)
		return 0;
	warnx("%u of %u sockets of process %d could not fall back",
	      a.found - a.home, a.found, f->pid);
	return 1;
}
