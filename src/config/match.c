/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <stdbool.h>

#include "config/config.h"
#include "config/rules.h"

void config_bind(struct config *c)
{
	uint32_t i;

	for (i = 0; i < c->nrules; i++)
		c->rules[i].mine =
			rule_program(&c->rules[i], c->program, c->exe);
}

static void match_tried(const struct rule *r, const struct rule_addr *a,
			const char *miss)
{
	char buf[256];
	struct text t = TEXT_IN(buf);

	text_add(&t, "MATCH: matching ");
	rule_print_addr(&t, a);
	text_add(&t, " line %u `", r->line);
	rule_print(&t, r);
	if (miss)
		text_add(&t, "`: NEGATIVE by %s", miss);
	else
		text_add(&t, "`: POSITIVE");
	log_at(LOG_TRY, "%s", buf);
}

static void match_result(enum rule_role role, const struct rule_addr *a,
			 struct verdict v)
{
	char buf[128];
	struct text t = TEXT_IN(buf);

	rule_print_addr(&t, a);
	text_add(&t, ": ");
	rule_print_verdict(&t, v);
	log_at(LOG_MATCH, "MATCH %s: => %s",
	       role == ROLE_SERVER ? "LISTEN" : "CONNECT", buf);
}

struct verdict config_match(const struct config *c, enum rule_role role,
			    const struct sockaddr *sa)
{
	struct verdict v = { .use = c->simple ? USE_SDP : USE_BOTH };
	struct rule_addr a;
	const char *miss;
	uint32_t i;

	rule_addr_from(&a, sa);
	for (i = 0; !c->simple && i < c->nrules; i++) {
		const struct rule *r = &c->rules[i];

		miss = rule_miss(r, role, &a);
		if (log_on(LOG_TRY) && r->role == role)
			match_tried(r, &a, miss);
		if (miss)
			continue;
		v.use = r->use;
		v.line = r->line;
		break;
	}
	if (log_on(LOG_MATCH))
		match_result(role, &a, v);
	return v;
}

bool config_concerns(const struct config *c, enum rule_role role)
{
	uint32_t i;

	if (c->disabled || (c->secure && !settings.allow_setuid))
		return false;
	for (i = 0; !c->simple && i < c->nrules; i++) {
		const struct rule *r = &c->rules[i];

		if (r->role == role && r->mine)
			return r->use != USE_TCP || !rule_wide(r);
	}
	return true;
}
