/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_STORY_H
#define LIBSDP_TOOLS_STORY_H

/* What happened to a process's connections: its flight recorder (event.h). */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * An event a line, the oldest first. A process that was killed is read from
 * what it left. 0; 1: nothing is known of it.
 */
int story_log(pid_t pid, bool json);

/*
 * In sentences: where the socket that is number `fd` of the process is, why,
 * and how it came there. 0; 1: there is none.
 */
int story_why(pid_t pid, int64_t fd);

#endif
