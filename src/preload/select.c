/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * select() is poll() with bit sets: sets may be longer than FD_SETSIZE, a bad
 * number is EBADF, select() itself leaves the rest of the time behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/sys.h"
#include "preload/fd/deadline.h"
#include "preload/epoll/epset.h"
#include "preload/pollset.h"
#include "preload/ready.h"
#include "preload/fd/real.h"

#define WORD_BITS (8 * (int)sizeof(long))
#define WORDS(n)  (((size_t)(n) + 63) / 64)

/* What the kernel counts as readable, writable, exceptional. */
#define SEL_R (POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR | POLLNVAL)
#define SEL_W (POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR | POLLNVAL)
#define SEL_X (POLLPRI | POLLNVAL)

struct sel {
	int n;
	unsigned long *set[3]; /* the program's: r, w, x; or NULL */
	unsigned long *copy[3]; /* what it asked for */
	struct pollfd *fds;
	nfds_t nfds;
	bool seen; /* all were there when the call began */
	unsigned long *probe; /* as long as a set */
	struct scratch room; /* of `copy`, `probe` and `fds` */
};

static unsigned long word(const struct sel *s, int set, size_t i)
{
	return s->copy[set] ? s->copy[set][i] : 0;
}

/* --- what it is about -------------------------------------------------------- */

/*
 * The kernel looks at no number beyond its table, and the sets need not reach
 * farther, whatever n is.
 */
static int in_table(int n)
{
	uint64_t size;

	if (unlikely(n > FDT_ROOT * FDT_LEAF) && fdt_any &&
	    !proc_field("/proc/self/status", "FDSize:", &size) &&
	    size < (uint64_t)n)
		n = (int)size;
	return n;
}

/*
 * Is a managed number among them (then the caller is inside from here on), and
 * is one not the kernel's alone?
 */
static bool concerns(struct guarded *in, int n, unsigned long *const set[3],
		     bool *warm)
{
	bool any = false;
	size_t i;

	*warm = false;
	if (!fdt_any || n <= 0 || n > FDT_ROOT * FDT_LEAF)
		return false;
	for (i = 0; i < 3; i++)
		if (set[i] && !mem_good(set[i], WORDS(n) * sizeof(long), true))
			return false;
	for (i = 0; i < WORDS(n); i++) {
		unsigned long bits = (set[0] ? set[0][i] : 0) |
				     (set[1] ? set[1][i] : 0) |
				     (set[2] ? set[2][i] : 0);

		for (; bits; bits &= bits - 1) {
			int fd = (int)i * WORD_BITS + __builtin_ctzl(bits);

			if (fd >= n || (!fdt_has_sock(fd) && !fdt_has_set(fd)))
				continue;
			any = true;
			guarded_begin(in);
			if (pollset_warm(in, fd))
				*warm = true;
		}
	}
	return any;
}

static void sel_end(struct sel *s)
{
	scratch_give(&s->room);
}

/* Copies of the program's sets, and room for one entry per number. */
static int sel_begin(struct sel *s, int n, unsigned long *const set[3])
{
	size_t len = WORDS(n) * sizeof(long), bits = 0, i;
	unsigned long *copy;
	int k;

	for (k = 0; k < 3; k++)
		for (i = 0; set[k] && i < WORDS(n); i++)
			bits += (size_t)__builtin_popcountl(set[k][i]);
	s->n = n;
	s->room = (struct scratch){ NULL, 0 };
	copy = scratch_take(&s->room, 4 * len + bits * sizeof(*s->fds));
	if (!copy)
		return -ENOMEM;
	s->seen = false;
	s->probe = copy + 3 * WORDS(n);
	s->fds = (struct pollfd *)(void *)((char *)copy + 4 * len);
	for (k = 0; k < 3; k++) {
		s->set[k] = set[k];
		s->copy[k] = NULL;
		if (!set[k])
			continue;
		s->copy[k] = copy + (size_t)k * WORDS(n);
		memcpy(s->copy[k], set[k], len);
	}
	return 0;
}

/* --- there and back ----------------------------------------------------------- */

