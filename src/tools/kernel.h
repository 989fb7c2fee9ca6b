/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_KERNEL_H
#define LIBSDP_TOOLS_KERNEL_H

/* The TCP sockets that the kernel lists: /proc/PID/net/tcp and tcp6. */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/page.h"

/* The inode of a descriptor of that process, by name; 0: it is no socket. */
uint64_t kernel_inode(pid_t pid, const char *fd);

/*
 * All sockets of that process's network that have a peer or listen, by inode:
 * inode, names and state. NULL and 0: none, or it may not be looked at. They are
 * read once for processes that follow one another in a network, and good until
 * another is asked for or they are forgotten.
 */
const struct page_row *kernel_rows(pid_t pid, size_t *count);
void kernel_forget(void);

/*
 * A process asks for a connection's names only when these are needed: rows of
 * its page without any get those that the kernel knows, and its state.
 */
void kernel_names(pid_t pid, struct page *page);

#endif
