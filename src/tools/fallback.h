/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_HOME_H
#define LIBSDP_TOOLS_HOME_H

#include <stdint.h>

#include "tools/scan.h"

/*
 * Tells the process of this page to bring back to TCP the socket that is
 * descriptor `fd` there, or all (-1). 0: everything that was asked for is on
 * TCP now; 1: something is not, or there is no such socket (said on stderr);
 * ends the program with 2 where the process cannot be asked.
 */
int fallback_tell(const struct found *f, int64_t fd);

#endif
