/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#include "tools/convert.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "config/config.h"
#include "config/settings.h"
#include "tools/out.h"

#define WORDS 6

enum form { FORM_NONE, FORM_JDK, FORM_RSOCKETS, FORM_VMA };

struct input {
	const char *file;
	unsigned int line, bad;
	enum form form;
	char program[108]; /* of libvma.conf: which the lines are for */
};

/* --- words -------------------------------------------------------------- */

static size_t split(char *line, char *word[WORDS + 1])
{
	char *save, *w;
	size_t n = 0;

	line[strcspn(line, "#\n")] = '\0';
	for (w = strtok_r(line, " \t\r", &save); w && n <= WORDS;
	     w = strtok_r(NULL, " \t\r", &save))
		word[n++] = w;
	return n;
}

static void no_way(struct input *in, const char *line, const char *why)
{
	in->bad++;
	out_clean(stderr, in->file);
	fprintf(stderr, ":%u: %s\n", in->line, why);
	printf("# %s: ", why);
	out_clean(stdout, line);
	printf("\n");
}

/* "*", "80", "80-90", "1024-*": as this file has it. False: it is none. */
static bool ports(char *s, char *to, size_t size)
{
	uint64_t lo = 1, hi = 65535;
	char *dash = strchr(s, '-');
	size_t n;

	if (!strcmp(s, "*")) {
		snprintf(to, size, "*");
		return true;
	}
	if (dash)
		*dash++ = '\0';
	n = text_number(s, 65535, &lo);
	if (strcmp(s, "*") && (!n || s[n]))
		return false;
	if (!dash)
		hi = lo;
	else if (strcmp(dash, "*")) {
		n = text_number(dash, 65535, &hi);
		if (!n || dash[n])
			return false;
	}
	if (lo > hi)
		return false;
	if (lo == hi)
		snprintf(to, size, "%u", (unsigned int)lo);
	else
		snprintf(to, size, "%u-%u", (unsigned int)lo, (unsigned int)hi);
	return true;
}

static void unsaid(const struct config_error *e, void *arg)
{
	(void)e;
	(void)arg;
}

/* Would the library take it? */
static bool good_rule(const char *line, size_t len)
{
	struct settings s = settings;
	struct config c = { 0 };
	int bad = config_parse_text(&c, &s, "", line, len, unsaid, NULL);

	config_release(&c);
	return !bad;
}

/* Prints it: NULL; or why there is none. */
static const char *rule(const char *use, const char *role, const char *program,
			const char *address, const char *port)
{
	char line[1024];
	int n = snprintf(line, sizeof(line), "use %s %s %s %s:%s", use, role,
			 program, address, port);

	if (n >= (int)sizeof(line) || !good_rule(line, (size_t)n))
		return "libsdp.conf(5) has no such rule";
	out_clean(stdout, line);
	putchar('\n');
	return NULL;
}

/* An address as a rule has it: IPv6 in brackets, the prefix behind them. */
static bool address(const char *s, const char *prefix, char *to, size_t size)
{
	uint8_t ip[16];
	bool six = inet_pton(AF_INET6, s, ip) == 1;

	if (!six && inet_pton(AF_INET, s, ip) != 1)
		return false;
	snprintf(to, size, six ? "[%s]%s%s" : "%s%s%s", s, prefix ? "/" : "",
		 prefix ? prefix : "");
	return true;
}

static bool good_prefix(const char *s)
{
	uint64_t bits;
	size_t n = text_number(s, 128, &bits);

	return n && !s[n];
}

/* --- the JDK ------------------------------------------------------------ */

/* A name stands for all of its addresses, as they are now. */
static bool by_name(const char *host, const char *role, const char *port)
{
	struct addrinfo hint = { .ai_socktype = SOCK_STREAM }, *list, *i;
	char ip[NI_MAXHOST], at[NI_MAXHOST + 8];
	bool any = false;

	if (getaddrinfo(host, NULL, &hint, &list))
		return false;
	printf("# ");
	out_clean(stdout, host);
	printf(", as it is resolved now:\n");
	for (i = list; i; i = i->ai_next)
		if (!getnameinfo(i->ai_addr, i->ai_addrlen, ip, sizeof(ip),
				 NULL, 0, NI_NUMERICHOST) &&
		    address(ip, NULL, at, sizeof(at)) &&
		    !rule("both", role, "java", at, port))
			any = true;
	freeaddrinfo(list);
	return any;
}

/* "connect 192.0.2.0/24 1024-*" */
static const char *jdk(char *word[], size_t n)
{
	const char *role = !strcmp(word[0], "bind") ? "server" : "client";
	char port[16], at[128];
	char *prefix;

	if (n != 3 || (strcmp(word[0], "bind") && strcmp(word[0], "connect")))
		return "expected bind or connect, an address and ports";
	if (!ports(word[2], port, sizeof(port)))
		return "no port, and no range of ports";
	if (!strcmp(word[1], "*"))
		return rule("both", role, "java", "*", port);
	prefix = strchr(word[1], '/');
	if (prefix) {
		*prefix++ = '\0';
		if (!good_prefix(prefix))
			return "no number of bits";
	}
	if (address(word[1], prefix, at, sizeof(at)))
		return rule("both", role, "java", at, port);
	if (prefix || !by_name(word[1], role, port))
		return "an address that cannot be resolved, or has a scope";
	return NULL;
}

