/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "preload/fd/fdtable.h"

#include <sys/mman.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/table.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

TABLE struct fdent *fdt_root[FDT_ROOT];
uint32_t fdt_any;
bool fdt_ever;
__thread int fdt_vforked __attribute__((tls_model("initial-exec")));

#define RING_MOST 64 /* looks at numbers that others are closing just now */

static struct fdt_above above;
static struct lock table_lock;
static int high = -1; /* highest number ever managed */
static int owner_pid; /* the process that the table describes */
static uint32_t *owner_mark; /* 1; 0 in the memory of a forked child */

/*
 * A handler that was not put off and interrupted its own thread's change of the
 * table (-EDEADLK) goes on without the lock: entries are exchanged atomically,
 * the lock only keeps the set of them still for fork().
 */
void fdt_freeze(void)
{
	(void)lock_take(&table_lock);
}

void fdt_thaw(void)
{
	if (lock_mine(&table_lock))
		lock_drop(&table_lock);
}

/* True when this call has to undo it. */
static bool freeze(void)
{
	return lock_take(&table_lock) != -EDEADLK;
}

static struct fdent *entry_make(int fd)
{
	struct fdent **slot, *leaf, *none = NULL;
	const size_t bytes = FDT_LEAF * sizeof(*leaf);

	if ((unsigned int)fd >= FDT_ROOT * FDT_LEAF)
		return NULL;
	slot = &fdt_root[(unsigned int)fd / FDT_LEAF];
	leaf = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
	if (!leaf) {
		leaf = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (sys_is_err(leaf))
			return NULL;
		if (!__atomic_compare_exchange_n(slot, &none, leaf, false,
						 __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE)) {
			sys_munmap(leaf, bytes);
			leaf = none;
		}
	}
	return &leaf[(unsigned int)fd % FDT_LEAF];
}

/* The first managed number: remember whose table this is. */
static void owner_begin(void)
{
	uint32_t *page;

	page = sys_mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!sys_is_err(page)) {
		*page = 1;
		if (sys_madvise(page, sizeof(*page), MADV_WIPEONFORK))
			sys_munmap(page, sizeof(*page));
		else
			owner_mark = page;
	}
	owner_pid = sys_getpid();
	__atomic_store_n(&fdt_ever, true, __ATOMIC_RELEASE);
}

static struct fdent *entry_prepare(int fd)
{
	struct fdent *e = entry_make(fd);

	if (unlikely(!fdt_ever))
		owner_begin();
	if (e && fd > high)
		__atomic_store_n(&high, fd, __ATOMIC_RELAXED);
	return e;
}

/* --- the numbers of one sock --------------------------------------------- */

/*
 * A ring, so that each close finds another one at once. It is changed with the
 * table's lock, and may not be whole behind a handler that interrupted a
 * change: a reader asks the entries themselves.
 */
static struct fdent *ring_at(int fd)
{
	struct fdent *leaf;

	leaf = __atomic_load_n(&fdt_root[(unsigned int)fd / FDT_LEAF],
			       __ATOMIC_ACQUIRE);
	return &leaf[(unsigned int)fd % FDT_LEAF];
}

static void ring_tie(int a, int b)
{
	__atomic_store_n(&ring_at(a)->next, b, __ATOMIC_RELAXED);
	__atomic_store_n(&ring_at(b)->prev, a, __ATOMIC_RELAXED);
}

static void ring_leave(struct fdent *e)
{
	if (likely(!e->shared))
		return;
	ring_tie(e->prev, e->next);
	e->shared = 0;
}

/* `to` beside `from`, both of s. */
static void ring_join(int from, int to, const struct sock *s)
{
	bool mine = freeze();
	struct fdent *f = fdt_at(from), *t = fdt_at(to);

	if (from != to && f && t && f->sock == s && t->sock == s &&
	    !t->shared) {
		if (!f->shared)
			ring_tie(from, from);
		f->shared = t->shared = 1;
		ring_tie(to, f->next);
		ring_tie(from, to);
	}
	if (mine)
		lock_drop(&table_lock);
}

/* The next number of s behind `fd`, which may be the same; -1: not known. */
static int ring_next(const struct sock *s, int fd)
{
	struct fdent *e = fdt_at(fd);
	int next = e && e->shared && fdt_is(fd, s) ?
			   __atomic_load_n(&e->next, __ATOMIC_RELAXED) :
			   -1;

	return next >= 0 && fdt_is(next, s) ? next : -1;
}

