/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_JSON_H
#define LIBSDP_TOOLS_JSON_H

/* What sdpstat --json prints; the keys are in sdpstat(1). */

#include "tools/filter.h"

/*
 * One array on several lines: a process that fits a line, with those of its
 * `sockets` that do.
 */
void json_print(const struct found *found, size_t count,
		const struct filter *filter, bool sockets);

#endif
