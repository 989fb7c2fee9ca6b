/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_UCOPY_H
#define LIBSDP_BASE_UCOPY_H

/*
 * Copies from or to memory of the program, which may be gone or not let itself
 * be written to, whatever was found when it was last looked at. A copy is a
 * marked range of instructions: a SIGSEGV or SIGBUS in it ends the copy, and no
 * handler hears of it. So it is as with the kernel's copies, as long as the
 * signal's handler is sigdefer_entry() and the thread does not block it.
 */

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * n bytes; the two do not overlap. False: it faulted, and what of the n bytes
 * at `to` was written is not known.
 */
bool ucopy(void *to, const void *from, size_t n);

/*
 * For an entry: the fault in `context` is a copy's, and behind the entry that
 * copy ends. Async-signal-safe; looks at nothing but `context`.
 */
bool ucopy_ends(int sig, const siginfo_t *si, void *context);

#endif
