/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The clock of stamps, and the log of sends.
 *
 * The kernel uses the time stamp counter as its own clock only where it counts
 * at a constant rate, goes on in every sleep, and is the same on all
 * processors; it watches that as long as the system runs. So a process that
 * reads the name of the clock source knows, and all processes read the same.
 * One that cannot read it (no /sys) takes nanoseconds, and its stamps are not
 * compared with those of others.
 */

#include "base/stamp.h"

#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/sys.h"

#define SOURCE \
	"/sys/devices/system/clocksource/clocksource0/current_clocksource"

bool stamp_ticks, stamp_used;
struct stamp_log stamp_log;
uint64_t stamp_logged;
static uint32_t log_no; /* atomic: entries so far */

#ifdef __x86_64__
static bool trusted(void)
{
	int mode = PR_TSC_ENABLE, fd;
	char name[8] = "";

	/* the starter of the program may have made the instruction fault */
	if (sys_call3(SYS_prctl, PR_GET_TSC, &mode, 0) || mode != PR_TSC_ENABLE)
		return false;
	fd = sys_open(SOURCE, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	sys_read(fd, name, sizeof(name) - 1);
	sys_close(fd);
	return !strcmp(name, "tsc\n");
}
#else
static bool trusted(void)
{
	return false;
}
#endif

void stamp_learn(void)
{
	__atomic_store_n(&stamp_ticks, trusted(), __ATOMIC_RELAXED);
}

/*
 * Entries are read without a lock; each is whole. Two threads at once may leave
 * them out of order, which does no harm: each has its stamp.
 */
void stamp_log_add(uint16_t port)
{
	uint64_t now = stamp_now();
	uint32_t no = __atomic_fetch_add(&log_no, 1, __ATOMIC_RELAXED);

	__atomic_store_n(&stamp_log.entry[no % STAMP_LOG],
			 stamp_log_entry(now, port), __ATOMIC_RELAXED);
	__atomic_store_n(&stamp_logged, now, __ATOMIC_RELEASE);
}

void stamp_forked(void)
{
	memset(&stamp_log, 0, sizeof(stamp_log));
	stamp_logged = 0;
}
