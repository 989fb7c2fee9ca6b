/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_SUGGEST_H
#define LIBSDP_TOOLS_SUGGEST_H

/*
 * The word of libsdp.conf that was meant, most likely: two letters away at most,
 * and less than half of it. NULL: none.
 */
const char *suggest(const char *word);

#endif
