/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TOOLS_NAMES_H
#define LIBSDP_TOOLS_NAMES_H

/* Words for what is in a row of a page; anything may stand there: `?`. */

#include <stdbool.h>
#include <stddef.h>

#include "base/page.h"

const char *path_name(uint8_t path);
const char *state_name(uint32_t state);
const char *rule_name(uint8_t rule); /* `-`: not known */
const char *role_name(uint8_t role);
/* "192.0.2.1:80", "[2001:db8::1]:80", or `-`; `buf` has 64 bytes. */
const char *addr_text(const struct page_addr *a, char *buf, size_t size);

/* The other way round; -1: no such word. States have ss(8)'s words, too. */
int path_find(const char *name);
int state_find(const char *name);

/* Does it stand for a socket? */
static inline bool row_used(const struct page_row *r)
{
	return r->fd >= 0;
}

#endif
