/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/unit_filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "tools/probe.h"

#define CALLS	   128
#define DEPTH	   8 /* of groups in groups */
#define GROUPS_MAX (1u << 20) /* bytes */

struct call {
	const char *name;
	bool spare;
	bool listed;
	bool refused; /* with an errno of its own: "name:EPERM" */
};

struct filter {
	struct call call[CALLS];
	size_t calls;
	bool set, allows; /* it lists what is allowed, not what is barred */
	const char *groups;
	struct filter_verdict *v;
};

static void gather(struct filter *f)
{
	struct call c = { 0 };
	size_t i, k;

	for (i = 0; probe_call(i, &c.name, &c.spare); i++) {
		for (k = 0; k < f->calls && strcmp(f->call[k].name, c.name);
		     k++)
			;
		if (k == f->calls && k < CALLS)
			f->call[f->calls++] = c;
		else if (k < CALLS)
			f->call[k].spare &= c.spare;
	}
}

static void mark(struct filter *f, const char *name, size_t len, bool listed,
		 bool refused)
{
	size_t i;

	for (i = 0; i < f->calls; i++) {
		struct call *c = &f->call[i];

		if (strncmp(c->name, name, len) || c->name[len])
			continue;
		c->listed = listed;
		c->refused = refused;
	}
}

/* The line behind that of a group, or NULL. */
static const char *members(const char *groups, const char *name, size_t len)
{
	const char *line = groups;

	while (line && *line) {
		size_t n = strcspn(line, "\n");

		if (n == len && !strncmp(line, name, len))
			return line + n + (line[n] != '\0');
		line += n + (line[n] != '\0');
	}
	return NULL;
}

static void put(struct filter *f, const char *name, size_t len, bool listed,
		bool refused, int depth)
{
	const char *line;

	if (*name != '@') {
		mark(f, name, len, listed, refused);
		return;
	}
	line = members(f->groups, name, len);
	if (!line || depth == DEPTH) {
		snprintf(f->v->unknown, sizeof(f->v->unknown), "%.*s", (int)len,
			 name);
		return;
	}
	/* members are indented, and so is what is said of the group */
	while (*line == ' ' || *line == '\t') {
		line += strspn(line, " \t");
		len = strcspn(line, "\n");
		if (*line != '#')
			put(f, line, len, listed, refused, depth + 1);
		line += len + (line[len] != '\0');
	}
}

static void forget(struct filter *f)
{
	size_t i;

	f->set = false;
	for (i = 0; i < f->calls; i++)
		f->call[i].listed = f->call[i].refused = false;
	f->v->unknown[0] = '\0';
}

/*
 * The first assignment says which kind of list it is; of the other kind, one
 * takes from it.
 */
static void assignment(struct filter *f, const char *s, size_t len)
{
	const char *end = s + len, *colon;
	bool but = len && *s == '~', own;

	if (!len) {
		forget(f);
		return;
	}
	if (!f->set) {
		f->allows = !but;
		if (f->allows)
			put(f, "@default", strlen("@default"), true, false, 0);
	}
	f->set = true;
	for (s += but; s < end; s += len) {
		s += strspn(s, " \t");
		len = strcspn(s, " \t\n");
		if (!len)
			break;
		colon = memchr(s, ':', len);
		own = colon && strncmp(colon, ":kill", 5);
		put(f, s, colon ? (size_t)(colon - s) : len, but != f->allows,
		    own, 0);
	}
}

void filter_judge(const char *lines, const char *error, const char *groups,
		  struct filter_verdict *v)
{
	struct text barred = TEXT_IN(v->barred);
	struct filter f = { .groups = groups, .v = v };
	bool kills = !*error || !strcmp(error, "kill");
	size_t i, len;

	memset(v, 0, sizeof(*v));
	gather(&f);
	for (; *lines; lines += len + (lines[len] != '\0')) {
		len = strcspn(lines, "\n");
		assignment(&f, lines, len);
	}
	for (i = 0; f.set && !*v->unknown && i < f.calls; i++) {
		const struct call *c = &f.call[i];
		bool dies = kills && !c->refused;

		if (c->listed == f.allows || (c->spare && !dies))
			continue;
		text_add(&barred, "%s%s", barred.len ? " " : "", c->name);
		v->kills |= dies;
	}
}

char *filter_groups(void)
{
	FILE *f = popen("systemd-analyze syscall-filter 2>/dev/null", "re");
	char *text = malloc(GROUPS_MAX);
	size_t n = 0;

	if (f && text)
		n = fread(text, 1, GROUPS_MAX - 1, f);
	if (f)
		pclose(f);
	if (!n) {
		free(text);
		return NULL;
	}
	text[n] = '\0';
	return text;
}
