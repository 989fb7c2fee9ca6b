/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_UNIT_FILE_H
#define LIBSDP_TOOLS_UNIT_FILE_H

/* What systemd would read of a service: its file and its drop-ins. */

#include <limits.h>
#include <stdbool.h>

struct unit {
	char file[PATH_MAX]; /* where it is */
	char exec[PATH_MAX]; /* the program of the first ExecStart=, or "" */
	char preload[4096]; /* LD_PRELOAD of its Environment=, or "", with its % */
	unsigned int preloads; /* how often that was set or voided */
	char later[PATH_MAX]; /* a drop-in behind `but` that did so, or "" */
	char env_file[PATH_MAX]; /* one that sets LD_PRELOAD, or "" */
	char filter[256]; /* as the last line says, or "" */
	bool families; /* RestrictAddressFamilies= is set */
	bool only_families; /* to what it lists, not to all but that */
	bool unix_listed; /* AF_UNIX is in that list */
	bool unset; /* UnsetEnvironment=LD_PRELOAD */
	bool no_network; /* PrivateNetwork= */
};

/*
 * `name` with its suffix. The drop-in with the name `but` is not read. 0, or
 * negative errno: -ENOENT, no such unit.
 */
int unit_read(const char *root, const char *name, const char *but,
	      struct unit *u);

#endif
