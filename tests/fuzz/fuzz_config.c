/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <dirent.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "config/config.h"
#include "config/rules.h"

/*
 * The rule parser under any bytes. Beyond not crashing: complaints name a
 * line that exists, a rule that was accepted is sound, and printed and parsed
 * again it is the same rule.
 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t lines;
static int errors;

static void check(bool good)
{
	if (!good)
		abort();
}

static void say(const struct config_error *e, void *arg)
{
	(void)arg;
	check(e->line >= 1 && e->line <= lines && e->column >= 1);
	check(e->token[0] && e->expected[0]);
	errors += e->level == LOG_ERR;
}

static void check_again(const struct rule *r)
{
	static struct config again;
	struct settings s = settings;
	char buf[512];
	struct text t = TEXT_IN(buf);
	const struct rule *same;

	check(r->port_lo <= r->port_hi);
	check(r->family == 0 || (r->family == AF_INET && r->prefix <= 32) ||
	      (r->family == AF_INET6 && r->prefix <= 128));
	rule_print(&t, r);
	check(!config_parse_text(&again, &s, "again", buf, t.len, NULL, NULL));
	check(again.nrules == 1);
	same = &again.rules[0];
	check(same->use == r->use && same->role == r->role);
	check(same->family == r->family && same->prefix == r->prefix);
	check(!memcmp(same->addr, r->addr, sizeof(r->addr)));
	check(same->port_lo == r->port_lo && same->port_hi == r->port_hi);
	again.nrules = 0;
}

static void check_settings(struct settings *s)
{
	const char *expect;
	char buf[SETTING_LEN];
	uint32_t i;

	for (i = 0; i < settings_count; i++) {
		settings_get(s, i, buf, sizeof(buf));
		check(!settings_set(s, settings_table[i].name, buf, &expect));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6 };
	static struct config c;
	struct settings s = settings;
	uint32_t i;
	int bad;

	memset(&c, 0, sizeof(c));
	strcpy(c.program, "prog");
	lines = 1;
	for (i = 0; i < size; i++)
		lines += data[i] == '\n';
	errors = 0;
	bad = config_parse_text(&c, &s, "fuzz", (const char *)data, size, say,
				NULL);
	check(bad == errors);
	for (i = 0; i < c.nrules; i++)
		check_again(&c.rules[i]);
	check_settings(&s);
	config_match(&c, ROLE_CLIENT, (const struct sockaddr *)&sa);
	config_match(&c, ROLE_SERVER, (const struct sockaddr *)&sa);
	config_release(&c);
	return 0;
}

#ifndef LIBFUZZER
/* Without an engine: the corpus, and seeded changes of it. */

#define ROUNDS	  3000
#define INPUT_MAX 16384

static uint64_t seed = 1;

static uint32_t dice(uint32_t sides)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % sides;
}

/* Overwrites, swaps and cuts a few bytes. */
static size_t change(uint8_t *data, size_t size)
{
	static const char likely[] = "*:/.-[]# \t\r\n0129afF\0\xff";
	uint32_t n = 1 + dice(8), at;

	while (n-- && size > 1) {
		at = dice((uint32_t)size);
		if (dice(8))
			data[at] = (uint8_t)likely[dice(sizeof(likely))];
		else if (dice(4))
			data[at] = data[dice((uint32_t)size)];
		else
			size = at + 1;
	}
	return size;
}

static void run_file(const char *path)
{
	static uint8_t data[INPUT_MAX], copy[INPUT_MAX];
	FILE *f = fopen(path, "rb");
	size_t size, n;
	int i;

	check(f != NULL);
	size = fread(data, 1, sizeof(data), f);
	fclose(f);
	LLVMFuzzerTestOneInput(data, size);
	for (i = 0; i < ROUNDS; i++) {
		memcpy(copy, data, size);
		n = change(copy, size);
		LLVMFuzzerTestOneInput(copy, n);
	}
}

int main(void)
{
	const char *top = getenv("srcdir");
	char dir[512], path[1024];
	struct dirent *d;
	int files = 0;
	DIR *list;

	snprintf(dir, sizeof(dir), "%s/tests/fuzz/corpus/config",
		 top ? top : ".");
	list = opendir(dir);
	check(list != NULL);
	while ((d = readdir(list))) {
		if (d->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, d->d_name);
		run_file(path);
		files++;
	}
	closedir(list);
	printf("%d files, %d changes of each\n", files, ROUNDS);
	return files ? 0 : 1;
}
#endif