static void to_poll(struct sel *s)
{
	size_t i;

	s->nfds = 0;
	for (i = 0; i < WORDS(s->n); i++) {
		unsigned long r = word(s, 0, i), w = word(s, 1, i),
			      x = word(s, 2, i), all = r | w | x;

		for (; all; all &= all - 1) {
			unsigned long bit = all & -all;
			int fd = (int)i * WORD_BITS + __builtin_ctzl(all);
			int events = 0;

			if (fd >= s->n)
				return;
			if (r & bit)
				events |= POLLIN | POLLRDNORM | POLLRDBAND;
			if (w & bit)
				events |= POLLOUT | POLLWRNORM | POLLWRBAND;
			if (x & bit)
				events |= POLLPRI;
			s->fds[s->nfds++] = (struct pollfd){
				.fd = fd,
				.events = (short)events,
			};
		}
	}
}

static void put(struct sel *s, int set, int fd)
{
	s->set[set][fd / WORD_BITS] |= 1ul << (fd % WORD_BITS);
}

static bool asked(const struct sel *s, int set, int fd)
{
	return word(s, set, (size_t)(fd / WORD_BITS)) >> (fd % WORD_BITS) & 1;
}

/* Is it closed, as far as the kernel's select() looks at all? */
static bool closed(struct sel *s, int fd)
{
	unsigned long *bits = &s->probe[fd / WORD_BITS];
	struct timespec zero = { 0, 0 };
	long ret;

	*bits = 1ul << (fd % WORD_BITS);
	ret = sys_call6(SYS_pselect6, fd + 1, (long)s->probe, 0, 0, (long)&zero,
			0);
	*bits = 0;
	return ret == -EBADF;
}

/*
 * poll() says of some that they are not there. It is an error if they were not
 * when the call began, and an answer if they are closed since. What lies beyond
 * the table is in no set.
 */
static int missing(struct sel *s, bool gone, bool *mute)
{
	bool any = false;
	nfds_t i;

	for (i = 0; i < s->nfds; i++) {
		struct pollfd *f = &s->fds[i];

		if (!(f->revents & POLLNVAL))
			continue;
		if (!any)
			memset(s->probe, 0, WORDS(s->n) * sizeof(long));
		any = true;
		if (closed(s, f->fd)) {
			if (!gone)
				return -EBADF;
		} else if (sys_fcntl(f->fd, F_GETFD, 0) < 0) {
			f->fd = -1;
			f->revents = 0;
			*mute = true;
		}
	}
	return 0;
}

/*
 * Fill in the program's sets. Entries that poll() reports for what select()
 * does not ask are left out (*mute: from the next wait, too).
 */
static int from_poll(struct sel *s, bool gone, bool *mute)
{
	int count = 0, k;
	nfds_t i;

	*mute = false;
	if (missing(s, gone, mute))
		return -EBADF;
	for (k = 0; k < 3; k++)
		if (s->set[k])
			memset(s->set[k], 0, WORDS(s->n) * sizeof(long));
	for (i = 0; i < s->nfds; i++) {
		int fd = s->fds[i].fd, got = s->fds[i].revents, was = count;

		if (!got)
			continue;
		if ((got & SEL_R) && asked(s, 0, fd)) {
			put(s, 0, fd);
			count++;
		}
		if ((got & SEL_W) && asked(s, 1, fd)) {
			put(s, 1, fd);
			count++;
		}
		if ((got & SEL_X) && asked(s, 2, fd)) {
			put(s, 2, fd);
			count++;
		}
		if (count == was) {
			s->fds[i].fd = -1;
			*mute = true;
		}
	}
	return count;
}

static void put_back(struct sel *s)
{
	int k;

	for (k = 0; k < 3; k++)
		if (s->set[k])
			memcpy(s->set[k], s->copy[k],
			       WORDS(s->n) * sizeof(long));
}

/* --- the calls ------------------------------------------------------------------ */

static int wait_here(const struct guarded *in, struct sel *s, uint64_t end,
		     const sigset_t *mask)
{
	uint64_t left = end;
	bool mute;
	int ret;

	to_poll(s);
	for (;;) {
		struct pollset p __attribute__((cleanup(pollset_end)));

		p.in = in;
		p.fds = s->fds;
		p.n = s->nfds;
		p.kind = POLL_SELECT;
		p.mask = mask;
		ret = pollset_begin(&p);
		if (ret)
			return ret;
		p.seen = p.seen || s->seen;
		if (end && end != DL_NEVER)
			left = dl_left(clock_ns(), end);
		ret = pollset_wait(&p, left);
		s->seen = true;
		if (ret < 0) {
			put_back(s);
			return ret;
		}
		ret = from_poll(s, p.gone, &mute);
		if (ret < 0)
			put_back(s);
		if (ret || !mute || !left)
			return ret;
	}
}

