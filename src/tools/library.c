/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/library.h"

#include <err.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

static bool try_library(char *path, size_t size, const char *dir,
			const char *below)
{
	struct text t = { .buf = path, .size = size };

	text_add(&t, "%s%s/libsdp.so", dir, below);
	return !t.cut && !access(path, R_OK);
}

void library_find(char *path, size_t size)
{
	char dir[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", dir, sizeof(dir) - 1);
	char *slash;

	if (n < 0)
		err(2, "/proc/self/exe");
	dir[n] = '\0';
	slash = strrchr(dir, '/');
	if (slash)
		*slash = '\0';
	if (!try_library(path, size, dir, "/.libs") &&
	    !try_library(path, size, dir, "/../.libs") &&
	    !try_library(path, size, LIBDIR, "") &&
	    !try_library(path, size, dir, "/../lib"))
		errx(2, "libsdp.so is neither in %s nor near %s", LIBDIR, dir);
	if (strpbrk(path, " :"))
		errx(2, "%s: the dynamic linker takes no blanks and colons",
		     path);
}

bool library_in(const char *list, const char *path)
{
	size_t len = strlen(path), n;

	for (; *list; list += n + !!list[n]) {
		n = strcspn(list, " :");
		if (n == len && !memcmp(list, path, n))
			return true;
	}
	return false;
}

char *library_before(const char *list, const char *path)
{
	char *new;

	if (!list || !*list)
		new = strdup(path);
	else if (library_in(list, path))
		new = strdup(list);
	else if (asprintf(&new, "%s:%s", path, list) < 0)
		new = NULL;
	if (!new)
		err(2, "LD_PRELOAD");
	return new;
}
