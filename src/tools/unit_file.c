/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/unit_file.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/seccomp.h"
#include "base/text.h"
#include "config/config.h"
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

static bool untruth(const char *s)
{
	return !strcmp(s, "no") || !strcmp(s, "false") || !strcmp(s, "off") ||
	       !strcmp(s, "0");
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

/*
 * What systemd knows of a unit from its name alone: %n, %N, %p, %i and %%. All
 * or nothing: false, and nothing is changed.
 */
static bool specifiers(const char *name, char *s, size_t size)
{
	int len = (int)(strrchr(name, '.') - name);
	const char *at = memchr(name, '@', (size_t)len), *from;
	int prefix = at ? (int)(at - name) : len;
	char new[PATH_MAX];
	struct text t = TEXT_IN(new);

	new[0] = '\0';
	for (from = s; *from; from++) {
		if (*from != '%') {
			text_char(&t, *from);
			continue;
		}
		switch (*++from) {
		case 'n':
			text_add(&t, "%s", name);
			break;
		case 'N':
			text_bytes(&t, name, (size_t)len);
			break;
		case 'p':
			text_bytes(&t, name, (size_t)prefix);
			break;
		case 'i':
			if (at && len - prefix == 1)
				return false; /* a template */
			if (at)
				text_bytes(&t, at + 1,
					   (size_t)(len - prefix - 1));
			break;
		case '%':
			text_char(&t, '%');
			break;
		default:
			return false;
		}
	}
	if (t.cut || t.len >= size)
		return false;
	memcpy(s, new, t.len + 1);
	return true;
}

static const char preload[] = "LD_PRELOAD=";
static const char trust[] = SECCOMP_ENV "=";
static const char disable[] = "LIBSDP_DISABLE=", use[] = "LIBSDP_USE=";

/* An assignment of the environment, by which the library does nothing. */
static void turned_off(struct unit *u, const char *w)
{
	if (!strncmp(w, disable, sizeof(disable) - 1))
		u->off = config_told_off(w + sizeof(disable) - 1);
	if (!strncmp(w, use, sizeof(use) - 1))
		u->off_by_use = !strcmp(w + sizeof(use) - 1, "tcp");
}

static void environment(struct unit *u, char *value)
{
	char *w;

	if (!*value) {
		u->preload[0] = '\0'; /* all that came before is void */
		u->preloads++;
		u->trusted = u->off = u->off_by_use = false;
	}
	while ((w = word(&value))) {
		turned_off(u, w);
		if (!strncmp(w, trust, sizeof(trust) - 1))
			u->trusted = !strcmp(w + sizeof(trust) - 1, "trust");
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
		u->unix_listed = u->netlink_listed = false;
		u->families = *value;
		return;
	}
	if (!u->families)
		u->only_families = !but;
	u->families = true;
	value += but;
	while ((w = word(&value))) {
		if (!strcmp(w, "AF_UNIX") || !strcmp(w, "AF_LOCAL"))
			u->unix_listed = but != u->only_families;
		if (!strcmp(w, "AF_NETLINK") || !strcmp(w, "AF_ROUTE"))
			u->netlink_listed = but != u->only_families;
	}
}

static void filter(struct unit *u, const char *value)
{
	struct text t = { u->filter, sizeof(u->filter), strlen(u->filter),
			  false };

	text_add(&t, "%s\n", value);
	u->filter_cut |= t.cut;
}

/* Settings that are made of a filter of system calls, whatever it bars. */
static const char *const filter_keys[] = {
	"MemoryDenyWriteExecute",  "RestrictAddressFamilies",
	"RestrictNamespaces",	   "RestrictRealtime",
	"RestrictSUIDSGID",	   "LockPersonality",
	"PrivateDevices",	   "ProtectClock",
	"ProtectHostname",	   "ProtectKernelLogs",
	"ProtectKernelModules",	   "ProtectKernelTunables",
	"SystemCallArchitectures",
};

static void other_filter(struct unit *u, const char *key, const char *value)
{
	size_t i;

	for (i = 0; i < sizeof(filter_keys) / sizeof(filter_keys[0]); i++) {
		if (strcmp(key, filter_keys[i]))
			continue;
		u->filters &= ~(1u << i);
		if (*value && !untruth(value))
			u->filters |= 1u << i;
	}
}

const char *unit_filter_key(const struct unit *u)
{
	return u->filters ? filter_keys[__builtin_ctz(u->filters)] : NULL;
}

static void environment_read(const char *root, struct unit *u, const char *path)
{
	char line[4096];
	FILE *f = open_file(root, path);

	if (!f && errno != ENOENT && errno != ENOTDIR)
		copy(u->env_unread, sizeof(u->env_unread), path);
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line + strspn(line, " \t"), preload,
			     sizeof(preload) - 1))
			copy(u->env_file, sizeof(u->env_file), path);
	if (f)
		fclose(f);
}

/* A path below `root`, in which nothing is a pattern; malloced. */
static char *below(const char *root, const char *path)
{
	char *new = malloc(2 * strlen(root) + strlen(path) + 1), *to = new;

	if (!new)
		return NULL;
	for (; *root; root++) {
		if (strchr("*?[\\", *root))
			*to++ = '\\';
		*to++ = *root;
	}
	strcpy(to, path);
	return new;
}

