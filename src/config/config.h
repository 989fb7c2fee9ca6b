/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_CONFIG_CONFIG_H
#define LIBSDP_CONFIG_CONFIG_H

/*
 * libsdp.conf and the environment: what applies to this process.
 * Order of precedence: LIBSDP_DISABLE; SIMPLE_LIBSDP / ALWAYS_USE_SDP (every
 * stream socket `sdp`, no file read; set is enough, even empty);
 * LIBSDP_CONFIG_FILE; SYSCONFDIR/libsdp.conf. LIBSDP_<SETTING> beats `set`.
 * LIBSDP_LOG=LEVEL[:stderr|syslog|file NAME] beats `log`. LIBSDP_USE=tcp|sdp|
 * both is a rule for everything in front of all others. Under AT_SECURE the
 * environment does not exist and only the system file counts.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/log.h"
#include "config/settings.h"

enum rule_use { USE_BOTH, USE_TCP, USE_SDP, USE_NATIVE };
enum rule_role { ROLE_CLIENT, ROLE_SERVER };

struct rule {
	enum rule_use use;
	enum rule_role role;
	uint32_t line;
	char program[108]; /* fnmatch pattern; "" or "*": every program */
	uint8_t family; /* 0 any, else AF_INET or AF_INET6 */
	uint8_t prefix; /* bits */
	uint8_t addr[16]; /* network order, masked */
	uint16_t port_lo, port_hi; /* host order, inclusive; all: 0-65535 */
	bool mine; /* `program` matches this process, see config_bind() */
};

#define RULES_MAX 65536 /* in one file */

struct verdict {
	enum rule_use use;
	uint32_t line; /* 0: no rule matched (both) */
};

/*
 * One complaint about a file: given to `say` in order of appearance. At
 * LOG_ERR the line was skipped; at LOG_WARN it holds, but may mean something
 * else than its author thinks.
 */
struct config_error {
	enum log_level level;
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
	/* for config_reload(): */
	char source[4096]; /* the rule file, there or not; "" (simple) */
	bool named; /* by the environment: it has to be there */
	bool log_fixed; /* LIBSDP_LOG has spoken */
	uint8_t forced; /* LIBSDP_USE: enum rule_use, + 1; 0: not set */
	uint64_t env_set; /* settings of the environment, a bit for each row */
	struct rule *rules; /* in file order */
	uint32_t nrules, room; /* rules there are and would fit */
	/* the `log` statements so far; level 0, no destination: none */
	int log_level;
	bool log_dest_given;
	enum log_dest log_dest;
	char log_file[512];
};

extern struct config config; /* as it was at the start */

/*
 * The rules that hold. They may be others after config_reload(), by one store:
 * what is found is good until the thread that looked leaves (guard.h).
 */
extern const struct config *config_current; /* atomic */
static inline const struct config *config_now(void)
{
	return __atomic_load_n(&config_current, __ATOMIC_ACQUIRE);
}

/* How often that happened, by one store as well, behind the first. */
extern uint32_t config_generation; /* atomic */

/*
 * Read environment and file into `config` and `settings` and set up the log.
 * Called once, from the library's constructor. Never fails: what is wrong is
 * logged (9: bad lines; 8: file missing though named) and the rest holds.
 */
void config_load(const char *argv0);

/*
 * What config_reload() found. `said`: one line, why the old rules hold, or which
 * settings do not change before the next start; or "".
 */
struct config_news {
	bool failed;
	uint32_t line; /* that is wrong, 0: none */
	uint32_t rules; /* in the file */
	uint32_t fixed; /* settings that would have changed */
	char said[256];
};

/*
 * Read the rule file again, aside, and put what it says in the place of what
 * holds; with a mistake in it, or without the file, nothing changes. The rules
 * change by one store, the settings that may (SETTING_LIVE) and the log's level
 * one by one, the others not at all. By one thread at a time. What is not used
 * any more is freed when no thread is inside that may have found it.
 */
void config_reload(struct config_news *news);
/* For people: why a file could not be read, as config_parse() says. */
const char *config_why(int err);

/* 0, or -EINVAL: text as in LIBSDP_LOG. Sets log_level, log_dest, log_file. */
int config_set_log(struct config *c, const char *text);

#define CONFIG_FILE_MAX (16u << 20)

/*
 * Parse `file` (at most 16 MiB, regular files and /dev/null only) into
 * rules/settings; bad lines are given to `say` and skipped. Returns the number
 * of bad lines or a negative errno when nothing could be read: as of open and
 * read, or -EISDIR, -EFBIG, -EILSEQ (binary), -EINVAL (no regular file). Rules
 * are appended.
 */
int config_parse(struct config *c, struct settings *s, const char *file,
		 config_say say, void *arg);
/* The same from memory (fuzzing, tests). */
int config_parse_text(struct config *c, struct settings *s, const char *name,
		      const char *text, size_t len, config_say say, void *arg);

/* Put a rule for everything, in both roles, in front. 0 or -ENOMEM. */
int config_force(struct config *c, enum rule_use use);
/* Say again which rules are for c->program and c->exe (both were changed). */
void config_bind(struct config *c);

/* Does the library do nothing with that value of LIBSDP_DISABLE, or NULL? */
bool config_told_off(const char *disable);
/* Give the rules' memory back. */
void config_release(struct config *c);

/*
 * First match in the list of the role. `sa` is the local address for servers,
 * the destination for clients; v4-mapped is unmapped first. The decision is
 * logged at level 4, each rule that was tried at level 3.
 */
struct verdict config_match(const struct config *c, enum rule_role role,
			    const struct sockaddr *sa);

/*
 * Can any socket of this program ever be concerned in this role? False when
 * the list begins (for this program) with a program-wide `tcp`, when the
 * library is disabled, and under AT_SECURE unless `allow_setuid` is set.
 */
bool config_concerns(const struct config *c, enum rule_role role);

#endif
