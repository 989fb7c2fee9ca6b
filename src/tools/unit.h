/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_UNIT_H
#define LIBSDP_TOOLS_UNIT_H

/*
 * A systemd service with or without the library: a drop-in
 * UNIT.d/50-libsdp.conf below /etc/systemd/system, of the system whose files
 * lie below `root` ("": this one). Nothing is started or stopped; what is to be
 * done is said. Needs no systemd.
 */

/*
 * Keeps a LD_PRELOAD that is there. 0: it is written, or was there; 1: it
 * cannot work, nothing was changed; 2: it cannot be written. `rules` may be
 * NULL.
 */
int unit_enable(const char *root, const char *name, const char *rules);
/* 0: it is gone; 1: it was not there; 2: it cannot be removed. */
int unit_disable(const char *root, const char *name);

#endif
