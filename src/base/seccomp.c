/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/seccomp.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/sys.h"
#include "base/text.h"

int seccomp_filters(const char *path)
{
	uint64_t mode, filters;
	int err = proc_field(path, "Seccomp:", &mode);

	if (err == -EPERM)
		return -EACCES;
	if (err == -ENOENT && !proc_field(path, "Pid:", &mode))
		return 0; /* a kernel without filters says nothing of them */
	if (err || !mode)
		return err;
	if (proc_field(path, "Seccomp_filters:", &filters) || !filters ||
	    filters > INT32_MAX)
		return SECCOMP_UNCOUNTED;
	return (int)filters;
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
