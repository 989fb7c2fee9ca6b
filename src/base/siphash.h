/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_SIPHASH_H
#define LIBSDP_BASE_SIPHASH_H

/*
 * SipHash-2-4 (Aumasson and Bernstein, 2012): a keyed hash of 64 bits. Here and
 * not from a library, because whatever libsdp.so is linked with is loaded into
 * every program.
 */

#include <stddef.h>
#include <stdint.h>

uint64_t siphash(uint64_t k0, uint64_t k1, const void *data, size_t len);

#endif
