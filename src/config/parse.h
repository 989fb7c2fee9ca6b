/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_CONFIG_PARSE_H
#define LIBSDP_CONFIG_PARSE_H

/*
 * The parser's inside, used by parse*.c alone. A line is copied once, without
 * its end, and read through `at`. Functions named parse_ return true when
 * they took what they are named for; else `wrong` and `expected` say what is
 * the matter and the line is lost.
 */

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

#define PARSE_LINE 4096

struct parser {
	struct config *c;
	struct settings *s;
	const char *file;
	config_say say;
	void *arg;
	uint32_t line;
	uint32_t bad;
	const char *at;
	const char *wrong; /* where in `text` */
	const char *expected;
	const char *doubtful; /* the line holds, but this deserves a word */
	const char *doubt;
	char text[PARSE_LINE];
};

void parse_blanks(struct parser *ps);
/* Takes `word` if it stands here; blanks behind it are not required. */
bool parse_word(struct parser *ps, const char *word);
/* Always false. */
bool parse_fail(struct parser *ps, const char *wrong, const char *expected);
/* Nothing but blanks and a comment follow. */
bool parse_end(struct parser *ps);

/* "192.0.2.0/24:80-90" and its relatives (libsdp-compat.md 1.2, 1.10). */
bool parse_target(struct parser *ps, struct rule *r);

#endif
