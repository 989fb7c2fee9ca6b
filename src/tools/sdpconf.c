/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include <argp.h>
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "config/config.h"
#include "config/rules.h"
#include "tools/convert.h"
#include "tools/lint.h"
#include "tools/out.h"
#include "tools/program.h"
#include "tools/reload.h"
#include "tools/suggest.h"

#define SYSTEM_FILE SYSCONFDIR "/libsdp.conf"

/* Read by argp, inside libc. */
__attribute__((visibility("default")))
const char *argp_program_version = "sdpconf (libsdp) " PACKAGE_VERSION;

struct options {
	bool json, apply;
	uint64_t timeout_ms;
	const char *root;
	enum rule_role role;
	const char *program;
	const char *words[4]; /* the command and what follows */
	unsigned int count;
};

/* --- check ------------------------------------------------------------ */

static void print_error(const struct config_error *e, void *arg)
{
	const char *meant = e->level == LOG_ERR ? suggest(e->token) : NULL;
	int *quiet = arg;

	if (*quiet)
		return;
	out_clean(stderr, e->file);
	fprintf(stderr, ":%u:%u: %s: `", e->line, e->column,
		e->level == LOG_WARN ? "warning" : "error");
	out_clean(stderr, e->token);
	fprintf(stderr, "`: expected %s", e->expected);
	if (meant)
		fprintf(stderr, "; did you mean `%s`?", meant);
	fputc('\n', stderr);
}

static const char *file_error(int bad)
{
	switch (bad) {
	case -EFBIG:
		return "larger than 16 MiB";
	case -EILSEQ:
		return "not a text file";
	case -EINVAL:
	case -ENXIO:
		return "not a regular file";
	default:
		return strerror(-bad);
	}
}

/*
 * Ends when nothing could be read; else the number of bad lines. A file that
 * was not named need not be there: c->file stays empty.
 */
static int load(struct config *c, const char *file, bool named, int quiet)
{
	int bad = config_parse(c, &settings, file, print_error, &quiet);

	if (bad == -ENOENT && !named)
		return 0;
	if (bad < 0)
		errx(1, "%s: %s", file, file_error(bad));
	text_copy(c->file, sizeof(c->file), file);
	return bad;
}

static int do_check(const struct options *o)
{
	const char *file = o->count > 1 ? o->words[1] : SYSTEM_FILE;
	static struct config c;
	uint32_t i, servers = 0;
	int bad = load(&c, file, true, 0);

	if (bad) {
		fprintf(stderr, "%s: %d bad line%s\n", file, bad,
			bad == 1 ? "" : "s");
		return 1;
	}
	for (i = 0; i < c.nrules; i++)
		servers += c.rules[i].role == ROLE_SERVER;
	printf("%s: fine: %u server and %u client rules\n", file, servers,
	       c.nrules - servers);
	return 0;
}

/* --- lint, convert ----------------------------------------------------- */

static int do_lint(const struct options *o)
{
	const char *file = o->count > 1 ? o->words[1] : SYSTEM_FILE;
	static struct config c;
	int bad = load(&c, file, true, 0);
	unsigned int found = lint(&c);

	if (!bad && !found)
		printf("%s: nothing found in %u rules\n", file, c.nrules);
	return bad || found;
}

static int do_convert(const struct options *o)
{
	if (o->count < 2)
		errx(EX_USAGE, "convert: expected FILE");
	return convert(o->words[1]);
}

/* --- explain ---------------------------------------------------------- */

/* "192.0.2.1:80", "[::1]:80", "::1:80", "host:80" */
static void resolve(const char *target, struct rule_addr *a)
{
	struct addrinfo hint = { .ai_socktype = SOCK_STREAM }, *list;
	char host[256];
	const char *colon = strrchr(target, ':');
	size_t len = colon ? (size_t)(colon - target) : 0, digits = 0;
	uint64_t port;
	int bad;

	if (colon)
		digits = text_number(colon + 1, 65535, &port);
	if (!len || len >= sizeof(host) || !digits || colon[1 + digits])
		errx(EX_USAGE, "%s: expected ADDRESS:PORT", target);
	if (target[0] == '[' && target[len - 1] == ']') {
		target++;
		len -= 2;
	}
	memcpy(host, target, len);
	host[len] = '\0';
	bad = getaddrinfo(host, colon + 1, &hint, &list);
	if (bad)
		errx(2, "%s: %s", host, gai_strerror(bad));
	rule_addr_from(a, list->ai_addr);
	freeaddrinfo(list);
}

