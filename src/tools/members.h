/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_MEMBERS_H
#define LIBSDP_TOOLS_MEMBERS_H

/* The processes of a service of systemd's: those in its control group. */

#include <stdbool.h>
#include <sys/types.h>

/* Is the process in the control group that has this unit's name? */
bool member_of(pid_t pid, const char *unit);
/* Is any process? */
bool members_any(const char *unit);
/*
 * `name` with its suffix in `full`; false: it is not the name of a service.
 */
bool member_unit(const char *name, char *full, size_t size);

#endif
