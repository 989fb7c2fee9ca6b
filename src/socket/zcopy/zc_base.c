/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What all ways of lending memory share. */

#include "base/proc.h"
#include "base/scratch.h"
#include "socket/zcopy/zcopy.h"

#define FARTHER 10 /* than on this host a reader is, in time */
#define MOST_MS 1000u

int zc_count(struct sock *s, int64_t n)
{
	uint64_t more = (uint64_t)n - s->zc.done;

	if (n < s->zc.done || n > s->zc.len)
		return -EPROTO;
	if (!more)
		return 0;
	s->zc.done = (uint32_t)n;
	anc_sent(s->tx, &s->at, more);
	COUNT(s, bytes_sdp_tx, more);
	COUNT(s, zcopy, more);
	page_add(zcopy_tx, more);
	return 0;
}

void zc_refuse(struct sock *s)
{
	conn_refuse_sources(&s->conn);
	reports.zc_due(s);
}

void zc_unregistered(struct sock *s, int err)
{
	uint64_t lim[2] = { 0 };

	page_add(zcopy_unregistered, 1);
	sys_call6(SYS_prlimit64, 0, RLIMIT_MEMLOCK, 0, (long)lim, 0, 0);
	log_once(LOG_NOTE,
		 "fd %d: memory cannot be registered (%d), it is copied; "
		 "ulimit -l is %llu bytes",
		 sock_fd(s), err, (unsigned long long)lim[0]);
}

/* So long a source waits without a report: a turn takes its time. */
uint64_t zcr_patience_ns(void)
{
	uint64_t ms = (uint64_t)settings.zcopy_wait_ms * FARTHER;

	return (ms < MOST_MS ? ms : MOST_MS) * 1000000u;
}

/*
 * A filter of system calls may kill a process that reaches for another's
 * memory, Yama reports each one to the kernel's log: there it is not tried
 * unasked.
 */
static bool confined(void)
{
	static int known; /* atomic: 1 no, 2 yes */
	int is = __atomic_load_n(&known, __ATOMIC_RELAXED);
	const size_t size = 4096;
	const char *mode;
	SCRATCH(room);
	ssize_t n;
	char *buf;

	if (likely(is))
		return is == 2;
	buf = scratch_take(&room, size);
	if (!buf)
		return true;
	is = 1;
	n = proc_read(buf, size, "/proc/thread-self/status");
	mode = n > 0 ? strstr(buf, "\nSeccomp:\t") : NULL;
	/* no such line: a kernel without filters, or a long list of groups */
	if (mode ? mode[10] != '0' : n <= 0 || n == (ssize_t)size - 1)
		is = 2;
	if (proc_read(buf, 2, "/proc/sys/kernel/yama/ptrace_scope") > 0 &&
	    buf[0] != '0')
		is = 2;
	__atomic_store_n(&known, is, __ATOMIC_RELAXED);
	return is == 2;
}

bool zc_barred(const struct sock *s)
{
	return settings.zcopy == SET_ZCOPY_NO ||
	       (settings.zcopy == SET_ZCOPY_AUTO && zc_by_kernel(s) &&
		confined());
}
