/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "config/parse.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "base/scratch.h"
#include "base/sys.h"
#include "base/text.h"
#include "config/rules.h"

static const char blanks[] = " \t";

void parse_blanks(struct parser *ps)
{
	ps->at += strspn(ps->at, blanks);
}

bool parse_fail(struct parser *ps, const char *wrong, const char *expected)
{
	ps->wrong = wrong + strspn(wrong, blanks);
	ps->expected = expected;
	return false;
}

bool parse_word(struct parser *ps, const char *word)
{
	size_t n = strlen(word);

	parse_blanks(ps);
	if (strncmp(ps->at, word, n))
		return false;
	if (ps->at[n] && ps->at[n] != '#' && !strchr(blanks, ps->at[n])) {
		ps->doubtful = ps->at;
		ps->doubt = "a blank behind the word that it begins with "
			    "(taken for two words, as of old)";
	}
	ps->at += n;
	return true;
}

bool parse_end(struct parser *ps)
{
	parse_blanks(ps);
	if (*ps->at && *ps->at != '#')
		return parse_fail(ps, ps->at, "the end of the line");
	return true;
}

/* A run of non-blank characters. */
static bool parse_name(struct parser *ps, char *to, size_t size,
		       const char *expected)
{
	size_t n;

	parse_blanks(ps);
	n = strcspn(ps->at, blanks);
	if (!n || *ps->at == '#' || n >= size)
		return parse_fail(ps, ps->at, expected);
	memcpy(to, ps->at, n);
	to[n] = '\0';
	ps->at += n;
	return true;
}

static void parse_say(struct parser *ps, enum log_level level,
		      const char *where, const char *expected)
{
	struct config_error e = {
		.level = level,
		.file = ps->file,
		.line = ps->line,
		.column = (uint32_t)(where - ps->text) + 1,
		.expected = expected,
	};
	size_t n = strcspn(where, blanks);
	char token[64];
	struct text t = TEXT_IN(token);

	if (!n)
		text_add(&t, "end of line");
	else
		text_bytes(&t, where, n);
	e.token = token;
	if (ps->say)
		ps->say(&e, ps->arg);
}

/* --- use -------------------------------------------------------------- */

static int rules_reserve(struct config *c, uint32_t want)
{
	uint32_t room = c->room ? c->room : 64;
	struct rule *to;

	if (want <= c->room)
		return 0;
	while (room < want)
		room *= 2;
	to = sys_mmap(NULL, room * sizeof(*to), PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_is_err(to))
		return -ENOMEM;
	if (c->nrules)
		memcpy(to, c->rules, c->nrules * sizeof(*to));
	if (c->room)
		sys_munmap(c->rules, c->room * sizeof(*to));
	c->rules = to;
	c->room = room;
	return 0;
}

static bool parse_use_kind(struct parser *ps, struct rule *r)
{
	if (parse_word(ps, "sdp"))
		r->use = USE_SDP;
	else if (parse_word(ps, "tcp"))
		r->use = USE_TCP;
	else if (parse_word(ps, "both"))
		r->use = USE_BOTH;
	else if (parse_word(ps, "kernel-sdp") || parse_word(ps, "native"))
		r->use = USE_NATIVE;
	else
		return parse_fail(ps, ps->at, "sdp, tcp, both or kernel-sdp");
	return true;
}

/* Only kernels may listen where kernels' SDP sockets dial [2.5]. */
static bool parse_use_role(struct parser *ps, struct rule *r)
{
	const char *from = ps->at;

	if (parse_word(ps, "server") || parse_word(ps, "listen"))
		r->role = ROLE_SERVER;
	else if (parse_word(ps, "client") || parse_word(ps, "connect"))
		r->role = ROLE_CLIENT;
	else
		return parse_fail(ps, ps->at,
				  "server, listen, client or connect");
	if (r->use == USE_NATIVE && r->role == ROLE_SERVER)
		return parse_fail(
			ps, from,
			"client or connect (behind kernel-sdp, which has "
			"no servers)");
	return true;
}

/*
 * The word behind the role is the program, as it always was; only a line that
 * makes no sense so is tried again without one. What is then reported is what
 * the reading with a program lacks, unless there is but one word.
 */