/* One rule of the role that was asked; `comma` for JSON. */
static void print_tried(const struct options *o, const struct rule *r,
			const char *miss, struct table *t, const char *comma)
{
	char buf[256];
	struct text rule = TEXT_IN(buf);

	rule_print(&rule, r);
	if (o->json) {
		printf("%s{\"line\":%u,\"rule\":", comma, r->line);
		out_json(stdout, buf);
		printf(",\"miss\":");
		if (miss)
			out_json(stdout, miss);
		else
			printf("null");
		printf("}");
		return;
	}
	table_cell(t, "%u", r->line);
	table_cell(t, "%s", buf);
	if (miss)
		table_cell(t, "no, another %s", miss);
	else
		table_cell(t, "yes");
}

/* The rule that decides, or NULL. */
static const struct rule *try_rules(const struct options *o,
				    const struct config *c,
				    const struct rule_addr *a, struct table *t)
{
	const char *miss, *comma = "";
	uint32_t i;

	for (i = 0; i < c->nrules; i++) {
		const struct rule *r = &c->rules[i];

		if (r->role != o->role)
			continue;
		miss = rule_miss(r, o->role, a);
		print_tried(o, r, miss, t, comma);
		comma = ",";
		if (!miss)
			return r;
	}
	return NULL;
}

static void explain_text(const struct options *o, const struct config *c,
			 const struct rule_addr *a, const char *address)
{
	struct table *t = c->nrules ? table_new("Line>|Rule|Fits") : NULL;
	const struct rule *r = try_rules(o, c, a, t);

	printf("%s: %s %s %s\n", c->file[0] ? c->file : "no " SYSTEM_FILE,
	       c->program[0] ? c->program : "any program",
	       o->role == ROLE_SERVER ? "listens on" : "connects to", address);
	if (t)
		table_print(t, stdout);
	if (r)
		printf("=> %s, by line %u\n", rule_use_name(r->use), r->line);
	else
		printf("=> both, because no rule fits\n");
}

static void explain_json(const struct options *o, const struct config *c,
			 const struct rule_addr *a, const char *address)
{
	const struct rule *r;

	printf("{\"file\":");
	if (c->file[0])
		out_json(stdout, c->file);
	else
		printf("null");
	printf(",\"program\":");
	out_json(stdout, c->program);
	printf(",\"role\":\"%s\",\"address\":\"%s\",\"tried\":[",
	       rule_role_name(o->role), address);
	r = try_rules(o, c, a, NULL);
	printf("],\"use\":\"%s\",\"line\":%u}\n",
	       rule_use_name(r ? r->use : USE_BOTH), r ? r->line : 0);
}

/* What in this environment would go before the file. */
static void warn_environment(void)
{
	static const char *const names[] = { "LIBSDP_DISABLE", "SIMPLE_LIBSDP",
					     "ALWAYS_USE_SDP", "LIBSDP_USE" };
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (i ? getenv(names[i]) != NULL :
			config_told_off(getenv(names[i])))
			warnx("note: %s is set and goes before the file",
			      names[i]);
}

static int do_explain(const struct options *o)
{
	static struct config c;
	const char *file = o->words[2];
	struct program program;
	bool named = true;
	struct rule_addr a;
	char buf[128];
	struct text address = TEXT_IN(buf);

	if (o->count < 2)
		errx(EX_USAGE, "explain: expected ADDRESS:PORT");
	if (!file)
		file = getenv("LIBSDP_CONFIG_FILE");
	if (!file) {
		file = SYSTEM_FILE;
		named = false;
	}
	if (o->program && !program_read("", o->program, &program))
		program_names(&program, o->program, &c);
	else if (o->program)
		text_copy(c.program, sizeof(c.program),
			  text_base_name(o->program));
	resolve(o->words[1], &a);
	rule_print_addr(&address, &a);
	warn_environment();
	if (load(&c, file, named, 1))
		warnx("note: %s has bad lines; `sdpconf check` prints them",
		      file);
	if (o->json)
		explain_json(o, &c, &a, buf);
	else
		explain_text(o, &c, &a, buf);
	return 0;
}

/* --- reload ----------------------------------------------------------- */

static int do_reload(const struct options *o)
{
	return reload(&(struct reload){
		.what = o->words[1],
		.root = o->root,
		.apply = o->apply,
		.json = o->json,
		.timeout_ms = (unsigned int)o->timeout_ms,
	});
}

/* "2", "0.5": milliseconds. */
static bool seconds(const char *text, uint64_t *ms)
{
	uint64_t s = 0, part = 0;
	size_t n = text_number(text, 3600, &s), digits = 0;

	if (!n)
		return false;
	if (text[n] == '.') {
		for (text += n + 1; *text >= '0' && *text <= '9'; text++)
			if (digits < 3) {
				part = part * 10 + (uint64_t)(*text - '0');
				digits++;
			}
		for (n = 0; digits < 3; digits++)
			part *= 10;
	}
	*ms = s * 1000 + part;
	return !text[n];
}

/* --- settings --------------------------------------------------------- */

