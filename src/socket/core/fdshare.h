/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_SOCKET_CORE_FDSHARE_H
#define LIBSDP_SOCKET_CORE_FDSHARE_H

/* How many descriptors the library may have; any thread, no lock. */

#include <stdbool.h>
#include <stdint.h>
#include "socket/core/core.h"

/* Of so many that the program may have: a sixteenth, at least a few. */
uint32_t fd_share_of(uint64_t limit);
/* The share as it is now, less for a while behind fd_share_short(). */
uint32_t fd_share(void);
/*
 * Before a connection is lifted, which takes a descriptor: is there one left?
 * The limit is read now and then.
 */
bool fd_share_left(void);
#define FD_SHARE_LOOKS 64 /* calls until it is asked again */
/* RLIMIT_NOFILE was changed. */
void fd_share_learn(void);
/* The program was short of a descriptor: for a second no more than now. */
void fd_share_short(void);

bool fd_vacate(int fd); /* fdhide.c lets go of it, by fd_move() */
bool service_vacate(int fd); /* service.c lets go of it, by fd_move() */
uint32_t fd_hidden_count(void); /* fdhide.c: those that the library has */

#endif
