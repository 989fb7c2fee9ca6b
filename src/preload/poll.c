/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "preload/deadline.h"
#include "preload/epset.h"
#include "preload/pollset.h"
#include "preload/ready.h"
#include "preload/real.h"

/*
 * A call whose sockets are all the kernel's goes there as it is. But one may
 * be lifted while the thread sleeps: then it comes out for a bell, which is
 * not for the program, and the rest of the time is waited here.
 */
static bool done(const struct pollfd *fds, nfds_t n, int ret)
{
	nfds_t i;

	if (ret <= 0)
		return true;
	for (i = 0; i < n; i++)
		if (fds[i].revents && pollset_warm(fds[i].fd))
			return false;
	return true;
}

static int wait_here(struct pollfd *fds, nfds_t n, uint64_t span,
		     enum pollkind kind, const sigset_t *mask)
{
	struct pollset p __attribute__((cleanup(pollset_end)));
	int ret;

	p.fds = fds;
	p.n = n;
	p.kind = kind;
	p.mask = mask;
	ret = pollset_begin(&p);
	return ret ? ret : pollset_wait(&p, span);
}

/* Arrays the kernel refuses are not ours to read. */
static bool concerns(const struct pollfd *fds, nfds_t n, bool *warm)
{
	if (!fdt_any || !n || n > FDT_ROOT * FDT_LEAF ||
	    !mem_good(fds, n * sizeof(*fds), true) ||
	    !pollset_scan(fds, n, warm))
		return false;
	sock_saw_wait();
	return true;
}

static uint64_t rest(uint64_t began, uint64_t span)
{
	if (!span || span == DL_NEVER)
		return span;
	return dl_left(clock_ns(), dl_after(began, span));
}

int do_poll(struct pollfd *fds, nfds_t n, int ms)
{
	uint64_t span = dl_span_ms(ms), began = 0;
	DOZE(in);
	bool warm;
	int ret;

	if (!concerns(fds, n, &warm))
		return neg_errno(real_poll(fds, n, ms));
	if (!warm) {
		if (ms > 0)
			began = clock_ns();
		if (!span || pollset_doze(&in, fds, n)) {
			ret = neg_errno(real_poll(fds, n, ms));
			if (done(fds, n, ret))
				return ret;
		}
		sock_dozed(&in);
		span = rest(began, span);
	}
	return wait_here(fds, n, span, POLL_MS, NULL);
}

int do_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts,
	     const sigset_t *mask)
{
	uint64_t span = DL_NEVER, began = 0;
	DOZE(in);
	bool warm;
	int ret;

	if (!concerns(fds, n, &warm) || !dl_sound(ts))
		return neg_errno(real_ppoll(fds, n, ts, mask));
	if (ts)
		span = dl_span(ts);
	if (!warm) {
		if (span && span != DL_NEVER)
			began = clock_ns();
		if (!span || pollset_doze(&in, fds, n)) {
			ret = neg_errno(real_ppoll(fds, n, ts, mask));
			if (done(fds, n, ret))
				return ret;
		}
		sock_dozed(&in);
		span = rest(began, span);
	}
	return wait_here(fds, n, span, POLL_NS, mask);
}
