/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * errors [-v] [STATE]...: prints what differs, and how many calls were
 * compared.
 */
#include "errors.h"

#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/sys.h"

struct termios;
struct winsize;

void fail(const char *what)
{
	fprintf(stderr, "errors: cannot go on: %s (%s)\n", what,
		strerror(errno));
	_exit(2);
}

/* --- calls by name -------------------------------------------------------- */

/*
 * The names as the linker knows them: what libc's headers say of arguments is
 * not to be believed here, and some calls are not in every libc.
 */
#define CALL(name, ret, params, args, raw)                                  \
	extern ret name_##name params __asm__(#name) __attribute__((weak)); \
	enum { size_##name = sizeof(ret) };                                 \
	static __attribute__((unused)) ret bare_##name params               \
	{                                                                   \
		return (ret)(raw);                                          \
	}
#define CALL_LIB(name, ret, params, args, fail)                             \
	extern ret name_##name params __asm__(#name) __attribute__((weak)); \
	enum { size_##name = sizeof(ret) };
#define CALL_NEG(name, ret, params, args, raw) \
	CALL(name, ret, params, args, raw)
#define CALL_NEGLIB(name, ret, params, args, f) \
	CALL_LIB(name, ret, params, args, f)
#define CALL_OWN(name)
#define ALIAS(alias, name)
#define RAW(nr, a, b, c, d, e, f)                                       \
	sys_call6(SYS_##nr, (long)(a), (long)(b), (long)(c), (long)(d), \
		  (long)(e), (long)(f))
#define RAW1(nr, a)		   RAW(nr, a, 0, 0, 0, 0, 0)
#define RAW2(nr, a, b)		   RAW(nr, a, b, 0, 0, 0, 0)
#define RAW3(nr, a, b, c)	   RAW(nr, a, b, c, 0, 0, 0)
#define RAW4(nr, a, b, c, d)	   RAW(nr, a, b, c, d, 0, 0)
#define RAW5(nr, a, b, c, d, e)	   RAW(nr, a, b, c, d, e, 0)
#define RAW6(nr, a, b, c, d, e, f) RAW(nr, a, b, c, d, e, f)
#define ret_errno(ret)		   (ret)
#include "preload/calls.def"
#undef CALL
#undef CALL_LIB
#undef CALL_NEG
#undef CALL_NEGLIB
#undef CALL_OWN
#undef ALIAS

/* What is more than one system call, or another, in libc. */
static int bare_sockatmark(int fd)
{
	int mark = 0;
	long ret = RAW3(ioctl, fd, SIOCATMARK, &mark);

	return ret < 0 ? (int)ret : mark;
}

static int bare_ppoll(struct pollfd *p, nfds_t n, const struct timespec *ts,
		      const sigset_t *mask)
{
	return (int)RAW5(ppoll, p, n, ts, mask, 8);
}

static int bare_poll(struct pollfd *p, nfds_t n, int ms)
{
	struct timespec ts = { ms / 1000, ms % 1000 * 1000000L };

	return (int)RAW5(ppoll, p, n, ms < 0 ? NULL : &ts, 0, 8);
}

static int bare_pselect(int n, fd_set *r, fd_set *w, fd_set *x,
			const struct timespec *ts, const sigset_t *mask)
{
	struct {
		const sigset_t *mask;
		size_t size;
	} m = { mask, 8 };

	return (int)RAW6(pselect6, n, r, w, x, ts, &m);
}

static int bare_select(int n, fd_set *r, fd_set *w, fd_set *x,
		       struct timeval *tv)
{
	return (int)RAW5(select, n, r, w, x, tv);
}

static int bare_dup2(int from, int to)
{
	return (int)(from == to ? RAW2(fcntl, from, F_GETFD) < 0 ? -EBADF : to :
				  RAW3(dup3, from, to, 0));
}

/* --- rows ----------------------------------------------------------------- */

enum { NEWFD = 1, CHANGES = 2 };

/* One for each name of calls.def, or this does not compile. */
enum {
#define ROW(name, kinds, flags) has_##name,
#define NONE(name)		has_##name,
#include "rows.def"
#undef ROW
#undef NONE
};
enum {
#define CALL(name, ret, params, args, raw)	needs_##name = has_##name,
#define CALL_LIB(name, ret, params, args, fail) needs_##name = has_##name,
#define CALL_NEG(name, ret, params, args, raw)	needs_##name = has_##name,
#define CALL_NEGLIB(name, ret, params, args, f) needs_##name = has_##name,
#define CALL_OWN(name)				needs_##name = has_##name,
#define ALIAS(alias, name)
#include "preload/calls.def"
};

typedef long any_fn(long, long, long, long, long, long);

static const struct row {
	const char *name, *kinds;
	any_fn *named, *bare;
	bool is_int;
	int flags;
} rows[] = {
#define ROW(name, kinds, flags)          \
	{ #name,                         \
	  kinds,                         \
	  (any_fn *)(void *)name_##name, \
	  (any_fn *)(void *)bare_##name, \
	  size_##name == 4,              \
	  flags },
#define NONE(name)
#include "rows.def"
};
#define NROWS (sizeof(rows) / sizeof(rows[0]))

static const struct row *row_of(const char *name)
{
	size_t i;

	for (i = 0; i < NROWS; i++)
		if (!strcmp(rows[i].name, name))
			return &rows[i];
	fail(name);
}

static long result(const struct side *s, const struct row *r,
		   const long a[ARGS])
{
	any_fn *fn = s->bare ? r->bare : r->named;
	long ret;

	errno = 0;
	ret = fn(a[0], a[1], a[2], a[3], a[4], a[5]);
	if (r->is_int)
		ret = (int)ret;
	return !s->bare && ret == -1 ? -errno : ret;
}

long side_call(const struct side *s, const char *name, long a, long b, long c,
	       long d, long e, long f)
{
	return result(s, row_of(name), (long[]){ a, b, c, d, e, f });
}

/* --- one call, twice ------------------------------------------------------ */

static struct side ours = { .fd = -1 }, twin = { .bare = true, .fd = -1 };
static volatile sig_atomic_t pipes;
static unsigned long calls, differ;
static bool verbose;

static void on_pipe(int sig)
{
	(void)sig;
	pipes++;
}

static void side_none(struct side *s)
{
	s->fd = s->peer = s->queued = s->listener = s->ep = s->file = -1;
	s->pipe_in = s->pipe_out = s->spare = -1;
}

static void renew(const struct state *st)
{
	int left, right;

	state_end(&ours);
	state_end(&twin);
	st->make(&ours);
	st->make(&twin);
	state_rest(&ours);
	state_rest(&twin);
	if (!state_settled(&ours, &twin, &left, &right)) {
		differ++;
		printf("%s: ready for 0x%x, the kernel for 0x%x\n", st->name,
		       (unsigned int)left, (unsigned int)right);
	}
}

static const char *said(long ret)
{
	static char text[2][32];
	static int i;

	i = !i;
	if (ret < 0 && ret > -4096)
		return strerrorname_np((int)-ret) ? strerrorname_np((int)-ret) :
						    "?";
	snprintf(text[i], sizeof(text[i]), "%ld", ret);
	return text[i];
}

static void tell(const struct state *st, const struct row *r,
		 const int variant[ARGS], const char *what, long a, long b)
{
	size_t i;

	differ++;
	printf("%s: %s(", st->name, r->name);
	for (i = 0; r->kinds[i]; i++)
		printf("%s%c%d", i ? ", " : "", r->kinds[i], variant[i]);
	printf("): %s %s, of the kernel %s\n", what, said(a), said(b));
}

static long once(struct side *s, const struct row *r, const int variant[ARGS],
		 int *piped)
{
	long a[ARGS] = { 0 }, ret;
	int i;

	for (i = 0; r->kinds[i]; i++)
		a[i] = kind_value(s, r->kinds[i], variant[i], i);
	pipes = 0;
	ret = result(s, r, a);
	*piped = pipes;
	if (ret >= 0 && (r->flags & NEWFD) && ret != s->spare && ret != s->fd) {
		side_call(s, "close", ret, 0, 0, 0, 0, 0);
		ret = 0;
	} else if (ret >= 0 && (r->flags & NEWFD)) {
		ret = 0;
	}
	return ret;
}

/* Errors that are said but once, or to which something was done. */
static bool uses_up(long ret)
{
	return ret == -ECONNRESET || ret == -ECONNREFUSED ||
	       ret == -EINPROGRESS || ret == -ECONNABORTED;
}

static long before(const struct row *r, const int variant[ARGS], int i)
{
	return i ? kind_number(r->kinds[i - 1], variant[i - 1]) : 0;
}

/*
 * Of a buffer that ends too early the kernel sends what fits into the page that
 * it has begun, or says EFAULT of all: which of them depends on what other
 * sockets have left of that page.
 */
static bool front_sent(const struct row *r, long a, long b)
{
	return (strstr(r->name, "send") || strstr(r->name, "write")) &&
	       ((a == -EFAULT && b > 0 && b < SLOT) ||
		(b == -EFAULT && a > 0 && a < SLOT));
}

/* True: the state is as it was. */
static bool compare(const struct state *st, const struct row *r,
		    const int variant[ARGS])
{
	int p, q, i;
	long a, b, n, m;

	calls++;
	a = once(&ours, r, variant, &p);
	b = once(&twin, r, variant, &q);
	if (front_sent(r, a, b))
		return false;
	if (a != b)
		tell(st, r, variant, "says", a, b);
	else if (p != q)
		tell(st, r, variant, "SIGPIPE", p, q);
	for (i = 0; a == b && r->kinds[i]; i++)
		if (!kind_same(&ours, &twin, r->kinds[i], i,
			       before(r, variant, i), a)) {
			tell(st, r, variant, "leaves in memory",
			     *(int *)(void *)ours.slot[i].rw,
			     *(int *)(void *)twin.slot[i].rw);
			break;
		}
	if (a != b || uses_up(a) || (a >= 0 && (r->flags & CHANGES)))
		return false;
	n = state_unread(&ours);
	m = state_unread(&twin);
	if (n != m)
		tell(st, r, variant, "leaves unread", n, m);
	return n == m;
}

/* What is left to read is the same, byte for byte. */
static void check_rest(const struct state *st, const struct row *r,
		       const int variant[ARGS])
{
	uint8_t a[4 * UNREAD], b[4 * UNREAD];
	size_t n, m;

	if (!st->peek)
		return;
	n = state_drain(&ours, a, sizeof(a));
	m = state_drain(&twin, b, sizeof(b));
	if (n != m || memcmp(a, b, n))
		tell(st, r, variant, "leaves to read", (long)n, (long)m);
}

static void try(const struct state *st, const struct row *r,
		const int variant[ARGS])
{
	if (compare(st, r, variant))
		return;
	check_rest(st, r, variant);
	renew(st);
}

#define PAIRS 3 /* of each kind, the first */

/* Each argument bad, and two of them. */
static void try_row(const struct state *st, const struct row *r)
{
	int n = (int)strlen(r->kinds), i, j, v[ARGS] = { 0 };

	try(st, r, v);
	for (i = 0; i < n; i++) {
		int most = kind_variants(r->kinds[i]);

		for (v[i] = 1; v[i] < most; v[i]++) {
			try(st, r, v);
			for (j = i + 1; j < n && v[i] <= PAIRS; j++) {
				int also = kind_variants(r->kinds[j]);

				for (v[j] = 1; v[j] < also && v[j] <= PAIRS;
				     v[j]++)
					try(st, r, v);
				v[j] = 0;
			}
		}
		v[i] = 0;
	}
}

static bool wanted(const char *name, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (!strcmp(argv[i], name))
			return true;
	return argc < 2;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_pipe };
	size_t i, k;

	NEED(!sigaction(SIGPIPE, &sa, NULL));
	side_none(&ours);
	side_none(&twin);
	kind_begin(&ours);
	kind_begin(&twin);
	verbose = argc > 1 && !strcmp(argv[1], "-v");
	for (i = 0; i < nstates; i++) {
		if (!wanted(states[i].name, argc - verbose, argv + verbose))
			continue;
		for (k = 0; k < NROWS; k++) {
			if (verbose)
				fprintf(stderr, "%s %s\n", states[i].name,
					rows[k].name);
			renew(&states[i]);
			try_row(&states[i], &rows[k]);
		}
	}
	state_end(&ours);
	state_end(&twin);
	printf("compared %lu, differ %lu\n", calls, differ);
	return differ != 0;
}
