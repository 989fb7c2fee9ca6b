/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_PROC_H
#define LIBSDP_BASE_PROC_H

/*
 * Small files of /proc, with system calls and the caller's buffer only: usable
 * wherever text.h is.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Reads the file that `path`, a format of text_add(), names into `buf`, which
 * then holds a string: what one read() gives and `size` has room for, and
 * nothing when it fails. Returns the length, or -errno: -ENOENT when the
 * process or thread is gone (or /proc is not there), -ESRCH when it went after
 * the file was opened.
 */
ssize_t proc_read(char *buf, size_t size, const char *path, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Of what PID/stat or task/TID/stat holds: what follows the name, the letter
 * of the state first (field 3). "" when there is none.
 */
const char *proc_state(const char *stat);
/* The state of process or thread `id`: its letter, 'X' if gone, 0: unknown. */
char proc_state_of(int id);

/* How many threads process `pid` has, the first one included; 0: unknown. */
unsigned int proc_threads(int pid);
/*
 * Has process `pid` ended, whether its parent has waited for it or not? One
 * whose first thread has ended alone has not. False where it cannot be told.
 * No descriptor is used.
 */
bool proc_ended(int pid);

/*
 * The number behind `name` ("VmLck:") and blanks, at the beginning of a line of
 * `path`, of any length: 0, -ENOENT when there is no such line, or what the
 * kernel answered. Neither memory nor libc; `path` may be of any length, too.
 */
int proc_field(const char *path, const char *name, uint64_t *value);
/* A file that is a number; anything behind it is ignored. */
int proc_value(const char *path, uint64_t *value);

#endif