/* --- rsockets ----------------------------------------------------------- */

static bool one_of(const char *s, const char *name, const char *prefix)
{
	size_t len = strlen(prefix);

	return !strcmp(s, "*") || !strcasecmp(s, name) ||
	       (!strncasecmp(s, prefix, len) && !strcasecmp(s + len, name));
}

/* "program domain type protocol" */
static const char *rsockets(char *word[], size_t n)
{
	const char *at, *why;
	bool four, six;

	if (n != 4)
		return "expected a program, a domain, a type and a protocol";
	if (!one_of(word[2], "stream", "sock_"))
		return "no stream socket";
	if (!one_of(word[3], "tcp", "ipproto_"))
		return "not TCP";
	four = one_of(word[1], "inet", "af_") || one_of(word[1], "inet", "pf_");
	six = one_of(word[1], "inet6", "af_") ||
	      one_of(word[1], "inet6", "pf_");
	if (!four && !six)
		return "a family that has no equivalent";
	at = four && six ? "*" : four ? "0.0.0.0/0" : "[::]/0";
	why = rule("both", "server", word[0], at, "*");
	return why ? why : rule("both", "client", word[0], at, "*");
}

/* --- VMA and XLIO ------------------------------------------------------- */

/* "192.0.2.0/24:80", "*:*"; the colon in front of the ports is the last one. */
static const char *vma_use(const struct input *in, char *word[])
{
	const char *use = !strcmp(word[1], "os") ? "tcp" : "both", *role;
	char *colon = strrchr(word[3], ':'), *prefix;
	char port[16], at[128] = "*";

	if (!strcmp(word[2], "tcp_server"))
		role = "server";
	else if (!strcmp(word[2], "tcp_client"))
		role = "client";
	else
		return "of UDP, which stays as it is";
	if (!colon)
		return "expected an address and ports";
	*colon = '\0';
	if (!ports(colon + 1, port, sizeof(port)))
		return "no port, and no range of ports";
	prefix = strchr(word[3], '/');
	if (prefix)
		*prefix++ = '\0';
	if (prefix && !good_prefix(prefix))
		return "no number of bits";
	if (strcmp(word[3], "*") && !address(word[3], prefix, at, sizeof(at)))
		return "no address";
	return rule(use, role, in->program, at, port);
}

static const char *vma(struct input *in, char *word[], size_t n)
{
	if (!strcmp(word[0], "application-id") && n == 3) {
		snprintf(in->program, sizeof(in->program), "%s", word[1]);
		return strcmp(word[2], "*") ? "ids within a program have no "
					      "equivalent: all of it is meant" :
					      NULL;
	}
	if (!strcmp(word[0], "use") && n == 4)
		return vma_use(in, word);
	if (!strncmp(word[0], "log", 3))
		return "see `log` in libsdp.conf(5)";
	return "a statement that has no equivalent";
}

/* --- a file ------------------------------------------------------------- */

static enum form form_of(const char *word, size_t n)
{
	if (!strcmp(word, "bind") || !strcmp(word, "connect"))
		return FORM_JDK;
	if (!strcmp(word, "application-id") || !strcmp(word, "use") ||
	    !strncmp(word, "log", 3))
		return FORM_VMA;
	return n == 4 ? FORM_RSOCKETS : FORM_NONE;
}

static void begin(struct input *in)
{
	static const char *const from[] = {
		[FORM_JDK] = "the JDK's sdp.conf",
		[FORM_RSOCKETS] = "librspreload's preload_config",
		[FORM_VMA] = "libvma.conf or libxlio.conf",
	};

	printf("# Converted from %s.\n", from[in->form]);
}

/* What is not named stays on TCP there, but not in VMA. */
static void end(const struct input *in)
{
	const char *program = in->form == FORM_JDK ? "java" : "*";

	if (in->form == FORM_VMA)
		return;
	rule("tcp", "server", program, "*", "*");
	rule("tcp", "client", program, "*", "*");
}

static void one_line(struct input *in, char *line)
{
	char *word[WORDS + 1], copy[1024];
	const char *why = NULL;
	size_t n;

	snprintf(copy, sizeof(copy), "%s", line);
	copy[strcspn(copy, "#\n")] = '\0';
	n = split(line, word);
	if (!n)
		return;
	if (!in->form) {
		in->form = form_of(word[0], n);
		if (!in->form)
			errx(2, "%s:%u: of no library that is known here",
			     in->file, in->line);
		begin(in);
	}
	switch (in->form) {
	case FORM_JDK:
		why = jdk(word, n);
		break;
	case FORM_RSOCKETS:
		why = rsockets(word, n);
		break;
	default:
		why = vma(in, word, n);
	}
	if (why)
		no_way(in, copy, why);
}

int convert(const char *file)
{
	struct input in = { .file = file, .program = "*" };
	char *line = NULL;
	size_t room = 0;
	FILE *f = fopen(file, "re");

	if (!f)
		err(2, "%s", file);
	errno = 0;
	while (getline(&line, &room, f) >= 0) {
		in.line++;
		one_line(&in, line);
	}
	if (ferror(f))
		err(2, "%s", file);
	free(line);
	fclose(f);
	if (!in.form)
		errx(2, "%s: no rules", file);
	end(&in);
	return in.bad != 0;
}