static bool parse_use_rest(struct parser *ps, struct rule *r)
{
	const char *from = ps->at, *wrong, *expected;
	bool alone;

	if (!parse_name(ps, r->program, sizeof(r->program),
			"a program (at most 107 characters), an address and a "
			"port"))
		return false;
	parse_blanks(ps);
	alone = !*ps->at || *ps->at == '#';
	if (!alone && parse_target(ps, r) && parse_end(ps))
		return true;
	wrong = ps->wrong;
	expected = ps->expected;
	ps->at = from;
	ps->doubt = NULL;
	r->program[0] = '\0';
	if (parse_target(ps, r) && parse_end(ps))
		return true;
	return alone ? false : parse_fail(ps, wrong, expected);
}

static bool parse_use(struct parser *ps)
{
	struct rule r = { .line = ps->line };
	struct config *c = ps->c;

	if (!parse_use_kind(ps, &r) || !parse_use_role(ps, &r) ||
	    !parse_use_rest(ps, &r))
		return false;
	if (c->nrules >= RULES_MAX)
		return parse_fail(ps, ps->text, "no more than 65536 rules");
	if (rules_reserve(c, c->nrules + 1))
		return parse_fail(ps, ps->text, "memory for this rule");
	r.mine = rule_program(&r, c->program, c->exe);
	c->rules[c->nrules++] = r;
	return true;
}

/* --- log -------------------------------------------------------------- */

static bool parse_log_dest(struct parser *ps, struct config *c)
{
	c->log_dest_given = true;
	if (parse_word(ps, "stderr"))
		c->log_dest = LOG_TO_STDERR;
	else if (parse_word(ps, "syslog"))
		c->log_dest = LOG_TO_SYSLOG;
	else if (parse_word(ps, "file"))
		c->log_dest = LOG_TO_FILE;
	else
		return parse_fail(ps, ps->at, "stderr, syslog or file");
	return c->log_dest != LOG_TO_FILE ||
	       parse_name(ps, c->log_file, sizeof(c->log_file),
			  "the name of a file (at most 511 characters)");
}

static bool parse_log_level(struct parser *ps, struct config *c)
{
	uint64_t v = 0;
	size_t n;

	parse_blanks(ps);
	n = text_number(ps->at, LOG_ERR, &v);
	if (!n || !v)
		return parse_fail(ps, ps->at, "a level from 1 to 9");
	ps->at += n;
	c->log_level = (int)v;
	return true;
}

/* What a line about the log changes. */
struct log_was {
	int level;
	bool given;
	enum log_dest dest;
	char file[sizeof(config.log_file)];
};

static void log_keep(struct log_was *was, const struct config *c)
{
	was->level = c->log_level;
	was->given = c->log_dest_given;
	was->dest = c->log_dest;
	memcpy(was->file, c->log_file, sizeof(was->file));
}

static void log_back(struct config *c, const struct log_was *was)
{
	c->log_level = was->level;
	c->log_dest_given = was->given;
	c->log_dest = was->dest;
	memcpy(c->log_file, was->file, sizeof(was->file));
}

/* The whole line or nothing. */
static bool parse_log(struct parser *ps, struct config *c)
{
	struct log_was was;
	bool ok = true;

	log_keep(&was, c);

	while (ok) {
		if (parse_word(ps, "destination"))
			ok = parse_log_dest(ps, c);
		else if (parse_word(ps, "min-level"))
			ok = parse_log_level(ps, c);
		else
			break;
	}
	if (ok && *ps->at && *ps->at != '#')
		ok = parse_fail(ps, ps->at, "destination or min-level");
	if (!ok)
		log_back(c, &was);
	return ok;
}

/* LEVEL[:DESTINATION], or a destination alone */
int config_set_log(struct config *c, const char *text)
{
	struct parser ps = { .c = c };
	struct log_was was;
	bool ok = true;

	log_keep(&was, c);
	text_copy(ps.text, sizeof(ps.text), text);
	ps.at = ps.text;
	parse_blanks(&ps);
	if (*ps.at >= '0' && *ps.at <= '9') {
		ok = parse_log_level(&ps, c);
		if (ok && *ps.at == ':') {
			ps.at++;
			ok = parse_log_dest(&ps, c);
		}
	} else {
		ok = parse_log_dest(&ps, c);
	}
	if (ok && parse_end(&ps))
		return 0;
	log_back(c, &was);
	return -EINVAL;
}

