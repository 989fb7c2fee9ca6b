/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef TEST_VERBS_UTIL_H
#define TEST_VERBS_UTIL_H

/* For the tests of single files of the module: what these say is kept. */

#include <stdarg.h>

#include "base/text.h"
#include "fabric/verbs/int.h"

static char said[1024]; /* the last line */
static int lines;

void verbs_say(const struct verbs *of, int level, const char *fmt, ...)
{
	struct text t = TEXT_IN(said);
	va_list ap;

	(void)of;
	(void)level;
	va_start(ap, fmt);
	text_vadd(&t, fmt, ap);
	va_end(ap);
	lines++;
}

#endif