/* --- entries --------------------------------------------------------------- */

int fdt_put_sock(int fd, struct sock *s)
{
	bool mine = freeze();
	struct fdent *e = entry_prepare(fd);

	if (e) {
		ring_leave(e);
		__atomic_store_n(&e->ever, 1, __ATOMIC_RELAXED);
		if (!__atomic_exchange_n(&e->sock, s, __ATOMIC_ACQ_REL))
			__atomic_add_fetch(&fdt_any, 1, __ATOMIC_RELEASE);
		__atomic_store_n(&e->going, 0, __ATOMIC_RELEASE);
	}
	if (mine)
		lock_drop(&table_lock);
	return e ? 0 : -ENOMEM;
}

int fdt_put_set(int fd, struct epset *set)
{
	bool mine = freeze();
	struct fdent *e = entry_prepare(fd);

	if (e && !__atomic_exchange_n(&e->set, set, __ATOMIC_ACQ_REL))
		__atomic_add_fetch(&fdt_any, 1, __ATOMIC_RELEASE);
	if (mine)
		lock_drop(&table_lock);
	return e ? 0 : -ENOMEM;
}

struct sock *fdt_take_sock(int fd)
{
	struct fdent *e = fdt_at(fd);
	struct sock *s;
	bool mine;

	if (!e)
		return NULL;
	mine = freeze();
	ring_leave(e);
	s = __atomic_exchange_n(&e->sock, NULL, __ATOMIC_ACQ_REL);
	if (s)
		__atomic_sub_fetch(&fdt_any, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&e->going, 0, __ATOMIC_RELEASE);
	if (mine)
		lock_drop(&table_lock);
	return s;
}

bool fdt_go(int fd, const struct sock *s, bool replaced)
{
	struct fdent *e = fdt_at(fd);
	bool mine, ok;

	if (!e)
		return false;
	mine = freeze();
	ok = e->sock == s && !e->going;
	if (ok)
		__atomic_store_n(&e->going,
				 lock_tid() | (replaced ? FDT_REPLACED : 0),
				 __ATOMIC_SEQ_CST);
	if (mine)
		lock_drop(&table_lock);
	return ok;
}

void fdt_stay(int fd, const struct sock *s)
{
	struct fdent *e = fdt_at(fd);
	bool mine = freeze();

	if (e && e->sock == s)
		__atomic_store_n(&e->going, 0, __ATOMIC_RELEASE);
	if (mine)
		lock_drop(&table_lock);
}

bool fdt_gone(int fd, const struct sock *s)
{
	struct fdent *e = fdt_at(fd);
	bool mine = freeze(), ok;

	ok = e && e->sock == s;
	if (ok) {
		ring_leave(e);
		__atomic_store_n(&e->sock, NULL, __ATOMIC_RELEASE);
		__atomic_sub_fetch(&fdt_any, 1, __ATOMIC_RELEASE);
		__atomic_store_n(&e->going, 0, __ATOMIC_RELEASE);
	}
	if (mine)
		lock_drop(&table_lock);
	return ok;
}

bool fdt_has(int fd, const struct sock *s)
{
	struct fdent *e = fdt_at(fd);

	return e && __atomic_load_n(&e->sock, __ATOMIC_ACQUIRE) == s &&
	       !__atomic_load_n(&e->going, __ATOMIC_ACQUIRE);
}

bool fdt_await(int fd, const struct sock *s)
{
	struct fdent *e = fdt_at(fd);
	struct stat st;
	uint32_t going;
	uint64_t was;

	going = e ? __atomic_load_n(&e->going, __ATOMIC_ACQUIRE) : 0;
	if (going && !(going & FDT_REPLACED) &&
	    (sys_fstat(fd, &st) || st.st_ino != sock_inode((struct sock *)s)) &&
	    fdt_is(fd, s))
		return true;
	was = guard_sleep(); /* its memory may go, handlers may run */
	sys_call3(SYS_sched_yield, 0, 0, 0);
	guard_wake(was);
	return false;
}

/*
 * A call that another one's handler makes, or that shows a jump, goes inside
 * before it tells: guard_nested() forgets what was told.
 */