static void print_setting_json(uint32_t i, const char *def)
{
	const struct setting_info *s = &settings_table[i];

	printf("%s{\"name\":\"%s\",\"default\":", i ? "," : "", s->name);
	if (s->check) {
		printf("\"%s\",\"form\":", def);
		out_json(stdout, s->unit);
	} else if (s->words) {
		printf("\"%s\",\"words\":\"%s\"", def, s->words);
	} else {
		printf("%s,\"min\":%ld,\"max\":%ld,\"unit\":\"%s\"", def,
		       (long)s->min, (long)s->max, s->unit);
	}
	printf(",\"what\":");
	out_json(stdout, s->what);
	printf("}");
}

static int do_settings(const struct options *o)
{
	struct table *t = NULL;
	char def[SETTING_LEN];
	uint32_t i;

	if (o->json)
		printf("[");
	else
		t = table_new("Setting|Default>|Range|Effect");
	for (i = 0; i < settings_count; i++) {
		const struct setting_info *s = &settings_table[i];

		settings_get(&settings, i, def, sizeof(def));
		if (o->json) {
			print_setting_json(i, def);
			continue;
		}
		table_cell(t, "%s", s->name);
		table_cell(t, "%s", def);
		if (s->words)
			table_cell(t, "%s", s->words);
		else if (s->check)
			table_cell(t, "%s", s->unit);
		else
			table_cell(t, "%ld-%ld %s", (long)s->min, (long)s->max,
				   s->unit);
		table_cell(t, "%s", s->what);
	}
	if (o->json)
		printf("]\n");
	else
		table_print(t, stdout);
	return 0;
}

/* --- commands --------------------------------------------------------- */

static const struct {
	const char *name;
	int (*run)(const struct options *o);
	unsigned int most; /* words, the command included */
} commands[] = {
	{ "check", do_check, 2 },	{ "explain", do_explain, 3 },
	{ "lint", do_lint, 2 },		{ "convert", do_convert, 2 },
	{ "settings", do_settings, 1 }, { "reload", do_reload, 2 },
};

enum {
	KEY_CLIENT = 256,
	KEY_SERVER,
	KEY_JSON,
	KEY_APPLY,
	KEY_TIMEOUT,
	KEY_ROOT
};

static error_t option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'p':
		o->program = arg;
		return 0;
	case KEY_CLIENT:
		o->role = ROLE_CLIENT;
		return 0;
	case KEY_SERVER:
		o->role = ROLE_SERVER;
		return 0;
	case KEY_JSON:
		o->json = true;
		return 0;
	case KEY_APPLY:
		o->apply = true;
		return 0;
	case KEY_TIMEOUT:
		if (!seconds(arg, &o->timeout_ms))
			argp_error(state, "%s: expected seconds, up to 3600",
				   arg);
		return 0;
	case KEY_ROOT:
		o->root = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (o->count >= 3)
			argp_error(state, "too many words: %s", arg);
		o->words[o->count++] = arg;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(
			state,
			"expected check, explain, lint, convert, settings or "
			"reload");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option option_list[] = {
	{ "program", 'p', "NAME", 0, "explain for this program", 0 },
	{ "client", KEY_CLIENT, NULL, 0, "a connecting program (default)", 0 },
	{ "server", KEY_SERVER, NULL, 0, "a listening program", 0 },
	{ "json", KEY_JSON, NULL, 0, "print JSON (explain, settings, reload)",
	  0 },
	{ "apply", KEY_APPLY, NULL, 0,
	  "reload: for connections that exist, too", 0 },
	{ "timeout", KEY_TIMEOUT, "SECONDS", 0,
	  "reload: wait so long for answers (2)", 0 },
	{ "root", KEY_ROOT, "DIR", 0, "reload: units of the system below DIR",
	  0 },
	{ NULL, 0, NULL, 0, NULL, 0 },
};

static const struct argp argp = {
	.options = option_list,
	.parser = option,
	.args_doc = "check [FILE]\nexplain ADDRESS:PORT [FILE]\nlint [FILE]\n"
		    "convert FILE\nsettings\nreload [PID|UNIT]",
	.doc = "Check libsdp.conf, explain its decisions, find rules that never "
	       "hold, convert those of other libraries, list the settings, have "
	       "processes read their rules again.",
};

int main(int argc, char **argv)
{
	struct options o = { .root = "", .timeout_ms = 2000 };
	size_t i;

	argp_parse(&argp, argc, argv, 0, NULL, &o);
	for (i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		if (strcmp(o.words[0], commands[i].name))
			continue;
		if (o.count > commands[i].most)
			errx(EX_USAGE, "%s: too many words", o.words[0]);
		i = (size_t)commands[i].run(&o);
		if (fflush(stdout) || ferror(stdout))
			err(2, "standard output");
		return (int)i;
	}
	errx(EX_USAGE,
	     "%s: expected check, explain, lint, convert, settings or reload",
	     o.words[0]);
}
