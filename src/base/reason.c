/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/reason.h"

#include <string.h>

#include "base/page.h"

_Static_assert(WHY_COUNT <= sizeof(((struct page_counters *)0)->reasons) /
				    sizeof(uint64_t),
	       "struct page_counters has room for every reason");

static const struct {
	const char *name, *text;
} reasons[] = {
#define REASON(code, name, text) [WHY_##code] = { name, text },
#include "base/reason.def"
};

static const struct {
	const char *former, *name;
} aliases[] = {
#undef REASON
#define REASON(code, name, text)
#define REASON_ALIAS(former, name) { former, name },
#include "base/reason.def"
#undef REASON
};

const char *reason_name(enum reason why)
{
	return (unsigned int)why < WHY_COUNT ? reasons[why].name : "?";
}

const char *reason_text(enum reason why)
{
	return (unsigned int)why < WHY_COUNT ? reasons[why].text : "?";
}

enum reason reason_find(const char *name)
{
	size_t i;
	int why;

	for (i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (!strcmp(aliases[i].former, name))
			name = aliases[i].name;
	for (why = 0; why < WHY_COUNT; why++)
		if (!strcmp(reasons[why].name, name))
			break;
	return (enum reason)why;
}