static void environment_files(const char *root, struct unit *u,
			      const char *path)
{
	char *all = below(root, path);
	glob_t found;
	size_t i;

	if (all && !glob(all, 0, NULL, &found)) {
		for (i = 0; i < found.gl_pathc; i++)
			environment_read(root, u, found.gl_pathv[i]);
		globfree(&found);
	}
	free(all);
}

/* A file or a pattern, with `-` in front if there need not be one. */
static void environment_file(const char *root, struct unit *u,
			     const char *value)
{
	char path[PATH_MAX], full[PATH_MAX];

	if (!*value) {
		u->env_file[0] = u->env_unread[0] = '\0';
		return;
	}
	copy(path, sizeof(path), value + (*value == '-'));
	if (!specifiers(u->name, path, sizeof(path)))
		copy(u->env_unread, sizeof(u->env_unread), path);
	else if (strpbrk(path, "*?["))
		environment_files(root, u, path);
	else if (snprintf(full, sizeof(full), "%s%s", root, path) < PATH_MAX)
		environment_read(root, u, full);
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
	if (!w || u->exec[0])
		return;
	copy(u->exec, sizeof(u->exec), w + strspn(w, "@-:+!|"));
	u->exec_open = !specifiers(u->name, u->exec, sizeof(u->exec));
}

static void assign(const char *root, struct unit *u, const char *key,
		   char *value)
{
	other_filter(u, key, value);
	if (!strcmp(key, "ExecStart"))
		exec_start(u, value);
	else if (!strcmp(key, "Environment"))
		environment(u, value);
	else if (!strcmp(key, "EnvironmentFile"))
		environment_file(root, u, value);
	else if (!strcmp(key, "SystemCallFilter"))
		filter(u, value);
	else if (!strcmp(key, "SystemCallErrorNumber"))
		copy(u->filter_error, sizeof(u->filter_error), value);
	else if (!strcmp(key, "RestrictAddressFamilies"))
		families(u, value);
	else if (!strcmp(key, "UnsetEnvironment"))
		unset_environment(u, value);
	else if (!strcmp(key, "PrivateNetwork"))
		u->no_network = truth(value);
	else if (!strcmp(key, "RootDirectory") || !strcmp(key, "RootImage"))
		u->own_root = *value && strcmp(value, "/") != 0;
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

static void gather(struct dropins *d, const char *root, const char *dir)
{
	int fd = root_open(root, dir);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	size_t i;

	if (fd >= 0 && !list)
		close(fd);

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

static void gather_of(struct dropins *d, const char *root, const char *name)
{
	char dir[PATH_MAX];
	size_t i;

	for (i = 0; i < PLACES; i++) {
		snprintf(dir, sizeof(dir), "%s%s/%s.d", root, places[i], name);
		gather(d, root, dir);
	}
}

/* Of "foo-bar-baz.service": foo-bar-.service.d and foo-.service.d. */
static void gather_prefixes(struct dropins *d, const char *root,
			    const char *name)
{
	const char *dot = strrchr(name, '.');
	size_t n = strcspn(name, "@.");
	char other[NAME_MAX + 1];

	while (dot && n--) {
		if (name[n] != '-')
			continue;
		snprintf(other, sizeof(other), "%.*s%s", (int)n + 1, name, dot);
		gather_of(d, root, other);
	}
}

static void read_dropins(const char *root, const char *name, const char *other,
			 const char *but, struct unit *u)
{
	struct dropins d = { .but = but };
	size_t i;

	gather_of(&d, root, name);
	if (other)
		gather_of(&d, root, other);
	gather_prefixes(&d, root, name);
	gather_of(&d, root, "service");
	qsort(d.path, d.count, sizeof(d.path[0]), by_name);
	for (i = 0; i < d.count; i++) {
		unsigned int before = u->preloads;

		read_file(root, d.path[i], u);
		if (u->preloads != before && strcmp(base(d.path[i]), but) > 0)
			copy(u->later, sizeof(u->later), d.path[i]);
		free(d.path[i]);
	}
}

static bool masked(const char *file)
{
	char to[sizeof("/dev/null")] = "";

	return readlink(file, to, sizeof(to)) == sizeof(to) - 1 &&
	       !strcmp(to, "/dev/null");
}

int unit_read(const char *root, const char *name, const char *but,
	      struct unit *u)
{
	char other[NAME_MAX + 1];
	bool has = template_of(name, other, sizeof(other));
	int ret = -ENOENT;
	size_t i;

	memset(u, 0, sizeof(*u));
	u->name = name;
	for (i = 0; i < 2 * PLACES && ret == -ENOENT; i++) {
		if (i >= PLACES && !has)
			break;
		if (snprintf(u->file, sizeof(u->file), "%s%s/%s", root,
			     places[i % PLACES],
			     i < PLACES ? name : other) >= PATH_MAX)
			return -ENAMETOOLONG;
		u->masked = masked(u->file);
		ret = u->masked ? 0 : read_file(root, u->file, u);
		if (ret == -ENOTDIR)
			ret = -ENOENT; /* something else lies there */
	}
	if (!ret)
		read_dropins(root, name, has ? other : NULL, but, u);
	return ret;
}
