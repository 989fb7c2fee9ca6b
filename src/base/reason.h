/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_REASON_H
#define LIBSDP_BASE_REASON_H

/*
 * Why a socket is where it is. One list, reason.def; documented in libsdp(7).
 */
enum reason {
#define REASON(code, name, text) WHY_##code,
#include "base/reason.def"
#undef REASON
	WHY_COUNT
};

/* Never NULL; unknown codes give "?". */
const char *reason_name(enum reason why);
const char *reason_text(enum reason why);
/* By its name, present or former; WHY_COUNT: there is none of that name. */
enum reason reason_find(const char *name);

#endif
