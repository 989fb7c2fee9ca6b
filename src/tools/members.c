/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/members.h"

#include <dirent.h>
#include <err.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* "0::/system.slice/redis.service/worker": a part of the path is `unit`. */
static bool in_path(const char *line, const char *unit)
{
	size_t len = strlen(unit);
	const char *at = strchr(line, '/');

	for (; at; at = strchr(at + 1, '/'))
		if (!strncmp(at + 1, unit, len) &&
		    (!at[1 + len] || strchr("/\n", at[1 + len])))
			return true;
	return false;
}

/* systemd's own hierarchy: the second version's, or the one with its name. */
static bool of_systemd(const char *line)
{
	return !strncmp(line, "0::", 3) || strstr(line, ":name=systemd:");
}

bool member_of(pid_t pid, const char *unit)
{
	char path[64], *line = NULL;
	bool found = false;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	f = fopen(path, "re");
	while (f && !found && getline(&line, &room, f) > 0)
		found = of_systemd(line) && in_path(line, unit);
	free(line);
	if (f)
		fclose(f);
	return found;
}

bool members_any(const char *unit)
{
	DIR *dir = opendir("/proc");
	struct dirent *d;
	bool found = false;

	if (!dir)
		err(2, "/proc");
	while (!found && (d = readdir(dir))) {
		uint64_t pid;
		size_t n = text_number(d->d_name, INT_MAX, &pid);

		found = n && !d->d_name[n] && member_of((pid_t)pid, unit);
	}
	closedir(dir);
	return found;
}

bool member_unit(const char *name, char *full, size_t size)
{
	const char *dot = strrchr(name, '.');
	bool whole = dot && !strcmp(dot, ".service");
	int n;

	if (!*name || *name == '.' || strchr(name, '/'))
		return false;
	n = snprintf(full, size, "%s%s", name, whole ? "" : ".service");
	return n > 0 && (size_t)n < size;
}
