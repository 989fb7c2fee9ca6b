/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The numbers that a process has, as the kernel knows them, and which of them
 * are managed sockets: in the child of a vfork() the table tells nothing of the
 * first and all of the second.
 */
#include <fcntl.h>
#include <sys/mman.h>

#include "base/log.h"
#include "base/scratch.h"
#include "base/sys.h"
#include "preload/preload.h"

struct dirent_raw { /* struct linux_dirent64 */
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

bool numbers_each(void (*fn)(int fd, void *arg), void *arg)
{
	const size_t size = 2048;
	SCRATCH(room);
	char *buf = scratch_take(&room, size);
	const struct dirent_raw *d;
	const char *c;
	long n, at;
	int dir, fd;

	dir = buf ? sys_open("/proc/self/fd",
			     O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0) :
		    -ENOMEM;
	if (dir < 0)
		return false;
	while ((n = sys_call3(SYS_getdents64, dir, buf, size)) > 0) {
		for (at = 0; at < n; at += d->len) {
			d = (const struct dirent_raw *)(buf + at);
			fd = 0;
			for (c = d->name; *c >= '0' && *c <= '9'; c++)
				fd = fd * 10 + (*c - '0');
			if (c != d->name && fd != dir)
				fn(fd, arg);
		}
	}
	sys_close(dir);
	return true;
}

bool number_survives(int fd)
{
	int flags = sys_fcntl(fd, F_GETFD, 0);

	return flags >= 0 && !(flags & FD_CLOEXEC);
}

/* --- sockets by inode ---------------------------------------------------- */

/* Made once for a walk over all numbers: a hash of what the table has. */
struct index {
	struct place {
		uint64_t inode;
		int fd; /* plus 1; 0: nothing here */
	} * place;
	size_t mask;
	bool tried;
};

static size_t spot(const struct index *x, uint64_t inode)
{
	return (size_t)(inode * 0x9e3779b97f4a7c15ull >> 32) & x->mask;
}

static void index_make(struct index *x, const struct guarded *in)
{
	size_t n = 2 * (size_t)__atomic_load_n(&fdt_any, __ATOMIC_RELAXED) + 16;
	struct sock *s;
	size_t at, left;
	int fd;

	x->tried = true;
	while (n & (n - 1))
		n += n & -n;
	x->place = sys_mmap(NULL, n * sizeof(*x->place), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_is_err(x->place)) {
		x->place = NULL;
		return;
	}
	x->mask = n - 1;
	left = n / 2; /* more may have come since they were counted */
	for (fd = fdt_next(0); fd >= 0 && left; fd = fdt_next(fd + 1)) {
		s = fdt_sock(in, fd);
		if (!s)
			continue;
		at = spot(x, sock_inode(s));
		while (x->place[at].fd)
			at = (at + 1) & x->mask;
		x->place[at] = (struct place){ sock_inode(s), fd + 1 };
		left--;
	}
}

static void index_end(struct index *x)
{
	if (x->place)
		sys_munmap(x->place, (x->mask + 1) * sizeof(*x->place));
	x->place = NULL;
}

/* The managed socket of that inode; mostly it has the same number. */
static struct sock *index_find(struct index *x, const struct guarded *in,
			       int fd, uint64_t inode)
{
	struct sock *s = fdt_sock(in, fd);
	size_t at;
	int number;

	if (s && sock_inode(s) == inode)
		return s;
	if (!x->tried)
		index_make(x, in);
	if (!x->place)
		return fdt_by_inode(inode, &number);
	for (at = spot(x, inode); x->place[at].fd; at = (at + 1) & x->mask) {
		if (x->place[at].inode != inode)
			continue;
		s = fdt_sock(in, x->place[at].fd - 1);
		return s && sock_inode(s) == inode ? s : NULL;
	}
	return NULL;
}

/* --- what a call keeps on TCP -------------------------------------------- */

static size_t kept_bytes(size_t room)
{
	return sizeof(struct kept) + room * sizeof(struct kept_one);
}

struct kept *kept_begin(void)
{
	size_t room =
		2 * (size_t)__atomic_load_n(&fdt_any, __ATOMIC_RELAXED) + 64;
	struct kept *k = sys_mmap(NULL, kept_bytes(room),
				  PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (sys_is_err(k))
		return NULL;
	k->room = room;
	return k;
}

bool kept_add(struct kept *k, uint64_t inode, int fd)
{
	if (!k || k->n == k->room)
		return false;
	k->one[k->n++] = (struct kept_one){ inode, fd };
	return true;
}

void kept_unpin(const struct kept *k)
{
	struct index index = { 0 };
	struct sock *s;
	size_t i;
	GUARDED_LATER(in);

	if (!k || !k->n)
		return;
	guarded_begin(&in);
	for (i = 0; i < k->n; i++) {
		s = index_find(&index, &in, k->one[i].fd, k->one[i].inode);
		if (s)
			sock_unpin(s);
	}
	index_end(&index);
}

void kept_end(struct kept *k)
{
	if (k)
		sys_munmap(k, kept_bytes(k->room));
}

/* --- the child of a vfork() executes ------------------------------------- */

/* All are asked before any is waited for. */
struct falling_back {
	struct index index;
	enum reason why;
	uint64_t until; /* for all of them */
	struct kept *asked; /* to be waited for */
};

static void fallback_end(struct falling_back *h, int fd, uint64_t inode)
{
	struct sock *s;
	GUARDED(in);

	s = index_find(&h->index, &in, fd, inode);
	if (s && sock_fallback_until(s, fd, h->why, h->until))
		log_warn(
			"descriptor %d could not be brought back to TCP for exec",
			fd);
}

static void fallback_begin(int fd, void *arg)
{
	struct falling_back *h = arg;
	struct stat st;
	struct sock *s;
	GUARDED_LATER(in);

	if (!number_survives(fd) || sys_fstat(fd, &st) || !S_ISSOCK(st.st_mode))
		return;
	guarded_begin(&in);
	s = index_find(&h->index, &in, fd, st.st_ino);
	if (!s || sock_listening(s))
		return;
	sock_fallback_begin(s, fd, h->why);
	if (!kept_add(h->asked, st.st_ino, fd))
		fallback_end(h, fd, st.st_ino);
}

void numbers_fallback(enum reason why)
{
	struct falling_back h = { .why = why, .until = sock_fallback_limit() };
	size_t i;
	int fd;

	h.asked = kept_begin();
	if (!numbers_each(fallback_begin, &h))
		for (fd = 0; fd <= fdt_top() || fd < 64; fd++)
			fallback_begin(fd, &h);
	for (i = 0; h.asked && i < h.asked->n; i++)
		fallback_end(&h, h.asked->one[i].fd, h.asked->one[i].inode);
	index_end(&h.index);
	kept_end(h.asked);
}
