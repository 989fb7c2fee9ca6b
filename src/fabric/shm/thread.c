/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the kernel tells of another process's thread. */

#include "base/sys.h"
#include "base/text.h"
#include "fabric/shm/frame.h"

/* The letter behind the name, which may hold anything but is at most 64 long. */
static char state_in(const char *stat, ssize_t n)
{
	while (n > 2)
		if (stat[--n - 1] == ')' && stat[n] == ' ')
			return stat[n + 1];
	return 0;
}

/* Doubt means that it runs. */
bool shm_thread_stopped(int32_t pid, int32_t tid)
{
	char path[64], stat[128];
	struct text t = TEXT_IN(path);
	ssize_t n;
	char c;
	int fd;

	text_add(&t, "/proc/%d/task/%d/stat", pid, tid);
	fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	n = sys_read(fd, stat, sizeof(stat) - 1);
	sys_close(fd);
	c = n > 0 ? state_in(stat, n) : 0;
	return c == 'T' || c == 't';
}
