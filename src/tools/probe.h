/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_PROBE_H
#define LIBSDP_TOOLS_PROBE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Does the filter of system calls that this process is under, and what it
 * executes will be under, let the library do its work? A child tries each call
 * that the library makes on its own account; a filter that kills for one kills
 * the child. Of those that do the program's work none may be refused either.
 *
 * The child is made by fork() and waited for: under a filter that kills for
 * that the caller is killed. So it is for a launcher that was told to, never
 * for the library.
 *
 * NULL: yes. Else what stood in the way, for a message.
 */
const char *probe_filter(void);

/*
 * The calls that are tried, by number from 0, some more than once; false: there
 * are no more. `spare`: refused, but not killed for, it is done without.
 */
bool probe_call(size_t i, const char **name, bool *spare);

#endif
