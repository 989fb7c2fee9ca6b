/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_PCAPNG_H
#define LIBSDP_BASE_PCAPNG_H

/*
 * Capture files (pcapng): one section, one Ethernet interface, times in
 * nanoseconds. Several processes append to one file, a whole block by each
 * write, so no block holds anything that depends on the one before it. Native
 * byte order, as the format has it. Async-signal-safe.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PCAPNG_HEAD   72 /* bytes of what a file begins with */
#define PCAPNG_BEFORE 28 /* of what stands in front of a packet */
#define PCAPNG_BEHIND 7 /* at most, behind it */

/* The section and its interface; returns PCAPNG_HEAD. */
size_t pcapng_head(uint8_t *buf);
/*
 * In front of a packet of `len` bytes, of which `have` are in the file, seen
 * at `ns` since 1970; returns PCAPNG_BEFORE.
 */
size_t pcapng_before(uint8_t *buf, uint64_t ns, uint32_t have, uint32_t len);
/* Behind it; returns the length, PCAPNG_BEHIND at most. */
size_t pcapng_behind(uint8_t *buf, uint32_t have);

/*
 * Open a file for appending: a regular one of this user's, with one name and no
 * symbolic link, made with mode 0600 where there is none. An empty one gets its
 * head. `anew`: a capture that is there is overwritten.
 * Returns a descriptor, close-on-exec; -EPERM: of another kind or user;
 * -EEXIST: has something in it that is no capture; -EFBIG, -ENOSPC: no room
 * for the head; or what open() says (-ELOOP: a link).
 */
int pcapng_open(const char *path, bool anew);
/* What that, or a write, means; static text. */
const char *pcapng_why(int err);

#endif