void fdt_begin_nested(struct entered *e, int fd, uintptr_t frame)
{
	e->g = guard_self();
	e->fd = fd;
	e->nested = true;
	if (!e->g->epoch)
		guard_call_left(e->g, fd, frame);
	e->in.was = guard_enter_at(e->g, frame);
	e->in.on = true;
	e->was = guard_call_by(e->g, fd, frame);
	if (__atomic_load_n(&guard_exchanges, __ATOMIC_RELAXED))
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	fdt_enter_slow(e);
}

void fdt_leave_nested(struct entered *e)
{
	guard_call_end(e->g, e->was);
	guarded_end(&e->in);
	e->g = NULL;
}

void fdt_enter_slow(struct entered *e)
{
	struct fdent *ent = fdt_at(e->fd);
	uint32_t going;

	for (;;) {
		e->sock = ent ? __atomic_load_n(&ent->sock, __ATOMIC_ACQUIRE) :
				NULL;
		guard_call_on(e->g, e->sock);
		if (!e->sock)
			break;
		going = __atomic_load_n(&ent->going, __ATOMIC_ACQUIRE);
		if (!going || (going & ~FDT_REPLACED) == lock_tid())
			return;
		if (fdt_await(e->fd, e->sock))
			break;
	}
	/* the call goes to the kernel, as it is said, and may sleep there */
	guard_call_on(e->g, NULL);
	if (e->nested)
		guarded_end(&e->in);
	else
		guard_leave_by(e->g, 0);
	e->sock = NULL;
}

/* By any number that this process has for s, among them `fd`. */
bool fdt_elsewhere(const struct sock *s, int fd)
{
	struct fdent *e = fdt_at(fd);
	int n;

	if (!e || !e->shared)
		return guard_elsewhere(fd, s);
	for (n = fdt_next(0); n >= 0; n = fdt_next(n + 1))
		if (fdt_is(n, s) && guard_elsewhere(n, s))
			return true;
	return false;
}

struct epset *fdt_take_set(int fd)
{
	struct fdent *e = fdt_at(fd);
	struct epset *set;
	bool mine;

	if (!e)
		return NULL;
	mine = freeze();
	set = __atomic_exchange_n(&e->set, NULL, __ATOMIC_ACQ_REL);
	if (set)
		__atomic_sub_fetch(&fdt_any, 1, __ATOMIC_RELEASE);
	if (mine)
		lock_drop(&table_lock);
	return set;
}

int fdt_top(void)
{
	return high;
}

int fdt_next(int fd)
{
	struct fdent *leaf;
	int top = __atomic_load_n(&high, __ATOMIC_RELAXED);

	if (!__atomic_load_n(&fdt_any, __ATOMIC_RELAXED))
		return -1;
	for (; fd <= top; fd++) {
		leaf = __atomic_load_n(&fdt_root[fd / FDT_LEAF],
				       __ATOMIC_ACQUIRE);
		if (!leaf) {
			fd |= FDT_LEAF - 1;
			continue;
		}
		leaf += fd % FDT_LEAF;
		if (__atomic_load_n(&leaf->sock, __ATOMIC_RELAXED) ||
		    __atomic_load_n(&leaf->set, __ATOMIC_RELAXED))
			return fd;
	}
	return -1;
}

int fdt_other(const struct sock *s, int but)
{
	struct fdent *e = fdt_at(but);
	int fd;

	if (e && fdt_is(but, s) && !e->shared)
		return -1;
	fd = ring_next(s, but);
	if (fd >= 0)
		return fd == but ? -1 : fd;
	for (fd = fdt_next(0); fd >= 0; fd = fdt_next(fd + 1))
		if (fd != but && fdt_is(fd, s))
			return fd;
	return -1;
}

void fdt_each(void (*fn)(struct sock *s, int fd, void *arg), void *arg)
{
	struct sock *s;
	int fd;

	for (fd = fdt_next(0); fd >= 0; fd = fdt_next(fd + 1)) {
		GUARDED(in);

		s = fdt_sock(&in, fd);
		if (s && !fdt_lower(s, fd))
			fn(s, fd, arg);
	}
}

