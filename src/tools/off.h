/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_OFF_H
#define LIBSDP_TOOLS_OFF_H

#include <sys/types.h>

/*
 * Why the library does nothing in a process that has it and shows no page; NULL:
 * nothing of the kind is known. By what the process began with, as far as this
 * user may read it.
 */
const char *off_why(pid_t pid);

#endif