/* The kernel's answer concerns a socket that was lifted meanwhile. */
static bool turned(struct guarded *in, const struct sel *s)
{
	bool warm;

	return concerns(in, s->n, s->set, &warm) && warm;
}

static int pselect_outside(int n, unsigned long *const set[3],
			   const struct timespec *ts, const sigset_t *mask)
{
	ASLEEP(out);

	return neg_errno(real_pselect(n, (fd_set *)set[0], (fd_set *)set[1],
				      (fd_set *)set[2], ts, mask));
}

/* `end`: 0 only look, DL_NEVER. The kernel's own call first if all is cold. */
static int sel_wait(struct guarded *inside, int n, unsigned long *const set[3],
		    bool warm, uint64_t end, const sigset_t *mask)
{
	struct sel s __attribute__((cleanup(sel_end)));
	uint64_t left = end;
	struct timespec ts;
	DOZE(in);
	int ret;

	sock_saw_wait();
	ret = sel_begin(&s, n, set);
	if (ret)
		return ret;
	if (!warm) {
		to_poll(&s);
		if (end && !pollset_doze(inside, &in, s.fds, s.nfds)) {
			sock_dozed(&in);
			return wait_here(inside, &s, end, mask);
		}
		if (end && end != DL_NEVER)
			left = dl_left(clock_ns(), end);
		ts = dl_ts(left == DL_NEVER ? 0 : left);
		ret = pselect_outside(n, set, left == DL_NEVER ? NULL : &ts,
				      mask);
		if (ret <= 0 || !turned(inside, &s))
			return ret;
		sock_dozed(&in);
		s.seen = true;
	}
	return wait_here(inside, &s, end, mask);
}

int do_pselect(int n, fd_set *r, fd_set *w, fd_set *x,
	       const struct timespec *ts, const sigset_t *mask)
{
	unsigned long *set[3] = { (unsigned long *)r, (unsigned long *)w,
				  (unsigned long *)x };
	uint64_t span = DL_NEVER;
	GUARDED_LATER(in);
	bool warm;

	if (dl_lost(ts) || (dl_sound(ts) && dl_mask_lost(mask)))
		return -EFAULT;
	n = in_table(n);
	if (!dl_sound(ts) || !concerns(&in, n, set, &warm))
		return neg_errno(real_pselect(n, r, w, x, ts, mask));
	if (ts)
		span = dl_span(ts);
	if (span)
		span = dl_after(clock_ns(), span);
	return sel_wait(&in, n, set, warm, span, mask);
}

int do_select(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *tv)
{
	unsigned long *set[3] = { (unsigned long *)r, (unsigned long *)w,
				  (unsigned long *)x };
	uint64_t end = DL_NEVER, left;
	struct timespec ts;
	struct timeval own;
	GUARDED_LATER(in);
	bool warm;
	int ret;

	if (tv && !mem_good(tv, sizeof(*tv), false))
		return -EFAULT; /* as dl_lost() */
	if (tv && !mem_good(tv, sizeof(*tv), true)) {
		own = *tv; /* what is left is not shown */
		tv = &own;
	}
	n = in_table(n);
	if ((tv && (tv->tv_sec < 0 || tv->tv_usec < 0)) ||
	    !concerns(&in, n, set, &warm))
		return neg_errno(real_select(n, r, w, x, tv));
	if (tv) {
		/* microseconds may be more than a second's */
		ts.tv_sec = tv->tv_sec;
		ts.tv_nsec = tv->tv_usec % 1000000 * 1000;
		if (__builtin_add_overflow(ts.tv_sec, tv->tv_usec / 1000000,
					   &ts.tv_sec))
			ts.tv_sec = INT64_MAX;
		end = dl_span(&ts);
		if (end)
			end = dl_after(clock_ns(), end);
	}
	ret = sel_wait(&in, n, set, warm, end, NULL);
	if (tv) {
		left = end == DL_NEVER ? dl_span(&ts) : 0;
		if (end && end != DL_NEVER)
			left = dl_left(clock_ns(), end);
		tv->tv_sec = (time_t)(left / DL_SEC);
		tv->tv_usec = (suseconds_t)(left % DL_SEC / 1000);
	}
	return ret;
}
