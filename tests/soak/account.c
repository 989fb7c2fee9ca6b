/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * account.c - what the processes that stay use while nothing is open
 *
 * The measure is the most that was used at the first MEASURES quiet moments:
 * threads, caches of memory and whatever else is made once have been made by
 * then. From then on:
 *   descriptors  not one more
 *   mappings     FEW more: an allocator may divide one
 *   memory       SOME_KB and an eighth more: an allocator keeps pieces. What is
 *                lost by each connection exceeds that in minutes.
 *   files        FEW more: what a killed process left is another one's to remove
 */
#include "mixed.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MEASURES = 3, FEW = 8, SOME_KB = 3072, PATIENCE_MS = 10000 };

struct use {
	long fds, maps, kb;
};

const char *files_dir;
static struct use least[LIVES], now[LIVES];
static long files_least, files_now;
static unsigned int looks;

static long names_in(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	long n = 0;

	if (!d)
		return -1;
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static long lines_of(const char *path)
{
	FILE *f = fopen(path, "re");
	long n = 0;
	int c;

	if (!f)
		return -1;
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

/* Pages of files come and go; these are what was written. */
static long memory_of(const char *path)
{
	FILE *f = fopen(path, "re");
	char line[256];
	long kb, sum = 0;

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "RssAnon: %ld", &kb) == 1 ||
		    sscanf(line, "RssShmem: %ld", &kb) == 1)
			sum += kb;
	fclose(f);
	return sum;
}

static void look(int pid, struct use *u)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	u->fds = names_in(path);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	u->maps = lines_of(path);
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	u->kb = memory_of(path);
}

static void look_all(void)
{
	uint32_t i;

	for (i = 0; i < board->lives; i++)
		look(board->life[i].pid, &now[i]);
	files_now = files_dir ? names_in(files_dir) : 0;
}

static void measure(void)
{
	uint32_t i;

	for (i = 0; i < board->lives; i++) {
		struct use *l = &least[i], *n = &now[i];

		l->fds = n->fds > l->fds ? n->fds : l->fds;
		l->maps = n->maps > l->maps ? n->maps : l->maps;
		l->kb = n->kb > l->kb ? n->kb : l->kb;
	}
	files_least = files_now > files_least ? files_now : files_least;
}

static bool flat(bool tell)
{
	bool good = true;
	uint32_t i;

	for (i = 0; i < board->lives; i++) {
		const struct use *l = &least[i], *n = &now[i];

		if (n->fds >= 0 && n->fds <= l->fds && n->maps >= 0 &&
		    n->maps <= l->maps + FEW && n->kb >= 0 &&
		    n->kb <= l->kb + l->kb / 8 + SOME_KB)
			continue;
		good = false;
		if (tell)
			fprintf(stderr,
				"mixed: WRONG: the %s (%d) has %ld descriptors, "
				"%ld mappings, %ld kB; had %ld, %ld, %ld\n",
				board->life[i].name, board->life[i].pid, n->fds,
				n->maps, n->kb, l->fds, l->maps, l->kb);
	}
	if (files_now <= files_least + FEW)
		return good;
	if (tell)
		fprintf(stderr, "mixed: WRONG: %ld files in %s; were %ld\n",
			files_now, files_dir, files_least);
	return false;
}

bool account_flat(void)
{
	int waited;

	look_all();
	if (looks++ < MEASURES) {
		measure();
		return true;
	}
	for (waited = 0; !flat(false); waited += 100) {
		if (waited >= PATIENCE_MS)
			return flat(true);
		nap_ms(100);
		look_all();
	}
	return true;
}

void account_show(void)
{
	uint32_t i;

	fprintf(stderr,
		"mixed: descriptors, mappings, kB at quiet moment %u:", looks);
	for (i = 0; i < board->lives; i++)
		fprintf(stderr, " %s %ld %ld %ld%s", board->life[i].name,
			now[i].fds, now[i].maps, now[i].kb,
			i + 1 < board->lives ? "," : "");
	if (files_dir)
		fprintf(stderr, "; %ld files", files_now);
	fprintf(stderr, "\n");
}
