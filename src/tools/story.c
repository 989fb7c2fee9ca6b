/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/story.h"

#include <dirent.h>
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/event.h"
#include "base/text.h"
#include "tools/names.h"
#include "tools/out.h"
#include "tools/scan.h"

/* --- events of a page --------------------------------------------------- */

struct story {
	const struct page_event *event[PAGE_EVENTS];
	size_t count;
};

static int by_number(const void *a, const void *b)
{
	const struct page_event *const *x = a, *const *y = b;

	return ((*x)->seq > (*y)->seq) - ((*x)->seq < (*y)->seq);
}

/* Those of one connection, or all (inode 0), the oldest first. */
static void gather(struct story *st, const struct page *p, uint64_t inode)
{
	size_t i;

	st->count = 0;
	for (i = 0; i < PAGE_EVENTS; i++) {
		const struct page_event *e = &p->event[i];

		if (!e->seq || (e->seq - 1) % PAGE_EVENTS != i ||
		    (inode && e->inode != inode))
			continue;
		st->event[st->count++] = e;
	}
	qsort(st->event, st->count, sizeof(st->event[0]), by_number);
}

static uint64_t ns_of(clockid_t clock)
{
	struct timespec ts = { 0 };

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The wall clock's time of an event, as it goes now. */
static uint64_t wall(const struct page_event *e)
{
	return ns_of(CLOCK_REALTIME) - ns_of(CLOCK_MONOTONIC) + e->at;
}

static const char *clock_text(const struct page_event *e, char *buf,
			      size_t size)
{
	uint64_t ns = wall(e);
	time_t t = (time_t)(ns / 1000000000u);
	char hms[16] = "?";
	struct tm tm;

	if (localtime_r(&t, &tm))
		strftime(hms, sizeof(hms), "%T", &tm);
	snprintf(buf, size, "%s.%03u", hms,
		 (unsigned int)(ns / 1000000u % 1000));
	return buf;
}

static bool has_reason(const struct page_event *e)
{
	return e->what >= EVENT_REASON;
}

/* --- where a page is ---------------------------------------------------- */

/*
 * Is it of the user whose name it has? What others put there under that name is
 * not believed. The process id is one of our own process namespace.
 */
static bool believed(const char *name, const struct page *p)
{
	uint64_t uid;
	size_t n =
		text_number(name + sizeof(PAGE_KILLED) - 1, UINT32_MAX, &uid);

	return n && !name[sizeof(PAGE_KILLED) - 1 + n] && uid == p->uid &&
	       p->pidns == page_pidns();
}

/* One whose process was killed: page_sweep() keeps the last of each user. */
static const struct page *left_behind(pid_t pid, size_t *len)
{
	const struct page *p = NULL;
	struct dirent *d;
	char path[512];
	DIR *dir = opendir(PAGE_DIR);

	while (dir && !p && (d = readdir(dir))) {
		if (strncmp(d->d_name, PAGE_KILLED, sizeof(PAGE_KILLED) - 1))
			continue;
		snprintf(path, sizeof(path), PAGE_DIR "/%s", d->d_name);
		p = page_map(path, len);
		if (p && (p->pid != pid || !believed(d->d_name, p))) {
			munmap((void *)(uintptr_t)p, *len);
			p = NULL;
		}
	}
	if (dir)
		closedir(dir);
	return p;
}

/* --- a line an event ---------------------------------------------------- */

static void log_text(const struct story *st)
{
	struct table *t = table_new("Time|Fd>|Inode>|Event|Reason");
	char clock[32];
	size_t i;

	for (i = 0; i < st->count; i++) {
		const struct page_event *e = st->event[i];

		table_cell(t, "%s", clock_text(e, clock, sizeof(clock)));
		table_cell(t, "%d", e->fd);
		table_cell(t, "%" PRIu64, e->inode);
		table_cell(t, "%s", event_name((enum event)e->what));
		table_cell(t, "%s",
			   has_reason(e) ? reason_name((enum reason)e->why) :
					   "");
	}
	table_print(t, stdout);
}

static void log_json(const struct story *st)
{
	size_t i;

	printf("[");
	for (i = 0; i < st->count; i++) {
		const struct page_event *e = st->event[i];

		printf("%s\n{\"time\":%" PRIu64 ".%09" PRIu64
		       ",\"fd\":%d,\"inode\":%" PRIu64
		       ",\"event\":\"%s\",\"reason\":",
		       i ? "," : "", wall(e) / 1000000000u,
		       wall(e) % 1000000000u, e->fd, e->inode,
		       event_name((enum event)e->what));
		if (has_reason(e))
			printf("\"%s\"}", reason_name((enum reason)e->why));
		else
			printf("null}");
	}
	printf("\n]\n");
}

static void log_page(const struct page *p, bool json)
{
	struct story st;

	gather(&st, p, 0);
	if (json)
		log_json(&st);
	else
		log_text(&st);
}

int story_log(pid_t pid, bool json)
{
	const struct page *dead;
	struct found *found;
	size_t count, len;

	found = scan_pages(pid, &count);
	if (count) {
		log_page(found[0].page, json);
	} else {
		dead = left_behind(pid, &len);
		if (!dead) {
			warnx("process %d shows nothing", pid);
			return 1;
		}
		if (!json) {
			fprintf(stderr, "%d (", pid);
			out_clean(stderr, dead->program);
			fprintf(stderr, ") was killed\n");
		}
		log_page(dead, json);
		munmap((void *)(uintptr_t)dead, len);
	}
	scan_free(found, count);
	return 0;
}

/* --- in sentences ------------------------------------------------------- */

static const char *way(uint8_t path)
{
	switch (path) {
	case PATH_TCP:
		return "by the kernel's TCP";
	case PATH_SHM:
		return "by SDP, through shared memory";
	case PATH_RDMA:
		return "by SDP, through an RDMA device";
	case PATH_LISTEN:
		return "nowhere: it listens";
	default:
		return "on a way that its process does not show";
	}
}

static void now(const struct found *f, const struct page_row *r)
{
	char local[64], peer[64];

	printf("Descriptor %d of ", r->fd);
	out_clean(stdout, f->page->program);
	printf(" (%d) is a socket from %s to %s (inode %" PRIu64 ").\n", f->pid,
	       addr_text(&r->local, local, sizeof(local)),
	       addr_text(&r->peer, peer, sizeof(peer)), r->inode);
	if (r->path[0] == r->path[1])
		printf("Its bytes go %s.\n", way(r->path[0]));
	else
		printf("It sends %s, and receives %s.\n", way(r->path[0]),
		       way(r->path[1]));
	if (r->rule_line)
		printf("Line %u of its rules says `%s`.\n", r->rule_line,
		       rule_name(r->rule));
	else if (r->rule != PAGE_NO_RULE)
		printf("No line of its rules is for it: `%s`.\n",
		       rule_name(r->rule));
	if (r->why != WHY_NONE)
		printf("Reason: %s: %s.\n", reason_name((enum reason)r->why),
		       reason_text((enum reason)r->why));
}

static void then(const struct page *p, uint64_t inode)
{
	char clock[32];
	struct story st;
	size_t i;

	gather(&st, p, inode);
	if (!st.count)
		printf("Nothing that happened to it is remembered.\n");
	for (i = 0; i < st.count; i++) {
		const struct page_event *e = st.event[i];

		if (e->what == EVENT_REASON && i &&
		    has_reason(st.event[i - 1]) &&
		    st.event[i - 1]->why == e->why)
			continue; /* that was said */
		printf("%s  It %s", clock_text(e, clock, sizeof(clock)),
		       event_text((enum event)e->what));
		if (has_reason(e))
			printf(": %s (%s)", reason_text((enum reason)e->why),
			       reason_name((enum reason)e->why));
		printf(".\n");
	}
}

static void moved(const struct page_row *r)
{
	if (r->why == WHY_UNMANAGED) {
		printf("What it moves is not counted.\n");
		return;
	}
	printf("Sent: %" PRIu64 " bytes by SDP in %" PRIu64
	       " messages, %" PRIu64 " by TCP.\n",
	       r->bytes_sdp_tx, r->msgs_tx, r->bytes_tcp_tx);
	printf("Received: %" PRIu64 " bytes by SDP in %" PRIu64
	       " messages, %" PRIu64 " by TCP.\n",
	       r->bytes_sdp_rx, r->msgs_rx, r->bytes_tcp_rx);
	printf("It woke a sleeper %" PRIu64 " times, and its waits spun for "
	       "%.3f s.\n",
	       r->wakeups, (double)r->spin_ns / 1e9);
}

static const struct page_row *row_of(const struct found *f, int64_t fd)
{
	size_t i;

	for (i = 0; i < f->page->rows; i++)
		if (row_used(&f->page->row[i]) && f->page->row[i].fd == fd)
			return &f->page->row[i];
	for (i = 0; i < f->strays; i++)
		if (f->stray[i].fd == fd)
			return &f->stray[i];
	return NULL;
}

int story_why(pid_t pid, int64_t fd)
{
	const struct page_row *r = NULL;
	struct found *found;
	size_t count;

	found = scan_pages(pid, &count);
	if (count)
		r = row_of(&found[0], fd);
	if (!r) {
		warnx("process %d shows no socket with the number %" PRId64,
		      pid, fd);
	} else {
		now(&found[0], r);
		then(found[0].page, r->inode);
		moved(r);
	}
	scan_free(found, count);
	return !r;
}
