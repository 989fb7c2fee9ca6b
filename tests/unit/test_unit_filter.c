/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* SystemCallFilter= as systemd reads it, and what of lifting is in its way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/probe.h"
#include "tools/unit_filter.h"

/* Every call that is tried, but two, and groups around them. */
static char groups[8192];

#define NEEDED "splice"
#define SPARE  "mincore"

static int make_groups(void **state)
{
	FILE *f = fmemopen(groups, sizeof(groups), "w");
	const char *name;
	bool spare;
	size_t i;

	(void)state;
	fprintf(f, "@default\n    # always\n    futex\n\n@most\n    # most\n");
	for (i = 0; probe_call(i, &name, &spare); i++)
		if (strcmp(name, NEEDED) && strcmp(name, SPARE))
			fprintf(f, "    %s\n", name);
	fprintf(f, "\n@all\n    # all\n    @most\n    @pipes\n    " SPARE "\n");
	fprintf(f, "\n@pipes\n    # pipes\n    tee\n    " NEEDED "\n");
	fprintf(f, "\n@round\n    @round\n");
	fclose(f);
	return 0;
}

static void judged(const char *lines, const char *error, const char *barred,
		   bool kills)
{
	struct filter_verdict v;

	filter_judge(lines, error, groups, &v);
	assert_string_equal(v.unknown, "");
	assert_string_equal(v.barred, barred);
	assert_int_equal(v.kills, kills);
}

static void nothing_is_barred(void **state)
{
	(void)state;
	judged("", "", "", false);
	judged("@all\n", "", "", false);
	judged("@most splice\nmincore\n", "", "", false);
	judged("~tee\n", "", "", false);
	judged("read\n\n", "", "", false); /* voided */
	judged("read\n\n@all\n", "", "", false);
}

static void what_is_left_out(void **state)
{
	(void)state;
	judged("@most\n", "", "splice mincore", true);
	judged("@most mincore\n", "kill", "splice", true);
	/* where it is refused only, a spare one is of no matter */
	judged("@most\n", "EPERM", "splice", false);
	judged("@most splice\n", "EPERM", "", false);
}

static void what_is_taken_away(void **state)
{
	(void)state;
	judged("@all\n~@pipes\n", "", "splice", true);
	judged("@all\n~ @pipes mincore\nsplice\n", "", "mincore", true);
	judged("~@pipes\n", "", "splice", true);
	judged("~@pipes\nsplice\n", "", "", false);
	judged("~@pipes:EPERM\n", "", "splice", false);
	judged("~splice:EPERM mincore:EPERM\n", "", "splice", false);
	judged("~splice:kill\n", "", "splice", true);
	judged("~futex\n", "", "futex", true);
	judged("@all\n~futex\n@default\n", "", "", false);
}

static void what_is_not_known(void **state)
{
	struct filter_verdict v;

	(void)state;
	filter_judge("@all\n~@secret\n", "", groups, &v);
	assert_string_equal(v.unknown, "@secret");
	assert_string_equal(v.barred, "");
	assert_false(v.kills);
	filter_judge("read\n", "", NULL, &v);
	assert_string_equal(v.unknown, "@default");
	filter_judge("~splice\n", "", NULL, &v);
	assert_string_equal(v.unknown, "");
	assert_string_equal(v.barred, "splice");
	filter_judge("@round\n", "", groups, &v);
	assert_string_equal(v.unknown, "@round");
	filter_judge("@mos\n", "", groups, &v);
	assert_string_equal(v.unknown, "@mos");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_barred),
		cmocka_unit_test(what_is_left_out),
		cmocka_unit_test(what_is_taken_away),
		cmocka_unit_test(what_is_not_known),
	};

	return cmocka_run_group_tests(tests, make_groups, NULL);
}
