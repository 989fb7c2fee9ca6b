/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_RELOAD_H
#define LIBSDP_TOOLS_RELOAD_H

#include <stdbool.h>

/* Asking processes to read their rules again (decisions/15). */
struct reload {
	const char *what; /* a process id or a unit; NULL: all processes */
	const char *root; /* where units are described, "": here */
	bool apply; /* connections that exist change sides, too */
	bool json;
	unsigned int timeout_ms; /* for all answers together */
};

/*
 * Says what came of it, process by process. 0: all have read them, or will at
 * their next call; 1: one has not, or there is none; 64: `what` is no name of
 * either kind.
 */
int reload(const struct reload *how);

#endif
