/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_PRELOAD_ASLEEP_H
#define LIBSDP_PRELOAD_ASLEEP_H

/*
 * Waits of a thread that are counted as sleepers, and that a handler may jump out
 * of (siglongjmp), which unwinds nothing: a count that stays has every writer ring
 * for nobody. Announced by libc's functions (jump.c) they are counted out at once;
 * else one in a set is when the thread sleeps again from no deeper.
 *
 * All of the calling thread, inside; asleep_jumping() goes there itself.
 */

#include <stdbool.h>
#include <stdint.h>

struct epset;
struct pollset;

/* Counted in the set, and noted in *in, which lies in the waiting call's frame. */
void asleep_in_set(bool *in, struct epset *set);
/* However the wait ends; nothing if *in is false. */
void asleep_out_of_set(bool *in, struct epset *set);
/* A pollset that counts itself, and out by pollset_out_of_bed(). */
void asleep_in_poll(struct pollset *p);
void asleep_out_of_poll(struct pollset *p);

/* This thread leaves the frames below `to`. */
bool asleep_any(void);
void asleep_jumping(uintptr_t to);
void asleep_forked(void);

#endif
