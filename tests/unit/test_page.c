/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/page.h"
#include "base/sums.h"
#include "base/reason.h"

/* Each test runs in a child of its own: the page is one per process. */
static void in_child(void (*story)(void))
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		page_forked();
		story();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status))
		assert_int_equal(WEXITSTATUS(status), 0);
	else
		fail_msg("ended by signal %d", WTERMSIG(status));
}

#define must(x)                                                    \
	do {                                                       \
		if (!(x)) {                                        \
			fprintf(stderr, "%d: %s\n", __LINE__, #x); \
			_exit(1);                                  \
		}                                                  \
	} while (0)

static void self_path(char *buf, size_t size)
{
	snprintf(buf, size, PAGE_DIR "/" PAGE_PREFIX "%d.%lu", getpid(),
		 (unsigned long)page_start_time(getpid()));
}

static const struct page *self_map(size_t *len)
{
	char path[128];

	self_path(path, sizeof(path));
	return page_map(path, len);
}

static void published(void)
{
	struct page_row *before, *after;
	struct page *address = page_self;
	const struct page *p;
	char path[128];
	struct stat st;
	size_t len;

	page_add(sockets, 3);
	before = page_row_get(7);
	must(before && page_rows() == 1);
	must(page_open("story") == 0);
	must(page_open("story") == 0);
	must(page_self == address);
	after = page_row_get(8);
	must(after && after != before);
	page_row_begin(after);
	after->why = WHY_RULE;
	page_row_end(after);
	after->bytes_tcp_tx = 99;
	page_add(lifted, 1);

	self_path(path, sizeof(path));
	must(stat(path, &st) == 0);
	must((st.st_mode & 07777) == 0600);
	p = page_map(path, &len);
	must(p);
	must(p->pid == getpid() && p->uid == geteuid());
	must(p->start == page_start_time(getpid()) && p->start > 0);
	must(p->pidns == page_pidns() && p->pidns > 0);
	must(!strcmp(p->program, "story"));
	must(p->c.sockets == 3 && p->c.lifted == 1);
	must(p->row[0].fd == 7 && p->row[1].fd == 8);
	must(p->row[1].why == WHY_RULE && p->row[1].bytes_tcp_tx == 99);
	must(p->rows == 2 && len < sizeof(struct page) / 4);
	munmap((void *)(uintptr_t)p, len);

	page_row_put(before);
	page_row_begin(after); /* being written: not shown */
	p = page_map(path, &len);
	must(p && p->rows == 0);
	page_row_end(after);
	page_close();
	must(access(path, F_OK) < 0);
	page_add(sockets, 1);
	must(page_self->c.sockets == 4);
}

static void page_buckets(void **state)
{
	(void)state;
	assert_int_equal(page_size_bucket(1), 0);
	assert_int_equal(page_size_bucket(16), 0);
	assert_int_equal(page_size_bucket(17), 1);
	assert_int_equal(page_size_bucket(32), 1);
	assert_int_equal(page_size_bucket(33), 2);
	assert_int_equal(page_size_bucket(65536), PAGE_SIZES - 2);
	assert_int_equal(page_size_bucket(65537), PAGE_SIZES - 1);
	assert_int_equal(page_size_bucket(UINT64_MAX), PAGE_SIZES - 1);
	assert_int_equal(page_time_bucket(0, PAGE_SPUN), 0);
	assert_int_equal(page_time_bucket(1000, PAGE_SPUN), 0);
	assert_int_equal(page_time_bucket(1001, PAGE_SPUN), 1);
	assert_int_equal(page_time_bucket(2001, PAGE_SPUN), 2);
	assert_int_equal(page_time_bucket(8192000, PAGE_SPUN), PAGE_SPUN - 2);
	assert_int_equal(page_time_bucket(8192001, PAGE_SPUN), PAGE_SPUN - 1);
	assert_int_equal(page_time_bucket(UINT64_MAX, PAGE_SLEPT),
			 PAGE_SLEPT - 1);
}

static void histograms(void)
{
	struct page_row *open = page_row_get(1), *closed = page_row_get(2);
	struct page_counters c;

	open->h.sizes_tx.n[3] = 5;
	closed->h.sizes_tx.n[3] = 2;
	closed->h.sizes_rx.bytes = 70;
	closed->h.spun[PAGE_SPUN - 1] = 4;
	page_row_put(closed);
	must(page_self->c.h.sizes_tx.n[3] == 2);
	page_slept(3000);
	page_spun(9000000);
	page_totals(page_self, page_rows(), &c);
	must(c.h.sizes_tx.n[3] == 7 && c.h.sizes_rx.bytes == 70);
	must(c.h.spun[PAGE_SPUN - 1] == 5);
	must(c.slept[2] == 1 && c.sleep_ns == 3000);
	closed = page_row_get(3); /* the same row, at zero */
	must(closed->h.sizes_tx.n[3] == 0 &&
	     closed->h.spun[PAGE_SPUN - 1] == 0);
}

static void page_histograms(void **state)
{
	(void)state;
	in_child(histograms);
}

static void page_is_published(void **state)
{
	(void)state;
	in_child(published);
}

static void forked(void)
{
	struct page_row *r = page_row_get(5);
	const struct page *p;
	size_t len;
	int status;

	must(r && page_open("parent") == 0);
	page_add(sockets, 1);
	if (!fork()) {
		page_forked();
		must(page_self->c.sockets == 0);
		must(r->gen == 0); /* still memory, no longer the parent's */
		r->bytes_sdp_tx = 1;
		page_add(sockets, 10);
		must(!self_map(&len) && errno == ENOENT);
		must(page_row_get(6) == r);
		must(page_open("child") == 0);
		p = self_map(&len);
		must(p && p->c.sockets == 10 && p->row[0].fd == 6);
		must(!strcmp(p->program, "child"));
		page_close();
		_exit(0);
	}
	must(wait(&status) > 0 && status == 0);
	p = self_map(&len);
	must(p && p->c.sockets == 1 && p->row[0].fd == 5);
	must(p->row[0].bytes_sdp_tx == 0);
	page_close();
}

static void children_have_their_own(void **state)
{
	(void)state;
	in_child(forked);
}

static void filled(void)
{
	static struct page_row *r[PAGE_ROWS];
	const struct page *p;
	size_t len;
	int i;

	must(page_open("many") == 0);
	for (i = 0; i < PAGE_ROWS; i++) {
		r[i] = page_row_get(i);
		must(r[i] && r[i]->fd == i);
	}
	must(!page_row_get(1));
	p = self_map(&len);
	must(p && p->row[PAGE_ROWS - 1].fd == PAGE_ROWS - 1);
	for (i = 0; i < PAGE_ROWS; i++)
		page_row_put(r[i]);
	must(page_row_get(1) == r[0]);
	page_close();
}

static void rows_run_out_quietly(void **state)
{
	(void)state;
	in_child(filled);
}

/* What exec() left behind has our own name and is replaced. */
static void left_over(void)
{
	char path[128];
	const struct page *p;
	size_t len;
	int fd;

	self_path(path, sizeof(path));
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	must(fd >= 0);
	close(fd);
	must(page_open("again") == 0);
	p = self_map(&len);
	must(p && !strcmp(p->program, "again"));
	page_close();
}

static void left_overs_are_replaced(void **state)
{
	(void)state;
	in_child(left_over);
}

/* Writes `size` bytes of a page changed by one byte and reads it back. */
static int map_of(size_t size, size_t at, int mode)
{
	char name[] = "/tmp/test-page-XXXXXX";
	static struct page page;
	const struct page *p;
	size_t len;
	int fd = mkstemp(name), err;

	assert_true(fd >= 0);
	memset(&page, 0, sizeof(page));
	page.magic = PAGE_MAGIC;
	page.version = PAGE_VERSION;
	page.rows = PAGE_ROWS;
	page.pid = 1;
	page.uid = geteuid();
	memset(page.program, 'x', sizeof(page.program));
	((unsigned char *)&page)[at] ^= 0x80;
	assert_int_equal(write(fd, &page, size), size);
	assert_int_equal(fchmod(fd, (mode_t)mode), 0);
	close(fd);
	p = page_map(name, &len);
	err = p ? 0 : errno;
	if (p) {
		assert_int_equal(strlen(p->program), 63);
		assert_int_equal(p->uid, geteuid());
		munmap((void *)(uintptr_t)p, len);
	}
	unlink(name);
	return err;
}

static void unsound_pages_are_refused(void **state)
{
	size_t all = sizeof(struct page), end = all - 1, len;

	(void)state;
	assert_int_equal(map_of(all, end, 0600), 0);
	assert_int_equal(map_of(all - 1, 100, 0600), EPROTO);
	assert_int_equal(map_of(0, 0, 0600), EPROTO);
	assert_int_equal(map_of(all, offsetof(struct page, magic), 0600),
			 EPROTO);
	assert_int_equal(map_of(all, offsetof(struct page, version), 0600),
			 EPROTO);
	assert_int_equal(map_of(all, offsetof(struct page, rows), 0600),
			 EPROTO);
	assert_int_equal(map_of(all, offsetof(struct page, uid), 0600), 0);
	assert_int_equal(map_of(all, offsetof(struct page, pid) + 3, 0600),
			 EPROTO);
	assert_int_equal(map_of(all, end, 0620), EPROTO);
	assert_null(page_map("/dev/null", &len));
	assert_int_equal(errno, EPROTO);
	assert_null(page_map("/proc/self/exe", &len));
	assert_int_equal(errno, ELOOP);
}

static void appended(void)
{
	static const char want[] =
		"\"sockets\":2,\"lifted\":0,\"fallbacks\":0,";
	char name[] = "/tmp/test-json-XXXXXX", line[8192], link[64];
	int fd = mkstemp(name);
	ssize_t n;

	must(fd >= 0);
	page_add(sockets, 2);
	page_add(bytes_sdp_tx, UINT64_MAX);
	page_self->c.reasons[WHY_RULE] = 4;
	page_self->c.reasons[WHY_SANDBOX] = 1;
	must(page_append_json(name, &page_self->c) == 0);
	must(page_append_json(name, &page_self->c) == 0);
	n = read(fd, line, sizeof(line) - 1);
	must(n > 0);
	line[n] = '\0';
	must(strchr(line, '\n') == line + n / 2 - 1);
	must(line[n - 1] == '\n' && line[n - 2] == '}');
	must(!strncmp(line, "{\"pid\":", 7));
	must(strstr(line, want));
	must(strstr(line, "\"bytes_sdp_tx\":18446744073709551615,"));
	must(strstr(line, "\"reasons\":{\"rule\":4,\"sandbox\":1}}\n"));
	snprintf(link, sizeof(link), "%s.link", name);
	must(symlink(name, link) == 0);
	must(page_append_json(link, &page_self->c) == -ELOOP);
	must(page_append_json("/dev/null", &page_self->c) == -EINVAL);
	must(page_append_json("/tmp", &page_self->c) == -EISDIR);
	unlink(link);
	unlink(name);
}

static void killed_and_swept(void)
{
	char path[128], hidden[160];
	int status, ready[2];
	pid_t pid;

	must(pipe(ready) == 0);
	pid = fork();
	if (!pid) {
		page_forked();
		must(page_open("victim") == 0);
		must(write(ready[1], "x", 1) == 1);
		pause();
	}
	must(read(ready[0], path, 1) == 1);
	snprintf(path, sizeof(path), PAGE_DIR "/" PAGE_PREFIX "%d.%lu", pid,
		 (unsigned long)page_start_time(pid));
	snprintf(hidden, sizeof(hidden), "%s.x", path);
	page_sweep();
	must(access(path, F_OK) == 0); /* it lives */
	must(kill(pid, SIGKILL) == 0);
	must(waitpid(pid, &status, 0) == pid);
	must(close(open(hidden, O_CREAT | O_WRONLY, 0600)) == 0);
	must(page_open("next") == 0);
	must(access(path, F_OK) < 0);
	must(unlink(hidden) == 0); /* not a page: not ours to remove */
	page_close();
}

static const struct sums *sums_of_us(void)
{
	char path[64];
	void *at;
	int fd;

	snprintf(path, sizeof(path), PAGE_DIR "/" SUMS_PREFIX "%u.%u",
		 geteuid(), PAGE_VERSION);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0);
	at = mmap(NULL, sizeof(struct sums), PROT_READ, MAP_SHARED, fd, 0);
	must(at != MAP_FAILED);
	close(fd);
	return at;
}

