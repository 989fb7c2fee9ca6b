/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/uid.h"

#include "base/proc.h"
#include "base/text.h"

/* A whole number in a small file of /proc, or -1. */
static int64_t proc_number(const char *path, bool last)
{
	uint64_t v = 0;
	char buf[128];
	ssize_t len = proc_read(buf, sizeof(buf), "%s", path), at = 0;

	while (len > 0 && (buf[len - 1] == '\n' || buf[len - 1] == ' '))
		len--;
	if (len <= 0)
		return -1;
	buf[len] = '\0';
	if (last)
		for (at = len; at && buf[at - 1] >= '0' && buf[at - 1] <= '9';)
			at--;
	return text_number(buf + at, UINT32_MAX, &v) ? (int64_t)v : -1;
}

/* Of the kernel as a whole; it is read once. */
static uint32_t overflow_uid(void)
{
	static int64_t kept = -1; /* atomic */
	int64_t uid = __atomic_load_n(&kept, __ATOMIC_RELAXED);

	if (uid < 0) {
		uid = proc_number("/proc/sys/kernel/overflowuid", false);
		if (uid < 0)
			return 65534;
		__atomic_store_n(&kept, uid, __ATOMIC_RELAXED);
	}
	return (uint32_t)uid;
}

bool uid_unmapped(uint32_t uid)
{
	return uid == UINT32_MAX ||
	       (uid == overflow_uid() &&
		proc_number("/proc/self/uid_map", true) != UINT32_MAX);
}
