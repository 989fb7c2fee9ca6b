/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The reader of statistics files: a page and a file of sums with any content
 * in any place, and all that sdpstat prints of them.
 *
 * A page is too large for an input: that is a list of places and what is
 * written there, into a page that is sound.
 */
#include "fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/page.h"

/* Not the statistics of this user. */
#undef PAGE_DIR
#define PAGE_DIR "fuzz-page.tmp"

#include "tools/ended.c"
#include "tools/story.c"
#include "tools/histogram.h"
#include "tools/json.h"
#include "tools/prometheus.h"

const struct target target = { "page", 30, 200 };

static int file = -1, sums_file = -1;
static char path[128], sums_path[128];

/* Where something lies that a reader looks at, or anywhere. */
static off_t place(struct input *in)
{
	const size_t rows = offsetof(struct page, row);
	uint32_t row = in_byte(in) & 1 ? in_16(in) % PAGE_ROWS :
					 in_byte(in) % 4u;

	switch (in_byte(in) % 5) {
	case 0:
		return in_byte(in) % 152;
	case 1:
		return (off_t)(offsetof(struct page, event) +
			       in_byte(in) * sizeof(struct page_event) +
			       in_byte(in) % sizeof(struct page_event));
	case 2:
		return (off_t)(in_word(in) % rows);
	case 3:
		return (off_t)(in_word(in) % sizeof(struct page));
	default:
		return (off_t)(rows + row * sizeof(struct page_row) +
			       in_16(in) % sizeof(struct page_row));
	}
}

static void write_at(int fd, const void *buf, size_t n, off_t at)
{
	must(pwrite(fd, buf, n, at) == (ssize_t)n);
}

static void sound_page(void)
{
	const struct page *none = NULL;
	struct {
		__typeof__(none->magic) magic;
		uint32_t version, rows;
		int32_t pid;
		uint32_t uid;
		uint64_t start, pidns;
		char program[64];
	} head = { PAGE_MAGIC, PAGE_VERSION, PAGE_ROWS, getpid(), getuid(), 1,
		   2,	       "prog" };
	struct page_row free = { .gen = 2, .fd = -1 };

	must(sizeof(head) <= offsetof(struct page, service));
	must(!ftruncate(file, 0));
	must(!ftruncate(file, sizeof(struct page)));
	write_at(file, &head, sizeof(head), 0);
	free.fd = 5;
	write_at(file, &free, sizeof(free), offsetof(struct page, row));
}

/* All that is printed of one process. */
static void print(struct page *p, size_t len)
{
	struct found f = { .pid = 1, .page = p, .len = len };
	struct page_counters c;
	struct filter filter;
	char buf[64];
	size_t i;

	filter_init(&filter);
	scan_totals(p, &c);
	scan_open(&f);
	json_print(&f, 1, &filter, true);
	prometheus_print(&f, 1, &c);
	histogram_print(&f);
	log_page(p, false);
	log_page(p, true);
	for (i = 0; i < p->rows; i++) {
		const struct page_row *r = &p->row[i];

		if (!row_used(r))
			continue;
		filter_fits(&filter, &f, r);
		addr_text(&r->local, buf, sizeof(buf));
		state_name(r->state);
		now(&f, r);
		then(p, r->inode);
		moved(r);
	}
}

static void a_page(struct input *in)
{
	uint8_t buf[16], n;
	struct page *p;
	size_t len, i;

	sound_page();
	while (in_more(in)) {
		off_t at = place(in);

		n = in_byte(in) % sizeof(buf);
		in_bytes(in, buf, n);
		if (at + n <= (off_t)sizeof(*p))
			write_at(file, buf, n, at);
		else
			must(!ftruncate(file, at));
	}
	p = page_map(path, &len);
	if (!p) {
		must(errno == EPROTO);
		return;
	}
	must(p->magic == PAGE_MAGIC && p->rows <= PAGE_ROWS && p->pid > 0);
	must(offsetof(struct page, row) + p->rows * sizeof(p->row[0]) <= len);
	must(memchr(p->program, 0, sizeof(p->program)));
	must(p->uid == getuid());
	for (i = 0; i < p->rows; i++)
		must(memchr(p->row[i].device, 0, sizeof(p->row[i].device)));
	print(p, len);
	munmap(p, len);
}

/* Sums: whole or cut, with any counts. They are added up, or left out. */
static void some_sums(struct input *in)
{
	const bool cut = in_byte(in) & 1;
	const off_t size = cut ? in_16(in) % sizeof(struct sums) :
				 sizeof(struct sums);
	struct sums s = { 0 };
	struct state st;
	bool good;
	off_t at;

	while (in_more(in)) {
		at = in_16(in) % sizeof(s);
		((uint8_t *)&s)[at] = in_byte(in);
	}
	must(!ftruncate(sums_file, 0));
	write_at(sums_file, &s, sizeof(s), 0);
	must(!ftruncate(sums_file, size));
	take_sums(&st);
	good = !cut && sound(&s, "these");
	must(st.begun == (good ? s.begun : 0) &&
	     st.done == (good ? s.done : 0));
	must(st.c.sockets == (good ? s.word[0] : 0));
}

static void remove_files(void)
{
	unlink(path);
	unlink(sums_path);
	rmdir(PAGE_DIR);
}

static void open_files(void)
{
	must(!mkdir(PAGE_DIR, 0700) || errno == EEXIST);
	snprintf(path, sizeof(path), PAGE_DIR "/page.%d", getpid());
	snprintf(sums_path, sizeof(sums_path), PAGE_DIR "/" SUMS_PREFIX "%u.%u",
		 geteuid(), PAGE_VERSION);
	file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	sums_file = open(sums_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	must(file >= 0 && sums_file >= 0 && !atexit(remove_files));
	must(freopen("/dev/null", "w", stdout));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };

	if (file < 0)
		open_files();
	if (in_byte(&in) & 1)
		some_sums(&in);
	else
		a_page(&in);
	return 0;
}
