/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_STRAY_H
#define LIBSDP_TOOLS_STRAY_H

/*
 * The TCP sockets of a process that the library does not follow, as the kernel
 * lists them: it knows their names, not what moved.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/page.h"

/* Has the process loaded the library? No, too, when it may not be looked at. */
bool stray_suspect(pid_t pid);

/* Such a process has connections on SDP within this host. */
bool stray_lifted(pid_t pid);

/* Under a filter of system calls a process is let alone altogether. */
bool stray_filtered(pid_t pid);

/* The sockets of all rows of a page of that process are followed. */
void stray_follow(pid_t pid, const struct page *page);

/* The path of a stray that may be on SDP: its process shows too little. */
#define PATH_UNSEEN UINT8_MAX

/*
 * The others of that process that are connected or listen, one row each,
 * WHY_UNMANAGED. After every stray_follow(). The caller frees the array.
 */
struct page_row *stray_rows(pid_t pid, const struct page *page, size_t *count);

#endif
