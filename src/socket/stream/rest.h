/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_STREAM_REST_H
#define LIBSDP_SOCKET_STREAM_REST_H

#include <stdbool.h>
#include <sys/socket.h>

/*
 * The kernel's part of a call that has moved bytes already, or a message. To
 * the program that is one call, and no handler comes between two pieces of it:
 * a receive that `waits` fails with EINTR behind a handler, also if its signal
 * was put off before (sigdefer.h), and others, and sends, which do not wait,
 * let none in. A count, or a negative errno.
 */
ssize_t rest_recv(int fd, void *buf, size_t n, int flags, bool waits);
ssize_t rest_recvmsg(int fd, struct msghdr *m, int flags, bool waits);
ssize_t rest_send(int fd, const void *buf, size_t n, int flags);
ssize_t rest_sendmsg(int fd, const struct msghdr *m, int flags);

#endif
