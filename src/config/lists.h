/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_CONFIG_LISTS_H
#define LIBSDP_CONFIG_LISTS_H

/*
 * Settings that are lists: entries with commas between them, in one word of
 * the file. They are kept as they were written, and read whenever a caller
 * asks, which is seldom. Pure; any thread.
 */

#include <stdbool.h>
#include <stddef.h>

struct sockaddr;

/* "192.0.2.0/24,2001:db8::7", or "none". */
bool list_nets_sound(const char *list);
/* Is that address (v4-mapped: as IPv4) in one of the networks? */
bool list_nets_have(const char *list, const struct sockaddr *sa);

/* "mlx5_0,mlx5_1", or "any": names as in /sys/class/infiniband. */
bool list_names_sound(const char *list);
bool list_names_have(const char *list, const char *name);

#endif
