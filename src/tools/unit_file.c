/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/unit_file.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/root.h"

/* The order in which systemd looks: the first file with a name is the one. */
static const char *const places[] = {
	"/etc/systemd/system",		 "/run/systemd/system",
	"/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
	"/lib/systemd/system",
};

#define PLACES	(sizeof(places) / sizeof(places[0]))
#define DROPINS 256

static FILE *open_file(const char *root, const char *path)
{
	int fd = root_open(root, path);

	return fd < 0 ? NULL : fdopen(fd, "r");
}

/* --- a line ------------------------------------------------------------- */

static void copy(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
}

static bool truth(const char *s)
{
	return !strcmp(s, "yes") || !strcmp(s, "true") || !strcmp(s, "on") ||
	       !strcmp(s, "1");
}

/*
 * The next word of an assignment that quotes with " or ': in place, the rest
 * behind *s. NULL: none is left.
 */
static char *word(char **s)
{
	char *in = *s + strspn(*s, " \t"), *out = in, *begin = in, quote = 0;

	if (!*in)
		return NULL;
	for (; *in && (quote || !strchr(" \t", *in)); in++) {
		if (*in == quote)
			quote = 0;
		else if (!quote && (*in == '"' || *in == '\''))
			quote = *in;
		else if (*in == '\\' && in[1])
			*out++ = *++in;
		else
			*out++ = *in;
	}
	*s = in + (*in != '\0');
	*out = '\0';
	return begin;
}

static const char preload[] = "LD_PRELOAD=";

static void environment(struct unit *u, char *value)
{
	char *w;

	if (!*value) {
		u->preload[0] = '\0'; /* all that came before is void */
		u->preloads++;
	}
	while ((w = word(&value))) {
		if (strncmp(w, preload, sizeof(preload) - 1))
			continue;
		copy(u->preload, sizeof(u->preload), w + sizeof(preload) - 1);
		u->preloads++;
	}
}

static void unset_environment(struct unit *u, char *value)
{
	char *w;

	if (!*value)
		u->unset = false;
	while ((w = word(&value)))
		if (!strncmp(w, preload, sizeof(preload) - 2) &&
		    (!w[sizeof(preload) - 2] || w[sizeof(preload) - 2] == '='))
			u->unset = true;
}

/*
 * "AF_INET AF_UNIX" is a list of what is allowed, "~AF_UNIX" of what is not;
 * the first line says which, and later ones add to it, or take from it if
 * theirs is of the other kind.
 */
static void families(struct unit *u, char *value)
{
	bool but = *value == '~';
	char *w;

	if (!*value || !strcmp(value, "none")) {
		u->only_families = *value;
		u->unix_listed = false;
		u->families = *value;
		return;
	}
	if (!u->families)
		u->only_families = !but;
	u->families = true;
	value += but;
	while ((w = word(&value)))
		if (!strcmp(w, "AF_UNIX") || !strcmp(w, "AF_LOCAL"))
			u->unix_listed = but != u->only_families;
}

static void environment_file(const char *root, struct unit *u,
			     const char *value)
{
	char path[PATH_MAX], line[4096];
	FILE *f;

	if (!*value) {
		u->env_file[0] = '\0';
		return;
	}
	value += *value == '-';
	if (snprintf(path, sizeof(path), "%s%s", root, value) >= PATH_MAX)
		return;
	f = open_file(root, path);
	if (!f)
		return;
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line + strspn(line, " \t"), preload,
			     sizeof(preload) - 1))
			copy(u->env_file, sizeof(u->env_file), path);
	fclose(f);
}

/* "-@:/usr/bin/foo": what stands in front says how it is run. */
static void exec_start(struct unit *u, char *value)
{
	char *w;

	if (!*value) {
		u->exec[0] = '\0';
		return;
	}
	w = word(&value);
	if (w && !u->exec[0])
		copy(u->exec, sizeof(u->exec), w + strspn(w, "@-:+!|"));
}

static void assign(const char *root, struct unit *u, const char *key,
		   char *value)
{
	if (!strcmp(key, "ExecStart"))
		exec_start(u, value);
	else if (!strcmp(key, "Environment"))
		environment(u, value);
	else if (!strcmp(key, "EnvironmentFile"))
		environment_file(root, u, value);
	else if (!strcmp(key, "SystemCallFilter"))
		copy(u->filter, sizeof(u->filter), value);
	else if (!strcmp(key, "RestrictAddressFamilies"))
		families(u, value);
	else if (!strcmp(key, "UnsetEnvironment"))
		unset_environment(u, value);
	else if (!strcmp(key, "PrivateNetwork"))
		u->no_network = truth(value);
}

/* --- a file ------------------------------------------------------------- */

