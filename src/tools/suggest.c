/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/suggest.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "config/settings.h"

#define LONGEST 32
#define AWAY	2

static const char *const words[] = {
	"use",	   "log",	 "set",		"sdp",	  "tcp",
	"both",	   "kernel-sdp", "server",	"client", "listen",
	"connect", "min-level",	 "destination", "stderr", "syslog",
	"file",	   "yes",	 "no",		"auto",	  "always",
};

static unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* Letters to be put in, taken out, replaced or swapped; LONGEST: too long. */
static unsigned int distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), i, j;
	unsigned int d[LONGEST + 1][LONGEST + 1];

	if (n > LONGEST || m > LONGEST)
		return LONGEST;
	for (i = 0; i <= n; i++)
		for (j = 0; j <= m; j++) {
			if (!i || !j) {
				d[i][j] = (unsigned int)(i + j);
				continue;
			}
			d[i][j] = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
			d[i][j] = least(d[i][j], d[i - 1][j] + 1);
			d[i][j] = least(d[i][j], d[i][j - 1] + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] &&
			    a[i - 2] == b[j - 1])
				d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
		}
	return d[n][m];
}

static void better(const char *word, const char *than, unsigned int *best,
		   const char **which)
{
	unsigned int d = distance(word, than);

	if (d && d < *best && 2 * d < strlen(than)) {
		*best = d;
		*which = than;
	}
}

const char *suggest(const char *word)
{
	unsigned int best = AWAY + 1;
	const char *which = NULL;
	uint32_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		better(word, words[i], &best, &which);
	for (i = 0; i < settings_count; i++)
		better(word, settings_table[i].name, &best, &which);
	return which;
}
