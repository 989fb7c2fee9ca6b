/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_SECCOMP_H
#define LIBSDP_BASE_SECCOMP_H

/*
 * A filter of system calls that was there before this program began: a service
 * manager's, a container's. It allows what its program calls, and may kill for
 * what a library calls instead. Whether it does cannot be asked; so the library
 * calls nothing that the dynamic linker has not called before (openat, read,
 * close), unless LIBSDP_SECCOMP says that it may.
 */

#include <stdbool.h>

/* In the environment; "trust", or "probed:N": tried under N filters. */
#define SECCOMP_ENV "LIBSDP_SECCOMP"

#define SECCOMP_UNCOUNTED (-1) /* there are some, the kernel does not say */

/*
 * Filters in force for the caller, as `path`, a /proc/PID/status, has them.
 * 0: none, SECCOMP_UNCOUNTED, or -errno other than -EPERM: it cannot be read.
 */
int seccomp_filters(const char *path);

/* Does `word`, from the environment, allow calls under so many filters? */
bool seccomp_word(const char *word, int filters);

/*
 * Must this process be left to libc? Found out once, at the first question,
 * which is the library's first deed.
 */
bool seccomp_bars(void);

#endif
