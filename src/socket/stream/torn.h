/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_STREAM_TORN_H
#define LIBSDP_SOCKET_STREAM_TORN_H

/* Calls whose memory is not there, or only in part. */

#include "socket/stream/want.h"

/*
 * Cut what is received, or sent, to the memory that is there. False: there is
 * none that counts.
 */
bool want_torn(struct want *w);
bool load_torn(struct load *w);
/*
 * A copy has faulted: every page is asked anew. True: it is cut, and the call
 * may be tried again; false: nothing helps, or a part was moved before, which
 * is the answer.
 */
bool want_faulted(struct want *w);
bool load_faulted(struct load *w);

/* Is the program's memory there, as far as we may write to it? */
static inline bool want_whole(const struct want *w)
{
	return (w->flags & MSG_TRUNC) ||
	       iov_sound(&w->c, true) >= w->len - w->done;
}

static inline bool load_whole(const struct load *w)
{
	return iov_sound(&w->c, false) >= w->len - w->done;
}

#endif
