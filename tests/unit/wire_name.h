/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_TESTS_WIRE_NAME_H
#define LIBSDP_TESTS_WIRE_NAME_H

#include <stddef.h>

#include "sdp_proto/wire.h"

/* What a kind of message is called; NULL: there is none of that number. */
static inline const char *wire_name(unsigned int mid)
{
	switch (mid) {
#define WIRE_CASE(name, text, code, len, payload) \
	case code:                                \
		return text;
		WIRE_MESSAGES(WIRE_CASE)
#undef WIRE_CASE
	}
	return NULL;
}

#endif
