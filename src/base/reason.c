/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "base/reason.h"

#include "base/page.h"

_Static_assert(WHY_COUNT <= sizeof(((struct page_counters *)0)->reasons) /
				    sizeof(uint64_t),
	       "struct page_counters has room for every reason");

static const struct {
	const char *name, *text;
} reasons[] = {
#define REASON(code, name, text) [WHY_##code] = { name, text },
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
