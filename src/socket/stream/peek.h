/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_STREAM_PEEK_H
#define LIBSDP_SOCKET_STREAM_PEEK_H

/* Looks at bytes that stay. With the lock held, but for the last two. */

#include "socket/stream/stream.h"

/*
 * MSG_PEEK of up to n bytes, never asleep; `c` NULL: they are only counted
 * (MSG_TRUNC). -EFAULT: the program's memory is not there.
 */
ssize_t peek_around(struct sock *s, int fd, const struct cursor *c, size_t n);
/*
 * Will no more be shown than the n bytes that a look for `len` has found, since
 * it is all, or lies in front of the urgent mark?
 */
bool peek_final(struct sock *s, int fd, size_t len, size_t n);
/* Its writer died in the middle of a stall: the anchor has more than kicks. */
bool peek_left(struct sock *s, int fd);
/*
 * Between hosts, before a look for `len` bytes: would it wait for ever, or has
 * it been in vain before? Then, but once a call (`was`), peek_fallback() brings
 * the stream back to TCP; where that fails not again for a while.
 */
bool peek_starves(struct sock *s, size_t len, bool all, bool *was);
void peek_fallback(struct sock *s, int fd);
/* Where the anchor shows nothing: -EAGAIN, 0 at its end, or its error, once. */
ssize_t peek_end(struct sock *s, int fd);
/*
 * Only n of the `len` bytes that MSG_WAITALL looks for are on the anchor;
 * asleep in the kernel it would be lifted over. True: look again; false: no
 * more comes or is shown, or not in time, or a signal did.
 */
bool peek_wait(struct sock *s, int fd, size_t len, size_t n, uint64_t until);

#endif
