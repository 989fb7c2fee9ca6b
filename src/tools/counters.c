/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/counters.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/reason.h"
#include "tools/ended.h"

/* Of all processes: what the sums have of one that lives is not added twice. */
static void add(struct page_counters *sum, const struct page *p, bool summed)
{
	struct page_counters now;
	const uint64_t *word = (const void *)&now, *had;
	uint64_t *to = (void *)sum;
	size_t i;

	scan_totals(p, &now);
	had = (const void *)&p->summed;
	for (i = 0; i < PAGE_WORDS; i++) {
		uint64_t less = summed ? had[i] : 0;

		ended_add(&to[i], word[i] > less ? word[i] - less : 0);
	}
}

struct style {
	bool json, zeros;
	const char *comma;
};

static void one(struct style *st, const char *name, const char *why, uint64_t n)
{
	const char *dot = why ? "." : "";

	if (!n && !st->zeros)
		return;
	if (st->json)
		printf("%s\n\"%s%s%s\":%" PRIu64, st->comma, name, dot,
		       why ? why : "", n);
	else
		printf("%s%s%-*s %" PRIu64 "\n", name, dot,
		       (int)(40 - strlen(name) - strlen(dot)), why ? why : "",
		       n);
	st->comma = ",";
}

int counters_print(pid_t pid, bool json, bool zeros)
{
	struct style st = { json, zeros, "" };
	struct page_counters sum = { 0 };
	struct found *found;
	size_t count, i;

	found = pid ? scan_pages(pid, &count) : ended_scan(&count, &sum);
	for (i = 0; i < count; i++)
		add(&sum, found[i].page, !pid);
	scan_free(found, count);
	if (pid && !count)
		return 1;
	if (json)
		printf("{");
#define X(name) one(&st, #name, NULL, sum.name);
	PAGE_COUNTERS(X)
#undef X
	for (i = 0; i < WHY_COUNT; i++)
		if (i != WHY_NONE)
			one(&st, "on_tcp", reason_name((enum reason)i),
			    sum.reasons[i]);
	for (i = 0; i < WHY_COUNT; i++)
		if (i != WHY_NONE)
			one(&st, "fallbacks", reason_name((enum reason)i),
			    sum.fallbacks_for[i]);
	if (json)
		printf("\n}\n");
	return 0;
}
