/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's poll() takes no more entries than RLIMIT_NOFILE, which a program
 * may take down to nothing when its work is set up; select() does not ask. So
 * the sleep is a select() here, and what woke it is asked for piece by piece.
 */
#include "base/pollmany.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "base/scratch.h"
#include "base/sys.h"

#define INS  (POLLIN | POLLRDNORM | POLLRDBAND)
#define OUTS (POLLOUT | POLLWRNORM | POLLWRBAND)
#define NS   1000000000ll
/* Of an entry that asks for neither, an end is seen by looking. */
#define NAP  (NS / 100)

/* Bits of select(): what is asked and, after it, what is so. */
struct bits {
	int n;
	size_t words;
	uint64_t *set[3]; /* to read, to write, out of band */
	bool blind; /* an entry is in none of them */
};

static const short part[3] = { INS, OUTS, POLLPRI };

static int64_t ns_of(const struct timespec *ts)
{
	if (ts->tv_sec > INT64_MAX / NS - 1)
		return INT64_MAX;
	return ts->tv_sec * NS + ts->tv_nsec;
}

static bool room(struct scratch *mem, struct bits *b, const struct pollfd *p,
		 size_t n)
{
	size_t i;

	b->n = 0;
	for (i = 0; i < n; i++)
		if (p[i].fd >= b->n)
			b->n = p[i].fd + 1;
	b->words = (size_t)b->n / 64 + 1;
	b->set[0] = scratch_take(mem, 3 * b->words * sizeof(uint64_t));
	b->set[1] = b->set[0] + b->words;
	b->set[2] = b->set[1] + b->words;
	return b->set[0];
}

static void ask(struct bits *b, const struct pollfd *p, size_t n)
{
	size_t i;
	int k;

	memset(b->set[0], 0, 3 * b->words * sizeof(uint64_t));
	b->blind = false;
	for (i = 0; i < n; i++) {
		if (p[i].fd < 0)
			continue;
		for (k = 0; k < 3; k++)
			if (p[i].events & part[k])
				b->set[k][p[i].fd / 64] |= 1ull << p[i].fd % 64;
		b->blind = b->blind || !(p[i].events & (INS | OUTS));
	}
}

static long do_select(const struct bits *b, struct timespec *ts,
		      const void *mask, pollmany_sleep *sleep)
{
	const struct {
		const void *mask;
		size_t size;
	} sixth = { mask, 8 };
	const long arg[6] = { b->n,
			      (long)b->set[0],
			      (long)b->set[1],
			      (long)b->set[2],
			      (long)ts,
			      mask ? (long)&sixth : 0 };

	if (sleep)
		return sleep(SYS_pselect6, arg, mask);
	return sys_call6(SYS_pselect6, arg[0], arg[1], arg[2], arg[3], arg[4],
			 arg[5]);
}

/* What select() has found, as poll() says it. */
static int found(const struct bits *b, struct pollfd *p, size_t n)
{
	int count = 0, k;
	size_t i;

	for (i = 0; i < n; i++) {
		p[i].revents = 0;
		for (k = 0; k < 3 && p[i].fd >= 0; k++)
			if (b->set[k][p[i].fd / 64] >> p[i].fd % 64 & 1)
				p[i].revents |= p[i].events & part[k];
		count += p[i].revents != 0;
	}
	return count;
}

/* At once: as many at a time as poll() takes; by select() if that is none. */
static int look(struct bits *b, struct pollfd *p, size_t n)
{
	struct timespec now = { 0, 0 };
	struct rlimit rl;
	size_t at, piece;
	int count = 0;
	long ret;

	if (sys_call6(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)&rl, 0, 0))
		return -EINVAL;
	if (!rl.rlim_cur) {
		ask(b, p, n);
		ret = do_select(b, &now, NULL, NULL);
		return ret < 0 ? (int)ret : found(b, p, n);
	}
	for (at = 0; at < n; at += piece) {
		piece = n - at < rl.rlim_cur ? n - at : rl.rlim_cur;
		now = (struct timespec){ 0, 0 };
		ret = sys_call6(SYS_ppoll, (long)(p + at), (long)piece,
				(long)&now, 0, 8, 0);
		if (ret < 0)
			return (int)ret;
		count += (int)ret;
	}
	return count;
}

int pollmany(struct pollfd *p, size_t n, const struct timespec *ts,
	     const void *mask, pollmany_sleep *sleep)
{
	int64_t left = ts ? ns_of(ts) : INT64_MAX, nap;
	SCRATCH(mem);
	struct timespec span;
	struct bits b;
	long ret;
	int count;

	if (!room(&mem, &b, p, n))
		return -ENOMEM;
	for (;;) {
		count = look(&b, p, n);
		if (count || !left)
			return count;
		ask(&b, p, n);
		nap = b.blind && left > NAP ? NAP : left;
		span = (struct timespec){ nap / NS, nap % NS };
		ret = do_select(&b, nap == INT64_MAX ? NULL : &span, mask,
				sleep);
		if (ret < 0 && ret != -EBADF)
			return (int)ret;
		/* the kernel leaves the rest of it there */
		if (left != INT64_MAX)
			left -= nap - ns_of(&span);
		if (ret == -EBADF) /* poll() says which, if it can */
			left = 0;
	}
}

bool pollmany_refused(size_t n)
{
	uint64_t lim[2];

	return n &&
	       !sys_call6(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, (long)lim, 0,
			  0) &&
	       n > lim[0];
}
