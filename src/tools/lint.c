/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/lint.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "config/rules.h"
#include "tools/out.h"

static bool every_program(const char *pattern)
{
	return !*pattern || !strcmp(pattern, "*");
}

/* Patterns are compared as texts, unless the narrower one is a plain name. */
static bool program_covers(const char *wide, const char *narrow)
{
	if (every_program(wide) || !strcmp(wide, narrow))
		return true;
	return !every_program(narrow) && !strpbrk(narrow, "*?[\\") &&
	       !fnmatch(wide, narrow, 0);
}

static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned int bits)
{
	unsigned int whole = bits / 8, rest = bits % 8;
	uint8_t mask = (uint8_t)(0xff << (8 - rest));

	return !memcmp(a, b, whole) &&
	       (!rest || !((a[whole] ^ b[whole]) & mask));
}

static bool address_covers(const struct rule *wide, const struct rule *narrow)
{
	if (!wide->family)
		return true;
	return wide->family == narrow->family &&
	       wide->prefix <= narrow->prefix &&
	       same_bits(wide->addr, narrow->addr, wide->prefix);
}

/* Does every socket that fits `narrow` fit `wide` as well? */
static bool covers(const struct rule *wide, const struct rule *narrow)
{
	return wide->role == narrow->role &&
	       program_covers(wide->program, narrow->program) &&
	       address_covers(wide, narrow) &&
	       wide->port_lo <= narrow->port_lo &&
	       wide->port_hi >= narrow->port_hi;
}

static void where(const struct config *c, const struct rule *r)
{
	char buf[256];
	struct text t = TEXT_IN(buf);

	rule_print(&t, r);
	out_clean(stdout, c->file);
	printf(":%u: `", r->line);
	out_clean(stdout, buf);
	printf("`: ");
}

/* The first rule in front of the i-th that leaves it nothing, or NULL. */
static const struct rule *before(const struct config *c, uint32_t i)
{
	uint32_t j;

	for (j = 0; j < i; j++)
		if (covers(&c->rules[j], &c->rules[i]))
			return &c->rules[j];
	return NULL;
}

/* Nothing that follows could hold instead of it. */
static bool last_of_role(const struct config *c, uint32_t i)
{
	uint32_t j;

	for (j = i + 1; j < c->nrules; j++)
		if (c->rules[j].role == c->rules[i].role)
			return false;
	return true;
}

unsigned int lint(const struct config *c)
{
	unsigned int count = 0;
	uint32_t i;

	for (i = 0; i < c->nrules; i++) {
		const struct rule *r = &c->rules[i], *b = before(c, i);

		if (b) {
			where(c, r);
			printf("never holds: line %u goes before it%s\n",
			       b->line,
			       b->use == r->use ? ", and says the same" : "");
		} else if (r->use == USE_BOTH && last_of_role(c, i)) {
			where(c, r);
			printf("changes nothing: without a rule `both` holds\n");
		} else {
			continue;
		}
		count++;
	}
	return count;
}
