/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_PRELOAD_FD_ASLEEP_H
#define LIBSDP_PRELOAD_FD_ASLEEP_H

/*
 * Waits of a thread that are counted as sleepers, and that a handler may jump
 * out of (siglongjmp), which unwinds nothing: a count that stays has every
 * writer ring in vain. Announced by libc's functions (jump.c) they are
 * counted out at once; else one in a set is when the thread sleeps again from
 * no deeper.
 *
 * All of the calling thread, inside; asleep_jumping() goes there itself.
 */

#include <stdbool.h>
#include <stdint.h>

struct asleep_kind {
	/* Count it out; its frame is whole. */
	void (*out)(void *frame, void *what);
	/* The same where the frame is another call's by now; NULL: nothing. */
	void (*lost)(void *what);
};

/* `frame`: lies in the frame of the waiting call, and names this wait. */
void asleep_in(const struct asleep_kind *kind, void *frame, void *what);
/* However the wait ends; nothing where it was not noted. */
void asleep_out(const void *frame);

/* This thread leaves the frames below `to`. */
bool asleep_any(void);
void asleep_jumping(uintptr_t to);
void asleep_forked(void);

#endif
