/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_UID_H
#define LIBSDP_BASE_UID_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Is `uid` what the kernel shows for users that our user namespace does not
 * know? Where every user is known (the initial namespace maps all 2^32 - 1)
 * the number is a user like any other.
 */
bool uid_unmapped(uint32_t uid);

#endif
