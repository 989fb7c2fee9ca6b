/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_UNIT_FILE_H
#define LIBSDP_TOOLS_UNIT_FILE_H

/* What systemd would read of a service: its file and its drop-ins. */

#include <limits.h>
#include <stdbool.h>

struct unit {
	char file[PATH_MAX]; /* where it is */
	const char *name; /* the caller's */
	char exec[PATH_MAX]; /* the program of the first ExecStart=, or "" */
	bool exec_open; /* only systemd knows which, by a specifier of it */
	char preload[4096]; /* LD_PRELOAD of its Environment=, or "", with its % */
	unsigned int preloads; /* how often that was set or voided */
	char later[PATH_MAX]; /* a drop-in behind `but` that did so, or "" */
	char env_file[PATH_MAX]; /* one that sets LD_PRELOAD, or "" */
	char env_unread[PATH_MAX]; /* one that cannot be read, or "" */
	char filter[8192]; /* SystemCallFilter=, each ended by a newline */
	bool filter_cut; /* there was no room for all */
	char filter_error[32]; /* SystemCallErrorNumber= */
	unsigned int filters; /* other settings that make one: a bit for each */
	bool trusted; /* Environment=LIBSDP_SECCOMP=trust */
	bool families; /* RestrictAddressFamilies= is set */
	bool only_families; /* to what it lists, not to all but that */
	bool unix_listed, netlink_listed; /* are in that list */
	bool unset; /* UnsetEnvironment=LD_PRELOAD */
	bool no_network; /* PrivateNetwork= */
	bool off, off_by_use; /* by LIBSDP_DISABLE, by LIBSDP_USE=tcp */
	bool own_root; /* RootDirectory= or RootImage= */
	bool masked; /* a link to /dev/null */
};

/*
 * `name` with its suffix. The drop-in with the name `but` is not read. 0, or
 * negative errno: -ENOENT, no such unit.
 */
int unit_read(const char *root, const char *name, const char *but,
	      struct unit *u);

/* One of the settings in `filters`, NULL: there is none. */
const char *unit_filter_key(const struct unit *u);

#endif