/* --- set -------------------------------------------------------------- */

static bool parse_set(struct parser *ps)
{
	char name[64], value[SETTING_LEN];
	const char *at_name, *at_value, *expect = NULL;
	int err;

	parse_blanks(ps);
	at_name = ps->at;
	if (!parse_name(ps, name, sizeof(name), "the name of a setting"))
		return false;
	parse_blanks(ps);
	at_value = ps->at;
	if (!parse_name(ps, value, sizeof(value), "a value") || !parse_end(ps))
		return false;
	err = settings_set(ps->s, name, value, &expect);
	if (err == -ENOENT)
		return parse_fail(ps, at_name,
				  "the name of a setting (`sdpconf settings` "
				  "lists them)");
	return err ? parse_fail(ps, at_value, expect) : true;
}

/* --- lines ------------------------------------------------------------ */

static bool parse_statement(struct parser *ps)
{
	const char *from;

	parse_blanks(ps);
	from = ps->at;
	if (!*from || *from == '#')
		return true;
	if (parse_word(ps, "use"))
		return parse_use(ps);
	if (parse_word(ps, "log"))
		return parse_log(ps, ps->c);
	if (!strncmp(from, "set", 3) && from[3] && strchr(blanks, from[3])) {
		ps->at = from + 3;
		return parse_set(ps);
	}
	if (!strncmp(from, "match", 5))
		return parse_fail(ps, from,
				  "`use` (the `match` language of release 0.9 "
				  "is not supported)");
	return parse_fail(ps, from, "use, log, set or a comment");
}

static void parse_line(struct parser *ps, const char *line, size_t len)
{
	if (len && line[len - 1] == '\r')
		len--;
	ps->at = ps->wrong = ps->text;
	ps->doubt = NULL;
	ps->text[0] = '\0';
	if (memchr(line, '\0', len))
		ps->expected = "text";
	else if (len >= sizeof(ps->text) && line[0] == '#')
		return;
	else if (len >= sizeof(ps->text))
		ps->expected = "a line of at most 4095 characters";
	else {
		memcpy(ps->text, line, len);
		ps->text[len] = '\0';
		if (parse_statement(ps)) {
			if (ps->doubt)
				parse_say(ps, LOG_WARN, ps->doubtful,
					  ps->doubt);
			return;
		}
	}
	ps->bad++;
	parse_say(ps, LOG_ERR, ps->wrong, ps->expected);
}

int config_parse_text(struct config *c, struct settings *s, const char *name,
		      const char *text, size_t len, config_say say, void *arg)
{
	SCRATCH(room);
	struct parser *ps = scratch_take(&room, sizeof(*ps));
	const char *nl;
	size_t n;

	if (!ps)
		return -ENOMEM;
	memset(ps, 0, sizeof(*ps));
	ps->c = c;
	ps->s = s;
	ps->file = name;
	ps->say = say;
	ps->arg = arg;
	for (; len; text += n, len -= n) {
		nl = memchr(text, '\n', len);
		ps->line++;
		n = nl ? (size_t)(nl - text) + 1 : len;
		parse_line(ps, text, nl ? n - 1 : n);
	}
	return (int)ps->bad;
}

int config_force(struct config *c, enum rule_use use)
{
	struct rule r = { .use = use, .port_hi = 65535, .mine = true };

	if (rules_reserve(c, c->nrules + 2))
		return -ENOMEM;
	if (c->nrules)
		memmove(c->rules + 2, c->rules, c->nrules * sizeof(r));
	c->nrules += 2;
	r.role = ROLE_CLIENT;
	c->rules[0] = r;
	r.role = ROLE_SERVER;
	c->rules[1] = r;
	return 0;
}

void config_release(struct config *c)
{
	if (c->room)
		sys_munmap(c->rules, c->room * sizeof(*c->rules));
	c->rules = NULL;
	c->nrules = c->room = 0;
}
