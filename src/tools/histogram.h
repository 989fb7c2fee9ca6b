/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_HISTOGRAM_H
#define LIBSDP_TOOLS_HISTOGRAM_H

/* The histograms of a page: sizes of messages, waits (base/page.h). */

#include "tools/scan.h"

/* Those of a process as bars, within 80 columns; empty ones are left out. */
void histogram_print(const struct found *f);
/* A member of a JSON object, with the comma in front. */
void histogram_json(const struct page_counters *c);
/* As Prometheus has them, in bytes and seconds. */
void histogram_prometheus(const struct page_counters *c);

#endif
