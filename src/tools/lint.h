/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_LINT_H
#define LIBSDP_TOOLS_LINT_H

/* Rules that are right by themselves, and not what their author thinks. */

#include "config/config.h"

/*
 * A line for each, "file:line: ...": rules that never hold because an earlier
 * one goes before them, or that say what holds anyway.
 * Returns how many.
 */
unsigned int lint(const struct config *c);

#endif
