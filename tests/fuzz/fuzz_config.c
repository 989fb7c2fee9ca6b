/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "fuzz.h"

#include <netinet/in.h>

#include "base/text.h"
#include "config/config.h"
#include "config/rules.h"

/*
 * The rule parser under any bytes. Beyond not crashing: complaints name a
 * line that exists, a rule that was accepted is sound, and printed and parsed
 * again it is the same rule.
 */

const struct target target = { "config", 3000, 1000 };

static uint32_t lines;
static int errors;

static void say(const struct config_error *e, void *arg)
{
	(void)arg;
	must(e->line >= 1 && e->line <= lines && e->column >= 1);
	must(e->token[0] && e->expected[0]);
	errors += e->level == LOG_ERR;
}

static void check_again(const struct rule *r)
{
	static struct config again;
	struct settings s = settings;
	char buf[512];
	struct text t = TEXT_IN(buf);
	const struct rule *same;

	must(r->port_lo <= r->port_hi);
	must(r->family == 0 || (r->family == AF_INET && r->prefix <= 32) ||
	     (r->family == AF_INET6 && r->prefix <= 128));
	rule_print(&t, r);
	must(!config_parse_text(&again, &s, "again", buf, t.len, NULL, NULL));
	must(again.nrules == 1);
	same = &again.rules[0];
	must(same->use == r->use && same->role == r->role);
	must(same->family == r->family && same->prefix == r->prefix);
	must(!memcmp(same->addr, r->addr, sizeof(r->addr)));
	must(same->port_lo == r->port_lo && same->port_hi == r->port_hi);
	again.nrules = 0;
}

static void check_settings(struct settings *s)
{
	const char *expect;
	char buf[SETTING_LEN];
	uint32_t i;

	for (i = 0; i < settings_count; i++) {
		settings_get(s, i, buf, sizeof(buf));
		must(!settings_set(s, settings_table[i].name, buf, &expect));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sockaddr_in6 sa = { .sin6_family = AF_INET6 };
	static struct config c;
	struct settings s = settings;
	uint32_t i;
	int bad;

	memset(&c, 0, sizeof(c));
	strcpy(c.program, "prog");
	lines = 1;
	for (i = 0; i < size; i++)
		lines += data[i] == '\n';
	errors = 0;
	bad = config_parse_text(&c, &s, "fuzz", (const char *)data, size, say,
				NULL);
	must(bad == errors);
	for (i = 0; i < c.nrules; i++)
		check_again(&c.rules[i]);
	check_settings(&s);
	config_match(&c, ROLE_CLIENT, (const struct sockaddr *)&sa);
	config_match(&c, ROLE_SERVER, (const struct sockaddr *)&sa);
	config_release(&c);
	return 0;
}
