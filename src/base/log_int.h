/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_LOG_INT_H
#define LIBSDP_BASE_LOG_INT_H

#include <stddef.h>

/* The file behind LOG_TO_FILE; used by log.c alone. */

/* Sets the name; 0, -EINVAL or -ENAMETOOLONG. Forgets an open file. */
int logfile_name(const char *name);
/* The path that belongs to the name and user. */
const char *logfile_path(void);
/* 0 when the file is open and safe, else why not. */
int logfile_open(void);
/* 0 when the whole line went into the file. */
int logfile_append(const char *line, size_t len);
/* In a forked child: another thread of the parent may hold the lock. */
void logfile_forked(void);

#endif
