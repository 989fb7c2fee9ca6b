/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FLAGS (O_RDONLY | O_CLOEXEC | O_NONBLOCK) /* a FIFO does not stop us */

int root_open(const char *root, const char *path)
{
	struct open_how how = { .flags = FLAGS, .resolve = RESOLVE_IN_ROOT };
	size_t len = strlen(root);
	int dir, fd, error;

	if (!len || strncmp(path, root, len))
		return open(path, FLAGS);
	dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	fd = (int)syscall(SYS_openat2, dir, path + len, &how, sizeof(how));
	error = errno;
	close(dir);
	errno = error;
	return fd;
}
