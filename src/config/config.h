/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_CONFIG_CONFIG_H
#define LIBSDP_CONFIG_CONFIG_H

/*
 * libsdp.conf and the environment: what applies to this process.
 * Order of precedence: LIBSDP_DISABLE; SIMPLE_LIBSDP / ALWAYS_USE_SDP (every
 * stream socket `sdp`, no file read; set is enough, even empty);
 * LIBSDP_CONFIG_FILE; SYSCONFDIR/libsdp.conf. LIBSDP_<SETTING> beats `set`.
 * LIBSDP_LOG=LEVEL[:stderr|syslog|file NAME] beats `log`. Under AT_SECURE
 * only the system file counts (secure_getenv).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "config/settings.h"

enum rule_use { USE_BOTH, USE_TCP, USE_SDP };
enum rule_role { ROLE_CLIENT, ROLE_SERVER };

struct rule {
	enum rule_use use;
	enum rule_role role;
	uint32_t line;
	char program[108]; /* fnmatch pattern; "" or "*": every program */
	uint8_t family; /* 0 any, else AF_INET or AF_INET6 */
	uint8_t prefix; /* bits */
	uint8_t addr[16]; /* network order, masked */
	uint16_t port_lo, port_hi; /* host order, inclusive */
};

struct verdict {
	enum rule_use use;
	uint32_t line; /* 0: no rule matched (both) */
};

/* One complaint about a file: given to `say` in order of appearance. */
struct config_error {
	const char *file;
	uint32_t line, column; /* from 1 */
	const char *token; /* what stands there */
	const char *expected;
};
typedef void (*config_say)(const struct config_error *e, void *arg);

struct config {
	bool disabled; /* LIBSDP_DISABLE: the library does nothing at all */
	bool simple; /* SIMPLE_LIBSDP or ALWAYS_USE_SDP */
	bool secure; /* AT_SECURE */
	char program[108]; /* base name of argv[0] */
	char exe[108]; /* base name of /proc/self/exe */
	char file[4096]; /* the rule file that was read, or "" */
	char stats_file[4096]; /* LIBSDP_STATS_FILE, or "" */
	struct rule *rules; /* in file order */
	uint32_t nrules;
};

extern struct config config;

/*
 * Read environment and file into `config` and `settings` and set up the log.
 * Called once, from the library's constructor. Never fails: what is wrong is
 * logged (9: bad lines; 8: file missing though named) and the rest holds.
 */
void config_load(const char *argv0);

/*
 * Parse `file` (at most 16 MiB, regular files only) into rules/settings; bad
 * lines are given to `say` and skipped. Returns the number of bad lines or a
 * negative errno when nothing could be read.
 */
int config_parse(struct config *c, struct settings *s, const char *file,
		 config_say say, void *arg);
/* The same from memory (fuzzing, tests). */
int config_parse_text(struct config *c, struct settings *s, const char *name,
		      const char *text, size_t len, config_say say, void *arg);

/*
 * First match in the list of the role. `sa` is the local address for servers,
 * the destination for clients; v4-mapped is unmapped first.
 */
struct verdict config_match(const struct config *c, enum rule_role role,
			    const struct sockaddr *sa);

/*
 * Can any socket of this program ever be concerned? False when every rule
 * list begins (for this program) with a program-wide `tcp`.
 */
bool config_concerns(const struct config *c, enum rule_role role);

#endif
