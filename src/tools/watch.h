/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_WATCH_H
#define LIBSDP_TOOLS_WATCH_H

/*
 * Shows what moves, again and again, until it is interrupted or its output is
 * closed: a line a socket with rates, the busiest first, in 80 columns or as
 * many as the terminal has. On a terminal it is a screen that is written anew,
 * else a block for each interval.
 */

#include "tools/filter.h"

_Noreturn void watch(const struct filter *f, double seconds);

#endif
