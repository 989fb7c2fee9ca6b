/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LIBSDP_BASE_LOG_H
#define LIBSDP_BASE_LOG_H

/*
 * The log. Levels of old: 9 errors, 8 warnings, 7 one line per connect,
 * listen, accept and lift outcome, 4 positive rule matches, 3 every rule
 * tried, 2 calls, 1 debugging. A message is written when its level is at
 * least log_min. One write() per line, never to stdout, errno untouched,
 * async-signal-safe (formatting uses a stack buffer of LOG_LINE bytes), and
 * never waits: what a full pipe or terminal does not take at once is lost.
 * Conversions are those of base/text.h.
 * Line: "Sat Nov 21 10:50:30 2026 PROGRAM[PID] libsdp MESSAGE\n", in UTC.
 */

#include <stdbool.h>

#define LOG_LINE 1024

enum log_level {
	LOG_DEBUG = 1,
	LOG_CALL = 2,
	LOG_TRY = 3,
	LOG_MATCH = 4,
	LOG_NOTE = 7,
	LOG_WARN = 8,
	LOG_ERR = 9,
	LOG_OFF = 10,
};

extern int log_min; /* atomic: config_reload() */

/* A message worth writing? Costs one load and one compare. */
static inline bool log_on(int level)
{
	return level >= __atomic_load_n(&log_min, __ATOMIC_RELAXED);
}

void log_write(int level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#define log_at(level, ...)                             \
	do {                                           \
		if (log_on(level))                     \
			log_write(level, __VA_ARGS__); \
	} while (0)
#define log_err(...)   log_at(LOG_ERR, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_WARN, __VA_ARGS__)
#define log_note(...)  log_at(LOG_NOTE, __VA_ARGS__)
#define log_debug(...) log_at(LOG_DEBUG, __VA_ARGS__)

/* The same, the first time this place is reached in this process. */
#define log_once(level, ...)                                           \
	do {                                                           \
		static int once_;                                      \
		if (log_on(level) &&                                   \
		    !__atomic_exchange_n(&once_, 1, __ATOMIC_RELAXED)) \
			log_write(level, __VA_ARGS__);                 \
	} while (0)

enum log_dest { LOG_TO_STDERR, LOG_TO_SYSLOG, LOG_TO_FILE };

/*
 * Send the log to `dest`. `name` is the file of LOG_TO_FILE: for root it is
 * /var/log/<base name>, for others NAME.UID/log with a directory of mode
 * 0700 (see libsdp-compat.md 5.3); symbolic links, foreign owners and group
 * or other permission bits are refused, logging then stays where it was.
 * Returns 0 or a negative errno. The file is opened at the first message and
 * its descriptor is high and close-on-exec.
 */
int log_to(enum log_dest dest, const char *name);
void log_set_min(int level);

/*
 * Call once at start: remembers the program's name, and which file standard
 * error is. If the program later closes it and something of its own gets
 * number 2, nothing is written there (terminals, other character devices and
 * files in append mode apart).
 */
void log_begin(void);

/*
 * The base name the program was started by. libc's own copy changes under
 * programs that write their state over their arguments. Never NULL.
 */
const char *log_program(void);

/* Call in a forked child: forgets the cached process id and frees a lock. */
void log_forked(void);

#endif
