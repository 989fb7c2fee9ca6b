/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/proc.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/sys.h"
#include "base/text.h"

VARIADIC ssize_t proc_read(char *buf, size_t size, const char *path, ...)
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

char proc_state_of(int id)
{
	char stat[32]; /* up to the state: "4194304 (15 characters) S" */
	ssize_t n;

	if (sys_kill(id, 0) == -ESRCH)
		return 'X';
	n = proc_read(stat, sizeof(stat), "/proc/%d/stat", id);
	return n == -ESRCH ? 'X' : *proc_state(stat);
}

/* Of a process that is /proc/PID/NAME, or a negative errno. */
static int stat_of(int pid, const char *name, struct stat *st)
{
	char path[24]; /* "/proc/4194304/task" */
	struct text t = TEXT_IN(path);

	text_add(&t, "/proc/%d/%s", pid, name);
	return sys_stat(path, st);
}

/* Does /proc number processes as the system calls of this one do? */
static bool is_own(void)
{
	uint64_t pid = 0;
	char link[24];
	ssize_t n = sys_readlink("/proc/self", link, sizeof(link) - 1);

	link[n > 0 ? n : 0] = '\0';
	return text_number(link, INT32_MAX, &pid) &&
	       pid == (uint64_t)sys_getpid();
}

/* The list of them has as many links, and two. */
unsigned int proc_threads(int pid)
{
	struct stat st;

	return stat_of(pid, "task", &st) || st.st_nlink < 2 ?
		       0 :
		       (unsigned int)st.st_nlink - 2;
}

/*
 * The last things that it gives back are its descriptors and then its working
 * directory.
 */
bool proc_ended(int pid)
{
	struct stat st;

	if (sys_kill(pid, 0) == -ESRCH)
		return true;
	return proc_threads(pid) == 1 && stat_of(pid, "cwd", &st) == -ENOENT &&
	       is_own();
}

/* --- lines -------------------------------------------------------------- */

#define LINE_ROOM 64 /* of a line that counts; others may be longer */

struct lines {
	const char *name;
	uint64_t *value;
	char line[LINE_ROOM];
	size_t len;
	bool found;
};

static void line_end(struct lines *l)
{
	size_t n = strlen(l->name);
	const char *p = l->line + n;

	l->line[l->len] = '\0';
	l->len = 0;
	if (l->found || strncmp(l->line, l->name, n))
		return;
	while (*p == ' ' || *p == '\t')
		p++;
	l->found = text_number(p, UINT64_MAX, l->value) > 0;
}

static void lines_take(struct lines *l, const char *p, size_t n)
{
	for (; n; p++, n--) {
		if (*p == '\n')
			line_end(l);
		else if (l->len < LINE_ROOM - 1)
			l->line[l->len++] = *p;
	}
}

int proc_field(const char *path, const char *name, uint64_t *value)
{
	struct lines l = { .name = name, .value = value };
	char buf[512];
	ssize_t n = 0;
	int fd;

	fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	while (!l.found && (n = sys_read(fd, buf, sizeof(buf))) > 0)
		lines_take(&l, buf, (size_t)n);
	sys_close(fd);
	if (!l.found && l.len) /* the last line need not end */
		line_end(&l);
	return l.found ? 0 : n < 0 ? (int)n : -ENOENT;
}

int proc_value(const char *path, uint64_t *value)
{
	return proc_field(path, "", value);
}
