/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/proc.h"

#include <string.h>

#include "base/sys.h"
#include "base/text.h"

ssize_t proc_read(char *buf, size_t size, const char *path, ...)
{
	char name[64];
	struct text t = TEXT_IN(name);
	va_list ap;
	ssize_t n;
	int fd;

	buf[0] = '\0';
	va_start(ap, path);
	text_vadd(&t, path, ap);
	va_end(ap);
	if (t.cut)
		return -ENAMETOOLONG;
	fd = sys_open(name, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	n = sys_read(fd, buf, size - 1);
	sys_close(fd);
	buf[n > 0 ? n : 0] = '\0';
	return n;
}

/* The name may hold brackets, what follows it none. */
const char *proc_state(const char *stat)
{
	const char *p = strrchr(stat, ')');

	return p && p[1] == ' ' ? p + 2 : "";
}
