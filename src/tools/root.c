/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/root.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FLAGS	  (O_RDONLY | O_CLOEXEC | O_NONBLOCK) /* a FIFO does not stop us */
#define DIR_FLAGS (O_PATH | O_DIRECTORY | O_CLOEXEC)

static int open_in(const char *root, const char *path, int flags)
{
	struct open_how how = { .flags = (unsigned int)flags,
				.resolve = RESOLVE_IN_ROOT };
	size_t len = strlen(root);
	int dir, fd, error;

	if (!len || strncmp(path, root, len))
		return open(path, flags);
	dir = open(root, DIR_FLAGS);
	if (dir < 0)
		return -1;
	fd = (int)syscall(SYS_openat2, dir, path[len] ? path + len : "/", &how,
			  sizeof(how));
	error = errno;
	close(dir);
	errno = error;
	return fd;
}

int root_open(const char *root, const char *path)
{
	return open_in(root, path, FLAGS);
}

/* The folder that `path` lies in, *name: how it is called there. */
static int parent(const char *root, const char *path, const char **name)
{
	const char *slash = strrchr(path, '/');
	char up[PATH_MAX];

	*name = slash ? slash + 1 : path;
	if (!slash || slash - path >= PATH_MAX) {
		errno = EINVAL;
		return -1;
	}
	snprintf(up, sizeof(up), "%.*s", (int)(slash - path), path);
	return open_in(root, *up ? up : "/", DIR_FLAGS);
}

static int make_one(const char *root, const char *path)
{
	const char *name;
	int dir = parent(root, path, &name), ret, error;

	if (dir < 0)
		return -1;
	ret = mkdirat(dir, name, 0755);
	error = errno;
	close(dir);
	errno = error;
	return ret && error != EEXIST ? -1 : 0;
}

int root_dir(const char *root, const char *path, bool make)
{
	char part[PATH_MAX];
	const char *s = path + strlen(root);

	if (strlen(path) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	while (make && *s) {
		s += 1 + strcspn(s + 1, "/");
		snprintf(part, sizeof(part), "%.*s", (int)(s - path), path);
		if (make_one(root, part))
			return -1;
	}
	return open_in(root, path, DIR_FLAGS);
}

void root_rmdir(const char *root, const char *path)
{
	const char *name;
	int dir = parent(root, path, &name);

	if (dir < 0)
		return;
	unlinkat(dir, name, AT_REMOVEDIR);
	close(dir);
}
