/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * io_uring, where it is asked for by syscall().
 *
 * What lies in a submission ring the kernel does by itself, on the anchor. So
 * before io_uring_enter() goes its way the new entries are read as the kernel
 * will read them. Those that say what a call of libc says, and can be done here
 * and now, are done here and become IORING_OP_NOP, which ends with the same 0:
 * libuv tells its epoll sets everything in this way. Where ours fails the entry
 * stays and fails in the kernel, too; but what the kernel still knows and the
 * program has deleted (ENOENT) becomes an entry that ends so. All others bring
 * their stream back to TCP.
 *
 * A ring that cannot be read (its entries are taken by a kernel thread, or we
 * did not see it made) may do anything: then nothing is lifted any more.
 */
#include "preload/fd/real.h"

#include <string.h>
#include <sys/mman.h>

#include <linux/io_uring.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/table.h"
#include "preload/preload.h"
#include "preload/ready.h"

/* Numbers of the kernel's interface; headers of older ones lack some. */
enum {
	SETUP_SQE128 = 1 << 10,
	SETUP_NO_SQARRAY = 1 << 16,
	/* IOPOLL, SQ_AFF to SUBMIT_ALL, COOP_TASKRUN to DEFER_TASKRUN, ... */
	SETUP_READABLE = 0x1 | 0xfc | 0x3f00 | SETUP_NO_SQARRAY | 1 << 17 |
			 1 << 18,
	ENTER_REGISTERED = 1 << 4,

	LINKS = 1 << 1 | 1 << 2 | 1 << 3, /* DRAIN, LINK, HARDLINK */
	FIXED = 1 << 0,

	OP_NOP = 0,
	OP_POLL_ADD = 6,
	OP_POLL_REMOVE = 7,
	OP_ACCEPT = 13,
	OP_ASYNC_CANCEL = 14,
	OP_CONNECT = 16,
	OP_CLOSE = 19,
	OP_FILES_UPDATE = 20,
	OP_EPOLL_CTL = 29,
	OP_SPLICE = 30,
	OP_TEE = 33,
	OP_SHUTDOWN = 34,
	OP_BIND = 56,
	OP_LISTEN = 57,
	OP_EPOLL_WAIT = 59,

	REGISTER_FILES = 2,
	REGISTER_FILES_UPDATE = 6,
	REGISTER_FILES2 = 13,
	REGISTER_FILES_UPDATE2 = 14,
	REGISTER_RESIZE = 33,
	REGISTER_BY_INDEX = 31, /* bit */
};

#define URINGS 256
#define NOTED  64

struct uring {
	int fd;
	uint32_t mask;
	size_t size; /* of an entry; 0: the slot is free */
	uint32_t seen; /* entries before this position were read */
	void *sq, *sqes; /* our mappings of what the program maps, too */
	size_t sq_len, sqes_len;
	const uint32_t *head, *tail, *array;
};

uint32_t uring_any;
static TABLE struct uring urings[URINGS];
static struct lock urings_lock;
static int urings_pid; /* whose they are: no child has the mappings */

/*
 * Rings of liburing, which looks at its submissions by itself (liburing.c):
 * they are opened when the program enters one past it. The oldest goes where
 * there is no room.
 */
static TABLE struct noted {
	int fd;
	bool used;
	struct io_uring_params p;
} noted[NOTED];
static unsigned int noted_next;

/* --- birth and end ------------------------------------------------------ */

