/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/watch.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/reason.h"
#include "tools/names.h"
#include "tools/out.h"

#define WIDTH	80
#define PROGRAM 12 /* characters of a program's name */
#define PEER	21 /* "255.255.255.255:65535" */

/* A socket at one time. */
struct seen {
	pid_t pid;
	char program[PROGRAM + 1];
	struct page_row row;
	uint64_t out, in, msgs, wakes; /* per second, since the time before */
};

struct shot {
	struct seen *list;
	size_t count;
	struct timespec at;
};

static void take(struct shot *to, const struct filter *f)
{
	struct found *found;
	size_t count, i, n;

	found = scan_pages(f->pid, &count);
	clock_gettime(CLOCK_MONOTONIC, &to->at);
	to->list = NULL;
	to->count = 0;
	for (i = 0; i < count; i++) {
		for (n = 0; n < found[i].page->rows; n++) {
			const struct page_row *r = &found[i].page->row[n];
			struct seen *s;

			if (!filter_fits(f, &found[i], r))
				continue;
			to->list = reallocarray(to->list, to->count + 1,
						sizeof(*to->list));
			if (!to->list)
				err(2, "memory");
			s = &to->list[to->count++];
			*s = (struct seen){ .pid = found[i].pid, .row = *r };
			snprintf(s->program, sizeof(s->program), "%.*s",
				 PROGRAM, found[i].page->program);
		}
	}
	scan_free(found, count);
}

/* --- rates -------------------------------------------------------------- */

static uint64_t rate(uint64_t now, uint64_t was, double seconds)
{
	return now > was ? (uint64_t)((double)(now - was) / seconds + 0.5) : 0;
}

static const struct seen *before(const struct shot *was, const struct seen *s)
{
	size_t i;

	for (i = 0; i < was->count; i++)
		if (was->list[i].pid == s->pid &&
		    was->list[i].row.fd == s->row.fd &&
		    was->list[i].row.inode == s->row.inode)
			return &was->list[i];
	return NULL;
}

/* One that was not there before has moved all of it since. */
static void rates(struct shot *now, const struct shot *was)
{
	static const struct page_row none;
	double s = (double)(now->at.tv_sec - was->at.tv_sec) +
		   (double)(now->at.tv_nsec - was->at.tv_nsec) / 1e9;
	size_t i;

	for (i = 0; i < now->count; i++) {
		struct seen *n = &now->list[i];
		const struct seen *b = before(was, n);
		const struct page_row *o = b ? &b->row : &none, *r = &n->row;

		n->out = rate(r->bytes_sdp_tx + r->bytes_tcp_tx,
			      o->bytes_sdp_tx + o->bytes_tcp_tx, s);
		n->in = rate(r->bytes_sdp_rx + r->bytes_tcp_rx,
			     o->bytes_sdp_rx + o->bytes_tcp_rx, s);
		n->msgs = rate(r->msgs_tx + r->msgs_rx, o->msgs_tx + o->msgs_rx,
			       s);
		n->wakes = rate(r->wakeups, o->wakeups, s);
	}
}

static int busier(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;
	uint64_t m = x->out + x->in, n = y->out + y->in;

	if (m != n)
		return m > n ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return (x->row.fd > y->row.fd) - (x->row.fd < y->row.fd);
}

/* --- the screen --------------------------------------------------------- */

static void size_of(bool *screen, unsigned int *width, size_t *lines)
{
	struct winsize w;

	*screen = isatty(STDOUT_FILENO);
	*width = WIDTH;
	*lines = SIZE_MAX;
	if (!*screen || ioctl(STDOUT_FILENO, TIOCGWINSZ, &w))
		return;
	if (w.ws_col)
		*width = w.ws_col;
	if (w.ws_row > 4)
		*lines = w.ws_row - 4u;
}

static void line(struct table *t, const struct seen *s)
{
	const struct page_row *r = &s->row;
	char peer[64];

	table_cell(t, "%d", s->pid);
	table_cell(t, "%s", s->program);
	table_cell(t, "%d", r->fd);
	table_cell(t, "%.*s", PEER,
		   addr_text(r->state == 1 ? &r->local : &r->peer, peer,
			     sizeof(peer)));
	if (r->path[0] == r->path[1])
		table_cell(t, "%s", path_name(r->path[0]));
	else
		table_cell(t, "%s/%s", path_name(r->path[0]),
			   path_name(r->path[1]));
	table_count(t, s->out);
	table_count(t, s->in);
	table_count(t, s->msgs);
	table_count(t, s->wakes);
	table_cell(t, "%s", reason_name((enum reason)r->why));
}

/* What is written is cut at `width`, a line at a time. */
static void print_cut(const char *s, unsigned int width)
{
	while (*s) {
		size_t n = strcspn(s, "\n");

		printf("%.*s\n", (int)(n < width ? n : width), s);
		s += n + (s[n] == '\n');
	}
}

static void show(const struct shot *now, unsigned int width, size_t lines)
{
	struct table *t = table_new("Pid>|Program|Fd>|Peer|Path|Out/s>|In/s>|"
				    "Msg/s>|Wake/s>|Reason");
	size_t i, most = now->count < lines ? now->count : lines, len = 0;
	char *text = NULL;
	FILE *f;

	for (i = 0; i < most; i++)
		line(t, &now->list[i]);
	f = open_memstream(&text, &len);
	if (!f)
		err(2, "memory");
	table_print(t, f);
	if (fclose(f))
		err(2, "memory");
	print_cut(text, width);
	free(text);
	if (most < now->count)
		printf("... and %zu more\n", now->count - most);
}

static void headline(const struct shot *now)
{
	uint64_t out = 0, in = 0;
	size_t i, sdp = 0;
	char clock[16] = "";
	time_t t = time(NULL);
	struct tm tm;

	for (i = 0; i < now->count; i++) {
		out += now->list[i].out;
		in += now->list[i].in;
		sdp += now->list[i].row.path[0] == PATH_SHM ||
		       now->list[i].row.path[0] == PATH_RDMA;
	}
	if (localtime_r(&t, &tm))
		strftime(clock, sizeof(clock), "%T", &tm);
	printf("%s  %zu sockets, %zu on SDP; %.1f MB/s out, %.1f MB/s in\n\n",
	       clock, now->count, sdp, (double)out / 1e6, (double)in / 1e6);
}

void watch(const struct filter *f, double seconds)
{
	struct timespec pause = { .tv_sec = (time_t)seconds };
	struct shot was, now;
	unsigned int width;
	size_t lines;
	bool screen;

	pause.tv_nsec = (long)((seconds - (double)pause.tv_sec) * 1e9);
	take(&was, f);
	for (;;) {
		nanosleep(&pause, NULL);
		take(&now, f);
		rates(&now, &was);
		if (now.count)
			qsort(now.list, now.count, sizeof(*now.list), busier);
		size_of(&screen, &width, &lines);
		if (screen)
			printf("\033[H\033[J");
		headline(&now);
		show(&now, width, lines);
		if (!screen)
			printf("\n");
		if (fflush(stdout) || ferror(stdout))
			err(2, "standard output");
		free(was.list);
		was = now;
	}
}
