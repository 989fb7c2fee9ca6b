/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/seccomp.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"

#define LINE 40 /* of a line that counts; others may be of any length */

struct status {
	char line[LINE];
	size_t len;
	uint64_t mode, filters;
	bool has_mode, counted;
};

static bool field(const char *line, const char *name, uint64_t *v)
{
	size_t n = strlen(name);

	return !strncmp(line, name, n) && text_number(line + n, INT32_MAX, v);
}

static void status_line(struct status *st)
{
	st->line[st->len] = '\0';
	st->len = 0;
	if (field(st->line, "Seccomp:\t", &st->mode))
		st->has_mode = true;
	if (field(st->line, "Seccomp_filters:\t", &st->filters))
		st->counted = true;
}

static void status_take(struct status *st, const char *p, size_t n)
{
	for (; n; p++, n--) {
		if (*p == '\n')
			status_line(st);
		else if (st->len < LINE - 1)
			st->line[st->len++] = *p;
	}
}

int seccomp_filters(const char *path)
{
	struct status st = { .len = 0 };
	char buf[512];
	ssize_t n;
	int fd;

	fd = sys_open(path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd == -EPERM ? -EACCES : fd;
	while ((n = sys_read(fd, buf, sizeof(buf))) > 0)
		status_take(&st, buf, (size_t)n);
	sys_close(fd);
	if (n < 0)
		return -EIO;
	if (!st.has_mode ||
	    !st.mode) /* a kernel without filters says nothing */
		return 0;
	return st.counted && st.filters ? (int)st.filters : SECCOMP_UNCOUNTED;
}

bool seccomp_word(const char *word, int filters)
{
	static const char probed[] = "probed:";
	uint64_t n;
	size_t len;

	if (!strcmp(word, "trust"))
		return true;
	if (strncmp(word, probed, strlen(probed)))
		return false;
	word += strlen(probed);
	len = text_number(word, INT32_MAX, &n);
	return len && !word[len] && filters > 0 && n == (uint64_t)filters;
}

/* Of an environment that another user may have made nothing is believed. */
static const char *env_word(void)
{
	size_t n = strlen(SECCOMP_ENV);
	char **e;

	for (e = environ; !getauxval(AT_SECURE) && e && *e; e++)
		if (!strncmp(*e, SECCOMP_ENV, n) && (*e)[n] == '=')
			return *e + n + 1;
	return "";
}

/* Without /proc the kernel is asked, by the one call that may be new. */
static int own_filters(void)
{
	int n = seccomp_filters("/proc/self/status");

	if (n >= SECCOMP_UNCOUNTED)
		return n;
	n = (int)sys_call3(SYS_prctl, PR_GET_SECCOMP, 0, 0);
	return n && n != -EINVAL ? SECCOMP_UNCOUNTED : 0;
}

bool seccomp_bars(void)
{
	static int8_t known; /* atomic; 1: no, 2: yes */
	int8_t is = __atomic_load_n(&known, __ATOMIC_RELAXED);
	int filters;

	if (is)
		return is == 2;
	if (!strcmp(env_word(), "trust")) {
		is = 1;
	} else {
		filters = own_filters();
		is = filters && !seccomp_word(env_word(), filters) ? 2 : 1;
	}
	__atomic_store_n(&known, is, __ATOMIC_RELAXED);
	return is == 2;
}
