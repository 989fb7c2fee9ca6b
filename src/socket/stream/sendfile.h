/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_STREAM_SENDFILE_H
#define LIBSDP_SOCKET_STREAM_SENDFILE_H

/* A file as what is sent, instead of the program's buffers. */

#include <stdbool.h>
#include <sys/types.h>
#include "socket/stream/stream.h"

/*
 * Up to n bytes of a file by SDP: what went, or a negative errno of the socket.
 * f->stop: the file gives no more this way. *tcp: the direction is the
 * kernel's, or about to be.
 */
ssize_t send_file(struct sock *s, int fd, struct file_in *f, size_t n,
		  bool *tcp);

#endif
