/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_STREAM_NOTICE_H
#define LIBSDP_SOCKET_STREAM_NOTICE_H

/*
 * MSG_ZEROCOPY in the ring: the bytes are copied, as they are between any two
 * sockets of one host, and the notification that says so, with its number, is
 * the kernel's, for a kick. It goes ahead of the bytes. Where none of them go
 * after all it is the socket's, and the next send's.
 */

#include "socket/stream/stream.h"

/*
 * Is the notification of this send ahead? It takes over what the socket has. Of
 * several sends on TCP at once one takes it.
 */
bool notice_ahead(struct sock *s, struct load *w);
/*
 * Lock held: send it ahead, if bytes are sure to follow. True: it is, or there
 * is no room for bytes; false: look again, or go to the anchor (w->leave).
 */
bool notice_send(struct sock *s, int fd, struct load *w);
/* The send is over. */
void notice_keep(struct sock *s, struct load *w);

/* Bytes of the send went out: the first are what is told. */
static inline void notice_done(struct load *w)
{
	if (likely(!w->note))
		return;
	w->note = w->noted = false;
	w->flags &= ~MSG_ZEROCOPY;
}

#endif
