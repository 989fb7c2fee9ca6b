/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_LAUNCH_H
#define LIBSDP_TOOLS_LAUNCH_H

/* Become the program; does not return. 127: not found, 126: not to be run. */
_Noreturn void launch(char **program);

/*
 * Run the program with LIBSDP_STATS_FILE set (to what it was, else to a file
 * that lives as long), pass signals on to it, and print what it and its
 * children wrote there on standard error. Returns its exit status, or dies of
 * the signal it died of.
 */
int launch_with_stats(char **program);

#endif
