/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "preload/fd/deadline.h"
#include "preload/epoll/epset.h"
#include "preload/pollset.h"
#include "preload/ready.h"
#include "preload/fd/real.h"

/*
 * A call whose sockets are all the kernel's goes there as it is. But one may
 * be lifted while the thread sleeps: then it comes out for a kick, which is
 * not for the program, and the rest of the time is waited here.
 */
static bool done(const struct guarded *in, const struct pollfd *fds, nfds_t n,
		 int ret)
{
	nfds_t i;

	if (ret <= 0)
		return true;
	for (i = 0; i < n; i++)
		if (fds[i].revents && pollset_warm(in, fds[i].fd))
			return false;
	return true;
}

static int wait_here(const struct guarded *in, struct pollfd *fds, nfds_t n,
		     uint64_t span, enum pollkind kind, const sigset_t *mask)
{
	struct pollset p __attribute__((cleanup(pollset_end)));
	int ret;

	p.in = in;
	p.fds = fds;
	p.n = n;
	p.kind = kind;
	p.mask = mask;
	ret = pollset_begin(&p);
	return ret ? ret : pollset_wait(&p, span);
}

/*
 * Do entries concern the library? Then the caller is inside from here on, and
 * *warm: one needs more than a load.
 */
static bool scan(struct guarded *in, const struct pollfd *fds, nfds_t n,
		 bool *warm)
{
	bool any = false;
	nfds_t i;

	*warm = false;
	for (i = 0; i < n; i++) {
		if (!fdt_has_sock(fds[i].fd) && !fdt_has_set(fds[i].fd))
			continue;
		guarded_begin(in);
		any = true;
		*warm = *warm || pollset_warm(in, fds[i].fd);
	}
	return any;
}

/* Arrays the kernel refuses are not ours to read. True: inside from here on. */
static bool concerns(struct guarded *in, const struct pollfd *fds, nfds_t n,
		     bool *warm)
{
	if (!fdt_any || !n || n > FDT_ROOT * FDT_LEAF ||
	    !mem_good(fds, n * sizeof(*fds), true) || !scan(in, fds, n, warm))
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

static int poll_outside(struct pollfd *fds, nfds_t n, int ms)
{
	ASLEEP(out);

	return neg_errno(real_poll(fds, n, ms));
}

static int ppoll_outside(struct pollfd *fds, nfds_t n,
			 const struct timespec *ts, const sigset_t *mask)
{
	ASLEEP(out);

	return neg_errno(real_ppoll(fds, n, ts, mask));
}

int do_poll(struct pollfd *fds, nfds_t n, int ms)
{
	uint64_t span = dl_span_ms(ms), began = 0;
	GUARDED_LATER(inside);
	DOZE(in);
	bool warm;
	int ret;

	if (!concerns(&inside, fds, n, &warm))
		return neg_errno(real_poll(fds, n, ms));
	if (!warm) {
		if (ms > 0)
			began = clock_ns();
		if (!span || pollset_doze(&inside, &in, fds, n)) {
			ret = poll_outside(fds, n, ms);
			if (done(&inside, fds, n, ret))
				return ret;
		}
		sock_dozed(&in);
		span = rest(began, span);
	}
	return wait_here(&inside, fds, n, span, POLL_MS, NULL);
}

int do_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *ts,
	     const sigset_t *mask)
{
	uint64_t span = DL_NEVER, began = 0;
	GUARDED_LATER(inside);
	DOZE(in);
	bool warm;
	int ret;

	if (dl_lost(ts) || (dl_sound(ts) && dl_mask_lost(mask)))
		return -EFAULT;
	if (!dl_sound(ts) || !concerns(&inside, fds, n, &warm))
		return neg_errno(real_ppoll(fds, n, ts, mask));
	if (ts)
		span = dl_span(ts);
	if (!warm) {
		if (span && span != DL_NEVER)
			began = clock_ns();
		if (!span || pollset_doze(&inside, &in, fds, n)) {
			ret = ppoll_outside(fds, n, ts, mask);
			if (done(&inside, fds, n, ret))
				return ret;
		}
		sock_dozed(&in);
		span = rest(began, span);
	}
	return wait_here(&inside, fds, n, span, POLL_NS, mask);
}
