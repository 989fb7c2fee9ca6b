/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_COUNTERS_H
#define LIBSDP_TOOLS_COUNTERS_H

/*
 * A counter a line, as nstat(8) has it: "fallbacks.requested 3". Without a
 * process those of all, the ended ones included. `zeros`: also what is 0.
 */

#include <stdbool.h>
#include <sys/types.h>

/* 0; 1: process `pid` shows nothing. */
int counters_print(pid_t pid, bool json, bool zeros);

#endif