static bool is_comment(const char *line)
{
	line += strspn(line, " \t");
	return *line == '#' || *line == ';';
}

/*
 * A line with those that it continues in (`\`); false: the end. Comments may
 * stand among these, and do not continue.
 */
static bool logical(FILE *f, char *line, size_t size)
{
	size_t len = 0;

	line[0] = '\0';
	while (len + 2 < size && fgets(line + len, (int)(size - len), f)) {
		if (is_comment(line + len)) {
			line[len] = '\0';
			continue;
		}
		len = strcspn(line, "\n");
		if (!len || line[len - 1] != '\\') {
			line[len] = '\0';
			return true;
		}
		line[len - 1] = ' ';
		line[len] = '\0';
	}
	return len != 0;
}

static void trim(char *s)
{
	size_t len = strlen(s);

	while (len && strchr(" \t\r", s[len - 1]))
		s[--len] = '\0';
}

static int read_file(const char *root, const char *path, struct unit *u)
{
	char line[16384], *key, *value;
	bool service = false;
	FILE *f = open_file(root, path);

	if (!f)
		return -errno;
	while (logical(f, line, sizeof(line))) {
		key = line + strspn(line, " \t");
		trim(key);
		if (*key == '[')
			service = !strcmp(key, "[Service]");
		if (!service || *key == '[')
			continue;
		value = strchr(key, '=');
		if (!value)
			continue;
		*value++ = '\0';
		trim(key);
		assign(root, u, key, value + strspn(value, " \t"));
	}
	fclose(f);
	return 0;
}

/* --- drop-ins ----------------------------------------------------------- */

struct dropins {
	const char *but;
	char *path[DROPINS];
	size_t count;
};

static const char *base(const char *path)
{
	return strrchr(path, '/') + 1;
}

static void gather(struct dropins *d, const char *dir)
{
	struct dirent *e;
	DIR *list = opendir(dir);
	size_t i;

	while (list && (e = readdir(list))) {
		const char *dot = strrchr(e->d_name, '.');

		if (!dot || strcmp(dot, ".conf") ||
		    !strcmp(e->d_name, d->but) || d->count == DROPINS)
			continue;
		for (i = 0; i < d->count; i++)
			if (!strcmp(base(d->path[i]), e->d_name))
				break; /* another place goes first */
		if (i < d->count ||
		    asprintf(&d->path[d->count], "%s/%s", dir, e->d_name) < 0)
			continue;
		d->count++;
	}
	if (list)
		closedir(list);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(base(*(char *const *)a), base(*(char *const *)b));
}

/* "foo@bar.service" is made of "foo@.service", too. */
static bool template_of(const char *name, char *to, size_t size)
{
	const char *at = strchr(name, '@'), *dot = strrchr(name, '.');

	if (!at || !dot || dot < at)
		return false;
	return snprintf(to, size, "%.*s%s", (int)(at - name + 1), name, dot) <
	       (int)size;
}

static void read_dropins(const char *root, const char *name, const char *other,
			 const char *but, struct unit *u)
{
	struct dropins d = { .but = but };
	char dir[PATH_MAX];
	size_t i;

	for (i = 0; i < PLACES; i++) {
		snprintf(dir, sizeof(dir), "%s%s/%s.d", root, places[i], name);
		gather(&d, dir);
		if (!other)
			continue;
		snprintf(dir, sizeof(dir), "%s%s/%s.d", root, places[i], other);
		gather(&d, dir);
	}
	qsort(d.path, d.count, sizeof(d.path[0]), by_name);
	for (i = 0; i < d.count; i++) {
		unsigned int before = u->preloads;

		read_file(root, d.path[i], u);
		if (u->preloads != before && strcmp(base(d.path[i]), but) > 0)
			copy(u->later, sizeof(u->later), d.path[i]);
		free(d.path[i]);
	}
}

int unit_read(const char *root, const char *name, const char *but,
	      struct unit *u)
{
	char other[NAME_MAX + 1];
	bool has = template_of(name, other, sizeof(other));
	int ret = -ENOENT;
	size_t i;

	memset(u, 0, sizeof(*u));
	for (i = 0; i < 2 * PLACES && ret == -ENOENT; i++) {
		if (i >= PLACES && !has)
			break;
		if (snprintf(u->file, sizeof(u->file), "%s%s/%s", root,
			     places[i % PLACES],
			     i < PLACES ? name : other) >= PATH_MAX)
			return -ENAMETOOLONG;
		ret = read_file(root, u->file, u);
		if (ret == -ENOTDIR)
			ret = -ENOENT; /* something else lies there */
	}
	if (!ret)
		read_dropins(root, name, has ? other : NULL, but, u);
	return ret;
}
