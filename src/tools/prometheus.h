/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_PROMETHEUS_H
#define LIBSDP_TOOLS_PROMETHEUS_H

#include "tools/scan.h"

/*
 * On standard output, in the text format 0.0.4: gauges of these processes, and
 * counters of them and of those that ended.
 */
void prometheus_print(const struct found *found, size_t count,
		      const struct page_counters *ended);

#endif
