/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_SENDFILE_H
#define LIBSDP_SOCKET_SENDFILE_H

/* A file as what is sent, instead of the program's buffers. */

#include <stdbool.h>
#include <sys/types.h>

struct sock;

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

/* Nothing more of it goes by this way; 0, as of what went. */
static inline ssize_t file_stop(struct file_in *f, int err)
{
	f->stop = true;
	f->err = err;
	return 0;
}

/*
 * Up to n bytes of a file by SDP: what went, or a negative errno of the socket.
 * f->stop: the file gives no more this way. *raw: the direction is the
 * kernel's, or about to be.
 */
ssize_t send_file(struct sock *s, int fd, struct file_in *f, size_t n,
		  bool *raw);

/* lift_try_tx(); do our bytes go by SDP, then? */
bool lift_tx(struct sock *s, int fd);

#endif
