/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/ended.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/sums.h"
#include "base/text.h"

#define TRIES 50 /* of 2 ms, then the adding process is taken for dead */
#define MOST  (UINT64_MAX / 4) /* no counter comes so far */

struct state {
	uint64_t begun, done; /* of all files */
	struct page_counters c;
};

void ended_add(uint64_t *to, uint64_t n)
{
	if (n <= MOST && __builtin_add_overflow(*to, n, to))
		*to = UINT64_MAX;
}

/*
 * The user whose sums they are by name; false: not sums, or of another layout.
 */
static bool sums_owner(const char *name, uid_t *uid)
{
	uint64_t of = 0, layout = 0;
	const char *p = name + strlen(SUMS_PREFIX);
	size_t n;

	if (strncmp(name, SUMS_PREFIX, strlen(SUMS_PREFIX)))
		return false;
	n = text_number(p, UINT32_MAX, &of);
	if (!n || p[n] != '.')
		return false;
	p += n + 1;
	n = text_number(p, UINT32_MAX, &layout);
	*uid = (uid_t)of;
	return n && !p[n] && layout == PAGE_VERSION;
}

static bool sound(const struct sums *s, const char *name)
{
	size_t i;

	for (i = 0; i < PAGE_WORDS && s->word[i] <= MOST; i++)
		;
	if (i == PAGE_WORDS)
		return true;
	warnx(PAGE_DIR "/%s: not counters: left out", name);
	return false;
}

/* A copy: the file is its owner's, which may cut it at any moment. */
static bool read_sums(int dir, const char *name, struct sums *s)
{
	struct stat st;
	uid_t uid;
	ssize_t n;
	int fd;

	if (!sums_owner(name, &uid))
		return false;
	fd = openat(dir, name,
		    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		if (uid == geteuid() && errno != ENOENT)
			warn(PAGE_DIR "/%s: no sums of ended processes", name);
		return false;
	}
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != uid ||
	    (st.st_mode & 022)) {
		warnx(PAGE_DIR "/%s: not of the user it is named for", name);
		n = -1;
	} else {
		n = pread(fd, s, sizeof(*s), 0);
	}
	close(fd);
	return n == (ssize_t)sizeof(*s) && sound(s, name);
}

static void take_sums(struct state *state)
{
	DIR *dir = opendir(PAGE_DIR);
	struct dirent *d;
	struct sums s;
	size_t i;

	memset(state, 0, sizeof(*state));
	if (!dir)
		return;
	while ((d = readdir(dir))) {
		uint64_t *to = (uint64_t *)(void *)&state->c;

		if (!read_sums(dirfd(dir), d->d_name, &s))
			continue;
		state->begun += s.begun;
		state->done += s.done;
		for (i = 0; i < PAGE_WORDS; i++)
			ended_add(&to[i], s.word[i]);
	}
	closedir(dir);
}

/* An addition that does not come to its end: its process was killed. */
static void mend(void)
{
	struct sums s;
	char name[64];
	int dir = open(PAGE_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	snprintf(name, sizeof(name), SUMS_PREFIX "%u.%u", geteuid(),
		 PAGE_VERSION);
	if (dir < 0)
		return;
	if (read_sums(dir, name, &s) && s.begun != s.done)
		sums_mend(s.begun, s.done);
	close(dir);
}

/* With no addition under way; false: one does not come to its end. */
static bool settle(struct state *state)
{
	const struct timespec nap = { 0, 2000000 };
	int tries = 0;

	for (;;) {
		take_sums(state);
		if (state->begun == state->done)
			return true;
		if (++tries == TRIES)
			return false;
		nanosleep(&nap, NULL);
	}
}

struct found *ended_scan(size_t *count, struct page_counters *ended)
{
	struct state before, behind;
	struct found *found;
	bool settled;
	int tries = 0;

	settled = settle(&before);
	if (!settled) {
		mend();
		settled = settle(&before);
	}
	for (;;) {
		found = scan_pages(0, count);
		take_sums(&behind);
		if ((before.begun == behind.begun &&
		     (behind.begun == behind.done || !settled)) ||
		    ++tries == TRIES)
			break;
		scan_free(found, *count);
		settled = settle(&before);
	}
	*ended = behind.c;
	return found;
}

static void retire(const char *path, const struct page *p)
{
	struct page_counters now, had = p->summed;

	page_totals(p, p->rows, &now);
	sums_open(false);
	sums_inherit(&now, &had, AT_FDCWD, path);
}

void ended_retire(const char *path, const struct page *p)
{
	pid_t child;

	if (p->uid == geteuid()) {
		retire(path, p);
		return;
	}
	if (geteuid())
		return;
	child = fork();
	if (!child) {
		if (!setgroups(0, NULL) && !setresuid(p->uid, p->uid, p->uid) &&
		    !sums_open(true))
			retire(path, p);
		_exit(0);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
}