/*
 * Others on this machine may be adding, too: counted are the marks of this
 * test, which no other makes.
 */
#define MARK 0x100000000000ull

static uint64_t marks(const struct sums *s, uint64_t base)
{
	const struct page_counters *c = (const void *)s->word;

	return (c->zcopy_cancelled - base) / MARK;
}

static void victim_counts(int ready)
{
	struct page_row *r;

	page_forked();
	must(page_open("victim") == 0);
	page_add(zcopy_cancelled, MARK);
	page_leave(true); /* an exec that fails: said once */
	page_leave(false);
	page_add(zcopy_cancelled, MARK);
	r = page_row_get(3);
	r->bytes_tcp_tx = MARK;
	must(write(ready, "x", 1) == 1);
	pause();
}

static void sums_only_grow(void)
{
	const struct sums *s;
	uint64_t base, sent;
	int status, ready[2];
	char x;
	pid_t pid;

	must(pipe(ready) == 0);
	must(page_open("first") == 0);
	s = sums_of_us();
	base = ((const struct page_counters *)(const void *)s->word)
		       ->zcopy_cancelled;
	sent = ((const struct page_counters *)(const void *)s->word)
		       ->bytes_tcp_tx;
	pid = fork();
	if (!pid)
		victim_counts(ready[1]);
	must(read(ready[0], &x, 1) == 1);
	must(marks(s, base) == 1); /* said before the exec */
	page_sweep();
	must(marks(s, base) == 1); /* it lives */
	must(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
	page_sweep();
	page_sweep();
	must(marks(s, base) == 2);
	must((((const struct page_counters *)(const void *)s->word)
		      ->bytes_tcp_tx -
	      sent) / MARK ==
	     1);
	page_add(zcopy_cancelled, MARK);
	page_close();
	must(marks(s, base) == 3);
	page_close();
	must(marks(s, base) == 3);
}

static void sums_of_the_ended(void **state)
{
	(void)state;
	in_child(sums_only_grow);
}

#define VICTIMS 300

/* Killed wherever it is; its path is told. */
static void killed_early(int after_us, char *path, size_t size)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		page_forked();
		page_open("victim");
		pause();
	}
	must(pid > 0);
	snprintf(path, size, PAGE_DIR "/" PAGE_PREFIX "%d.%lu", pid,
		 (unsigned long)page_start_time(pid));
	usleep((useconds_t)after_us);
	must(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
}

static void killed_early_and_swept(void)
{
	static char path[VICTIMS][64];
	int i;

	for (i = 0; i < VICTIMS; i++)
		killed_early(i * 2, path[i], sizeof(path[i]));
	page_sweep();
	for (i = 0; i < VICTIMS; i++)
		must(access(path[i], F_OK) == -1);
}

static void a_page_is_whole_or_nothing(void **state)
{
	(void)state;
	in_child(killed_early_and_swept);
}

static void the_killed_are_swept(void **state)
{
	(void)state;
	in_child(killed_and_swept);
}

static void json_is_appended(void **state)
{
	(void)state;
	in_child(appended);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(page_buckets),
		cmocka_unit_test(page_histograms),
		cmocka_unit_test(page_is_published),
		cmocka_unit_test(children_have_their_own),
		cmocka_unit_test(rows_run_out_quietly),
		cmocka_unit_test(left_overs_are_replaced),
		cmocka_unit_test(unsound_pages_are_refused),
		cmocka_unit_test(the_killed_are_swept),
		cmocka_unit_test(a_page_is_whole_or_nothing),
		cmocka_unit_test(sums_of_the_ended),
		cmocka_unit_test(json_is_appended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
