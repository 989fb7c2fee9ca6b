/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * liburing makes its own system calls, but programs call it to submit what they
 * have prepared. Before it does, the entries are looked at as those of a ring
 * made by syscall() are (uring.c).
 *
 * Nobody but a program that has liburing calls these names. They are not looked
 * up behind this library alone: liburing may have been loaded for one part of
 * the program only (dlopen() with RTLD_LOCAL).
 */
#include <dlfcn.h>
#include <stddef.h>

#include <linux/io_uring.h>
#include <linux/time_types.h>

#include "preload/preload.h"

/* Of struct io_uring what inline functions of its header use: it is ABI. */
struct io_uring {
	struct {
		uint32_t *khead, *ktail, *kmask, *kentries, *kflags, *kdropped;
		uint32_t *array;
		struct io_uring_sqe *sqes;
		uint32_t head, tail; /* prepared, not yet submitted */
		size_t ring_sz;
		void *ring_ptr;
		uint32_t pad[4];
	} sq;
	struct {
		uint32_t *word[6];
		struct io_uring_cqe *cqes;
		size_t ring_sz;
		void *ring_ptr;
		uint32_t pad[4];
	} cq;
	uint32_t flags;
	int ring_fd;
};

static void *real_of(const char *name)
{
	static const char *const lib[] = { "liburing.so.2", "liburing.so.1" };
	void *p = dlsym(RTLD_NEXT, name), *h;
	size_t i;

	for (i = 0; !p && i < sizeof(lib) / sizeof(lib[0]); i++) {
		h = dlopen(lib[i], RTLD_LAZY | RTLD_NOLOAD);
		if (h)
			p = dlsym(h, name);
	}
	return p;
}

static void look(const struct io_uring *ring)
{
	unsigned int shift = ring->flags & IORING_SETUP_SQE128 ? 1 : 0;
	uint32_t at, mask = *ring->sq.kmask;
	bool after = false;

	for (at = ring->sq.head; at != ring->sq.tail; at++)
		after = uring_look(&ring->sq.sqes[(at & mask) << shift], after);
}

#define SUBMIT(name, params, args)                                    \
	SDP_EXPORT int name params;                                   \
	int name params                                               \
	{                                                             \
		static __typeof__(name) *real;                        \
		__typeof__(name) *f;                                  \
                                                                      \
		f = __atomic_load_n(&real, __ATOMIC_RELAXED);         \
		if (!f) {                                             \
			*(void **)&f = real_of(#name);                \
			if (!f)                                       \
				return -ENOSYS;                       \
			__atomic_store_n(&real, f, __ATOMIC_RELAXED); \
		}                                                     \
		if (fdt_any && fdt_is_owner())                        \
			look(ring);                                   \
		return f args;                                        \
	}

SUBMIT(io_uring_submit, (struct io_uring * ring), (ring))
SUBMIT(io_uring_submit_and_get_events, (struct io_uring * ring), (ring))
SUBMIT(io_uring_submit_and_wait, (struct io_uring * ring, unsigned int n),
       (ring, n))
SUBMIT(io_uring_submit_and_wait_timeout,
       (struct io_uring * ring, struct io_uring_cqe **cqe, unsigned int n,
	struct __kernel_timespec *ts, sigset_t *mask),
       (ring, cqe, n, ts, mask))
SUBMIT(io_uring_submit_and_wait_min_timeout,
       (struct io_uring * ring, struct io_uring_cqe **cqe, unsigned int n,
	struct __kernel_timespec *ts, unsigned int min, sigset_t *mask),
       (ring, cqe, n, ts, min, mask))
SUBMIT(io_uring_submit_and_wait_reg,
       (struct io_uring * ring, struct io_uring_cqe **cqe, unsigned int n,
	int reg),
       (ring, cqe, n, reg))
/* These two submit as well, on kernels that take no time limit to enter. */
SUBMIT(io_uring_wait_cqes,
       (struct io_uring * ring, struct io_uring_cqe **cqe, unsigned int n,
	struct __kernel_timespec *ts, sigset_t *mask),
       (ring, cqe, n, ts, mask))
SUBMIT(io_uring_wait_cqe_timeout,
       (struct io_uring * ring, struct io_uring_cqe **cqe,
	struct __kernel_timespec *ts),
       (ring, cqe, ts))
