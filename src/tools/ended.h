/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_ENDED_H
#define LIBSDP_TOOLS_ENDED_H

/* What processes counted that have ended: the files of sums (base/sums.h). */

#include "tools/scan.h"

/*
 * All processes (scan_pages()), and in *ended what those counted that are not
 * among them any more: nothing twice and nothing missing, though processes end
 * meanwhile. Sums of other users are taken where they may be read (root); what
 * another user wrote there is that user's word, as a page is. A file with a
 * counter that no program comes to is left out.
 */
struct found *ended_scan(size_t *count, struct page_counters *ended);

/*
 * Remove the page of a process that has ended; what it counted goes to the sums
 * of its user, whose rights root takes for it: no file of another user is
 * mapped here.
 */
void ended_retire(const char *path, const struct page *p);

/* *to += n, UINT64_MAX at most; not an n that no program comes to. */
void ended_add(uint64_t *to, uint64_t n);

#endif