/* Whatever is asked there, nothing of ours is in its way. */
static void blind(void)
{
	static bool said;

	if (__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		return;
	log_note("an io_uring that cannot be read: nothing is lifted");
	sock_fallback_all(WHY_BYPASSED);
}

/* True: not held by this thread already (a signal handler's call). */
static bool take(void)
{
	return lock_take(&urings_lock) != -EDEADLK;
}

static bool ours(void)
{
	return urings_pid == sys_getpid();
}

static struct uring *find(int fd)
{
	struct uring *u;

	for (u = urings; u < urings + URINGS; u++)
		if (u->size && u->fd == fd)
			return u;
	return NULL;
}

static struct uring *find_free(void)
{
	struct uring *u;

	for (u = urings; u < urings + URINGS; u++)
		if (!u->size)
			return u;
	return NULL;
}

static void *map(int fd, size_t len, long at)
{
	int prot = PROT_READ | PROT_WRITE;
	void *p = sys_mmap(NULL, len, prot, MAP_SHARED, fd, at);

	if (sys_is_err(p))
		return NULL;
	sys_madvise(p, len, MADV_DONTFORK);
	return p;
}

static void unmap(struct uring *u)
{
	if (u->sq)
		sys_munmap(u->sq, u->sq_len);
	if (u->sqes)
		sys_munmap(u->sqes, u->sqes_len);
	u->size = 0;
}

/* The kernel's word says where everything lies. */
static bool open_ring(struct uring *u, int fd, const struct io_uring_params *p)
{
	bool array = !(p->flags & SETUP_NO_SQARRAY);
	size_t size = p->flags & SETUP_SQE128 ? 128 : 64;

	memset(u, 0, sizeof(*u));
	u->fd = fd;
	u->sq_len = array ? p->sq_off.array + p->sq_entries * 4ul : 4096;
	u->sqes_len = p->sq_entries * size;
	u->sq = map(fd, u->sq_len, IORING_OFF_SQ_RING);
	u->sqes = map(fd, u->sqes_len, IORING_OFF_SQES);
	if (!u->sq || !u->sqes) {
		unmap(u);
		return false;
	}
	u->head = (void *)((char *)u->sq + p->sq_off.head);
	u->tail = (void *)((char *)u->sq + p->sq_off.tail);
	u->array = array ? (void *)((char *)u->sq + p->sq_off.array) : NULL;
	u->mask = p->sq_entries - 1;
	u->size = size;
	return true;
}

static void forget_parents(void)
{
	memset(urings, 0, sizeof(urings));
	memset(noted, 0, sizeof(noted));
	urings_lock.word = 0;
	uring_any = 0;
	urings_pid = sys_getpid();
}

static bool readable(const struct io_uring_params *p)
{
	return !(p->flags & ~(uint32_t)SETUP_READABLE);
}

/* Lock held. NULL: there is no room, or it cannot be mapped. */
static struct uring *add(int fd, const struct io_uring_params *p)
{
	struct uring *u = find_free();

	if (!u || !open_ring(u, fd, p))
		return NULL;
	__atomic_add_fetch(&uring_any, 1, __ATOMIC_RELEASE);
	return u;
}

/* A new ring: whatever is known of its number is of an older one. */
static bool begin(int fd)
{
	if (!sock_possible() || !fdt_is_owner())
		return false;
	if (!ours())
		forget_parents();
	uring_closing((unsigned int)fd, (unsigned int)fd);
	return true;
}

void uring_made(int fd, const struct io_uring_params *p)
{
	struct uring *u = NULL;

	if (!begin(fd))
		return;
	if (readable(p) && take()) {
		u = add(fd, p);
		lock_drop(&urings_lock);
	}
	if (!u)
		blind();
}

void uring_noted(int fd, const struct io_uring_params *p)
{
	struct noted *n;

	if (!begin(fd))
		return;
	if (!readable(p)) {
		blind();
		return;
	}
	if (!take())
		return;
	n = &noted[noted_next++ % NOTED];
	if (!n->used)
		__atomic_add_fetch(&uring_any, 1, __ATOMIC_RELEASE);
	*n = (struct noted){ .fd = fd, .used = true, .p = *p };
	lock_drop(&urings_lock);
}

/* Lock held: the program enters a ring of liburing's by itself. */
static struct uring *open_noted(int fd)
{
	int i;

	for (i = 0; i < NOTED; i++)
		if (noted[i].used && noted[i].fd == fd)
			return add(fd, &noted[i].p);
	return NULL;
}

static void forget_noted(unsigned int first, unsigned int last)
{
	struct noted *n;

	for (n = noted; n < noted + NOTED; n++) {
		if (!n->used || (unsigned int)n->fd < first ||
		    (unsigned int)n->fd > last)
			continue;
		n->used = false;
		__atomic_sub_fetch(&uring_any, 1, __ATOMIC_RELEASE);
	}
}

void uring_closing_slow(unsigned int first, unsigned int last)
{
	struct uring *u;

	if (!ours() || !take())
		return;
	forget_noted(first, last);
	for (u = urings; u < urings + URINGS; u++) {
		if (!u->size || (unsigned int)u->fd < first ||
		    (unsigned int)u->fd > last)
			continue;
		unmap(u);
		__atomic_sub_fetch(&uring_any, 1, __ATOMIC_RELEASE);
	}
	lock_drop(&urings_lock);
}

/* --- entries ------------------------------------------------------------ */

static void fall_back(int fd)
{
	if (bring_back(fd))
		log_warn("descriptor %d could not be brought back to TCP", fd);
}

/*
 * From the program's memory, if there is any: false, and the kernel tells it.
 */
static bool copy_in(void *to, uint64_t from, size_t n)
{
	struct iovec here = { to, n };
	struct iovec there = { (void *)(uintptr_t)from, n };

	return sys_call6(SYS_process_vm_readv, sys_getpid(), (long)&here, 1,
			 (long)&there, 1, 0) == (long)n;
}

static void fall_back_all(uint64_t list, uint64_t n)
{
	int32_t fd;

	for (; n && copy_in(&fd, list, sizeof(fd)); n--, list += sizeof(fd))
		fall_back(fd);
}

/* Those that a call of ours can do. 0: done; 1: not among them. */
static int do_here(const struct io_uring_sqe *e)
{
	switch (e->opcode) {
	case OP_EPOLL_CTL:
		if (!fdt_has_set(e->fd) && !fdt_has_sock((int)e->off) &&
		    !ep_is_set((int)e->off))
			break;
		return do_epoll_ctl(e->fd, (int)e->len, (int)e->off,
				    (void *)(uintptr_t)e->addr);
	case OP_SHUTDOWN:
		if (fdt_has_sock(e->fd))
			return do_shutdown(e->fd, (int)e->len);
		break;
	case OP_CLOSE:
		if (fdt_has_sock(e->fd) || fdt_has_set(e->fd))
			return do_close(e->fd);
		break;
	}
	return 1;
}

/* Nothing but a result: 0 (IORING_OP_NOP), or -ENOENT: poll to be removed. */
static void become(struct io_uring_sqe *e, uint8_t op)
{
	uint64_t user_data = e->user_data;
	uint8_t flags = e->flags;

	memset(e, 0, sizeof(*e));
	e->opcode = op;
	e->flags = flags;
	e->fd = -1;
	e->addr = op == OP_NOP ? 0 : (uintptr_t)&urings; /* none has this */
	e->user_data = user_data;
}

/* An entry that the kernel will carry out, on the anchor. */
static void kernels(const struct io_uring_sqe *e)
{
	switch (e->opcode) {
	case OP_ACCEPT:
	case OP_ASYNC_CANCEL:
	case OP_BIND:
	case OP_CONNECT:
	case OP_LISTEN:
	case OP_POLL_REMOVE:
		return;
	case OP_FILES_UPDATE:
		fall_back_all(e->addr, e->len);
		return;
	case OP_EPOLL_CTL:
		fall_back((int)e->off);
		return;
	case OP_SPLICE:
	case OP_TEE:
		fall_back(e->splice_fd_in);
		break;
	case OP_POLL_ADD:
	case OP_EPOLL_WAIT:
		if (ep_is_set(e->fd)) {
			blind();
			return;
		}
		break;
	}
	if (!(e->flags & FIXED))
		fall_back(e->fd);
}

/* Behind another entry it has to wait, so nothing can be done before that. */
bool uring_look(struct io_uring_sqe *e, bool after)
{
	bool links = e->flags & LINKS;
	int keep = errno;
	int ret = after || e->flags & (FIXED | LINKS) ? 1 : do_here(e);

	if (!ret)
		become(e, OP_NOP);
	else if (ret == -ENOENT)
		become(e, OP_POLL_REMOVE); /* the kernel may know it yet */
	else if (ret > 0)
		kernels(e);
	errno = keep;
	return links;
}

static void look_at_new(struct uring *u, unsigned int n)
{
	uint32_t head = __atomic_load_n(u->head, __ATOMIC_ACQUIRE);
	uint32_t tail = __atomic_load_n(u->tail, __ATOMIC_ACQUIRE);
	uint32_t end = tail - head < n ? tail : head + n;
	uint32_t at = (int32_t)(u->seen - head) > 0 ? u->seen : head, k;
	struct io_uring_sqe *e;
	bool after = false;

	for (; (int32_t)(end - at) > 0; at++) {
		k = u->array ? u->array[at & u->mask] : at & u->mask;
		if (k > u->mask)
			continue; /* the kernel drops it */
		e = (void *)((char *)u->sqes + k * u->size);
		u->seen = at + 1;
		after = uring_look(e, after);
	}
}

void uring_entering(int fd, unsigned int n, unsigned int flags)
{
	struct uring *u = NULL;

	if (!n || !fdt_ever || !fdt_is_owner() || !take())
		return;
	if (ours() && !(flags & ENTER_REGISTERED)) {
		u = find(fd);
		if (!u)
			u = open_noted(fd);
	}
	if (u)
		look_at_new(u, n);
	lock_drop(&urings_lock);
	if (!u)
		blind();
}

/* --- registered descriptors --------------------------------------------- */

void uring_files(const int *fds, unsigned int n)
{
	if (fdt_any && fdt_is_owner())
		fall_back_all((uintptr_t)fds, n);
}

/* From there on the kernel uses them by other numbers. */
void uring_registering(unsigned int op, uint64_t arg, unsigned int n)
{
	struct {
		uint32_t nr, flags;
		uint64_t resv, data;
	} files;
	struct {
		uint32_t offset, resv;
		uint64_t data, tags;
		uint32_t nr, resv2;
	} update;

	op &= ~(1u << REGISTER_BY_INDEX);
	if (op == REGISTER_RESIZE && uring_any && fdt_is_owner())
		blind(); /* what we have mapped is the old ring */
	if (!fdt_any || !fdt_is_owner())
		return;
	switch (op) {
	case REGISTER_FILES:
		fall_back_all(arg, n);
		break;
	case REGISTER_FILES_UPDATE:
		if (copy_in(&update, arg, offsetof(__typeof__(update), tags)))
			fall_back_all(update.data, n);
		break;
	case REGISTER_FILES2:
		if (copy_in(&files, arg, sizeof(files)))
			fall_back_all(files.data, files.nr);
		break;
	case REGISTER_FILES_UPDATE2:
		if (copy_in(&update, arg, sizeof(update)))
			fall_back_all(update.data, update.nr);
		break;
	}
}
