/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_IOV_H
#define LIBSDP_SOCKET_CORE_IOV_H

/* A cursor over the program's buffers, or over a file. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/uio.h>

/*
 * A file that is sent. `at` is the next byte, moved on by what went; `begun`:
 * bytes of the same call have gone before. `stop`: the send ends here whatever
 * was asked for, `err` says why: 0 at the end of the file, -EAGAIN where bytes
 * are not in memory or must not go by this way, else what reading it failed
 * with.
 */
struct file_in {
	int fd;
	off_t at;
	bool begun;
	bool stop;
	int err;
};

struct cursor {
	const struct iovec *iov;
	size_t left; /* vectors, the current one included */
	size_t at; /* offset in the current one */
	struct file_in *file; /* instead of vectors; only pump_send() takes it */
};

/* At the first byte; the vectors in front of it are empty. */
static inline void cursor_set(struct cursor *c, const struct iovec *iov,
			      size_t cnt)
{
	*c = (struct cursor){ .iov = iov, .left = cnt };
	while (c->left && !c->iov->iov_len) {
		c->iov++;
		c->left--;
	}
}

/*
 * Copy n bytes between memory and cursor, moving it on. False: the program's
 * memory is not there (ucopy.h), and the cursor is where it was.
 */
__attribute__((warn_unused_result)) bool cursor_get(struct cursor *c, void *to,
						    size_t n);
__attribute__((warn_unused_result)) bool cursor_put(struct cursor *c,
						    const void *from, size_t n);
void cursor_skip(struct cursor *c, size_t n);
/* -EINVAL when the sum overflows or there are too many vectors. */
ssize_t iov_sum(const struct iovec *iov, size_t n);
/* How many bytes from the cursor on are there (mem.h); `write`: writable. */
size_t iov_sound(const struct cursor *c, bool write);
/* The same, every page asked anew. */
size_t iov_there(const struct cursor *c, bool write);
/* Time has passed: *len ends in front of what is not there now; -EFAULT. */
int iov_still(const struct cursor *c, size_t done, size_t *len);
/* Is the vector of a header there? */
bool iov_message(const struct msghdr *m);

#endif