int fdt_another(const struct sock *s, int but)
{
	int fd = ring_next(s, but), most;

	for (most = RING_MOST; fd >= 0 && fd != but && most; most--) {
		if (fdt_has(fd, s))
			return fd;
		fd = ring_next(s, fd);
	}
	if (fd == but)
		return -1;
	for (fd = fdt_next(0); fd >= 0; fd = fdt_next(fd + 1))
		if (fd != but && fdt_has(fd, s))
			return fd;
	return -1;
}

void fdt_numbers(const struct sock *s, void (*fn)(int fd, void *arg), void *arg)
{
	int fd;

	for (fd = fdt_next(0); fd >= 0; fd = fdt_next(fd + 1))
		if (fdt_has(fd, s))
			fn(fd, arg);
}

bool fdt_lower(const struct sock *s, int fd)
{
	struct fdent *e = fdt_at(fd);
	int n;

	if (!e || !e->shared)
		return false;
	if ((e->prev < fd && fdt_is(e->prev, s)) ||
	    (e->next < fd && fdt_is(e->next, s)))
		return true;
	for (n = ring_next(s, fd); n >= 0 && n != fd; n = ring_next(s, n))
		if (n < fd)
			return true;
	if (n == fd)
		return false;
	for (n = fdt_next(0); n >= 0 && n < fd; n = fdt_next(n + 1))
		if (fdt_is(n, s))
			return true;
	return false;
}

struct sock *fdt_by_inode(uint64_t inode, int *fd)
{
	struct sock *s;
	GUARDED(in);
	int n;

	for (n = fdt_next(0); n >= 0; n = fdt_next(n + 1)) {
		s = fdt_sock(&in, n);
		if (s && fdt_has(n, s) && sock_inode(s) == inode) {
			*fd = n;
			return s;
		}
	}
	return NULL;
}

void fdt_dup(int from, int to)
{
	ENTER(of, from);

	if (of.sock) {
		if (!sock_hold(of.sock))
			return;
		if (fdt_put_sock(to, of.sock)) {
			sock_forget(of.sock, to);
			return;
		}
		ring_join(from, to, of.sock);
	} else {
		above.dup(from, to);
	}
}

void fdt_forget_slow(int fd)
{
	struct sock *s;
	bool last;
	GUARDED_LATER(in);

	if (!fdt_is_owner())
		return;
	guarded_begin(&in);
	s = fdt_sock(&in, fd);
	if (s && !fdt_go(fd, s, false))
		return; /* a close has covered it, and will end it */
	last = s && fdt_other(s, fd) < 0;
	above.closing(fd, s, last);
	s = fdt_take_sock(fd);
	if (s) {
		log_debug("descriptor %d was closed unseen", fd);
		sock_forget(s, fd);
	}
}

/* Is this a handler that interrupted its own thread's close of the number? */
static bool closed_around(const struct entered *e)
{
	const struct fdent *ent = fdt_at(e->fd);

	return ent && fdt_is(e->fd, e->sock) &&
	       (__atomic_load_n(&ent->going, __ATOMIC_ACQUIRE) &
		~FDT_REPLACED) == lock_tid();
}

bool fdt_stale_slow(struct entered *e)
{
	struct stat st;

	if (!fdt_is(e->fd, e->sock))
		return true; /* changed by another thread meanwhile */
	if (closed_around(e))
		return false;
	if (!sys_fstat(e->fd, &st) && S_ISSOCK(st.st_mode) &&
	    st.st_ino == sock_inode(e->sock))
		return false;
	fdt_forget_slow(e->fd);
	return true;
}

void fdt_begin_checked(struct entered *e, int fd)
{
	fdt_begin(e, fd);
	while (e->sock && fdt_stale_slow(e)) {
		fdt_leave(e);
		fdt_begin(e, fd);
	}
}

void fdt_setup(const struct fdt_above *from)
{
	above = *from;
}

void fdt_forked(void)
{
	table_lock.word = 0;
	owner_pid = sys_getpid();
	if (owner_mark)
		*owner_mark = 1;
}

bool fdt_is_owner(void)
{
	if (!fdt_ever)
		return true;
	if (owner_mark && !*owner_mark) {
		above.child();
		return true;
	}
	if (likely(owner_mark && !fdt_vforked))
		return true;
	if (sys_getpid() != owner_pid)
		return false;
	if (fdt_vforked)
		above.parent_forked();
	fdt_vforked = 0;
	return true;
}
