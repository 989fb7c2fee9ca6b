/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_PROGRAM_H
#define LIBSDP_TOOLS_PROGRAM_H

/* What a program's file says about whether a library can be put in front. */

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

enum program_kind {
	PROGRAM_GLIBC, /* dynamic, and its linker is glibc's: it can */
	PROGRAM_MUSL, /* dynamic, of another libc */
	PROGRAM_STATIC,
	PROGRAM_FOREIGN, /* of another processor or word size */
	PROGRAM_UNKNOWN, /* neither ELF nor a script */
};

struct program {
	enum program_kind kind;
	char path[PATH_MAX]; /* where it was found */
	char by[PATH_MAX]; /* a script's interpreter, or "" */
	bool go; /* makes system calls without a libc */
	bool raised; /* set-user-ID, set-group-ID or file capabilities */
};

/*
 * `name` as a shell would find it, below `root` ("": this system's). Follows
 * `#!`, env(1) included. 0, or negative errno: not there, not to be read.
 */
int program_read(const char *root, const char *name, struct program *p);

/* The names by which rules know it; of a script, its interpreter's. */
void program_names(const struct program *p, const char *name, struct config *c);

/* For people: "a static program". A script is what its interpreter is. */
const char *program_text(const struct program *p);

#endif
