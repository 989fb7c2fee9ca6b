/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * liburing makes its own system calls, but programs call it to make a ring, to
 * register descriptors with it and to submit what they have prepared. Before it
 * does, the descriptors and entries are looked at as those of a ring made by
 * syscall() are (uring.c).
 *
 * Only a program that has liburing calls these names. They are not looked
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
		h = real_dlopen(lib[i], RTLD_LAZY | RTLD_NOLOAD);
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

/*
 * WRAP(name, params, args, before, after): `before` runs ahead of liburing's
 * own function, `after` sees its result in `ret`.
 */
#define WRAP(name, params, args, before, after)                       \
	SDP_EXPORT int name params;                                   \
	int name params                                               \
	{                                                             \
		static __typeof__(name) *real;                        \
		__typeof__(name) *f;                                  \
		int ret;                                              \
                                                                      \
		f = __atomic_load_n(&real, __ATOMIC_RELAXED);         \
		if (!f) {                                             \
			*(void **)&f = real_of(#name);                \
			if (!f)                                       \
				return -ENOSYS;                       \
			__atomic_store_n(&real, f, __ATOMIC_RELAXED); \
		}                                                     \
		before;                                               \
		ret = f args;                                         \
		after;                                                \
		return ret;                                           \
	}

/* --- entries that are about to be submitted ------------------------------ */

#define SUBMIT(name, params, args) \
	WRAP(name, params, args, if (fdt_any && fdt_is_owner()) look(ring), )

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

/* --- the bare calls, by liburing's names ---------------------------------- */

WRAP(io_uring_setup, (unsigned int n, struct io_uring_params *p), (n, p), ,
     if (ret >= 0) uring_made(ret, p))
WRAP(io_uring_enter,
     (unsigned int fd, unsigned int n, unsigned int least, unsigned int flags,
      sigset_t *mask),
     (fd, n, least, flags, mask), uring_entering((int)fd, n, flags), )
WRAP(io_uring_enter2,
     (unsigned int fd, unsigned int n, unsigned int least, unsigned int flags,
      sigset_t *mask, size_t size),
     (fd, n, least, flags, mask, size), uring_entering((int)fd, n, flags), )
WRAP(io_uring_register,
     (unsigned int fd, unsigned int op, const void *arg, unsigned int n),
     (fd, op, arg, n), uring_registering(op, (uintptr_t)arg, n), )

/* --- registered descriptors ----------------------------------------------- */

#define REGISTER(name, params, args) \
	WRAP(name, params, args, uring_files(files, n), )

REGISTER(io_uring_register_files,
	 (struct io_uring * ring, const int *files, unsigned int n),
	 (ring, files, n))
REGISTER(io_uring_register_files_tags,
	 (struct io_uring * ring, const int *files, const __u64 *tags,
	  unsigned int n),
	 (ring, files, tags, n))
REGISTER(io_uring_register_files_update,
	 (struct io_uring * ring, unsigned int at, const int *files,
	  unsigned int n),
	 (ring, at, files, n))
REGISTER(io_uring_register_files_update_tag,
	 (struct io_uring * ring, unsigned int at, const int *files,
	  const __u64 *tags, unsigned int n),
	 (ring, at, files, tags, n))

/* --- rings that liburing makes --------------------------------------------- */

/*
 * Its own submissions are looked at above; the parameters are kept for a
 * program that enters such a ring by itself.
 */
static void made(int ret, const struct io_uring *ring,
		 const struct io_uring_params *p)
{
	if (!ret)
		uring_noted(ring->ring_fd, p);
}

WRAP(io_uring_queue_init_params,
     (unsigned int n, struct io_uring *ring, struct io_uring_params *p),
     (n, ring, p), , made(ret, ring, p))
WRAP(io_uring_queue_init_mem,
     (unsigned int n, struct io_uring *ring, struct io_uring_params *p,
      void *buf, size_t size),
     (n, ring, p, buf, size), , made(ret >= 0 ? 0 : ret, ring, p))

/* What liburing's own does. */
SDP_EXPORT int io_uring_queue_init(unsigned int n, struct io_uring *ring,
				   unsigned int flags);
int io_uring_queue_init(unsigned int n, struct io_uring *ring,
			unsigned int flags)
{
	struct io_uring_params p = { .flags = flags };

	return io_uring_queue_init_params(n, ring, &p);
}

SDP_EXPORT void io_uring_queue_exit(struct io_uring *ring);
void io_uring_queue_exit(struct io_uring *ring)
{
	void (*f)(struct io_uring *);
	unsigned int fd = (unsigned int)ring->ring_fd;

	*(void **)&f = real_of("io_uring_queue_exit");
	uring_closing(fd, fd);
	if (f)
		f(ring);
}
